//! Bytes of unwind information, read from the front.

/// Bytes of the target's memory.
pub(crate) trait Source {
    /// One of them.
    fn byte(&mut self, at: u64) -> Option<u8>;
    /// Puts a word aside.
    fn put_aside(&mut self, number: usize, word: u64);
    /// A word that was put aside.
    fn aside(&self, number: usize) -> u64;
}

/// Bytes of an expression that we know.
const EXPRESSION: u64 = 16;

/// Encodings of pointers: how wide, and what from.
pub(super) const AS_WIDE_AS_ADDRESSES: u8 = 0;
pub(super) const SIGNED_4: u8 = 0x0b;
pub(super) const SIGNED_8: u8 = 0x0c;
pub(super) const UNSIGNED_4: u8 = 3;
pub(super) const UNSIGNED_8: u8 = 4;
pub(super) const FROM_HERE: u8 = 0x10;
pub(super) const FROM_HEADER: u8 = 0x30;

/// Something that is read from its front.
pub(super) struct Cursor<'a, S> {
    pub(super) source: &'a mut S,
    pub(super) at: u64,
    pub(super) end: u64,
}

impl<S: Source> Cursor<'_, S> {
    #[inline(never)]
    pub(super) fn byte(&mut self) -> Option<u64> {
        if self.at >= self.end {
            return None;
        }
        let byte = self.source.byte(self.at)?;
        self.at += 1;
        Some(u64::from(byte))
    }

    #[inline(never)]
    pub(super) fn unsigned(&mut self, bytes: u32) -> Option<u64> {
        let mut value = 0;
        for number in 0..bytes {
            value |= self.byte()? << (8 * number);
        }
        Some(value)
    }

    pub(super) fn signed_4(&mut self) -> Option<u64> {
        Some((self.unsigned(4)? as u32).cast_signed() as u64)
    }

    /// Seven bits a byte.
    #[inline(never)]
    pub(super) fn long(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            if shift < 64 {
                value |= (byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            if shift > 70 {
                return None;
            }
        }
    }

    /// The same with a sign.
    #[inline(never)]
    pub(super) fn long_signed(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            if shift < 64 {
                value |= (byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                let is_negative = byte & 0x40 != 0 && shift < 64;
                return Some(if is_negative { value | u64::MAX << shift } else { value });
            }
            if shift > 70 {
                return None;
            }
        }
    }

    /// A pointer in one of the encodings that are in use for code.
    #[inline(never)]
    pub(super) fn pointer(&mut self, encoding: u8, header: u64) -> Option<u64> {
        let here = self.at;
        let value = self.number(encoding)?;
        match encoding & 0xf0 {
            0 => Some(value),
            FROM_HERE => Some(here.wrapping_add(value)),
            FROM_HEADER => Some(header.wrapping_add(value)),
            _ => None,
        }
    }

    #[inline(never)]
    pub(super) fn number(&mut self, encoding: u8) -> Option<u64> {
        match encoding & 0x0f {
            AS_WIDE_AS_ADDRESSES | SIGNED_8 | UNSIGNED_8 => self.unsigned(8),
            SIGNED_4 => self.signed_4(),
            UNSIGNED_4 => self.unsigned(4),
            _ => None,
        }
    }

    /// An expression, by place and length; it is gone over.
    #[inline(never)]
    pub(super) fn expression(&mut self) -> Option<u64> {
        let length = self.long()?;
        let at = self.at;
        if length > self.end - self.at {
            return None;
        }
        self.at += length;
        // One of another length is none that we know.
        Some(at | length.min(EXPRESSION) << 48)
    }

    pub(super) fn go_to_expression(&mut self, packed: u64) {
        self.at = packed & ((1 << 48) - 1);
        self.end = self.at + (packed >> 48);
    }
}
