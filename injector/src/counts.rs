//! What the hooks counted, out of a copy of their table.
//!
//! The target can write the table at any time, so every byte may be anything: what does not make
//! sense is left out, sums saturate, and the result is never longer than the table has cells.

use std::collections::HashMap;

use heapattach_abi::{
    kind::MAX_HOOKS,
    table::{self, Count},
};

/// The calls of one function from one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallSite {
    /// Index of the hook.
    pub hook: usize,
    /// The address the calls return to; 0 for the calls whose place found no room.
    pub caller: u64,
    /// Number of calls.
    pub calls: u64,
    /// Sum of the bytes asked for.
    pub bytes: u64,
}

/// Adds up all rows of a copy of the table; sorted by hook and caller, each pair once.
///
/// A copy that is too short gives what it holds.
pub fn aggregate(copy: &[u8]) -> Vec<CallSite> {
    let mut sums = HashMap::new();
    let rows = copy.chunks_exact(table::ROW_BYTES).take(table::ALL_ROWS);
    for (index, row) in rows.enumerate() {
        // Most rows were never claimed; row 0 never is.
        if index == 0 || word(row, table::ROW_KEY) != 0 {
            add_row(&mut sums, row);
        }
    }
    let site = |((hook, caller), count): (_, Count)| CallSite {
        hook,
        caller,
        calls: count.calls,
        bytes: count.bytes,
    };
    let mut sites: Vec<_> = sums.into_iter().map(site).collect();
    sites.sort_unstable();
    sites
}

fn add_row(sums: &mut HashMap<(usize, u64), Count>, row: &[u8]) {
    let mut add = |hook, caller, at| {
        let calls = word(row, at);
        // A site is first named, then counted: without a call there is nothing to tell yet.
        if calls != 0 && hook < MAX_HOOKS {
            let sum = sums.entry((hook, caller)).or_default();
            sum.calls = sum.calls.saturating_add(calls);
            sum.bytes = sum.bytes.saturating_add(word(row, at + 8));
        }
    };
    for hook in 0..MAX_HOOKS {
        add(hook, 0, table::ROW_OVERFLOW + hook * table::COUNT_BYTES);
    }
    for site in 0..table::SITES + table::SITE_PROBES {
        let at = table::ROW_SITES + site * table::SITE_BYTES;
        let key = word(row, at);
        let (hook, caller) = table::split_key(key);
        if key != 0 {
            add(hook, caller, at + table::SITE_CALLS);
        }
    }
}

fn word(row: &[u8], at: usize) -> u64 {
    let bytes = row[at..].first_chunk().expect("every offset of the contract lies in a row");
    u64::from_le_bytes(*bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put(table: &mut [u8], row: usize, at: usize, words: &[u64]) {
        let start = row * table::ROW_BYTES + at;
        for (i, word) in words.iter().enumerate() {
            table[start + 8 * i..][..8].copy_from_slice(&word.to_le_bytes());
        }
    }

    fn site(index: usize) -> usize {
        table::ROW_SITES + index * table::SITE_BYTES
    }

    #[test]
    fn rows_sites_and_overflow_are_added_up() {
        let mut copy = vec![0; table::TABLE_BYTES];
        for row in [0, 1, table::ALL_ROWS - 1] {
            put(&mut copy, row, table::ROW_KEY, &[row as u64]);
            put(&mut copy, row, site(3), &[table::site_key(0x7000, 5), 2, 64]);
            put(&mut copy, row, table::ROW_OVERFLOW + 63 * table::COUNT_BYTES, &[1, 9]);
        }
        let last = table::SITES + table::SITE_PROBES - 1;
        put(&mut copy, 1, site(last), &[table::site_key(0x7000, 0), 1, 0]);
        let call_site = |hook, caller, calls, bytes| CallSite { hook, caller, calls, bytes };
        let truth =
            [call_site(0, 0x7000, 1, 0), call_site(5, 0x7000, 6, 192), call_site(63, 0, 3, 27)];
        assert_eq!(aggregate(&copy), truth);
    }

    #[test]
    fn foreign_hooks_are_left_out_and_sums_saturate() {
        let mut copy = vec![0; 2 * table::ROW_BYTES];
        put(&mut copy, 1, table::ROW_KEY, &[1, 1]);
        put(&mut copy, 1, site(0), &[table::site_key(0x7000, 64), 1, 1]);
        put(&mut copy, 1, site(1), &[table::site_key(0x7000, 0), u64::MAX, u64::MAX]);
        put(&mut copy, 1, site(2), &[table::site_key(0x7000, 0), 1, 1]);
        let all = CallSite { hook: 0, caller: 0x7000, calls: u64::MAX, bytes: u64::MAX };
        assert_eq!(aggregate(&copy), [all]);
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_sorted_bounded_list(
            seed in proptest::collection::vec(any::<u8>(), 1..4096),
            len in 0..4 * table::ROW_BYTES,
        ) {
            let copy: Vec<u8> = seed.iter().copied().cycle().take(len).collect();
            let sites = aggregate(&copy);
            let cells = MAX_HOOKS + table::SITES + table::SITE_PROBES;
            prop_assert!(sites.len() <= len / table::ROW_BYTES * cells);
            let pairs = |w: &[CallSite]| (w[0].hook, w[0].caller) < (w[1].hook, w[1].caller);
            prop_assert!(sites.windows(2).all(pairs));
        }
    }
}
