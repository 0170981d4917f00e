//! Where LuaJIT 2.1 has its things on 64-bit machines where its references have 64 bits (`GC64`): what `lj_obj.h` and
//! `lj_frame.h` say. They were the same in all releases of 2.1.

/// In a frame of its machine on the native stack: what the call is for, 32 bits, which is negative for a call of C's
/// alone; the thread of Lua; and where the code that calls out goes on.
pub const RESULTS: u64 = 8;
/// The second of these.
pub const THREAD: u64 = 16;
/// The third.
pub const GOES_ON: u64 = 24;

/// In any object, in the word that begins here: two bits of the collector's, what the object is, and more.
pub const KIND: u64 = 8;
/// A thread, a function whose code is Lua's, and code: what that word says behind its first byte.
pub const IS_THREAD: u64 = 6;
/// The second of these, of 16 bits: the upper ones say that it is none of C's.
pub const IS_FUNCTION: u64 = 8;
/// The third.
pub const IS_CODE: u64 = 7;

/// In a thread: what belongs to the function that runs, its values, where they begin, and its frame of the machine.
pub const BASE: u64 = 32;
/// The second of these, of the first word that is free.
pub const TOP: u64 = 40;
/// The third.
pub const STACK: u64 = 56;
/// The last.
pub const MACHINE: u64 = 80;

/// In a function: its first instruction.
pub const BYTECODE: u64 = 32;
/// So far before that its code begins, and there are, counted from where it begins: what it is and how many instructions
/// it has, its file, the lines on which it begins and of how many it is, and the lines of its instructions.
pub const CODE_BYTES: u64 = 104;
/// The second of these.
pub const FILE: u64 = 64;
/// The third.
pub const LINES_OF_IT: u64 = 72;
/// The last.
pub const LINES: u64 = 80;
/// In a text: its letters.
pub const TEXT: u64 = 24;

/// Bits of a value that lead to an object.
pub const OBJECT_BITS: u64 = (1 << 47) - 1;

/// The bytes that a line has in the table of code that is of so many lines, as a power of two.
pub const fn line_shift(lines: u32) -> u32 {
    if lines < 1 << 8 {
        0
    } else if lines < 1 << 16 {
        1
    } else {
        2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_as_many_bytes_as_the_last_of_them_needs() {
        let all = [0, 255, 256, 65_535, 65_536, u32::MAX].map(line_shift);
        assert_eq!(all, [0, 0, 1, 1, 2, 2]);
    }
}
