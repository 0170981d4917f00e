//! What the payload makes of a module's unwind information, beside what the injector makes of it for
//! tables.

#[path = "../../../payload/src/cfi/mod.rs"]
#[allow(clippy::cast_possible_truncation, reason = "the payload has this lint off")]
mod payload;

use std::{collections::HashMap, sync::atomic::AtomicU64};

use heapattach_abi::unwind::{NONE, Rule};
use heapattach_injector::inside::{compile_bytes, information};
use heapattach_process::{
    image::{Image, Mapped, images},
    memory::Memory,
    proc::{Process, maps},
};
use payload::Source;
use proptest::prelude::*;

// What the walk keeps beside it has room.
const _: () = assert!(payload::FREE > 0);

/// Bytes of memory, and the address they begin at.
struct Bytes {
    at: u64,
    bytes: Vec<u8>,
    aside: HashMap<usize, u64>,
}

impl Source for Bytes {
    fn byte(&mut self, at: u64) -> Option<u8> {
        self.bytes.get(usize::try_from(at.checked_sub(self.at)?).ok()?).copied()
    }

    fn put_aside(&mut self, number: usize, word: u64) {
        self.aside.insert(number, word);
    }

    fn aside(&self, number: usize) -> u64 {
        self.aside[&number]
    }
}

/// The images of this very process that have unwind information, and the segment it lies in.
fn own() -> Vec<(Image, Mapped, Bytes, Memory)> {
    let process = Process::open(std::process::id().cast_signed()).unwrap();
    let text = process.read("maps").unwrap();
    let all = images(&Memory::open(&process).unwrap(), &maps::parse(&text).unwrap());
    let with_bytes = |image: Image| {
        let memory = Memory::open(&process).unwrap();
        let mapped = image.mapped?;
        let length = mapped.end.offset_from(mapped.header)?;
        let bytes = memory.read_vec(mapped.header, usize::try_from(length).ok()?).ok()?;
        let at = mapped.header.get();
        Some((image, mapped, Bytes { at, bytes, aside: HashMap::new() }, memory))
    };
    all.into_iter().filter_map(with_bytes).collect()
}

/// At the first and the last byte that every row of every table is for.
#[test]
fn both_find_the_same_rules() {
    let (mut compared, mut known) = (0_usize, 0_usize);
    for (image, mapped, mut bytes, memory) in own() {
        let left = AtomicU64::new(u64::MAX);
        let Some((at, all)) = information(&memory, &image, &left) else { continue };
        let rows = compile_bytes(&all, at, &image).rows;
        let (header, end) = (mapped.header.get(), mapped.end.get());
        let start = image.code.start.get();
        for (number, &(from, rule)) in rows.iter().enumerate() {
            let next = rows.get(number + 1).map_or(from + 1, |row| row.0);
            for offset in [from, next - 1] {
                let found = payload::rule(&mut bytes, header, end, start + u64::from(offset));
                assert_eq!(
                    (found, Rule::unpack(found)),
                    (rule, Rule::unpack(rule)),
                    "{} at {offset:#x}",
                    image.path
                );
                compared += 1;
                known += usize::from(found != NONE && found != Rule::Unknown.pack());
            }
        }
    }
    assert!(compared > 10_000 && known > compared / 2, "{known} of {compared}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With any contents of a module the search ends, and gives a rule or none.
    #[test]
    fn damaged_information_is_survived(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..200),
        places in prop::collection::vec(any::<prop::sample::Index>(), 50),
    ) {
        let (image, mapped, mut bytes, _) = own().into_iter().find(|own| own.0.path.contains("libc"))
            .expect("a C library");
        // What is near the front is used by every search.
        let length = bytes.bytes.len().min(1 << 16);
        for (index, value) in changes {
            bytes.bytes[index.index(length)] = value;
        }
        let (header, end) = (mapped.header.get(), mapped.end.get());
        let code = usize::try_from(image.code.end.offset_from(image.code.start).unwrap()).unwrap();
        for place in places {
            let at = image.code.start.get() + place.index(code) as u64;
            let _ = payload::rule(&mut bytes, header, end, at);
        }
    }
}
