//! A window that slides over memory: words that follow each other are read in large pieces.

use std::ops::Range;

use heapattach_process::little_endian::u64_at;

use crate::Moment;

/// The window.
pub struct Window<'a, 'm> {
    moment: &'a Moment<'m>,
    /// Nothing outside is read.
    within: Range<u64>,
    size: usize,
    at: u64,
    bytes: Vec<u8>,
}

impl<'a, 'm> Window<'a, 'm> {
    /// Over a range, in pieces of `size` bytes.
    pub fn new(moment: &'a Moment<'m>, within: Range<u64>, size: usize) -> Self {
        Self { moment, within, size: size.max(64), at: 0, bytes: Vec::new() }
    }

    /// The word at an address, if all of it can be read and lies in the range.
    #[inline]
    pub fn word(&mut self, at: u64) -> Option<u64> {
        let offset = at.wrapping_sub(self.at);
        match usize::try_from(offset).ok().and_then(|offset| u64_at(&self.bytes, offset)) {
            Some(word) => Some(word),
            None => self.slide(at),
        }
    }

    /// Two words that follow each other.
    #[inline]
    pub fn pair(&mut self, at: u64) -> Option<(u64, u64)> {
        Some((self.word(at)?, self.word(at.checked_add(8)?)?))
    }

    /// So many bytes, no more than the window has; all of them or none.
    pub fn bytes(&mut self, at: u64, length: usize) -> Option<&[u8]> {
        if length > self.size {
            return None;
        }
        let ends = |from: usize| from.checked_add(length).filter(|&end| end <= self.bytes.len());
        let from = usize::try_from(at.wrapping_sub(self.at)).ok();
        if from.and_then(ends).is_none() {
            self.move_to(at, length as u64)?;
        }
        let from = usize::try_from(at.wrapping_sub(self.at)).ok()?;
        self.bytes.get(from..from.checked_add(length)?)
    }

    #[cold]
    fn slide(&mut self, at: u64) -> Option<u64> {
        self.move_to(at, 8)?;
        u64_at(&self.bytes, 0)
    }

    /// Reads what follows an address, of which so many bytes must lie in the range.
    fn move_to(&mut self, at: u64, least: u64) -> Option<()> {
        if at < self.within.start || at.checked_add(least)? > self.within.end {
            return None;
        }
        let rest = usize::try_from(self.within.end - at).unwrap_or(usize::MAX);
        self.bytes.resize(self.size.min(rest), 0);
        let read = self.moment.read(at, &mut self.bytes);
        self.bytes.truncate(read);
        self.at = at;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use crate::synthetic::Synthetic;

    use super::*;

    #[test]
    fn words_within_the_range_are_read_and_no_others() {
        let mut memory = Synthetic::default();
        memory.map(0x10000..0x20000);
        (0x10000..0x20000).step_by(8).for_each(|at| memory.write(at, at));
        let moment = memory.moment();
        let mut window = Window::new(&moment, 0x11000..0x13008, 256);
        for at in (0x10000..0x14000).step_by(8) {
            let expected = (0x11000..0x13008).contains(&at).then_some(at);
            assert_eq!(window.word(at), expected, "{at:#x}");
        }
        assert_eq!(window.pair(0x12ff8), Some((0x12ff8, 0x13000)));
        assert_eq!(window.word(u64::MAX), None);
        let expected: Vec<u8> = [0x12f00_u64, 0x12f08].map(u64::to_le_bytes).concat();
        assert_eq!(window.bytes(0x12f00, 16), Some(&expected[..]));
        assert_eq!(window.bytes(0x12f08, 8), Some(&expected[8..]));
        assert_eq!(window.bytes(0x13000, 16), None);
        assert_eq!(window.bytes(0x12000, 257), None);
        assert_eq!(window.bytes(0x12000, 256).map(<[u8]>::len), Some(256));
    }
}
