//! Numbers of so many bits each, side by side, the low ones first; and runs of equal ones.

use super::thrift::varint;

/// So many equal numbers, one after the other, are a run.
const RUN: usize = 8;

/// How many bits the number has.
pub fn width(number: u64) -> u8 {
    // At most 64.
    (u64::BITS - number.leading_zeros()).to_le_bytes()[0]
}

/// Adds numbers; the last byte is filled with zeros.
pub fn pack(numbers: &[u64], width: u8, out: &mut Vec<u8>) {
    let (mut bits, mut waiting) = (0_u128, 0);
    for &number in numbers {
        bits |= u128::from(number) << waiting;
        waiting += u32::from(width);
        while waiting >= 8 {
            out.push((bits & 0xff) as u8);
            bits >>= 8;
            waiting -= 8;
        }
    }
    if waiting > 0 {
        out.push((bits & 0xff) as u8);
    }
}

/// Numbers of a dictionary with so many values: their width, then runs, and packed ones between them.
pub fn runs(indices: &[u32], distinct: usize) -> Vec<u8> {
    // At most 32: a number of a dictionary has no more bits.
    let width = width(distinct.saturating_sub(1) as u64).clamp(1, 32);
    let mut out = vec![width];
    let mut rest = indices;
    while !rest.is_empty() {
        let (packed, run) = next(rest);
        if packed > 0 {
            let numbers: Vec<u64> = rest[..packed].iter().map(|&index| index.into()).collect();
            let groups = packed.div_ceil(8);
            varint(&mut out, (groups as u64) << 1 | 1);
            let end = out.len() + groups * usize::from(width);
            pack(&numbers, width, &mut out);
            out.resize(end, 0);
        }
        if run > 0 {
            varint(&mut out, (run as u64) << 1);
            out.extend(&rest[packed].to_le_bytes()[..usize::from(width.div_ceil(8))]);
        }
        rest = &rest[packed + run..];
    }
    out
}

/// How many come before the first run, and how long that is. Packed ones are groups of eight, but for the last.
fn next(indices: &[u32]) -> (usize, usize) {
    let mut packed = 0;
    while packed < indices.len() {
        let (first, rest) = (indices[packed], &indices[packed..]);
        let run = rest.iter().take_while(|&&index| index == first).count();
        if run >= RUN {
            return (packed, run);
        }
        packed += RUN;
    }
    (indices.len(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_are_as_the_format_has_them() {
        // The example of the specification: 0 to 7 in three bits.
        let numbers: Vec<u32> = (0..8).collect();
        assert_eq!(runs(&numbers, 8), [3, 3, 0b1000_1000, 0b1100_0110, 0b1111_1010]);
        assert_eq!(runs(&[0; 300], 1), [1, 0xd8, 4, 0]);
        assert_eq!(runs(&[1; 9], 300), [9, 18, 1, 0], "two bytes for nine bits");
        let mut out = Vec::new();
        pack(&[u64::MAX, 0, 1], 64, &mut out);
        assert_eq!(out, [[0xff; 8], [0; 8], [1, 0, 0, 0, 0, 0, 0, 0]].concat());
    }

    #[test]
    fn runs_begin_after_groups_of_eight() {
        let numbers = [&[0, 1, 1, 1, 1, 1, 1, 1, 1, 1][..], &[2; 20], &[0, 1]].concat();
        assert_eq!(next(&numbers), (16, 14));
        assert_eq!(next(&numbers[30..]), (2, 0));
    }
}
