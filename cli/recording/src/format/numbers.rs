//! Numbers of one sort: how many bits they have is learned, and the upper ones of these bits.

use crate::format::coder::{Coder, Odds, choose};

/// From no bit to 64 of them.
const CLASS_BITS: u32 = 7;
/// Bits that are learned; what is below is as it is.
const UPPER: u32 = 11;
/// Of larger numbers no bit is learned.
const CLASSES: usize = 20;

/// What was learned of them.
#[derive(Debug)]
pub struct Numbers {
    classes: [Odds; 1 << CLASS_BITS],
    /// By class, and by the bits above.
    upper: Vec<[Odds; 1 << UPPER]>,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            classes: [Odds::default(); 1 << CLASS_BITS],
            upper: vec![[Odds::default(); 1 << UPPER]; CLASSES],
        }
    }
}

impl Numbers {
    /// Codes one.
    #[inline]
    pub fn code(&mut self, coder: &mut impl Coder, number: u64) -> u64 {
        let class = choose(coder, &mut self.classes, (u64::BITS - number.leading_zeros()) as usize);
        if class < 2 {
            return class as u64;
        }
        // Nonsense may claim more than there are.
        let below = u32::try_from(class - 1).unwrap_or(0).min(u64::BITS - 1);
        let top = 1 << below;
        let Some(odds) = self.upper.get_mut(class) else {
            return top | coder.plain(below, number) & (top - 1);
        };
        let rest = below.saturating_sub(UPPER);
        let mut known = 1_u64;
        for bit in (rest..below).rev() {
            let place = usize::try_from(known).unwrap_or(0) % (1 << UPPER);
            let is = coder.decide(&mut odds[place], number >> bit & 1 != 0);
            known = known << 1 | u64::from(is);
        }
        known << rest | coder.plain(rest, number & ((1 << rest) - 1))
    }

    /// Codes one of 32 bits; nonsense is the largest.
    #[inline]
    pub fn code_small(&mut self, coder: &mut impl Coder, number: u32) -> u32 {
        self.code(coder, number.into()).try_into().unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::coder::{Eye, Pen};

    proptest! {
        #[test]
        fn numbers_of_any_size_are_read_as_they_were(shifted: Vec<(u64, u32)>) {
            let all = shifted.iter().map(|(number, by)| number >> (by % 64));
            let (mut pen, mut numbers) = (Pen::default(), Numbers::default());
            all.clone().for_each(|number| _ = numbers.code(&mut pen, number));
            let bytes = pen.finish();
            let (mut eye, mut numbers) = (Eye::new(&bytes), Numbers::default());
            for number in all {
                prop_assert_eq!(numbers.code(&mut eye, 0), number);
            }
        }
    }
}
