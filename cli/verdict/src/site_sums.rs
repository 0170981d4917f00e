//! What sites have, of ledgers of one session, one after the other: the sums of [`Subject::sites`], of some measures
//! only, and the names that were made for the ledger before. Of each site the bytes are summed; more, where more is
//! asked for.
//!
//! [`Subject::sites`]: crate::subject::Subject::sites

use std::{collections::HashMap, sync::Arc};

use heapattach_ledger::{Ledger, Metric, Row};
use heapattach_profile::QuickSum;

use crate::{
    place::{Place, Places},
    site_rows::{Part, parts},
    subject::{Key, key},
};

/// Places that are remembered; beyond, all is forgotten and begins anew.
const MOST: usize = 200_000;

/// Names of sites, as far as they were asked for.
#[derive(Debug, Default)]
pub struct SiteNames {
    /// The ledger before, and the places of its functions.
    last: Option<Arc<Ledger>>,
    numbers: Vec<u32>,
    places: Places,
    /// The sites of these places: for each key where it is in `known`.
    sites: HashMap<Key, usize>,
    known: Vec<Known>,
    /// For each stack where its site is.
    of_stack: Vec<usize>,
    /// Names, and their numbers, whatever becomes of ledgers.
    names: Vec<(Arc<Place>, Arc<str>)>,
    by_place: HashMap<Arc<Place>, u32>,
    resets: u64,
}

/// A site of the ledger before.
#[derive(Debug)]
struct Known {
    /// The number of its name.
    number: u32,
    stacks: Arc<Vec<u32>>,
}

/// One site.
#[derive(Clone, Debug)]
pub struct SiteSum {
    /// The number of its place, the same in ledgers that come later.
    pub number: u32,
    /// The place.
    pub place: Arc<Place>,
    /// The same in words.
    pub words: Arc<str>,
    /// What it has, in the order that was asked for.
    pub sums: [QuickSum; 2],
    /// Its rows.
    pub part: Part,
    /// Its stacks.
    pub stacks: Arc<Vec<u32>>,
}

impl SiteNames {
    /// The sites of a ledger that have a row, in no order.
    pub fn sums(&mut self, ledger: &Arc<Ledger>, metrics: [Metric; 2]) -> Vec<SiteSum> {
        if self.names.len() > MOST {
            *self = Self { resets: self.resets + 1, ..Self::default() };
        }
        self.follow(ledger);
        let mut sums = vec![<[QuickSum; 2]>::default(); self.known.len()];
        let site = |row: &Row| self.of_stack.get(row.stack as usize).copied();
        for row in &ledger.rows {
            let Some(at) = site(row) else { continue };
            for (sum, metric) in sums[at].iter_mut().zip(metrics) {
                row.add_bytes_to(metric, sum);
            }
        }
        let parts = parts(ledger, self.known.len(), site);
        let all = self.known.iter().zip(sums).zip(parts);
        let all = all.filter(|((known, _), _)| !known.stacks.is_empty());
        let all = all.map(|((known, sums), part)| {
            let (place, words) = self.names[known.number as usize].clone();
            let stacks = known.stacks.clone();
            SiteSum { number: known.number, place, words, sums, part, stacks }
        });
        all.collect()
    }

    /// So often all names were forgotten, and their numbers with them.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// The places of this ledger's functions, and the sites of its stacks: those of the one before, as far as it goes
    /// on with that.
    fn follow(&mut self, ledger: &Arc<Ledger>) {
        let last = self.last.replace(ledger.clone());
        if !last.as_ref().is_some_and(|last| functions_go_on(last, ledger)) {
            (self.places, self.sites, self.known, self.of_stack) = Default::default();
            self.numbers.clear();
        } else if !last.is_some_and(|last| stacks_go_on(&last, ledger)) {
            self.of_stack.clear();
            self.known.iter_mut().for_each(|known| known.stacks = Arc::default());
        }
        self.places.extend(ledger, &mut self.numbers);
        let unknown = self.places.unknown();
        let count = u32::try_from(ledger.stacks.count()).unwrap_or(u32::MAX);
        let first = u32::try_from(self.of_stack.len()).unwrap_or(u32::MAX);
        for stack in first..count {
            let key = key(ledger, stack, &self.numbers, unknown, true);
            let at = match self.sites.get(&key) {
                Some(known) => *known,
                None => self.add(key),
            };
            Arc::make_mut(&mut self.known[at].stacks).push(stack);
            self.of_stack.push(at);
        }
    }

