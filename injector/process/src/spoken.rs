//! Words by which a program speaks in the middle of its allocations: lengths of calls of `munmap` that the
//! kernel refuses. `heapattach.h` has the same numbers, and so has the code that stands in for LeakSanitizer.

/// The first of them; the others follow, each two more. No program unmaps so many bytes from the middle of a
/// page.
const FIRST: u64 = 0xadd1;

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// What this thread allocates from here on is not leaked.
    Begin,
    /// No more; they nest.
    End,
    /// The block there is not leaked.
    Ignore,
    /// A range that holds pointers begins there.
    Root,
    /// It has so many bytes.
    Bytes,
    /// The range that begins there holds none any more.
    NoRoot,
    /// A check is to be made, here and now.
    Check,
}

impl Word {
    const ALL: [Self; 7] =
        [Self::Begin, Self::End, Self::Ignore, Self::Root, Self::Bytes, Self::NoRoot, Self::Check];

    /// The word of this number.
    pub fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.number() == number)
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        FIRST + 2 * self as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_of_one_word() {
        for word in Word::ALL {
            assert_eq!(Word::of(word.number()), Some(word));
        }
        assert_eq!([Word::of(0), Word::of(FIRST + 1), Word::of(FIRST + 14)], [None; 3]);
    }
}
