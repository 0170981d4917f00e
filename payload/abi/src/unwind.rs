//! Unwind tables: for an address of code, how the frame above is found.
//!
//! ```text
//! head of the region --> directory --> entry of a module --> rows: {address, rule}, ascending
//!                        (newest)      start, end        --> page index: first row of 256 bytes
//! ```
//!
//! A directory that was published is never changed, only followed by another.

/// Bytes of a directory before its entries: its generation, the number of entries, and its epoch.
pub const DIRECTORY_HEAD: usize = 24;
/// Offset of the epoch: another one as soon as code lies where other code has been.
pub const EPOCH_AT: usize = 16;
/// Size of an entry: start and end of the code, offsets of page index and rows in the region, and the
/// number of the module ([`crate::late`]), 0 if it stays for as long as the process.
pub const ENTRY_BYTES: usize = 40;
/// Offset of that number.
pub const NUMBER_AT: usize = 32;
/// Modules at most.
pub const MODULES: usize = 1 << 12;
/// The code that one element of the page index is for, as a power of two.
pub const PAGE_SHIFT: u32 = 8;
/// Size of an element of the page index: the number of the row that holds at the page's start.
pub const PAGE_BYTES: usize = 4;
/// Size of a row: distance from the start of the code, then the rule from there on.
pub const ROW_BYTES: usize = 8;
/// The address of the row that follows the last.
pub const END: u32 = u32::MAX;
/// Rows that one page can have.
pub const LOOKS: usize = 1 << PAGE_SHIFT;

/// How a frame is found, in 30 bits: kind, where the caller's frame pointer is saved, and where the
/// *canonical frame address* is, below which lies the return address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The address is the stack pointer plus a distance.
    Stack {
        /// Words.
        distance: u32,
        /// Words below it where the frame pointer is saved; 0: it has not been changed.
        saved: u32,
    },
    /// The address is the frame pointer plus a distance.
    Frame {
        /// Words.
        distance: u32,
        /// As above.
        saved: u32,
    },
    /// The address is stored, so many words from the frame pointer, in a frame that aligns itself.
    Stored {
        /// Words.
        distance: i32,
        /// The caller's frame pointer is stored where the frame pointer points to.
        saves: bool,
    },
    /// There is no caller.
    Outermost,
    /// The kernel stored all registers: a signal arrived.
    Signal,
    /// An entry of the procedure linkage table: one word more from the given byte on of 16.
    Linkage(u32),
    /// The table says something that we cannot follow.
    Unknown,
}

/// Bits of a packed rule.
pub const RULE_BITS: u32 = 30;
const SAVED_BITS: u32 = 10;
const DISTANCE_BITS: u32 = 18;
const MIDDLE: i32 = 1 << (DISTANCE_BITS - 1);
/// No rule: code that no table describes.
pub const NONE: u32 = 0;

const STACK: u32 = 0;
const FRAME: u32 = 1;
const STORED: u32 = 2;
const OTHER: u32 = 3;

impl Rule {
    /// In 30 bits, never 0; what does not fit is [`Rule::Unknown`].
    pub const fn pack(self) -> u32 {
        let (kind, saved, distance) = match self {
            Self::Stack { distance, saved } => (STACK, saved, distance),
            Self::Frame { distance, saved } => (FRAME, saved, distance),
            Self::Stored { distance, saves } => {
                let fits = distance >= -MIDDLE && distance < MIDDLE;
                (STORED, saves as u32, if fits { (distance + MIDDLE) as u32 } else { 0 })
            }
            Self::Outermost => (OTHER, 0, 1),
            Self::Signal => (OTHER, 0, 2),
            Self::Linkage(byte) => (OTHER, byte, 3),
            Self::Unknown => (OTHER, 0, 4),
        };
        if distance == 0 || distance >> DISTANCE_BITS != 0 || saved >> SAVED_BITS != 0 {
            return Self::Unknown.pack();
        }
        kind | saved << 2 | distance << (2 + SAVED_BITS)
    }

