//! The Python interpreter (CPython) in a target: recognised from outside, so that the payload can
//! walk its frames and we can name them.
//!
//! ```text
//! marks: symbols of a module -> interpreter: version, layout -> orders for the payload
//!                                   |
//! words of a stack, copies of code -> frames: code, text, line_table -> function, file, line
//!                        merge: native frames + Python frames -> one stack
//! ```
//!
//! A Python frame has an address of its own, beyond those of programs, so that whatever handles
//! stacks of addresses handles these too. Everything read from the target is hostile.

mod code;
mod frames;
mod interpreter;
mod layout;
mod line_table;
mod marks;
mod merge;
mod orders;
mod text;

pub use frames::{Frames, PythonFrame};
pub use interpreter::{Interpreter, Python, Unreadable, recognise};
pub use marks::Marks;
pub use merge::merge;
pub use orders::{Wish, tell};

use crate::addr::RemoteAddr;

/// Where the addresses of Python frames begin: no program has code there, and a floating-point number
/// still tells them apart.
pub const FIRST: u64 = 1 << 50;
/// The distance from one to the next.
pub const STRIDE: u64 = 16;

/// The address that a frame with this number "returns to".
pub fn address_of(number: usize) -> RemoteAddr {
    RemoteAddr::new(FIRST + number as u64 * STRIDE + 1)
}

/// The number of the Python frame that an address is in.
pub fn number_at(address: u64) -> Option<usize> {
    let number = address.checked_sub(FIRST)? / STRIDE;
    (number < frames::FRAMES_LIMIT as u64).then_some(usize::try_from(number).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_python_frames_are_nobody_elses() {
        for number in [0, 1, 77, frames::FRAMES_LIMIT - 1] {
            let address = address_of(number).get();
            assert_eq!(number_at(address), Some(number));
            assert_eq!(number_at(address - 1), Some(number), "the byte before, where a call is");
        }
        for address in [0, 0x7fff_ffff_ffff, FIRST - 1, u64::MAX] {
            assert_eq!(number_at(address), None);
        }
    }
}
