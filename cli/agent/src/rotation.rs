//! Whose slot is next: of those that are there, the one that has waited the longest.

use std::collections::HashMap;

use crate::facts::Key;

/// When each had its last slot.
#[derive(Clone, Debug, Default)]
pub struct Rotation {
    last: HashMap<Key, u64>,
}

impl Rotation {
    /// Who is next of these; what is not among `there` any more is forgotten.
    pub fn next(&mut self, there: &[Key], now: u64) -> Option<Key> {
        self.last.retain(|key, _| there.contains(key));
        let next = there.iter().min_by_key(|key| (self.last.get(key).copied(), **key)).copied()?;
        // Two slots within a second have an order, too.
        let newest = self.last.values().max().map_or(0, |last| last + 1);
        self.last.insert(next, now.max(newest));
        Some(next)
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.last.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_turn_and_a_day_of_short_lives_leaves_nothing_behind() {
        let mut rotation = Rotation::default();
        let key = |pid: i32| Key { pid, start: 1 };
        let all = [key(3), key(1), key(2)];
        let turns: Vec<_> = (0..6).filter_map(|_| rotation.next(&all, 5)).map(|k| k.pid).collect();
        assert_eq!(turns, [1, 2, 3, 1, 2, 3]);
        // 24 hours of a slot a minute, in each of which other processes are there.
        for minute in 0..24 * 60 {
            let there: Vec<_> = (minute..minute + 5).map(key).collect();
            assert!(rotation.next(&there, minute.unsigned_abs().into()).is_some());
            assert!(rotation.len() <= 5);
        }
        assert_eq!(rotation.next(&[], 0), None);
        assert!(rotation.is_empty());
    }
}
