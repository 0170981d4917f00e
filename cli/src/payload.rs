//! The payload, embedded, so that the command is one file that works anywhere.

use std::sync::OnceLock;

use heapattach_injector::payload_image::PayloadImage;

static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/payload.so"));

/// The payload of this build.
///
/// # Panics
/// Never in a build that passed its tests: one of them parses it.
pub fn image() -> &'static PayloadImage {
    static IMAGE: OnceLock<PayloadImage> = OnceLock::new();
    IMAGE.get_or_init(|| {
        PayloadImage::parse(BYTES).expect("the payload was checked when this was built")
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_embedded_payload_is_sound() {
        assert!(!super::image().text().is_empty());
    }
}
