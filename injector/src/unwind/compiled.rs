//! The rows of one module: a rule holds from its row to the next one.

use heapattach_abi::unwind::{self, Rule};

/// The code that a program begins with is no longer.
const START_BYTES: u32 = 128;

/// What is known of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// Distance from the start of the code, and the rule from there on; ascending.
    pub rows: Vec<(u32, u32)>,
    /// Rows whose rule is one that cannot be followed.
    pub unknown: usize,
}

impl Compiled {
    /// Of the rows and the ends of functions, in any order. Gaps between functions become rows without
    /// a rule, equal neighbours one row.
    pub(super) fn tidy(rows: Vec<(u32, u32)>, ends: Vec<(u32, u32)>) -> Self {
        // Of two at one place a function's beginning counts, not the end of the one before.
        let mut all: Vec<(u32, bool, u32)> =
            rows.into_iter().map(|(at, rule)| (at, true, rule)).collect();
        all.extend(ends.into_iter().map(|(at, rule)| (at, false, rule)));
        // A stable order: of several rows of one function at one place the last one holds.
        all.sort_by_key(|&(at, begins, _)| (at, begins));
        let mut tidy: Vec<(u32, u32)> = Vec::with_capacity(all.len());
        for (at, _, rule) in all {
            match tidy.last_mut() {
                Some(last) if last.0 == at => last.1 = rule,
                Some(last) if last.1 == rule => {}
                None if rule == unwind::NONE => {}
                _ => tidy.push((at, rule)),
            }
        }
        tidy.dedup_by_key(|&mut (_, rule)| rule);
        Self::of(tidy)
    }

    /// The same of a module that begins so far in its code: if nothing is said of that place, it has no
    /// caller, up to the next function. The start of glibc's loader is like that.
    pub(super) fn begun_at(mut self, entry: u32) -> Self {
        let at = self.rows.partition_point(|&(from, _)| from < entry);
        let next = self.rows.get(at).map_or(u32::MAX, |&(from, _)| from);
        let is_bare = at == 0 || self.rows[at - 1].1 == unwind::NONE;
        let end = entry.saturating_add(START_BYTES);
        if self.rows.is_empty() || !is_bare || next == entry {
            return self;
        }
        self.rows.insert(at, (entry, Rule::Outermost.pack()));
        if next > end {
            self.rows.insert(at + 1, (end, unwind::NONE));
        }
        Self::of(self.rows)
    }

    /// What both say; where both have a rule, this one's.
    pub(super) fn over(self, below: Self) -> Self {
        if below.rows.is_empty() {
            return self;
        }
        let both = self.rows.into_iter().map(|row| (row, true));
        let mut both: Vec<_> = both.chain(below.rows.into_iter().map(|row| (row, false))).collect();
        both.sort_by_key(|&((at, _), _)| at);
        let (mut above, mut below) = (unwind::NONE, unwind::NONE);
        let mut rows: Vec<(u32, u32)> = Vec::with_capacity(both.len());
        for ((at, rule), is_above) in both {
            *(if is_above { &mut above } else { &mut below }) = rule;
            let rule = if above == unwind::NONE { below } else { above };
            match rows.last_mut() {
                Some(last) if last.0 == at => last.1 = rule,
                _ => rows.push((at, rule)),
            }
        }
        rows.dedup_by_key(|&mut (_, rule)| rule);
        Self::of(rows)
    }

    pub(super) fn of(rows: Vec<(u32, u32)>) -> Self {
        let is_unknown = Rule::Unknown.pack();
        let unknown = rows.iter().filter(|&&(_, rule)| rule == is_unknown).count();
        Self { rows, unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: u32 = unwind::NONE;

    fn over(above: &[(u32, u32)], below: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let [above, below] = [above, below].map(|rows| Compiled::of(rows.to_vec()));
        above.over(below).rows
    }

    #[test]
    fn a_start_of_which_nothing_is_said_has_no_caller() {
        let begun = |rows: &[(u32, u32)], entry| Compiled::of(rows.to_vec()).begun_at(entry).rows;
        let start = Rule::Outermost.pack();
        let rows = [(10, 1), (20, GAP), (60, 2), (70, GAP)];
        let known = [(10, 1), (20, GAP), (30, start), (60, 2), (70, GAP)];
        assert_eq!(begun(&rows, 30), known);
        assert_eq!(begun(&rows, 0)[..2], [(0, start), (10, 1)]);
        assert_eq!(begun(&rows, 80)[4..], [(80, start), (80 + START_BYTES, GAP)]);
        // Where something is said that holds, and where nothing is known of the module at all.
        for entry in [10, 15, 65] {
            assert_eq!(begun(&rows, entry), rows);
        }
        assert_eq!(begun(&[], 30), []);
    }

    #[test]
    fn the_upper_rule_wins_where_both_have_one() {
        assert_eq!(over(&[(10, 1), (20, GAP)], &[(10, 2), (20, GAP)]), [(10, 1), (20, GAP)]);
        assert_eq!(
            over(&[(10, 1), (20, GAP)], &[(5, 2), (15, 3), (30, GAP)]),
            [(5, 2), (10, 1), (20, 3), (30, GAP)]
        );
    }

    #[test]
    fn gaps_are_filled_from_below_and_only_there() {
        let above = [(10, 1), (20, GAP), (40, 4), (50, GAP)];
        assert_eq!(over(&above, &[]), above);
        assert_eq!(over(&[], &above), above);
        assert_eq!(
            over(&above, &[(20, 2), (30, GAP), (50, 5), (60, GAP)]),
            [(10, 1), (20, 2), (30, GAP), (40, 4), (50, 5), (60, GAP)]
        );
    }

    #[test]
    fn equal_neighbours_become_one_row() {
        assert_eq!(over(&[(10, 1), (20, GAP)], &[(20, 1), (30, GAP)]), [(10, 1), (30, GAP)]);
    }

    proptest::proptest! {
        #[test]
        fn every_address_has_the_rule_it_should(
            above in proptest::collection::btree_map(0_u32..60, 0_u32..4, 0..12),
            below in proptest::collection::btree_map(0_u32..60, 0_u32..4, 0..12),
        ) {
            let rule = |rows: &[(u32, u32)], at| {
                rows.iter().rfind(|row| row.0 <= at).map_or(GAP, |row| row.1)
            };
            let [above, below] = [above, below].map(|rows| rows.into_iter().collect::<Vec<_>>());
            let merged = over(&above, &below);
            for at in 0..70 {
                let (above, below) = (rule(&above, at), rule(&below, at));
                let expected = if above == GAP { below } else { above };
                proptest::prop_assert_eq!(rule(&merged, at), expected, "at {}", at);
            }
            proptest::prop_assert!(merged.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
