//! Sites as rows: what each has in use, and what it allocated.

use std::{collections::HashMap, sync::Arc};

use heapattach_ledger::{Ledger, Metric, Thread};
use heapattach_profile::{Estimate, Sum};
use heapattach_verdict::{
    place::Place,
    site_sums::{SiteNames, SiteSum},
};

/// Sites that are followed, those that hold most.
pub const MOST: usize = 20_000;

/// What a row is of: a site, or what one thread has of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The site.
    pub place: Arc<Place>,
    /// The thread, where threads are told apart.
    pub thread: Option<Thread>,
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is of.
    pub key: Key,
    /// The number of the site among the names that it was made with.
    pub number: u32,
    /// The same in words.
    pub words: Arc<str>,
    /// Blocks in use, and those allocated since the attach.
    sums: [Sum; 2],
    /// Its stacks.
    pub stacks: Arc<Vec<u32>>,
}

impl Row {
    /// Bytes in use.
    pub fn live(&self) -> Estimate {
        self.sums[0].measure().bytes
    }

    /// Blocks in use.
    pub fn blocks(&self) -> Estimate {
        self.sums[0].measure().count
    }

    /// Bytes allocated since the attach.
    pub fn allocated(&self) -> Estimate {
        self.sums[1].measure().bytes
    }

    /// Bytes in use, and allocated, without their intervals: of the many rows that are not seen no more is asked.
    pub fn values(&self) -> [f64; 2] {
        self.sums.each_ref().map(Sum::bytes)
    }
}

/// The rows of a ledger, those that hold most first; threads are told apart unless `is_merged`.
pub fn rows(names: &mut SiteNames, ledger: &Arc<Ledger>, is_merged: bool) -> Vec<Row> {
    let mut sites = names.sums(ledger, [Metric::Live, Metric::Allocated]);
    sites.retain(|site| site.sums.iter().any(|sum| sum.records() != 0));
    let rows = match is_merged {
        true => sites.into_iter().map(whole).collect(),
        false => by_thread(ledger, &sites),
    };
    in_order(rows)
}

/// There may be tens of thousands: each is moved once.
fn in_order(rows: Vec<Row>) -> Vec<Row> {
    let mut order: Vec<(f64, usize)> = rows.iter().map(|row| row.values()[0]).zip(0..).collect();
    order.sort_unstable_by(|(a, one), (b, other)| {
        b.total_cmp(a)
            .then_with(|| rows[*one].key.place.cmp(&rows[*other].key.place))
            .then(one.cmp(other))
    });
    order.truncate(MOST);
    let mut rows: Vec<Option<Row>> = rows.into_iter().map(Some).collect();
    order.into_iter().filter_map(|(_, at)| rows[at].take()).collect()
}

fn whole(site: SiteSum) -> Row {
    let SiteSum { number, place, words, sums, stacks } = site;
    Row { key: Key { place, thread: None }, number, words, sums, stacks }
}

fn by_thread(ledger: &Ledger, sites: &[SiteSum]) -> Vec<Row> {
    let mut of_stack: HashMap<u32, usize> = HashMap::new();
    for (number, site) in sites.iter().enumerate() {
        of_stack.extend(site.stacks.iter().map(|stack| (*stack, number)));
    }
    let mut sums: HashMap<(usize, u32), ([Sum; 2], Vec<u32>)> = HashMap::new();
    for row in &ledger.rows {
        let Some(&site) = of_stack.get(&row.stack) else { continue };
        let ([live, allocated], stacks) = sums.entry((site, row.thread)).or_default();
        row.add_to(Metric::Live, live);
        row.add_to(Metric::Allocated, allocated);
        stacks.push(row.stack);
    }
    let rows = sums.into_iter().map(|((site, thread), (sums, stacks))| {
        let thread = ledger.threads.get(thread as usize).cloned();
        let site = &sites[site];
        let words = match &thread {
            None => site.words.clone(),
            Some(Thread { tid: 0, name }) if name.is_empty() => site.words.clone(),
            Some(Thread { tid, name }) => format!("{name}:{tid} {}", site.words).into(),
        };
        let key = Key { place: site.place.clone(), thread };
        Row { key, number: site.number, words, sums, stacks: Arc::new(stacks) }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn rows_add_up_to_the_ledger_with_threads_or_without() {
        let ledger = Arc::new(sample::ledger());
        for is_merged in [true, false] {
            let rows = rows(&mut SiteNames::default(), &ledger, is_merged);
            let sum = |of: fn(&Row) -> f64| rows.iter().map(of).sum::<f64>();
            let total = |metric| ledger.total.measure(metric).bytes.value;
            assert_eq!(sum(|row| row.live().value), total(Metric::Live));
            assert_eq!(sum(|row| row.allocated().value), total(Metric::Allocated));
            let values = |row: &Row| [row.live().value, row.allocated().value];
            assert!(rows.iter().all(|row| row.values() == values(row)));
            assert_eq!(&*rows[0].words, "make_node (list.c:12)");
        }
    }

    #[test]
    fn a_thread_is_told_by_its_name_and_number() {
        let rows = rows(&mut SiteNames::default(), &Arc::new(sample::ledger()), false);
        assert!(rows.iter().any(|row| row.words.starts_with("worker:4711 work<int>")), "{rows:?}");
    }
}
