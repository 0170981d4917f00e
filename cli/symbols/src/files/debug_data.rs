//! The symbol table that Fedora and its kin leave in stripped files: an ELF file, packed by xz, in
//! the section `.gnu_debugdata`.

use std::{
    fs::File,
    io::{Read, Write},
};

use lzma_rust2::XzReader;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::files::elf::{Allowance, Elf, Source};

/// The largest are some ten megabytes.
const SIZE_LIMIT: u64 = 128 << 20;
/// What unpacking may take: the dictionary of `xz -9` is half of it.
const MEMORY_LIMIT_KIB: u32 = 128 << 10;
const PIECE: usize = 64 << 10;

/// The file in the file, if there is one.
pub fn read(source: &Source, elf: &Elf<'_>, allowance: &Allowance) -> Option<Source> {
    let packed = source.named(elf, ".gnu_debugdata", allowance)?;
    Source::new(unpack(&packed, allowance)?)
}

/// As a file without a name, because that is what we read.
fn unpack(packed: &[u8], allowance: &Allowance) -> Option<File> {
    let mut file = File::from(memfd_create("debugdata", MFdFlags::MFD_CLOEXEC).ok()?);
    let reader = XzReader::new_mem_limit(packed, false, MEMORY_LIMIT_KIB);
    let mut reader = reader.take(SIZE_LIMIT + 1);
    let (mut piece, mut size) = (vec![0; PIECE], 0);
    loop {
        let length = reader.read(&mut piece).ok()?;
        if length == 0 {
            return Some(file);
        }
        size += length as u64;
        // A few bytes can unpack to gigabytes.
        allowance.take(length as u64)?;
        file.write_all(piece.get(..length)?).ok().filter(|()| size <= SIZE_LIMIT)?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::*;
    use crate::tests::folder::{Folder, Mapped, skip};

    fn text(packed: &[u8], allowance: &Allowance) -> Option<String> {
        let mut file = unpack(packed, allowance)?;
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        Some(text)
    }

    /// `bytes`, packed by the tool that distributions use.
    fn packed(bytes: &[u8]) -> Option<Vec<u8>> {
        let folder = Folder::new("packed");
        std::fs::write(folder.0.join("plain"), bytes).unwrap();
        if !folder.has("xz") {
            skip("no xz here", "apt-get install xz-utils");
            return None;
        }
        folder.run("xz -9 plain");
        Some(std::fs::read(folder.0.join("plain.xz")).unwrap())
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        let Some(packed) = packed(&vec![0; 10 << 20]) else { return };
        assert!(packed.len() < 10_000);
        assert_eq!(text(&packed, &Allowance::default()).unwrap().len(), 10 << 20);
        let allowance = Allowance::of(1 << 20);
        assert!(text(&packed, &allowance).is_none());
        assert!(allowance.take(1 << 20).is_none(), "what was unpacked counts");
    }

    #[test]
    fn damage_is_survived() {
        let Some(packed) = packed(b"some text, some more text, and some more text again") else {
            return;
        };
        for at in 0..packed.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = packed.clone();
                damaged[at] ^= flip;
                let _ = text(&damaged, &Allowance::default());
            }
            assert!(text(&packed[..at], &Allowance::default()).is_none());
        }
    }

    const SOURCE: &str = "int volatile sink;\n\
        __attribute__((noinline)) static void hidden_one(int a) { sink = a; }\n\
        void shown_one(int a) { hidden_one(a + 1); sink = 2; }\n";

    #[test]
    fn a_stripped_file_has_the_names_it_carries_packed() {
        let folder = Folder::new("debugdata");
        if !folder.has("xz") {
            return skip("no xz here", "apt-get install xz-utils");
        }
        std::fs::write(folder.0.join("a.c"), SOURCE).unwrap();
        folder.run("gcc -O1 -shared -fPIC -nostdlib -Wl,-z,noseparate-code -o a.so a.c");
        let [hidden, shown] =
            ["hidden_one", "shown_one"].map(|name| folder.offset_of("a.so", name));
        // As rpm does it: what the dynamic symbols say already is left out.
        folder.run("objcopy --only-keep-debug a.so debug");
        folder.run("objcopy -S --keep-symbol=hidden_one debug mini");
        folder.run("xz mini");
        folder.run("strip --strip-all a.so");
        let name = |at| folder.at("a.so", at)[0].function.clone();
        assert_eq!(name(hidden), None);
        folder.run("objcopy --add-section .gnu_debugdata=mini.xz a.so");
        assert_eq!(name(hidden).as_deref(), Some("hidden_one"));
        assert_eq!(name(shown).as_deref(), Some("shown_one"));
    }
}
