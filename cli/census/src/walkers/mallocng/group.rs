//! Groups: up to 32 slots of one size, whose books are elsewhere.

use std::ops::Range;

use crate::Moment;

use super::context::CLASSES;

/// Everything is a multiple of so many bytes.
pub const UNIT: u64 = 16;
/// Bytes before each block that tell where in its group it is.
pub const HEADER: u64 = 4;
const PAGE: u64 = 4096;

/// The size of each class, in units.
const SIZES: [u64; CLASSES as usize] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31, 36, 42, 50, 63, 72, 84, 102, 127, 146,
    170, 204, 255, 292, 340, 409, 511, 584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730,
    3276, 4095, 4680, 5460, 6552, 8191,
];

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Where it begins.
    pub at: u64,
    /// Its slots.
    pub slots: u32,
    /// From one slot to the next.
    pub stride: u64,
    /// Its class; 63 for a block with a mapping of its own.
    pub class: u32,
    /// The bytes of its mapping, or 0.
    pub mapped: u64,
    /// Whether it was made for slots, and not from memory that was left over.
    pub is_made: bool,
    /// A bit for each slot that is free.
    free: u32,
}

/// What a slot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nothing: a free block could be there.
    Free(u64),
    /// A block: where, and its bytes.
    Block(u64, u64),
    /// Another group.
    Group(u64),
    /// What cannot be.
    Broken(u64),
}

impl Group {
    /// From its books; `None` if they speak of none.
    pub fn read(moment: &Moment<'_>, books: u64, at: u64) -> Option<Self> {
        let (masks, bits) = (moment.word(books + 24)?, moment.word(books + 32)?);
        let last = u32::try_from(bits & 31).ok()?;
        let class = u32::try_from(bits >> 6 & 63).ok()?;
        let mapped = (bits >> 12).checked_mul(PAGE)?;
        let stride = match SIZES.get(class as usize) {
            _ if last == 0 && mapped > 0 => mapped.checked_sub(UNIT)?,
            Some(units) => units * UNIT,
            None => return None,
        };
        let free = u32::try_from((masks | masks >> 32) & 0xffff_ffff).ok()?;
        let group =
            Self { at, slots: last + 1, stride, class, mapped, is_made: bits >> 5 & 1 == 1, free };
        let end = at.checked_add(group.bytes())?;
        // It leads back to its books, and is mapped as a whole.
        let is_sound = at.is_multiple_of(UNIT)
            && moment.word(at) == Some(books)
            && end < 1 << 47
            && moment.region(end - 1).is_some();
        is_sound.then_some(group)
    }

    /// Slots that are in use.
    pub fn used(&self) -> u32 {
        let all = u32::MAX >> (32 - self.slots.clamp(1, 32));
        (!self.free & all).count_ones()
    }

    /// The bytes of its head and its slots, or of its mapping.
    pub fn bytes(&self) -> u64 {
        self.mapped.max(UNIT + self.stride * u64::from(self.slots))
    }

    /// All of it.
    pub fn range(&self) -> Range<u64> {
        self.at..self.at + self.bytes()
    }

    /// What a slot has.
    pub fn slot(&self, moment: &Moment<'_>, index: u32) -> Slot {
        let start = self.at + UNIT + self.stride * u64::from(index);
        if self.free >> index & 1 == 1 {
            return Slot::Free(start);
        }
        self.block(moment, start, index).unwrap_or(Slot::Broken(start))
    }

    fn block(&self, moment: &Moment<'_>, start: u64, index: u32) -> Option<Slot> {
        // Of the four bytes before it: none for small offsets, then index and rest, then the offset.
        let header = |at: u64| Some(moment.word(at - 8)? >> 32);
        let (own, end) = (header(start)?, start + self.stride - HEADER);
        // A block may begin further in, so that an address is not used again too soon.
        let at = match own >> 13 & 7 {
            7 => start + (own >> 16) * UNIT,
            6 => return Some(Slot::Group(start)),
            _ => start,
        };
        let room = end.checked_sub(at)?;
        let own = if at == start { own } else { header(at)? };
        let rest = match own >> 13 & 7 {
            5 => moment.word(end - 4 - (end - 4) % 8).map(|word| word >> (8 * ((end - 4) % 8)))?,
            few => few,
        };
        let rest = rest & 0xffff_ffff;
        let is_sound = own >> 8 & 31 == u64::from(index) && rest <= room;
        is_sound.then(|| Slot::Block(at, room - rest))
    }
}

#[cfg(test)]
mod tests {
    use crate::synthetic::Synthetic;

    use super::*;

    /// Three slots of 64 bytes at 0x10000, the books at 0x20000.
    fn memory() -> Synthetic {
        let mut memory = Synthetic::default();
        memory.map(0x10000..0x30000);
        memory.write(0x10000, 0x20000);
        memory.write(0x20010, 0x10000);
        // The second is free.
        memory.write(0x20018, 2);
        memory.write(0x20020, 2 | 1 << 5 | 3 << 6);
        // 57 of 60 bytes are used of the first; the third begins 16 bytes further in, with 20 of 44 bytes.
        memory.write_bytes(0x1000d, &[3 << 5]);
        memory.write_bytes(0x1008d, &[7 << 5, 1, 0]);
        memory.write_bytes(0x1009d, &[2 | 5 << 5]);
        memory.write_bytes(0x100c8, &24_u32.to_le_bytes());
        memory
    }

    #[test]
    fn slots_tell_their_blocks() {
        let memory = memory();
        let moment = memory.moment();
        let group = Group::read(&moment, 0x20000, 0x10000).unwrap();
        assert_eq!((group.slots, group.stride, group.bytes()), (3, 64, 208));
        let slots = [0, 1, 2].map(|index| group.slot(&moment, index));
        let expected = [Slot::Block(0x10010, 57), Slot::Free(0x10050), Slot::Block(0x100a0, 20)];
        assert_eq!(slots, expected);
    }

    #[test]
    fn what_does_not_lead_back_to_its_books_is_no_group() {
        let mut memory = memory();
        memory.write(0x10000, 0x20028);
        assert_eq!(Group::read(&memory.moment(), 0x20000, 0x10000), None);
    }

    #[test]
    fn a_header_of_another_slot_is_broken() {
        let mut memory = memory();
        memory.write_bytes(0x1000d, &[1 | 3 << 5]);
        let moment = memory.moment();
        let group = Group::read(&moment, 0x20000, 0x10000).unwrap();
        assert_eq!(group.slot(&moment, 0), Slot::Broken(0x10010));
    }
}
