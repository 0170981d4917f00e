//! What the processor says of itself.
//!
//! # Safety
//! CPUID reads and writes registers alone, and every processor for x86-64 has it.
#![allow(unsafe_code)]

use std::arch::x86_64::{__cpuid_count, CpuidResult};

/// What CPUID answers to these numbers.
// Newer compilers than the oldest one that is supported know that it is safe.
#[allow(unused_unsafe)]
pub(super) fn cpuid(leaf: u32, part: u32) -> CpuidResult {
    // SAFETY: the instruction is there wherever this was compiled for.
    unsafe { __cpuid_count(leaf, part) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_knows_vector_registers() {
        const SSE2: u32 = 1 << 26;
        assert_ne!(cpuid(1, 0).edx & SSE2, 0);
    }
}
