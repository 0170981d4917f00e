//! Which words of a value are pointers, as the garbage collector has it.

use std::rc::Rc;

use super::{Descriptor, Types};

/// A value with more words up to its last pointer has no mask here.
const MOST_WORDS: u64 = 1 << 24;

/// The mask of a type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// Bytes from one value to the next.
    pub size: u64,
    /// A bit for each word.
    bits: Vec<u64>,
    /// Words up to the last pointer.
    words: u64,
}

impl Mask {
    /// The pointer words of as many values as have room in `length` bytes, each by its number.
    pub fn words(&self, length: u64, mut each: impl FnMut(u64)) {
        if self.words == 0 || self.size == 0 {
            return;
        }
        let mut base = 0;
        while base + self.words * 8 <= length {
            for (bits, from) in self.bits.iter().zip((0..).step_by(64)) {
                let mut bits = *bits;
                while bits != 0 {
                    each(base / 8 + from + u64::from(bits.trailing_zeros()));
                    bits &= bits - 1;
                }
            }
            base += self.size;
        }
    }

    fn set(&mut self, word: u64) {
        if word < self.words
            && let Ok(index) = usize::try_from(word / 64)
        {
            self.bits[index] |= 1 << (word % 64);
        }
    }
}

impl Types<'_, '_> {
    /// The mask of a type; none where it cannot be told.
    pub fn mask(&self, of: &Descriptor) -> Option<Rc<Mask>> {
        if let Some(known) = self.masks.borrow().get(&of.at) {
            return known.clone();
        }
        let mask = self.read_mask(of).map(Rc::new);
        self.masks.borrow_mut().insert(of.at, mask.clone());
        mask
    }

    fn read_mask(&self, of: &Descriptor) -> Option<Mask> {
        let words = of.pointer_bytes / 8;
        if words > MOST_WORDS || !of.pointer_bytes.is_multiple_of(8) {
            return None;
        }
        let bits = vec![0; usize::try_from(words.div_ceil(64)).ok()?];
        let mut mask = Mask { size: of.size, bits, words };
        if words == 0 {
            return Some(mask);
        }
        let place = match (of.is_program, of.is_on_demand) {
            (true, _) => 0,
            (_, true) => self.moment.word(of.mask)?,
            _ => of.mask,
        };
        match place {
            0 => self.compose(of, &mut mask)?,
            _ => {
                let bytes = self.moment.bytes(place, usize::try_from(words.div_ceil(8)).ok()?)?;
                for (bits, chunk) in mask.bits.iter_mut().zip(bytes.chunks(8)) {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    *bits = u64::from_le_bytes(word);
                }
                if !words.is_multiple_of(64)
                    && let Some(last) = mask.bits.last_mut()
                {
                    *last &= (1 << (words % 64)) - 1;
                }
            }
        }
        Some(mask)
    }

    /// Of what it is made of, where the runtime has no mask yet, or a program for one.
    fn compose(&self, of: &Descriptor, mask: &mut Mask) -> Option<()> {
        let flat = self.flat(of);
        if flat.is_cut || flat.slots.is_empty() {
            return None;
        }
        for slot in &flat.slots {
            mask.set(slot.offset / 8);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_repeated_for_each_value_that_has_room() {
        let mask = Mask { size: 24, bits: vec![0b101], words: 3 };
        let words = |length| {
            let mut all = Vec::new();
            mask.words(length, |word| all.push(word));
            all
        };
        assert_eq!(words(24), [0, 2]);
        assert_eq!(words(48), [0, 2, 3, 5]);
        assert_eq!(words(47), [0, 2]);
        assert_eq!(Mask { size: 0, ..mask.clone() }.words, 3);
    }
}
