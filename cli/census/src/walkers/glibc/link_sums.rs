//! Sums over the links of lists. All lists are rings, so links lead to every place once in each direction: then
//! the sums of numbers made of places and of links are equal.

/// Sums over places in lists: of where they are, and of where their links lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSums {
    places: u64,
    next: u64,
    before: u64,
}

impl LinkSums {
    /// Counts a place.
    #[inline]
    pub fn add(&mut self, place: u64, next: u64, before: u64) {
        self.places = self.places.wrapping_add(mixed(place));
        self.next = self.next.wrapping_add(mixed(next));
        self.before = self.before.wrapping_add(mixed(before));
    }

    /// Undoes that.
    pub fn take_back(&mut self, place: u64, next: u64, before: u64) {
        self.places = self.places.wrapping_sub(mixed(place));
        self.next = self.next.wrapping_sub(mixed(next));
        self.before = self.before.wrapping_sub(mixed(before));
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.places = self.places.wrapping_add(other.places);
        self.next = self.next.wrapping_add(other.next);
        self.before = self.before.wrapping_add(other.before);
    }

    /// Whether every place is led to once in each direction.
    pub fn are_rings(&self) -> bool {
        self.places == self.next && self.places == self.before
    }
}

/// A number that sums of few others hardly make.
fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 31)).wrapping_mul(0x7fb5_d329_728e_a185);
    let word = (word ^ (word >> 27)).wrapping_mul(0x81da_def4_bc2d_d44d);
    word ^ (word >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_told_from_what_is_none() {
        let mut sums = LinkSums::default();
        let ring = [0x1000, 0x2000, 0x3000];
        for (index, place) in ring.into_iter().enumerate() {
            sums.add(place, ring[(index + 1) % 3], ring[(index + 2) % 3]);
        }
        assert!(sums.are_rings());
        sums.add(0x4000, 0x1000, 0x3000);
        assert!(!sums.are_rings());
        sums.take_back(0x4000, 0x1000, 0x3000);
        assert!(sums.are_rings());
    }
}
