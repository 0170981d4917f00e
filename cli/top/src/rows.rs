//! Sites as rows: what each has in use, and what it allocated.

use std::{collections::HashMap, sync::Arc};

use heapattach_ledger::{Ledger, Metric, Thread};
use heapattach_profile::{Estimate, QuickSum};
use heapattach_verdict::{
    place::Place,
    site_rows::{Part, parts},
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
    /// Bytes in use, and those allocated since the attach.
    bytes: [f64; 2],
    part: Part,
    /// Its stacks.
    pub stacks: Arc<Vec<u32>>,
}

impl Row {
    /// Bytes in use.
    pub fn live(&self) -> Estimate {
        self.part.sum(Metric::Live).measure().bytes
    }

    /// Blocks in use.
    pub fn blocks(&self) -> Estimate {
        self.part.sum(Metric::Live).measure().count
    }

    /// Bytes allocated since the attach.
    pub fn allocated(&self) -> Estimate {
        self.part.sum(Metric::Allocated).measure().bytes
    }

    /// Bytes in use, and allocated, without their intervals: of the many rows that are not seen no more is asked.
    pub fn values(&self) -> [f64; 2] {
        self.bytes
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
            .then_with(|| rows[*one].number.cmp(&rows[*other].number))
            .then(one.cmp(other))
    });
    order.truncate(MOST);
    let mut rows: Vec<Option<Row>> = rows.into_iter().map(Some).collect();
    order.into_iter().filter_map(|(_, at)| rows[at].take()).collect()
}

fn whole(site: SiteSum) -> Row {
    let SiteSum { number, place, words, sums, part, stacks } = site;
    let bytes = sums.map(|sum| sum.bytes());
    Row { key: Key { place, thread: None }, number, words, bytes, part, stacks }
}

fn by_thread(ledger: &Arc<Ledger>, sites: &[SiteSum]) -> Vec<Row> {
    let mut of_stack: HashMap<u32, usize> = HashMap::new();
    for (number, site) in sites.iter().enumerate() {
        of_stack.extend(site.stacks.iter().map(|stack| (*stack, number)));
    }
    // Numbers of a site and a thread.
    let mut numbers: HashMap<(usize, u32), usize> = HashMap::new();
    let mut known = Vec::new();
    let mut of_row = Vec::with_capacity(ledger.rows.len());
    for row in &ledger.rows {
        let number = of_stack.get(&row.stack).map(|site| {
            *numbers.entry((*site, row.thread)).or_insert_with(|| {
                known.push((*site, row.thread));
                known.len() - 1
            })
        });
        of_row.push(number);
    }
    let mut of_row = of_row.into_iter();
    let parts = parts(ledger, known.len(), |_| of_row.next().flatten());
    let rows = known.iter().zip(parts).map(|((site, thread), part)| {
        let thread = ledger.threads.get(*thread as usize).cloned();
        let site = &sites[*site];
        let words = match &thread {
            None => site.words.clone(),
            Some(Thread { tid: 0, name }) if name.is_empty() => site.words.clone(),
            Some(Thread { tid, name }) => format!("{name}:{tid} {}", site.words).into(),
        };
        let stacks = part.rows().map(|row| row.stack).collect();
        let bytes = [Metric::Live, Metric::Allocated].map(|metric| {
            let mut sum = QuickSum::default();
            part.rows().for_each(|row| row.add_bytes_to(metric, &mut sum));
            sum.bytes()
        });
        let key = Key { place: site.place.clone(), thread };
        Row { key, number: site.number, words, bytes, part, stacks: Arc::new(stacks) }
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
