//! The payload, embedded, so that the command is one file that works anywhere.

use std::sync::OnceLock;

use heapattach_injector::attach::PayloadImage;

static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/payload.so"));
static BYTES_OF_FLOW: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/payload_flow.so"));

/// The payload of this build that counts blocks by size as well, or the other one.
///
/// # Panics
/// See [`image`].
pub fn image_for(flow: bool) -> &'static PayloadImage {
    static IMAGE: OnceLock<PayloadImage> = OnceLock::new();
    if !flow {
        return image();
    }
    IMAGE.get_or_init(|| {
        PayloadImage::parse(BYTES_OF_FLOW).expect("the payload was checked when this was built")
    })
}

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

    #[test]
    fn the_embedded_payload_has_a_lure_with_a_gate_for_every_hook() {
        let image = super::image();
        let gate_image = heapattach_injector::attach::gate_image(image).unwrap();
        assert_eq!(gate_image.orig_cell(3), image.orig_cell(3));
        for hook in 0..heapattach_abi::kind::MAX_HOOKS {
            let at = image.hook_offset(hook).unwrap();
            // endbr64, and what differs from hook to hook: the way to its cell.
            assert_eq!(gate_image.text()[at..at + 4], [0xf3, 0x0f, 0x1e, 0xfa]);
            assert_ne!(gate_image.text()[at..at + 33], image.text()[at..at + 33]);
        }
        assert!(gate_image.text().len() < image.text().len());
    }
}
