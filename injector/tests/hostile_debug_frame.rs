//! Whatever the file of a module says of its `.debug_frame`: bytes within the budget or none, rows in
//! order, and never a panic.

use std::{
    fs::File,
    io::Write,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use heapattach_abi::unwind::{self, Rule};
use heapattach_injector::inside::{compile_debug_frame, section};
use heapattach_process::{
    addr::{Bias, RemoteAddr},
    image::Image,
};
use nix::sys::memfd::{MFdFlags, memfd_create};
use proptest::prelude::*;

/// Of two functions, one of which the linker has dropped; the other has these rows.
const FUNCTION: u64 = 0x1100;
const ROWS: [(u32, Rule); 3] = [
    (0x100, Rule::Stack { distance: 1, saved: 0 }),
    (0x101, Rule::Stack { distance: 2, saved: 2 }),
    (0x104, Rule::Frame { distance: 2, saved: 2 }),
];
const END: u32 = 0x140;
const BIAS: u64 = 0x7f00_0000_0000;

/// An entry of the section, with its length before it.
fn entry(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = parts.concat();
    bytes.resize(bytes.len().next_multiple_of(8) + 4, 0);
    let length = u32::try_from(bytes.len()).expect("short");
    [&length.to_le_bytes()[..], &bytes].concat()
}

fn information() -> Vec<u8> {
    // Version 4; the frame is found at rsp + 8, the return address below.
    let common = entry(&[&[0xff; 4], &[4, 0, 8, 0, 1, 0x78, 16], &[0x0c, 7, 8], &[0x80 | 16, 1]]);
    let function = |start: u64, code: &[u8]| {
        entry(&[&[0; 4], &start.to_le_bytes(), &0x40_u64.to_le_bytes(), code])
    };
    // After one byte rbp has been pushed, after three more it is rsp.
    let code = [0x41, 0x0e, 16, 0x80 | 6, 2, 0x43, 0x0d, 6];
    [common, function(0, &code), function(FUNCTION, &code)].concat()
}

fn image() -> Image {
    let [start, end] = [0x1000, 0x2000].map(|at| RemoteAddr::new(BIAS + at));
    Image {
        start,
        bias: Bias::new(BIAS),
        code: start..end,
        mapped: None,
        identity: 0,
        build: None,
        path: String::new(),
        entry: None,
    }
}

/// A file whose second section is the one we want.
fn elf(contents: &[u8], flags: u64) -> Vec<u8> {
    let names = b"\0.debug_frame\0";
    let header = |name: u32, flags: u64, offset: usize, size: usize| {
        let mut header = [0; 64];
        header[..4].copy_from_slice(&name.to_le_bytes());
        header[4] = 1;
        header[8..16].copy_from_slice(&flags.to_le_bytes());
        header[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(size as u64).to_le_bytes());
        header
    };
    let sections = [
        [0; 64],
        header(1, flags, 256, contents.len()),
        header(0, 0, 256 + contents.len(), names.len()),
    ];
    let mut head = [0; 64];
    head[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    head[40] = 64;
    head[58..64].copy_from_slice(&[64, 0, 3, 0, 2, 0]);
    [&head[..], &sections.concat(), contents, names].concat()
}

fn compressed(kind: u32, size: u64, data: &[u8]) -> Vec<u8> {
    let parts = [u64::from(kind), size, 8].map(u64::to_le_bytes);
    elf(&[&parts.concat(), data].concat(), 0x800)
}

/// By the method that stores.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("short");
    let (low, high) = bytes.iter().fold((1_u32, 0_u32), |(low, high), &byte| {
        let low = (low + u32::from(byte)) % 65521;
        (low, (high + low) % 65521)
    });
    let sum = (high << 16 | low).to_be_bytes();
    [&[0x78, 1, 1][..], &length.to_le_bytes(), &(!length).to_le_bytes(), bytes, &sum].concat()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let size = u8::try_from(bytes.len()).expect("short");
    let block = u32::from(size) << 3 | 1;
    [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, size][..], &block.to_le_bytes()[..3], bytes].concat()
}

fn read(bytes: &[u8], left: &AtomicU64) -> Option<Vec<u8>> {
    let mut file = File::from(memfd_create(c"module", MFdFlags::MFD_CLOEXEC).expect("memory"));
    file.write_all(bytes).expect("memory");
    section(&file, left)
}

#[test]
fn rows_are_those_of_functions_that_are_there() {
    let compiled = compile_debug_frame(&information(), &image());
    let packed = ROWS.map(|(at, rule)| (at, rule.pack()));
    assert_eq!(compiled.rows, [&packed[..], &[(END, unwind::NONE)]].concat());
}

#[test]
fn the_section_is_read_however_it_is_compressed() {
    let bytes = information();
    let size = bytes.len() as u64;
    let files = [
        (elf(&bytes, 0), size),
        (compressed(1, size, &zlib(&bytes)), 24 + zlib(&bytes).len() as u64 + size),
        (compressed(2, size, &zstd(&bytes)), 24 + zstd(&bytes).len() as u64 + size),
    ];
    for (file, cost) in files {
        let left = AtomicU64::new(cost);
        assert_eq!(read(&file, &left).as_ref(), Some(&bytes));
        assert_eq!(left.load(Relaxed), 0);
        let less = AtomicU64::new(cost - 1);
        assert_eq!(read(&file, &less), None, "more than there was left");
    }
}

#[test]
fn what_lies_about_its_size_is_not_believed() {
    let bytes = information();
    let size = bytes.len() as u64;
    for size in [size + 1, 1 << 26, 1 << 40, u64::MAX] {
        for (kind, data) in [(1, zlib(&bytes)), (2, zstd(&bytes))] {
            let left = AtomicU64::new(u64::MAX);
            assert_eq!(read(&compressed(kind, size, &data), &left), None, "{kind}, {size:#x}");
        }
    }
    assert_eq!(read(&compressed(3, size, &bytes), &AtomicU64::new(u64::MAX)), None);
    let cut = elf(&bytes, 0);
    assert_eq!(read(&cut[..300], &AtomicU64::new(u64::MAX)), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_change_to_a_file_is_survived(
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..20),
        format in 0..3,
        in_headers: bool,
    ) {
        let bytes = information();
        let mut file = match format {
            0 => elf(&bytes, 0),
            1 => compressed(1, bytes.len() as u64, &zlib(&bytes)),
            _ => compressed(2, bytes.len() as u64, &zstd(&bytes)),
        };
        let length = if in_headers { 280 } else { file.len() };
        for (place, byte) in changes {
            file[place % length] = byte;
        }
        let left = AtomicU64::new(1 << 20);
        let Some(bytes) = read(&file, &left) else { return Ok(()) };
        prop_assert!(bytes.len() as u64 <= (1 << 20) - left.load(Relaxed));
        let rows = compile_debug_frame(&bytes, &image()).rows;
        prop_assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (_, rule) in rows {
            prop_assert!(rule == unwind::NONE || Rule::unpack(rule).is_some(), "{rule:#x}");
        }
    }
}
