//! Files of a module that an attacker made.
#![no_main]

use std::{
    fs::File,
    io::Write,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use heapattach_injector::inside::section;
use libfuzzer_sys::fuzz_target;
use nix::sys::memfd::{MFdFlags, memfd_create};

const BUDGET: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let mut file = File::from(memfd_create(c"module", MFdFlags::MFD_CLOEXEC).expect("memory"));
    file.write_all(bytes).expect("memory");
    let left = AtomicU64::new(BUDGET);
    if let Some(section) = section(&file, &left) {
        assert!(section.len() as u64 <= BUDGET - left.load(Relaxed), "more than was paid for");
    }
});
