//! Numbers as differences from the one before: `DELTA_BINARY_PACKED` of the format.
//!
//! ```text
//! 128, 4, count, first value   block: least difference, 4 widths, 4 x 32 differences above the least   ...
//! ```
//!
//! What does not change takes five bytes for 128 values, what grows steadily little more.

use super::{
    bits,
    thrift::{varint, zigzag},
};

/// Values of a block, and of a part of it with a width of its own.
const BLOCK: usize = 128;
const PART: usize = 32;

/// Numbers as the format has them. Differences wrap around: any two numbers have one.
pub fn encoded(numbers: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, BLOCK as u64);
    varint(&mut out, (BLOCK / PART) as u64);
    varint(&mut out, numbers.len() as u64);
    varint(&mut out, zigzag(numbers.first().copied().unwrap_or(0)));
    let mut differences = [0_i64; BLOCK];
    let mut before = numbers.first().copied().unwrap_or(0);
    for block in numbers.get(1..).unwrap_or_default().chunks(BLOCK) {
        for (difference, &number) in differences.iter_mut().zip(block) {
            *difference = number.wrapping_sub(before);
            before = number;
        }
        put_block(&differences[..block.len()], &mut out);
    }
    out
}

fn put_block(differences: &[i64], out: &mut Vec<u8>) {
    let least = differences.iter().copied().min().unwrap_or(0);
    varint(out, zigzag(least));
    let above = |difference: &i64| difference.wrapping_sub(least).cast_unsigned();
    let widths = out.len();
    // A part that is beyond the last value has a width, and nothing else.
    out.extend([0; BLOCK / PART]);
    for (at, part) in differences.chunks(PART).enumerate() {
        let mut values = [0; PART];
        values.iter_mut().zip(part).for_each(|(value, difference)| *value = above(difference));
        let width = bits::width(values.iter().fold(0, |all, value| all | value));
        out[widths + at] = width;
        bits::pack(&values, width, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_the_specification_has_them() {
        // Its examples: steps of one, and steps of which some go down.
        let told = encoded(&[1, 2, 3, 4, 5]);
        assert_eq!(told, [0x80, 1, 4, 5, 2, 2, 0, 0, 0, 0]);
        let told = encoded(&[7, 5, 3, 1, 2, 3, 4, 5]);
        let head = [0x80, 1, 4, 8, 14, 3, 2, 0, 0, 0];
        // Differences above -2, in two bits: 0 0 0 3 3 3 3, and nothing until there are 32.
        assert_eq!(told[..10], head);
        assert_eq!(told[10..], [0b1100_0000, 0b0011_1111, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_does_not_change_takes_five_bytes_a_block() {
        assert_eq!(encoded(&[1 << 40; 128 * 10 + 1]).len(), 5 + 6 + 10 * 5);
    }
}
