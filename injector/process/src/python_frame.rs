//! Frames of Python, PHP, Ruby, Perl, Lua, Java and JavaScript in stacks of addresses. Each has an address of its own, beyond
//! those of programs, so that whatever handles stacks of addresses handles these too.

use std::sync::Arc;

use crate::addr::RemoteAddr;

/// Frames that are told apart.
pub const FRAMES_LIMIT: usize = 1 << 18;

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
    (number < FRAMES_LIMIT as u64).then_some(usize::try_from(number).ok()?)
}

/// The languages whose frames these are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Language {
    /// CPython's.
    #[default]
    Python,
    /// PHP's.
    Php,
    /// Ruby's.
    Ruby,
    /// Perl's.
    Perl,
    /// Lua's.
    Lua,
    /// Java's.
    Java,
    /// JavaScript's.
    JavaScript,
}

/// A place in Python code, or in that of another of these languages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PythonFrame {
    /// Of which language.
    pub language: Language,
    /// The function, with the classes and functions around it.
    pub function: Arc<str>,
    /// The file it was compiled from; empty if that is unknown.
    pub file: Arc<str>,
    /// The line of the call.
    pub line: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_python_frames_are_nobody_elses() {
        for number in [0, 1, 77, FRAMES_LIMIT - 1] {
            let address = address_of(number).get();
            assert_eq!(number_at(address), Some(number));
            assert_eq!(number_at(address - 1), Some(number), "the byte before, where a call is");
        }
        for address in [0, 0x7fff_ffff_ffff, FIRST - 1, u64::MAX] {
            assert_eq!(number_at(address), None);
        }
    }
}
