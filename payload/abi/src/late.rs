//! Modules that a walk met before the injector knew them: the payload finds them out by itself, in the
//! loader's list, and notes what they are, so that they can be named when they are gone.
//!
//! ```text
//! frame of a stack --> number in its upper bits --> entry: where, which build, the path
//! ```

/// Modules at most.
pub const LATE: usize = 1 << 10;
/// Size of an entry.
pub const ENTRY_BYTES: usize = 512;
/// All entries.
pub const LATE_BYTES: usize = LATE * ENTRY_BYTES;

/// Words of an entry, by their offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Part {
    /// 1: the others are there.
    Ready = 0,
    /// What the loader added to the file's addresses; there the module begins.
    Bias = 8,
    /// Where its code begins.
    Start = 16,
    /// Where that ends.
    End = 24,
    /// The table that its unwind information is found by.
    Header = 32,
    /// The end of the segment that the table lies in.
    HeaderEnd = 40,
    /// A number that another module at this place does not have.
    Identity = 48,
    /// How many modules the loader had loaded when this one was last looked at.
    Loads = 56,
    /// The entry of the loader's list.
    Link = 64,
    /// Bytes of the build id; 0: it has none.
    BuildLength = 72,
}

/// Offset of the build id.
pub const BUILD_AT: usize = 80;
/// Bytes of it at most.
pub const BUILD_BYTES: usize = 64;
/// Offset of the path that the loader opened; it ends with a zero, or with the entry.
pub const NAME_AT: usize = BUILD_AT + BUILD_BYTES;
/// Bytes of it at most.
pub const NAME_BYTES: usize = ENTRY_BYTES - NAME_AT;

/// The number of the first module that the injector numbers itself, because it may go away; those of
/// the payload are 1 to [`LATE`].
pub const FIRST_KNOWN: u64 = 1 << 12;
/// Where the number of its module is in the word of a frame.
pub const NUMBER_SHIFT: u32 = 48;
/// The numbers that there is room for.
pub const NUMBERS: u64 = 1 << (64 - NUMBER_SHIFT);

/// The word of a frame.
pub const fn pack(address: u64, number: u64) -> u64 {
    address & ((1 << NUMBER_SHIFT) - 1) | number << NUMBER_SHIFT
}

/// Address and number of a frame's word.
pub const fn unpack(word: u64) -> (u64, u64) {
    (word & ((1 << NUMBER_SHIFT) - 1), word >> NUMBER_SHIFT)
}

/// An identity before anything was looked at.
pub const IDENTITY_START: u64 = 0xcbf2_9ce4_8422_2325;

/// An identity with one more word.
pub const fn identify(identity: u64, word: u64) -> u64 {
    (identity ^ word ^ word >> 31).wrapping_mul(0x9fb2_1c65_1e98_df25).rotate_left(29)
}

const _: () = assert!(NAME_BYTES.is_multiple_of(8) && BUILD_AT.is_multiple_of(8));
const _: () = assert!((LATE as u64) < FIRST_KNOWN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_keeps_its_address_and_its_module() {
        assert_eq!(unpack(pack(0x7fff_ffff_f123, 0)), (0x7fff_ffff_f123, 0));
        assert_eq!(unpack(pack(0x7fff_ffff_f123, NUMBERS - 1)), (0x7fff_ffff_f123, NUMBERS - 1));
        assert_ne!(
            identify(identify(IDENTITY_START, 1), 2),
            identify(identify(IDENTITY_START, 2), 1)
        );
    }
}
