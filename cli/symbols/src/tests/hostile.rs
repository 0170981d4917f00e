//! Hostile files: there is an answer for each of them.

use std::{fs::File, io::Write, iter, sync::OnceLock, time::Duration};

use crate::dwarf::reader::{Meter, Reader};
use crate::files::surroundings::Surroundings;
use crate::image::Image;

/// Reads `bytes` as a module and asks it for addresses.
fn survive(bytes: &[u8]) {
    // Once with all units, once with those of these addresses, if they can be told.
    let offsets: Vec<u64> = addresses().collect();
    for offsets in [&[][..], &offsets] {
        survive_for(bytes, offsets);
    }
}

fn survive_for(bytes: &[u8], offsets: &[u64]) {
    let Some(mut image) = read(bytes, offsets) else { return };
    for address in addresses() {
        assert!(!image.calls(address).is_empty());
        let _ = image.address_of(address);
    }
    for offset in (0..0x4000).step_by(0x101) {
        let _ = image.address_of(offset).map(|address| image.calls(address));
    }
}

fn addresses() -> impl Iterator<Item = u64> {
    [0, 1, 0x400, u64::MAX - 1, u64::MAX].into_iter().chain((0x1000..0x1100).step_by(7))
}

fn read(bytes: &[u8], offsets: &[u64]) -> Option<Image> {
    let fd = nix::sys::memfd::memfd_create("module", nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
    let mut file = File::from(fd.unwrap());
    file.write_all(bytes).unwrap();
    let path = "/no/such/module".into();
    Image::read(file, &Surroundings { path, ..Surroundings::default() }, offsets)
}

/// A small program with debug information, from the system's compiler.
fn honest() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let folder =
            std::env::temp_dir().join(format!("heapattach-hostile-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let source = "static inline __attribute__((always_inline)) int inner(int a)\
             { return a * 3; }\nint outer(int a) { return inner(a) + inner(a + 1); }\n";
        std::fs::write(folder.join("a.c"), source).unwrap();
        let mut gcc = std::process::Command::new("gcc");
        gcc.args(["-g", "-O1", "-shared", "-fPIC", "-nostdlib", "-o", "a.so", "a.c"]);
        assert!(gcc.current_dir(&folder).status().unwrap().success());
        let bytes = std::fs::read(folder.join("a.so")).unwrap();
        let _ = std::fs::remove_dir_all(&folder);
        bytes
    })
}

#[test]
fn the_honest_file_has_names() {
    let mut image = read(honest(), &[]).unwrap();
    let named = addresses().flat_map(|a| image.calls(a)).filter(|c| c.function.is_some()).count();
    assert!(named > 0);
}

#[test]
fn every_truncation_is_survived() {
    let honest = honest();
    for length in (0..honest.len()).step_by(37) {
        survive(&honest[..length]);
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(1000))]

    #[test]
    fn garbage_is_survived(bytes: Vec<u8>) {
        survive(&bytes);
        survive(&[b"\x7fELF\x02\x01\x01", &bytes[..]].concat());
    }

    #[test]
    fn changed_bytes_are_survived(
        changes in proptest::collection::vec((0_usize..1 << 16, proptest::prelude::any::<u8>()), 1..40),
    ) {
        let mut bytes = honest().to_vec();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        survive(&bytes);
    }

    #[test]
    fn changed_dwarf_is_survived(
        changes in proptest::collection::vec((0_usize..1 << 16, proptest::prelude::any::<u8>()), 1..8),
    ) {
        let mut bytes = honest().to_vec();
        let (start, end) = debug_range();
        for (at, byte) in changes {
            bytes[start + at % (end - start)] = byte;
        }
        survive(&bytes);
    }
}

/// From the first debug section to the end of the last.
fn debug_range() -> (usize, usize) {
    use object::{Object, ObjectSection};
    type Elf<'a> = object::read::elf::ElfFile64<'a>;
    let elf = Elf::parse(honest()).unwrap();
    let debug = elf.sections().filter(|s| s.name().is_ok_and(|n| n.starts_with(".debug_")));
    let ranges: Vec<(u64, u64)> = debug.filter_map(|section| section.file_range()).collect();
    let start = ranges.iter().map(|r| r.0).min().unwrap();
    let end = ranges.iter().map(|r| r.0 + r.1).max().unwrap();
    (usize::try_from(start).unwrap(), usize::try_from(end).unwrap())
}

