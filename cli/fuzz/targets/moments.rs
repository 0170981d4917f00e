//! Any bytes as a file of a moment: as a whole file, or as a content whose checksum is right, which an attacker may have
//! written. What is read is shown in every view, compared and written again.
#![no_main]

use std::{io::Write, path::Path};

use flate2::{Compression, write::DeflateEncoder};
use heapattach_moment::{Difference, Moment, decode, encode};
use heapattach_view::{HeapView, Page, tell_difference};
use libfuzzer_sys::fuzz_target;

const TITLE: &[u8] = b"heapattach moment 1\n";

/// A file with this content.
fn file_of(content: &[u8]) -> Option<Vec<u8>> {
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::none());
    packed.write_all(content).ok()?;
    let packed = packed.finish().ok()?;
    let number = |bytes: usize| Some(u32::try_from(bytes).ok()?.to_le_bytes());
    let head = [number(packed.len())?, number(content.len())?].concat();
    let sum = crc32fast::hash(content).to_le_bytes();
    Some([TITLE, &head, &sum, &packed].concat())
}

/// Everything that a command does with one.
fn use_all(moment: &Moment) {
    let page = || Page::new(Some(100), false);
    for view in HeapView::ALL {
        let _ = view.missing(&moment.census);
        let _ = view.tell(&moment.census, page());
    }
    let pair = [("a".to_owned(), moment.clone()), ("b".to_owned(), Moment::default())];
    let _ = tell_difference(&Difference::of(&pair), 20, page());
    let _ = moment.census.clone().told(100);
    let _ = heapattach_export::heap::page::write(&moment.census, &mut Vec::new());
    let _ = heapattach_export::heap::pprof(&moment.census);
    let _ = heapattach_export::heap::collapsed(&moment.census);
    // What was read can be written, and read again.
    let file = encode(&moment.census, "0").expect("it is no larger than what was read");
    decode(&file, Path::new("again")).expect("what was written is one");
}

fuzz_target!(|input: &[u8]| {
    let made = if input.starts_with(TITLE) { Some(input.to_vec()) } else { file_of(input) };
    let Some(bytes) = made else { return };
    if let Ok(moment) = decode(&bytes, Path::new("a")) {
        use_all(&moment);
    }
});
