//! Any bytes as a recording: as a whole file, or as the contents of blocks that are whole, which
//! an attacker who can compute a checksum may have written.
#![no_main]

use std::{fs::File, io::Write, os::fd::AsRawFd, path::PathBuf, time::Duration};

use flate2::{Compression, write::DeflateEncoder};
use heapattach_recording::Recording;
use libfuzzer_sys::fuzz_target;
use nix::sys::memfd::{MFdFlags, memfd_create};

const TITLE: &[u8] = b"heapattach recording ";

/// The input is blocks: a kind, two bytes that say how long it is, and what is in it.
fn file_of(input: &[u8]) -> Option<Vec<u8>> {
    let (&version, mut rest) = input.split_first()?;
    let mut file = [TITLE, if version % 2 == 0 { b"1\n" } else { b"2\n" }].concat();
    while let [kind, low, high, more @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(more.len());
        let (content, behind) = more.split_at(length);
        file.extend(block(*kind, content)?);
        rest = behind;
    }
    Some(file)
}

fn block(kind: u8, content: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(content).ok()?;
    let stored = encoder.finish().ok()?;
    let mut block = vec![kind, 0, 0, 0];
    block.extend(u32::try_from(stored.len()).ok()?.to_le_bytes());
    block.extend(u32::try_from(content.len()).ok()?.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&block);
    hasher.update(&stored);
    block.extend(hasher.finalize().to_le_bytes());
    block.extend(stored);
    Some(block)
}

fuzz_target!(|input: &[u8]| {
    let made = if input.starts_with(TITLE) { Some(input.to_vec()) } else { file_of(input) };
    let Some(bytes) = made else { return };
    let memory = memfd_create(c"recording", MFdFlags::MFD_CLOEXEC).expect("memory for a file");
    let mut file = File::from(memory);
    file.write_all(&bytes).expect("memory for its bytes");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let Ok(recording) = Recording::open(&path) else { return };
    let second = Duration::from_secs(1);
    for window in [None, Some(Duration::ZERO..second * 3), Some(second * 2..second * 8)] {
        assert!(recording.ledger(window).is_sound());
    }
});
