//! Where Lua has its things, by version: what `lstate.h` and `lobject.h` say for 64 bits, which builds do not change
//! unless they change the language.

use std::ops::RangeInclusive;

use heapattach_abi::python::Orders;

/// Bits of the second word of a thread that say that it is one, and that it runs.
const RUNS_AT_16: u64 = 0xff | 0xff << 16;
const RUNS_AT_32: u64 = 0xff | 0xff << 32;

/// A version: its number, the first and last ones of its releases, what all threads have in common, and the rest as
/// the payload is told it.
pub(super) struct Row {
    pub version: u8,
    pub releases: RangeInclusive<u8>,
    pub common: u64,
    pub orders: Orders,
}

const NONE: Orders = Orders::new();

pub(super) const ROWS: [Row; 4] = [
    Row {
        version: 1,
        releases: 0..=5,
        common: 32,
        orders: Orders {
            foreign: RUNS_AT_16,
            current: 40,
            current_in: 48,
            values_end: 56,
            values: 64,
            first_call: 80,
            code: 8,
            instruction: 24,
            step: 40,
            body: 32,
            instructions: 24,
            lines: 40,
            file: 64,
            length: 84,
            identity: 96,
            ..NONE
        },
    },
    Row {
        version: 2,
        releases: 1..=4,
        common: 24,
        orders: Orders {
            foreign: RUNS_AT_16,
            current: 32,
            values_end: 48,
            values: 56,
            previous: 16,
            instruction: 56,
            mark: 34,
            mark_mask: 5,
            least_mark: 5,
            script_bits: 1,
            fresh_bits: 4,
            body: 24,
            instructions: 24,
            lines: 40,
            file: 72,
            length: 92,
            identity: 104,
            ..NONE
        },
    },
    Row {
        version: 3,
        releases: 3..=6,
        common: 24,
        orders: Orders {
            foreign: RUNS_AT_32,
            current: 32,
            values_end: 48,
            values: 56,
            previous: 16,
            instruction: 40,
            mark: 66,
            mark_mask: 10,
            least_mark: 2,
            script_bits: 2,
            fresh_bits: 8,
            body: 24,
            instructions: 56,
            lines: 72,
            file: 104,
            length: 28,
            identity: 40,
            ..NONE
        },
    },
    Row {
        version: 4,
        releases: 3..=8,
        common: 24,
        orders: Orders {
            foreign: RUNS_AT_16,
            current: 32,
            values_end: 40,
            values: 48,
            previous: 16,
            instruction: 32,
            mark: 62,
            mark_mask: 6,
            script_bits: 2,
            fresh_bits: 4,
            body: 24,
            instructions: 64,
            lines: 88,
            index: 96,
            file: 112,
            length: 28,
            rows: 40,
            identity: 44,
            ..NONE
        },
    },
];
