//! Decisions in a fraction of a bit each, where one way is the usual one: a range coder whose
//! probabilities follow what was decided before.
//!
//! Writer and reader share the code that decides ([`Coder`]), so that they cannot disagree.

/// How likely a decision is `true`; learns.
#[derive(Clone, Copy, Debug)]
pub struct Odds(u16);

/// Probabilities have so many bits.
const BITS: u32 = 12;
/// The more, the slower it learns, and the surer it can become.
const RATE: u32 = 5;
/// Below this the next byte is due.
const NARROW: u32 = 1 << 24;
/// More bits at once would not leave enough of the range.
const AT_ONCE: u32 = 16;

/// No decision takes less than one part of a byte in so many: a file that claims more is damaged.
pub const MOST_IN_A_BYTE: u64 = 768;

impl Default for Odds {
    fn default() -> Self {
        Self(1 << (BITS - 1))
    }
}

impl Odds {
    /// Without a branch: the processor could not predict a decision that the model does not predict.
    #[inline]
    fn learn(&mut self, decided: bool) {
        let yes = u16::from(decided).wrapping_neg();
        let up = ((1 << BITS) - self.0) >> RATE & yes;
        let down = self.0 >> RATE & !yes;
        self.0 = self.0 + up - down;
    }

    /// The part of a range that stands for `true`: neither none nor all of it.
    fn part(self, range: u32) -> u32 {
        (range >> BITS) * u32::from(self.0)
    }
}

/// Both directions: what goes in to be written comes out as it is, and what is read comes out
/// regardless of what goes in.
pub trait Coder {
    /// A decision.
    fn decide(&mut self, odds: &mut Odds, is: bool) -> bool;

    /// The lower bits of a number of which nothing is known.
    fn plain(&mut self, bits: u32, number: u64) -> u64;
}

/// Writes.
#[derive(Debug)]
pub struct Pen {
    out: Vec<u8>,
    low: u64,
    range: u32,
    /// The last byte that is certain except for a carry, and how many of 255 came after it.
    held: u8,
    run: usize,
    has_begun: bool,
}

/// Reads.
#[derive(Debug)]
pub struct Eye<'a> {
    rest: &'a [u8],
    code: u32,
    range: u32,
}

impl Default for Pen {
    fn default() -> Self {
        Self { out: Vec::new(), low: 0, range: u32::MAX, held: 0, run: 0, has_begun: false }
    }
}

impl Pen {
    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.out.len() + self.run
    }

    /// The bytes; from here on it is another text.
    pub fn finish(&mut self) -> Vec<u8> {
        (0..5).for_each(|_| self.shift());
        std::mem::take(self).out
    }

    fn shift(&mut self) {
        let [.., carry, top, _, _, _] = self.low.to_be_bytes();
        if top != 0xff || carry != 0 {
            if self.has_begun {
                self.out.push(self.held.wrapping_add(carry));
            }
            for _ in 0..self.run {
                self.out.push(0xff_u8.wrapping_add(carry));
            }
            (self.held, self.run, self.has_begun) = (top, 0, true);
        } else {
            self.run += 1;
        }
        self.low = (self.low & 0x00ff_ffff) << 8;
    }

    #[inline]
    fn widen(&mut self) {
        while self.range < NARROW {
            self.range <<= 8;
            self.shift();
        }
    }
}

impl Coder for Pen {
    #[inline]
    fn decide(&mut self, odds: &mut Odds, is: bool) -> bool {
        let part = odds.part(self.range);
        let yes = u32::from(is).wrapping_neg();
        self.low += u64::from(part & !yes);
        self.range = part & yes | (self.range - part) & !yes;
        odds.learn(is);
        self.widen();
        is
    }

    #[inline]
    fn plain(&mut self, mut bits: u32, number: u64) -> u64 {
        while bits > 0 {
            let now = bits.min(AT_ONCE);
            bits -= now;
            self.range >>= now;
            self.low += u64::from(self.range) * (number >> bits & ((1 << now) - 1));
            self.widen();
        }
        number
    }
}

impl<'a> Eye<'a> {
    /// Of bytes that a [`Pen`] has written, or any others; behind their end are zeros.
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut eye = Self { rest: bytes, code: 0, range: u32::MAX };
        (0..4).for_each(|_| eye.shift());
        eye
    }

    fn shift(&mut self) {
        let byte = match self.rest.split_first() {
            Some((&byte, rest)) => {
                self.rest = rest;
                byte
            }
            None => 0,
        };
        self.code = self.code << 8 | u32::from(byte);
    }

    #[inline]
    fn widen(&mut self) {
        while self.range < NARROW {
            self.range <<= 8;
            self.shift();
        }
    }
}

impl Coder for Eye<'_> {
    #[inline]
    fn decide(&mut self, odds: &mut Odds, _: bool) -> bool {
        let part = odds.part(self.range);
        let is = self.code < part;
        let yes = u32::from(is).wrapping_neg();
        self.code -= part & !yes;
        self.range = part & yes | (self.range - part) & !yes;
        odds.learn(is);
        self.widen();
        is
    }

    #[inline]
    fn plain(&mut self, mut bits: u32, _: u64) -> u64 {
        let mut number = 0;
        while bits > 0 {
            let now = bits.min(AT_ONCE);
            bits -= now;
            self.range >>= now;
            // Nonsense would be more than there are bits for.
            let next = (self.code / self.range).min((1 << now) - 1);
            self.code -= next * self.range;
            number = number << now | u64::from(next);
            self.widen();
        }
        number
    }
}

/// Codes one of as many things as there are odds, bit by bit from the highest.
#[inline]
pub fn choose<const N: usize>(coder: &mut impl Coder, odds: &mut [Odds; N], which: usize) -> usize {
    let mut node = 1;
    let mut bit = N / 2;
    while node < N {
        let is = coder.decide(&mut odds[node], which & bit != 0);
        node = node * 2 + usize::from(is);
        bit /= 2;
    }
    node - N
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_decided_is_read(all: Vec<(bool, u8, u64)>) {
            let (mut pen, mut odds) = (Pen::default(), Odds::default());
            for &(is, bits, number) in &all {
                pen.decide(&mut odds, is);
                pen.plain(u32::from(bits % 65), number);
            }
            let bytes = pen.finish();
            let (mut eye, mut odds) = (Eye::new(&bytes), Odds::default());
            for (is, bits, number) in all {
                prop_assert_eq!(eye.decide(&mut odds, false), is);
                let bits = u32::from(bits % 65);
                let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
                prop_assert_eq!(eye.plain(bits, 0), number & mask);
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, choices: Vec<bool>) {
            let (mut eye, mut odds) = (Eye::new(&bytes), [Odds::default(); 16]);
            for plain in choices {
                let read = if plain { eye.plain(4, 0) } else { choose(&mut eye, &mut odds, 0) as u64 };
                prop_assert!(read < 16);
            }
        }
    }

    #[test]
    fn no_decision_takes_less_than_its_least_part_of_a_byte() {
        let (mut pen, mut odds) = (Pen::default(), Odds::default());
        const DECISIONS: u64 = 10_000_000;
        (0..DECISIONS).for_each(|_| _ = pen.decide(&mut odds, true));
        let bytes = pen.finish().len() as u64;
        assert!(DECISIONS < bytes * MOST_IN_A_BYTE && DECISIONS > bytes * MOST_IN_A_BYTE / 2);
    }
}
