//! A table of a function that says what holds at which place of its code: pairs of differences, of the value and of
//! the address, seven bits a byte.

use heapattach_census::Moment;

/// So much is read at once; and of one table at most.
const WINDOW: usize = 256;
const LONGEST: usize = 1 << 20;

/// The value of the table that lies at `table`, at an address of the function that begins at `entry`.
pub(super) fn value_at(moment: &Moment<'_>, table: u64, entry: u64, code: u64) -> Option<i64> {
    let mut bytes = Bytes { moment, next: table, window: Vec::new(), used: 0, all: 0 };
    let (mut at, mut value) = (entry, -1_i64);
    loop {
        let difference = bytes.number()?;
        // It ends with no difference; the first may be none.
        if difference == 0 && at != entry {
            return None;
        }
        let half = i64::from(difference >> 1);
        value += if difference & 1 == 1 { !half } else { half };
        at = at.checked_add(u64::from(bytes.number()?))?;
        if code < at {
            return Some(value);
        }
    }
}

struct Bytes<'a, 'm> {
    moment: &'a Moment<'m>,
    next: u64,
    window: Vec<u8>,
    used: usize,
    all: usize,
}

impl Bytes<'_, '_> {
    fn byte(&mut self) -> Option<u8> {
        if self.used == self.window.len() {
            let mut window = vec![0; WINDOW];
            let read = self.moment.read(self.next, &mut window);
            window.truncate(read);
            self.all += read;
            if read == 0 || self.all > LONGEST {
                return None;
            }
            self.next = self.next.checked_add(read as u64)?;
            (self.window, self.used) = (window, 0);
        }
        self.used += 1;
        self.window.get(self.used - 1).copied()
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0_u32;
        for shift in (0..32).step_by(7) {
            let byte = self.byte()?;
            number |= u32::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use heapattach_census::synthetic::Synthetic;

    use super::*;

    #[test]
    fn values_hold_up_to_where_the_next_one_begins() {
        let mut memory = Synthetic::default();
        memory.map(0x1000..0x2000);
        // 0 for 4 bytes, 8 for 200 (two bytes of seven bits), -8 for 1; and the end.
        memory.write(0x1000, u64::from_le_bytes([2, 4, 16, 0xc8, 1, 31, 1, 0]));
        let moment = memory.moment();
        let value = |code| value_at(&moment, 0x1000, 0x50, code);
        assert_eq!([0x50, 0x53, 0x54, 0x54 + 199].map(value), [0, 0, 8, 8].map(Some));
        assert_eq!([0x54 + 200, 0x54 + 201].map(value), [Some(-8), None]);
        assert_eq!(value_at(&moment, 0x9000, 0x50, 0x50), None);
    }
}
