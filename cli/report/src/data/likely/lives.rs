//! How long blocks live that a place allocated in a session, as far as that bears on older ones: those have lived for
//! all of it.

use std::collections::{BTreeSet, HashMap};

use heapattach_ledger::{Ledger, Metric};
use heapattach_profile::SPANS;

/// Of fewer freed blocks it is not concluded how long those of a place live.
const FREED: u64 = 20;

/// What became of the blocks that a place allocated in the session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lives {
    freed: u64,
    in_use: u64,
    /// Of those in use, the ones of which it is known when they were allocated, and of these, those of the first half.
    dated: u64,
    early: u64,
}

impl Lives {
    /// Of these places; `place` tells that of a stack. Of parts of a session nothing is known.
    pub fn of(
        ledger: &Ledger,
        wanted: BTreeSet<String>,
        place: &mut dyn FnMut(u32) -> Option<String>,
    ) -> HashMap<String, Self> {
        let mut all: HashMap<String, Self> =
            wanted.into_iter().map(|place| (place, Self::default())).collect();
        let mut add = |stack: u32, change: &dyn Fn(&mut Self)| {
            if let Some(own) = place(stack).and_then(|place| all.get_mut(&place)) {
                change(own);
            }
        };
        for row in &ledger.rows {
            let records = |metric| row.sum(metric).records();
            add(row.stack, &|own| {
                own.in_use += records(Metric::Live);
                own.freed += records(Metric::Freed);
            });
        }
        for (stack, births) in &ledger.births {
            let early = births.records[..SPANS / 2].iter().map(|records| u64::from(*records));
            let early: u64 = early.sum();
            add(*stack, &|own| {
                own.dated += births.all_records();
                own.early += early;
            });
        }
        all
    }

    /// Whether blocks are freed, most of them, and none is in use that lives for half of the session. An older block of
    /// this place has lived for all of it.
    pub fn are_short(&self) -> bool {
        let is_known = self.dated > 0 && self.dated == self.in_use;
        is_known && self.early == 0 && self.freed >= FREED.max(self.in_use)
    }
}
