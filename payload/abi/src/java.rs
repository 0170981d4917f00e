//! Frames of Java: what a hook must know to walk them, all of it as the virtual machine describes itself.
//!
//! A frame is a word as those of other languages are ([`crate::python`]): the method that the interpreter runs
//! and the lowest bits of the address of its instruction, or a piece of compiled code and how far into it the frame
//! goes on. Native frames that were called from Java and call Java lie between, as addresses. Of the code
//! nothing is copied but its address and what it is told apart by: the reader reads the rest where it lies.

use crate::python::{ORDERS_AT, Orders};

/// What the injector found out, in the control page behind [`Orders`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JavaOrders(pub [u64; JAVA_ORDERS]);

/// A word of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum JavaOrder {
    /// In a thread: its anchor, which says where it left Java; 0: there is no Java.
    Anchor,
    /// In a thread: what the system knows of it.
    System,
    /// In that: its thread pointer.
    ThreadPointer,
    /// In the list of threads: how many there are, a number of 32 bits.
    ListLength,
    /// In it: where they are led to.
    ListThreads,
    /// In what a frame that entered Java leads to: the anchor of before.
    OuterAnchor,
    /// Code of the interpreter, and its bytes.
    Interpreter,
    /// The second of these.
    InterpreterBytes,
    /// Where a call that entered Java returns to.
    Entered,
    /// All code, and its bytes.
    Code,
    /// The second of these.
    CodeBytes,
    /// In a method: what does not change of it.
    Fixed,
    /// In that: what it has in common with other methods of its class.
    Pool,
    /// In it, too: the word with the number of its name.
    Name,
    /// In a piece of compiled code: how many words its frame has, a number of 32 bits.
    FrameWords,
    /// In it: the word with the number of its compilation.
    Compilation,
    /// In it: its method.
    Method,
    /// Bytes of a segment of code, as a power of 2.
    SegmentBits,
    /// Bytes in front of a piece of code.
    Header,
    /// The first heap of code, its bytes, and what leads from a segment to where its piece begins; then the others.
    Heaps,
}

/// Heaps of code, at most.
pub const HEAPS: usize = 3;
/// Words of each.
pub const HEAP_WORDS: usize = 3;
/// Words of [`JavaOrders`].
pub const JAVA_ORDERS: usize = JavaOrder::Heaps as usize + HEAPS * HEAP_WORDS;
/// Where they are in the control page.
pub const JAVA_ORDERS_AT: usize = (ORDERS_AT + size_of::<Orders>()).next_multiple_of(64);

/// Words that are kept of code: its address, and what it is told apart by.
pub const COPY_WORDS: usize = 2;

/// A native frame as it is stored: no copy has a number as large as this.
pub const NATIVE: u64 = 1 << 63;

/// What a method is told apart by, of what does not change of it, the pool and the word with its name.
pub const fn identity_of_method(fixed: u64, pool: u64, name: u64) -> u64 {
    mix(mix(fixed, pool), name) | 1
}

/// What compiled code is told apart by: the size of its frame, the number of its compilation, and its method.
pub const fn identity_of_code(frame: u64, compilation: u64, method: u64) -> u64 {
    mix(mix(frame, compilation), method) | 1
}

const fn mix(hash: u64, word: u64) -> u64 {
    crate::stacks::hash_step(hash, word)
}

const _: () = assert!(JAVA_ORDERS_AT + size_of::<JavaOrders>() <= crate::control::CONTROL_BYTES);
const _: () = assert!(crate::stacks::STACK_WORDS < 1 << 40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told_apart() {
        assert_ne!(identity_of_method(1, 2, 3), identity_of_method(1, 2, 4));
        assert_ne!(identity_of_code(1, 2, 3), identity_of_code(1, 3, 3));
        assert_ne!(identity_of_code(0, 0, 0), 0);
    }
}
