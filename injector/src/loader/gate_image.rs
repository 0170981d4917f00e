//! What stands in a home whose hooks live in an object of their own: in place of every hook a gate
//! to the errand. It has the descriptor and the cells of the payload, so that functions are led to
//! it as they are to hooks.

use std::mem::offset_of;

use heapattach_abi::{image::Image, kind::MAX_HOOKS};

use crate::home::payload_image::{PayloadImage, PayloadImageError};
use crate::{arch, home::Home};
use heapattach_process::memory::Memory;

const TOO_FAR: PayloadImageError = PayloadImageError::Field("place of the hooks");

/// The gate image that goes with `image`.
///
/// # Errors
/// If its hooks leave no room for a gate.
pub fn gate_image(image: &PayloadImage) -> Result<PayloadImage, PayloadImageError> {
    let mut text = image.hooks_and_cells().to_vec();
    text.resize(text.len().next_multiple_of(64), 0);
    // A gate stands for both.
    text.get_mut(offset_of!(Image, brief)..)
        .and_then(|text| text.first_chunk_mut())
        .ok_or(TOO_FAR)?
        .clone_from(&[0; 4]);
    let errand = text.len();
    text.extend(arch::errand_code());
    for hook in 0..MAX_HOOKS {
        let (at, original) = image.hook_offset(hook).zip(image.orig_cell(hook)).ok_or(TOO_FAR)?;
        let gate = arch::gate(at, original, image.control_cell(), errand).ok_or(TOO_FAR)?;
        text.get_mut(at..at + gate.len()).ok_or(TOO_FAR)?.copy_from_slice(&gate);
    }
    PayloadImage::of(text)
}

/// The gate image in `home`, whichever heapattach put it there; `None` if something else lies there.
pub fn gate_image_in(memory: &Memory, home: &Home) -> Option<PayloadImage> {
    let length = usize::try_from(home.header().body_length).ok()?;
    let image = PayloadImage::of(memory.read_vec(home.body(), length).ok()?).ok()?;
    image.text().ends_with(arch::errand_code()).then_some(image)
}
