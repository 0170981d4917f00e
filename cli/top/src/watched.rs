//! One process: the newest snapshot, its rows in the order of a tab, and what they had before.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use heapattach_ledger::Ledger;
use heapattach_verdict::{current::Current, site_sums::SiteNames};

use crate::{
    history::{Course, History},
    rows::{Key, Row, rows},
    snapshot::{Snapshot, State, Subject},
    tab::Tab,
};

/// Lines of a log that are kept.
const LOG: usize = 1000;

/// One process.
#[derive(Debug, Default)]
pub struct Watched {
    /// Which.
    pub subject: Subject,
    /// How it is with its source.
    pub state: State,
    /// What is known of it.
    pub snapshot: Option<Snapshot>,
    /// The figures of its head.
    pub current: Current,
    /// Its sites.
    pub rows: Vec<Row>,
    /// What it is compared with, and when that was.
    pub base: Option<(u64, Arc<Ledger>)>,
    /// What its session said.
    pub log: Vec<String>,
    /// How many snapshots there were.
    pub number: u64,
    /// Since when growth is known.
    pub since_ms: Option<u64>,
    /// With threads told apart, and merged; and which of both the rows are of.
    histories: [History; 2],
    is_merged: bool,
    names: SiteNames,
    /// How often these were forgotten.
    resets: u64,
}

/// How rows are listed.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    /// By what.
    pub tab: Tab,
    /// Only rows with this in their words, in small letters.
    pub filter: &'a str,
    /// The places of rows that keep them.
    pub frozen: Option<&'a HashMap<Key, usize>>,
}

impl Watched {
    /// Nothing is known of it yet.
    pub fn new(subject: Subject) -> Self {
        Self { subject, ..Self::default() }
    }

    /// Takes what is known now.
    pub fn take(&mut self, snapshot: Snapshot, is_merged: bool) {
        self.current = Current::of(&snapshot.ledger);
        self.snapshot = Some(snapshot);
        self.number += 1;
        self.list_anew(is_merged);
    }

    /// Makes its rows, with threads merged or not.
    pub fn list_anew(&mut self, is_merged: bool) {
        let Some(snapshot) = &self.snapshot else { return };
        self.rows = rows(&mut self.names, &snapshot.ledger, is_merged);
        self.is_merged = is_merged;
        if std::mem::replace(&mut self.resets, self.names.resets()) != self.resets {
            // Numbers mean other sites now.
            self.histories = Default::default();
        }
        let history = &mut self.histories[usize::from(is_merged)];
        history.take(self.current.at_ms, &self.rows);
        self.since_ms = history.since_ms();
    }

    /// How a row grows, and how much it allocates.
    pub fn course(&self, row: &Row) -> Course {
        self.history().course(row)
    }

    fn history(&self) -> &History {
        &self.histories[usize::from(self.is_merged)]
    }

    /// Bytes in use of a row, the oldest first.
    pub fn live_course(&self, row: &Row) -> Vec<f64> {
        self.history().live(row)
    }

    /// Rows by their numbers, in the order in which they are shown.
    pub fn listed(&self, listing: Listing<'_>) -> Vec<usize> {
        let fits = |row: &Row| {
            listing.filter.is_empty() || row.words.to_lowercase().contains(listing.filter)
        };
        let all = 0..self.rows.len();
        let mut listed: Vec<usize> = all.filter(|&at| fits(&self.rows[at])).collect();
        let ranks: Vec<f64> = (0..self.rows.len()).map(|at| self.rank(at, listing.tab)).collect();
        let by_rank = |a: &usize, b: &usize| ranks[*b].total_cmp(&ranks[*a]).then(a.cmp(b));
        match listing.frozen {
            None => listed.sort_unstable_by(by_rank),
            Some(places) => {
                let place = |at: &usize| places.get(&self.rows[*at].key).copied();
                listed.sort_by(|a, b| match (place(a), place(b)) {
                    (Some(a), Some(b)) => a.cmp(&b),
                    // What is new comes last.
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (None, None) => by_rank(a, b),
                });
            }
        }
        listed
    }

    /// Adds a line to its log.
    pub fn log(&mut self, line: String) {
        if self.log.len() >= LOG {
            self.log.remove(0);
        }
        self.log.push(line);
    }

    fn rank(&self, at: usize, tab: Tab) -> f64 {
        let row = &self.rows[at];
        let rank = match tab {
            Tab::Growth => self.history().growth_rank(row),
            Tab::Rate => self.history().rate_rank(row),
            _ => row.values()[0],
        };
        if rank.is_nan() { 0.0 } else { rank }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::{Metric, sample};
    use heapattach_profile::Sum;

    fn take(watched: &mut Watched, at_ms: u64, more: u64) {
        let mut ledger = sample::ledger();
        ledger.about.lasted_ms = at_ms;
        ledger.moments.clear();
        ledger.rows[1].add(Metric::Live, &Sum::exact(more, 1));
        watched.take(Snapshot { ledger: Arc::new(ledger), ..Snapshot::default() }, true);
    }

    fn words(watched: &Watched, listing: Listing<'_>) -> Vec<String> {
        let listed = watched.listed(listing);
        listed.into_iter().map(|at| watched.rows[at].words.to_string()).collect()
    }

    #[test]
    fn frozen_rows_keep_their_places_and_live_ones_are_in_order() {
        let mut watched = Watched::new(Subject::default());
        take(&mut watched, 1000, 1);
        let live = Listing { tab: Tab::Live, filter: "", frozen: None };
        let before = words(&watched, live);
        assert_eq!(before[0], "make_node (list.c:12)");
        let places: HashMap<Key, usize> = watched
            .listed(live)
            .into_iter()
            .enumerate()
            .map(|(n, at)| (watched.rows[at].key.clone(), n))
            .collect();
        take(&mut watched, 9000, 1 << 20);
        assert_eq!(words(&watched, live)[0], "main (main.c:7)");
        assert_eq!(words(&watched, Listing { frozen: Some(&places), ..live }), before);
        let growth = Listing { tab: Tab::Growth, ..live };
        assert_eq!(words(&watched, growth)[0], "main (main.c:7)");
        assert_eq!(words(&watched, Listing { filter: "node", ..live }), ["make_node (list.c:12)"]);
    }
}
