//! Size classes: what every index means in bytes. They follow from the smallest step alone.

/// The smallest step between two classes, which a build can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantum {
    /// 8 bytes: redis's bundled build.
    Eight,
    /// 16 bytes: all else.
    Sixteen,
}

/// Classes from here on exist in no build for 48 bits of address.
const MOST: u32 = 235;

impl Quantum {
    /// The bytes of a class; `None` if there is no such class.
    pub fn bytes(self, class: u32) -> Option<u64> {
        if class >= self.classes() {
            return None;
        }
        let (step, index) = match (self, class) {
            (Self::Sixteen, 0) => return Some(8),
            (Self::Sixteen, _) => (16_u64, class - 1),
            (Self::Eight, _) => (8, class),
        };
        // Four classes a doubling, the first four in equal steps from nothing.
        let (group, member) = (index / 4, u64::from(index % 4));
        match group {
            0 => Some(step * (member + 1)),
            _ => Some((step << (group + 1)) + (step << (group - 1)) * (member + 1)),
        }
    }

    /// Classes that are cut out of slabs.
    pub fn small(self) -> u32 {
        match self {
            Self::Eight => 39,
            Self::Sixteen => 36,
        }
    }

    /// By how much fields of a base lie further behind: it has two words for each class.
    pub fn base_shift(self) -> u64 {
        16 * u64::from(self.classes() - Self::Sixteen.classes())
    }

    /// All classes. An extent with this number as its class has no block in use.
    pub fn classes(self) -> u32 {
        match self {
            Self::Eight => MOST,
            Self::Sixteen => 232,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_the_manual() {
        let of = |quantum: Quantum, classes: &[u32]| -> Vec<u64> {
            classes.iter().filter_map(|class| quantum.bytes(*class)).collect()
        };
        let first = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(of(Quantum::Sixteen, &first), [8, 16, 32, 48, 64, 80, 96, 112, 128, 160]);
        assert_eq!(of(Quantum::Eight, &first), [8, 16, 24, 32, 40, 48, 56, 64, 80, 96]);
        assert_eq!(of(Quantum::Sixteen, &[35, 36, 37]), [14336, 16384, 20480]);
        assert_eq!(of(Quantum::Eight, &[38, 39, 40]), [14336, 16384, 20480]);
        assert_eq!(of(Quantum::Sixteen, &[231, 232, 255]), [0x7000_0000_0000_0000]);
    }
}