    fn add(&mut self, key: Key) -> usize {
        let place = Arc::new(key.place(&self.places));
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let number = *self.by_place.entry(place.clone()).or_insert(next);
        if number == next {
            let words = place.words().into();
            self.names.push((place, words));
        }
        let at = self.known.len();
        self.sites.insert(key, at);
        self.known.push(Known { number, stacks: Arc::default() });
        at
    }
}

fn stacks_go_on(before: &Ledger, now: &Ledger) -> bool {
    now.stacks.go_on(&before.stacks) && now.locations.starts_with(&before.locations)
}

fn functions_go_on(before: &Ledger, now: &Ledger) -> bool {
    let paths = |ledger: &Ledger, module: u32| {
        ledger.modules.get(module as usize).map(|module| module.path.clone())
    };
    let modules: u32 =
        before.functions.iter().map(|function| function.module + 1).max().unwrap_or(0);
    before.functions.len() <= now.functions.len()
        && before.functions.iter().zip(&now.functions).all(|(a, b)| a == b)
        && (0..modules).all(|module| paths(before, module) == paths(now, module))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::{Ask, Subject};
    use heapattach_ledger::{Function, sample};

    const METRICS: [Metric; 2] = [Metric::Live, Metric::Allocated];

    /// Of every site its name, what it has, and its stacks.
    fn told(names: &mut SiteNames, ledger: &Ledger) -> Vec<(String, [f64; 2], Vec<u32>)> {
        let mut all: Vec<_> = names
            .sums(&Arc::new(ledger.clone()), METRICS)
            .into_iter()
            .map(|site| {
                let (stacks, quick) =
                    (site.stacks.to_vec(), site.sums.each_ref().map(QuickSum::bytes));
                let whole = METRICS.map(|metric| site.part.sum(metric).measure().bytes.value);
                assert_eq!(quick, whole);
                (site.words.to_string(), quick, stacks)
            })
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    fn whole(ledger: &Ledger) -> Vec<(String, [f64; 2], Vec<u32>)> {
        let sites = Subject::of(ledger).sites(&Ask { limit: 0, ..Ask::default() });
        let mut all: Vec<_> = sites
            .into_iter()
            .map(|site| {
                let bytes = |metric| site.weights[metric as usize].now.measure().bytes.value;
                (site.place.words(), METRICS.map(bytes), site.stacks.clone())
            })
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    #[test]
    fn they_are_those_of_the_ledger_whatever_was_asked_before() {
        let mut names = SiteNames::default();
        let mut ledger = sample::ledger();
        assert_eq!(told(&mut names, &ledger), whole(&ledger));
        // One more stack of a site that is known; then a name that was not known before.
        let (calls, end) = {
            let stack = ledger.stacks.get(0).unwrap();
            (stack.locations.to_vec(), stack.end)
        };
        let more = u32::try_from(ledger.stacks.count()).unwrap();
        ledger.stacks.push(&calls, end, ledger.stacks.get(0).unwrap().cause);
        let mut row = ledger.rows[0].clone();
        row.stack = more;
        ledger.rows.push(row);
        assert_eq!(told(&mut names, &ledger), whole(&ledger));
        ledger.functions.push(Function { name: "late".to_owned(), ..Function::default() });
        ledger.locations[2].lines[0].function = u32::try_from(ledger.functions.len() - 1).unwrap();
        assert_eq!(told(&mut names, &ledger), whole(&ledger));
        ledger.functions[1].name = "another".to_owned();
        assert_eq!(told(&mut names, &ledger), whole(&ledger));
        assert_eq!(told(&mut names, &sample::ledger()), whole(&sample::ledger()));
    }

    #[test]
    fn a_place_has_the_same_number_again() {
        let mut names = SiteNames::default();
        let of = |names: &mut SiteNames, ledger: Ledger| {
            let mut all: Vec<_> = names
                .sums(&Arc::new(ledger), METRICS)
                .into_iter()
                .map(|site| (site.words, site.number))
                .collect();
            all.sort();
            all
        };
        let before = of(&mut names, sample::ledger());
        let mut other = sample::ledger();
        other.functions[0].name = "calloc".to_owned();
        assert_eq!(of(&mut names, other), before);
    }
}
