//! Numbers and tables as Java's virtual machine packs them.

/// Bytes of a number at most, and bits of each after the first.
const LONGEST: usize = 5;
const BITS: u32 = 6;
/// Bytes from this one on say that another one follows.
const HIGH: u8 = 192;
/// In a table of lines: what ends it, and what comes before two numbers.
const END: u8 = 0;
const ESCAPE: u8 = 0xff;

/// A reader of packed bytes.
pub(super) struct Packed<'b> {
    left: &'b [u8],
    lowest: u8,
}

impl<'b> Packed<'b> {
    /// Of bytes, in which the lowest one of a number is this.
    pub fn of(left: &'b [u8], lowest: u8) -> Self {
        Self { left, lowest }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(first)
    }

    /// A number; `None` at the end, and where a byte is none of a number.
    pub fn number(&mut self) -> Option<u32> {
        let mut sum = 0_u32;
        for place in 0..LONGEST {
            let byte = self.byte()?;
            let digit = u32::from(byte.checked_sub(self.lowest)?);
            let shift = BITS * u32::try_from(place).ok()?;
            sum = sum.wrapping_add(digit.wrapping_shl(shift));
            if byte < HIGH {
                break;
            }
        }
        Some(sum)
    }

    /// A number that may be below 0.
    fn signed(&mut self) -> Option<i64> {
        let told = self.number()?;
        let half = i64::from(told >> 1);
        Some(if told & 1 == 0 { half } else { -half - 1 })
    }
}

/// A table of lines: where each begins, ascending. Rows that make no sense end it.
pub(super) fn lines(bytes: &[u8], lowest: u8) -> Vec<(u16, u32)> {
    let mut packed = Packed::of(bytes, lowest);
    let (mut at, mut line) = (0_i64, 0_i64);
    let mut rows = Vec::new();
    let mut next = || {
        let byte = packed.byte().filter(|&byte| byte != END)?;
        if byte == ESCAPE {
            at = at.checked_add(packed.signed()?)?;
            line = line.checked_add(packed.signed()?)?;
        } else {
            at += i64::from(byte >> 3);
            line += i64::from(byte & 7);
        }
        Some((u16::try_from(at).ok()?, u32::try_from(line).ok()?))
    };
    while let Some(row) = next() {
        rows.push(row);
    }
    // Of rows that begin at one instruction the last one counts.
    rows.sort_by_key(|(begin, _)| *begin);
    rows
}

/// The line that an instruction is on: that of the last row which begins at it or before it.
pub(super) fn line_of(rows: &[(u16, u32)], at: u16) -> Option<u32> {
    let behind = rows.partition_point(|(begin, _)| *begin <= at);
    rows.get(behind.checked_sub(1)?).map(|(_, line)| *line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_is_read_as_both_kinds_of_releases_write_it() {
        let old = |bytes: &[u8]| Packed::of(bytes, 0).number();
        assert_eq!(
            [old(&[5]), old(&[191]), old(&[192, 1]), old(&[])],
            [Some(5), Some(191), Some(256), None]
        );
        let new = |bytes: &[u8]| Packed::of(bytes, 1).number();
        assert_eq!(
            [new(&[1]), new(&[191]), new(&[192, 1]), new(&[0])],
            [Some(0), Some(190), Some(191), None]
        );
    }

    #[test]
    fn lines_are_sums_of_what_rows_say() {
        let bytes = [3, 2 << 3 | 1, 0xff, 40, 1, 0, 9];
        let rows = lines(&bytes, 0);
        assert_eq!(rows, [(0, 3), (2, 4), (22, 3)]);
        assert_eq!([0, 1, 2, 21, 40].map(|at| line_of(&rows, at)), [3, 3, 4, 4, 3].map(Some));
        assert_eq!(line_of(&[], 7), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, lowest in 0_u8..2, at: u16) {
            let _ = line_of(&lines(&bytes, lowest), at);
        }
    }
}
