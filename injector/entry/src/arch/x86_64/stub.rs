//! PLT stubs: `jmp *slot(%rip)`. An allocator may call itself through one (jemalloc's operator
//! delete is `jmp free@plt`), and that call is its own as much as a direct one.

use std::collections::HashMap;

use crate::image::Image;

/// The stubs met so far.
pub(crate) struct Stubs<'a, 'f> {
    image: &'a Image<'f>,
    /// Slots of the image's GOT, and the function of this image that they name.
    slots: HashMap<u64, u64>,
}

impl<'a, 'f> Stubs<'a, 'f> {
    /// `slots` are the slots that name a hooked function, with that function.
    pub(crate) fn new(image: &'a Image<'f>, slots: HashMap<u64, u64>) -> Self {
        Self { image, slots }
    }

    /// Whether there is a stub at `at`, of whatever function.
    pub(crate) fn is_stub(&self, at: u64) -> bool {
        self.slot(at).is_some()
    }

    /// The hooked function that the stub at `at` leads to, and the slot it reads.
    pub(crate) fn hooked(&self, at: u64) -> Option<(u64, u64)> {
        let slot = self.slot(at)?;
        self.slots.get(&slot).map(|&function| (function, slot))
    }

    fn slot(&self, at: u64) -> Option<u64> {
        let code = self.image.code_from(at)?;
        let endbr = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]);
        let code = endbr.unwrap_or(code);
        // The bnd prefix of a time when MPX was a thing.
        let bnd = code.strip_prefix(&[0xf2]);
        let code = bnd.unwrap_or(code);
        let (field, _) = code.strip_prefix(&[0xff, 0x25])?.split_first_chunk()?;
        let len = 6 + if endbr.is_some() { 4 } else { 0 } + u64::from(bnd.is_some());
        let displacement = i64::from(i32::from_le_bytes(*field));
        Some(at.checked_add(len)?.wrapping_add_signed(displacement))
    }
}
