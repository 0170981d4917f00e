//! Any text as a file of `/proc`.
#![no_main]

use heapattach_process::{addr::RemoteAddr, proc::{auxv::Auxv, maps, status::{Status, stat_field}}};
use heapattach_injector::inside::free_range;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(maps) = maps::parse(bytes) {
        let code = RemoteAddr::new(0x7f00_0000_0000)..RemoteAddr::new(0x7f00_0010_0000);
        for heap in [None, maps.first().map(|first| first.range.end.get())] {
            let _ = free_range::places(&maps, &code, 1 << 20, heap);
        }
        for mapping in &maps {
            let _ = (mapping.file(), mapping.is_anonymous());
            let _ = maps::covering(&maps, mapping.range.start);
        }
    }
    let _ = Status::parse(bytes);
    let _ = Auxv::parse(bytes);
    for number in [0, 3, 22, 52] {
        let _ = stat_field(bytes, number);
    }
});
