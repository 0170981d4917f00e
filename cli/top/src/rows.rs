//! Sites as rows: what each has in use, and what it allocated.

use std::collections::HashMap;

use heapattach_ledger::{Ledger, Metric, Thread};
use heapattach_profile::{Estimate, Sum};
use heapattach_verdict::{
    place::Place,
    subject::{Ask, Site, Subject},
};

/// Sites that are followed, those that hold most.
pub const MOST: usize = 20_000;

/// What a row is of: a site, or what one thread has of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The site.
    pub place: Place,
    /// The thread, where threads are told apart.
    pub thread: Option<Thread>,
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is of.
    pub key: Key,
    /// The same in words.
    pub words: String,
    /// Bytes in use.
    pub live: Estimate,
    /// Blocks in use.
    pub blocks: Estimate,
    /// Bytes allocated since the attach.
    pub allocated: Estimate,
    /// Its stacks.
    pub stacks: Vec<u32>,
}

impl Key {
    fn words(&self) -> String {
        let place = self.place.words();
        match &self.thread {
            None => place,
            Some(Thread { tid: 0, name }) if name.is_empty() => place,
            Some(Thread { tid, name }) => format!("{name}:{tid} {place}"),
        }
    }
}

/// The rows of a ledger, those that hold most first; threads are told apart unless `is_merged`.
pub fn rows(ledger: &Ledger, is_merged: bool) -> Vec<Row> {
    let ask = Ask { limit: 0, ..Ask::default() };
    let mut sites = Subject::of(ledger).sites(&ask);
    sites.retain(|site| {
        let has = |metric: Metric| !site.weights[metric as usize].is_nothing();
        has(Metric::Live) || has(Metric::Allocated)
    });
    sites.truncate(MOST);
    let mut rows: Vec<Row> = match is_merged {
        true => sites.into_iter().map(whole).collect(),
        false => by_thread(ledger, sites),
    };
    rows.sort_by(|a, b| b.live.value.total_cmp(&a.live.value));
    rows.truncate(MOST);
    rows
}

fn whole(site: Site) -> Row {
    let measure = |metric: Metric| site.weights[metric as usize].now.measure();
    let (live, allocated) = (measure(Metric::Live), measure(Metric::Allocated));
    row(Key { place: site.place, thread: None }, [live, allocated], site.stacks)
}

fn row(key: Key, [live, allocated]: [heapattach_profile::Measure; 2], stacks: Vec<u32>) -> Row {
    Row {
        words: key.words(),
        key,
        live: live.bytes,
        blocks: live.count,
        allocated: allocated.bytes,
        stacks,
    }
}

fn by_thread(ledger: &Ledger, sites: Vec<Site>) -> Vec<Row> {
    let mut of_stack: HashMap<u32, usize> = HashMap::new();
    for (number, site) in sites.iter().enumerate() {
        of_stack.extend(site.stacks.iter().map(|stack| (*stack, number)));
    }
    let mut sums: HashMap<(usize, u32), (Sum, Sum, Vec<u32>)> = HashMap::new();
    for row in &ledger.rows {
        let Some(&site) = of_stack.get(&row.stack) else { continue };
        let (live, allocated, stacks) = sums.entry((site, row.thread)).or_default();
        live.merge(&row.sum(Metric::Live));
        allocated.merge(&row.sum(Metric::Allocated));
        stacks.push(row.stack);
    }
    let rows = sums.into_iter().map(|((site, thread), (live, allocated, stacks))| {
        let thread = ledger.threads.get(thread as usize).cloned();
        let key = Key { place: sites[site].place.clone(), thread };
        row(key, [live.measure(), allocated.measure()], stacks)
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn rows_add_up_to_the_ledger_with_threads_or_without() {
        let ledger = sample::ledger();
        for is_merged in [true, false] {
            let rows = rows(&ledger, is_merged);
            let sum = |of: fn(&Row) -> f64| rows.iter().map(of).sum::<f64>();
            let total = |metric| ledger.total.measure(metric).bytes.value;
            assert_eq!(sum(|row| row.live.value), total(Metric::Live));
            assert_eq!(sum(|row| row.allocated.value), total(Metric::Allocated));
            assert_eq!(rows[0].words, "make_node (list.c:12)");
        }
    }

    #[test]
    fn a_thread_is_told_by_its_name_and_number() {
        let rows = rows(&sample::ledger(), false);
        assert!(rows.iter().any(|row| row.words.starts_with("worker:4711 work<int>")), "{rows:?}");
    }
}
