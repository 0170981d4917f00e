//! Files of a test as if a process had mapped them.

use std::{fs, path::Path};

use heapattach_process::proc::{Process, maps};
use nix::sys::stat::{major, minor};

pub use heapattach_test_folder::{Folder, skip};

use crate::{Frame, Symbols};

/// Where files seem to be mapped.
pub const BASE: u64 = 0x1000_0000;

/// A line of a memory map that maps a file there from its first byte.
pub fn map_of(path: &Path) -> String {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path).unwrap();
    let (inode, device, path) = (found.ino(), found.dev(), path.display());
    let (major, minor) = (major(device), minor(device));
    format!("10000000-20000000 r-xp 00000000 {major:x}:{minor:x} {inode} {path}\n")
}

/// What is mapped from a folder of a test.
pub trait Mapped {
    /// The calls at an address of `file` as if it were mapped at `BASE` from its first byte.
    fn at(&self, file: &str, offset: u64) -> Vec<Frame> {
        self.mapped(file).symbolize(BASE + offset)
    }

    /// The symbols of `file` as if it were mapped at `BASE` from its first byte.
    fn mapped(&self, file: &str) -> Symbols;
}

impl Mapped for Folder {
    fn mapped(&self, file: &str) -> Symbols {
        let map = map_of(&self.0.join(file));
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let mut symbols = Symbols::new();
        symbols.note(&process, &maps::parse(map.as_bytes()).unwrap());
        symbols
    }
}
