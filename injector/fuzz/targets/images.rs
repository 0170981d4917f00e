//! Any bytes as the payload's file.
#![no_main]

use heapattach_injector::attach::PayloadImage;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(image) = PayloadImage::parse(bytes) {
        let _ = (image.text().len(), image.control_cell(), image.index_cell());
        let _ = (image.hook_offset(0), image.orig_cell(63), image.sigreturn_offset());
    }
});