    /// The rule of 30 bits, if they are not 0.
    pub const fn unpack(packed: u32) -> Option<Self> {
        let saved = packed >> 2 & ((1 << SAVED_BITS) - 1);
        let distance = packed >> (2 + SAVED_BITS) & ((1 << DISTANCE_BITS) - 1);
        if distance == 0 {
            return None;
        }
        Some(match packed & 3 {
            STACK => Self::Stack { distance, saved },
            FRAME => Self::Frame { distance, saved },
            STORED => Self::Stored { distance: distance as i32 - MIDDLE, saves: saved != 0 },
            _ => match distance {
                1 => Self::Outermost,
                2 => Self::Signal,
                3 => Self::Linkage(saved),
                _ => Self::Unknown,
            },
        })
    }
}

/// A rule of the two common kinds, in parts: whether the frame pointer is what it counts from, the
/// distance, and where the frame pointer is saved. `None` if it is another, or none.
#[inline]
pub const fn simple(packed: u32) -> Option<(bool, u64, u64)> {
    if packed & 2 != 0 || packed == NONE {
        return None;
    }
    let saved = packed >> 2 & ((1 << SAVED_BITS) - 1);
    Some((packed & 1 != 0, (packed >> (2 + SAVED_BITS)) as u64, saved as u64))
}

/// The cache of rules by address: as many slots as this power of two, a word each, for all threads.
pub const CACHE_BITS: u32 = 13;
/// Size of the cache.
pub const CACHE_BYTES: usize = 8 << CACHE_BITS;
/// Bits of an address of code.
const CODE_BITS: u32 = 47;
const CODE_MASK: u64 = (1 << CODE_BITS) - 1;
const TAG_BITS: u32 = CODE_BITS - CACHE_BITS;
/// Odd, so that no two addresses are mapped to the same number.
const SPREAD: u64 = 0x3f84_d5b5_b547_0917;

/// What a generation does to slots and tags: another one has others, so that what was cached for code
/// that is gone is not found for what lies there now.
pub const fn salt(generation: u64) -> u64 {
    generation.wrapping_mul(SPREAD)
}

/// Slot and tag of an address, with the salt of the generation.
pub const fn cached(address: u64, salt: u64) -> (usize, u64) {
    let number = (address.wrapping_mul(SPREAD) ^ salt) & CODE_MASK;
    ((number >> TAG_BITS) as usize, number & ((1 << TAG_BITS) - 1))
}

const _: () = assert!(TAG_BITS + RULE_BITS == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_again() {
        let rules = [
            Rule::Stack { distance: 1, saved: 0 },
            Rule::Stack { distance: (1 << 18) - 1, saved: 1023 },
            Rule::Frame { distance: 2, saved: 2 },
            Rule::Stored { distance: -5, saves: true },
            Rule::Stored { distance: 7, saves: false },
            Rule::Outermost,
            Rule::Signal,
            Rule::Linkage(11),
            Rule::Unknown,
        ];
        for rule in rules {
            assert_ne!(rule.pack(), NONE);
            assert!(rule.pack() >> RULE_BITS == 0);
            assert_eq!(Rule::unpack(rule.pack()), Some(rule));
            let parts = match rule {
                Rule::Stack { distance, saved } => Some((false, distance.into(), saved.into())),
                Rule::Frame { distance, saved } => Some((true, distance.into(), saved.into())),
                _ => None,
            };
            assert_eq!(simple(rule.pack()), parts);
        }
        assert_eq!((Rule::unpack(NONE), simple(NONE)), (None, None));
    }

    #[test]
    fn what_does_not_fit_is_unknown() {
        for rule in [
            Rule::Stack { distance: 1 << 18, saved: 0 },
            Rule::Stack { distance: 0, saved: 0 },
            Rule::Frame { distance: 2, saved: 1024 },
            Rule::Stored { distance: 1 << 17, saves: true },
            Rule::Stored { distance: -(1 << 17) - 1, saves: true },
        ] {
            assert_eq!(Rule::unpack(rule.pack()), Some(Rule::Unknown), "{rule:?}");
        }
    }

    #[test]
    fn no_two_addresses_of_one_generation_share_slot_and_tag() {
        let mut seen = [(0, 0); 4096];
        for (i, seen) in (0..).zip(&mut seen) {
            *seen = cached(0x7f12_3456_0000 + i * 3, salt(5));
            assert!(seen.0 < 1 << CACHE_BITS);
        }
        seen.sort_unstable();
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]));
        assert_ne!(cached(0x7f12_3456_0000, salt(5)), cached(0x7f12_3456_0000, salt(6)));
    }
}
