//! Numbers as bytes: small ones take few. What is read may come from an attacker, so nothing is there
//! until it is proved to be.

/// Bytes on their way out.
#[derive(Clone, Debug, Default)]
pub struct Out(pub Vec<u8>);

/// Bytes that are being read; `None` is the end, or nonsense.
#[derive(Clone, Copy, Debug)]
pub struct In<'a>(&'a [u8]);

impl Out {
    /// Seven bits a byte, the lowest first; the last byte has no eighth bit.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    /// How far a number is from one before; both directions are short.
    pub fn distance(&mut self, from: u64, to: u64) {
        let far = to.wrapping_sub(from).cast_signed();
        self.number((far << 1 ^ far >> 63).cast_unsigned());
    }

    /// All digits of it.
    pub fn float(&mut self, number: f64) {
        self.0.extend(number.to_le_bytes());
    }

    /// How many bytes follow, and these; only version 1 has them.
    #[cfg(test)]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }
}

impl<'a> In<'a> {
    /// From the first byte on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes that are left.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// See [`Out::number`].
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits << shift;
            if shifted >> shift != bits {
                return None;
            }
            number |= shifted;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// The same, if it is one of 32 bits.
    pub fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    /// How many things follow: never more than there are bytes left for.
    pub fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    /// See [`Out::distance`].
    pub fn distance(&mut self, from: u64) -> Option<u64> {
        let coded = self.number()?;
        Some(from.wrapping_add(coded >> 1 ^ (coded & 1).wrapping_neg()))
    }

    /// One that is a number.
    pub fn float(&mut self) -> Option<f64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(f64::from_le_bytes(*bytes)).filter(|number| number.is_finite())
    }

    /// How many bytes follow, and these.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.count()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(numbers: Vec<(u64, u64)>, float in -1e300..1e300, text: Vec<u8>) {
            let mut out = Out::default();
            for &(number, other) in &numbers {
                out.number(number);
                out.distance(number, other);
            }
            out.float(float);
            out.bytes(&text);
            let mut back = In::new(&out.0);
            for (number, other) in numbers {
                prop_assert_eq!(back.number(), Some(number));
                prop_assert_eq!(back.distance(number), Some(other));
            }
            prop_assert_eq!(back.float(), Some(float));
            prop_assert_eq!(back.bytes(), Some(&text[..]));
            prop_assert!(back.is_empty());
        }

        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let mut all = In::new(&bytes);
            while all.number().is_some() || all.float().is_some() {}
            // A number that is too large is passed over: something may be behind it.
            let left = all.0.len();
            prop_assert!(all.count().is_none_or(|count| count <= left));
            prop_assert!(In::new(&bytes).bytes().is_none_or(|inner| inner.len() < bytes.len()));
        }
    }

    #[test]
    fn a_number_of_more_bits_than_there_are_is_none() {
        assert_eq!(In::new(&[0xff; 9]).number(), None);
        let mut most = [0xff; 10];
        most[9] = 1;
        assert_eq!(In::new(&most).number(), Some(u64::MAX));
        most[9] = 2;
        assert_eq!(In::new(&most).number(), None);
    }
}