/// DWARF sections by name, as a context.
fn context(sections: &[(gimli::SectionId, Vec<u8>)]) -> addr2line::Context<Reader> {
    let meter = std::sync::Arc::new(Meter::default());
    let dwarf = gimli::Dwarf::load(|id| {
        let bytes = sections.iter().find(|s| s.0 == id).map(|s| s.1.clone()).unwrap_or_default();
        meter.provide(bytes.len());
        let reader = Reader::new(bytes, gimli::RunTimeEndian::Little, meter.clone());
        Ok::<_, gimli::Error>(reader)
    });
    meter.begin();
    addr2line::Context::from_dwarf(dwarf.unwrap()).unwrap()
}

/// One unit of version 4 with these entries, whose root spans all addresses.
fn unit(entries: &[u8]) -> Vec<u8> {
    let mut body = vec![4, 0, 0, 0, 0, 0, 8, 1];
    body.extend_from_slice(&0_u64.to_le_bytes());
    body.extend_from_slice(&u64::MAX.to_le_bytes());
    body.extend_from_slice(entries);
    let length = u32::try_from(body.len()).unwrap();
    [&length.to_le_bytes()[..], &body].concat()
}

/// A function with so many calls inlined into each other, none of them at any address.
fn nested(depth: usize) -> addr2line::Context<Reader> {
    // 1: unit with low_pc and high_pc; 2: subprogram with the same; 3: inlined, with children.
    let abbreviations = [
        &[1, 0x11, 1, 0x11, 1, 0x12, 1, 0, 0][..],
        &[2, 0x2e, 1, 0x11, 1, 0x12, 1, 0, 0],
        &[3, 0x1d, 1, 0, 0, 0],
    ]
    .concat();
    let mut entries = vec![2];
    entries.extend_from_slice(&0_u64.to_le_bytes());
    entries.extend_from_slice(&u64::MAX.to_le_bytes());
    entries.extend(iter::repeat_n(3, depth).chain(iter::repeat_n(0, depth + 2)));
    context(&[
        (gimli::SectionId::DebugAbbrev, abbreviations),
        (gimli::SectionId::DebugInfo, unit(&entries)),
    ])
}

#[test]
fn a_million_calls_inlined_into_each_other_do_not_end_the_stack() {
    assert!(nested(100).find_frames(0x1000).skip_all_loads().is_ok());
    assert!(nested(1_000_000).find_frames(0x1000).skip_all_loads().is_err());
}

/// Line tables of version 2: a folder with a name so long, and so many files in it.
fn files(folder: usize, files: usize) -> addr2line::Context<Reader> {
    // 1: unit with low_pc, high_pc and stmt_list.
    let abbreviations = vec![1, 0x11, 0, 0x11, 1, 0x12, 1, 0x10, 0x17, 0, 0, 0];
    let mut tables = vec![1, 1, 0xfb, 14, 1];
    tables.extend(iter::repeat_n(b'd', folder).chain([0, 0]));
    tables.extend(iter::repeat_n(*b"f\0\x01\0\0", files).flatten());
    tables.push(0);
    let header = u32::try_from(tables.len()).unwrap();
    let mut line = vec![2, 0];
    line.extend_from_slice(&header.to_le_bytes());
    line.extend(tables);
    let whole = u32::try_from(line.len()).unwrap();
    context(&[
        (gimli::SectionId::DebugAbbrev, abbreviations),
        (gimli::SectionId::DebugInfo, unit(&0_u32.to_le_bytes())),
        (gimli::SectionId::DebugLine, [&whole.to_le_bytes()[..], &line].concat()),
    ])
}

#[test]
fn a_folder_repeated_by_every_file_entry_is_not_repeated_for_ever() {
    assert!(files(100, 100).find_location(0x1000).is_ok());
    let begun = ran();
    // A terabyte of paths.
    assert!(files(1 << 20, 1 << 20).find_location(0x1000).is_err());
    assert!(ran() - begun < Duration::from_secs(10));
}

/// How long this thread has had a processor.
fn ran() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(told.split(' ').next().unwrap().parse().unwrap())
}
