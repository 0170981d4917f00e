//! Whatever unwind information says: rows in order, in bounded number, and never a panic.

use heapattach_abi::unwind::{self, Rule};
use std::sync::atomic::AtomicU64;

use heapattach_injector::inside::{Compiled, compile_bytes, compile_debug_frame, information};
use heapattach_process::{
    addr::{Bias, RemoteAddr},
    image::{Image, images},
    memory::Memory,
    proc::{Process, maps},
};
use proptest::prelude::*;

/// The information of the C library of this very process, and where it lies.
fn real() -> (Vec<u8>, RemoteAddr, Image) {
    let process = Process::open(std::process::id().cast_signed()).unwrap();
    let memory = Memory::open(&process).unwrap();
    let text = process.read("maps").unwrap();
    let maps = maps::parse(&text).unwrap();
    let is_libc = |image: &Image| {
        let mapping = maps::covering(&maps, image.code.start);
        mapping.is_some_and(|m| m.label().to_string_lossy().contains("libc.so"))
    };
    let image = images(&memory, &maps).into_iter().find(is_libc).expect("a C library");
    let (at, bytes) = information(&memory, &image, &AtomicU64::new(1 << 30)).unwrap();
    (bytes, at, image)
}

/// An image of that much code, `bias` above where its file states it.
fn image(start: u64, end: u64, bias: u64) -> Image {
    let [start, end] = [start, end].map(RemoteAddr::new);
    Image {
        start,
        bias: Bias::new(bias),
        code: start..end,
        mapped: None,
        identity: 0,
        build: None,
        path: String::new(),
        entry: None,
    }
}

fn assert_sound(compiled: &Compiled) {
    assert!(compiled.rows.windows(2).all(|pair| pair[0].0 < pair[1].0), "rows out of order");
    for &(_, rule) in &compiled.rows {
        assert!(rule >> unwind::RULE_BITS == 0);
        assert!(rule == unwind::NONE || Rule::unpack(rule).is_some(), "{rule:#x}");
    }
}

#[test]
fn the_information_of_the_c_library_is_understood() {
    let (bytes, at, image) = real();
    let compiled = compile_bytes(&bytes, at, &image);
    assert_sound(&compiled);
    assert!(compiled.rows.len() > 5_000, "{} rows", compiled.rows.len());
    assert!(compiled.unknown * 100 < compiled.rows.len(), "{} unknown", compiled.unknown);
    let packed = |rule: Rule| rule.pack();
    for rule in [Rule::Outermost, Rule::Signal, Rule::Linkage(11)].map(packed) {
        let has = compiled.rows.iter().any(|&(_, row)| row == rule);
        assert!(has || rule == packed(Rule::Linkage(11)), "{:?}", Rule::unpack(rule));
    }
}

fn damaged() -> impl Strategy<Value = Vec<(usize, u8)>> {
    prop::collection::vec((any::<usize>(), any::<u8>()), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_rows_or_none(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let image = image(0x1000, 0x20_0000, 0);
        assert_sound(&compile_bytes(&bytes, RemoteAddr::new(0x2000), &image));
        assert_sound(&compile_debug_frame(&bytes, &image));
    }

    #[test]
    fn changed_bytes_of_real_information_give_rows(changes in damaged(), cut in any::<usize>()) {
        let (mut bytes, at, image) = real();
        bytes.truncate(200_000.min(bytes.len()));
        let length = bytes.len();
        for (place, byte) in changes {
            bytes[place % length] = byte;
        }
        bytes.truncate(cut % length + 1);
        assert_sound(&compile_bytes(&bytes, at, &image));
    }
}
