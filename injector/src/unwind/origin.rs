//! The file that unwind information is mapped from: where that is the very file it was before, what was made of
//! it need not be found by a hash of megabytes.
//!
//! What lies in the memory of a process may be other than what lies in its file, and a process can see to that. So
//! rows are said to be those of a file only once both were compared.

use std::{fs::File, os::unix::fs::FileExt};

use heapattach_process::{
    addr::RemoteAddr,
    image::Image,
    proc::{
        Process,
        build_id::BuildId,
        file::open_module,
        maps::{self, Mapping},
    },
};

use super::stored::words;
use heapattach_process::cache::{Cache, Key, identity};

const MAGIC: &[u8; 8] = b"HAFILE01";
/// Less is hashed as fast as a file is opened.
const LEAST: u64 = 64 << 10;
const PIECE: usize = 64 << 10;

/// Where unwind information comes from.
#[derive(Debug)]
pub(super) struct Origin {
    key: Key,
    file: File,
    offset: u64,
    length: u64,
}

impl Origin {
    /// Of so many bytes at `at`; `None` if they are not all mapped from one file that has an identity.
    pub(super) fn of(
        process: &Process,
        maps: &[Mapping<'_>],
        image: &Image,
        (at, length): (RemoteAddr, u64),
    ) -> Option<Self> {
        let end = at.checked_add(length).filter(|_| length >= LEAST)?;
        let mapping = maps::covering(maps, at).filter(|m| m.inode != 0 && end <= m.range.end)?;
        let offset = mapping.file_offset.checked_add(at.offset_from(mapping.range.start)?)?;
        let file = open_module(process, mapping).ok()?;
        let build = image.build.as_ref().map_or(&[][..], BuildId::bytes);
        let place = [offset, length].map(u64::to_le_bytes);
        let parts =
            [&MAGIC[..], build, &words(at, image)?, place.as_flattened(), &identity(&file)?];
        let key = Key::of(&parts);
        Some(Self { key, file, offset, length })
    }

    /// What the rows are found by, if that was noted.
    pub(super) fn noted(&self, cache: &Cache) -> Option<Key> {
        let bytes = cache.read(&self.key)?;
        let rest = bytes.strip_prefix(MAGIC)?.strip_prefix(self.key.bytes())?;
        Some(Key::of_bytes(rest.try_into().ok()?))
    }

    /// Notes that the rows of what was read, which are found by `key`, are those of the file, if they are.
    pub(super) fn note(&self, cache: &Cache, read: &[u8], key: &Key) {
        if self.has(read) {
            cache.write(&self.key, &[&MAGIC[..], self.key.bytes(), key.bytes()].concat());
        }
    }

    fn has(&self, read: &[u8]) -> bool {
        let mut piece = [0; PIECE];
        let mut at = self.offset;
        let is_same = |read: &[u8]| {
            let piece = &mut piece[..read.len()];
            let got = self.file.read_exact_at(piece, at);
            at += read.len() as u64;
            got.is_ok() && piece == read
        };
        read.len() as u64 == self.length && read.chunks(PIECE).all(is_same)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, sync::atomic::AtomicU64, sync::atomic::Ordering};

    use super::*;
    use crate::unwind::{Compiled, compile, information};
    use heapattach_process::{image::images, memory::Memory};

    #[test]
    fn what_was_made_of_a_file_is_found_without_reading_it_again() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let text = process.read("maps").unwrap();
        let maps = maps::parse(&text).unwrap();
        let memory = Memory::open(&process).unwrap();
        let images = images(&memory, &maps);
        let libc = images.iter().find(|image| image.path.ends_with("/libc.so.6")).unwrap();
        let folder = std::env::temp_dir().join(format!("heapattach-origin-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let cache = Cache::within(&folder, &[]).unwrap();
        let compiled = |image: &Image| -> (Compiled, u64) {
            let left = AtomicU64::new(1 << 29);
            let made = compile(&process, &memory, &maps, image, &left, Some(&cache));
            (made, (1 << 29) - left.load(Ordering::Relaxed))
        };
        let (at, read) = information(&memory, libc, &AtomicU64::new(1 << 29)).unwrap();
        let Some(origin) = Origin::of(&process, &maps, libc, (at, read.len() as u64)) else {
            println!("SKIPPED: {} is on no file system that is trusted", libc.path);
            return;
        };
        let (first, spent) = compiled(libc);
        assert!(first.rows.len() > 1000 && spent >= read.len() as u64);
        assert_eq!(compiled(libc), (first.clone(), 0), "it was read again");
        // What the memory has and the file has not is no other process's business.
        assert!(origin.has(&read));
        let mut forged = read.clone();
        forged[100] ^= 1;
        assert!(!origin.has(&forged) && !origin.has(&read[1..]) && !origin.has(&[]));
        // A note that leads elsewhere is no note.
        cache.write(&origin.key, b"nonsense");
        assert_eq!(origin.noted(&cache), None);
        origin.note(&cache, &read, &Key::of(&[b"nothing"]));
        assert_eq!(compiled(libc).0, first);
        fs::remove_dir_all(&folder).unwrap();
    }
}
