//! What sites have, of ledgers of one session, one after the other: the sums of [`Subject::sites`], of some measures
//! only, and the names that were made for the ledger before.
//!
//! [`Subject::sites`]: crate::subject::Subject::sites

use std::{collections::HashMap, sync::Arc};

use heapattach_ledger::{Ledger, Metric};
use heapattach_profile::Sum;

use crate::{
    place::{Place, Places},
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
    /// The sites of these places: for each key the number of its name.
    sites: HashMap<Key, (usize, u32)>,
    /// Names, and their numbers, whatever becomes of ledgers.
    names: Vec<(Arc<Place>, Arc<str>)>,
    by_place: HashMap<Arc<Place>, u32>,
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
    pub sums: [Sum; 2],
    /// Its stacks.
    pub stacks: Vec<u32>,
}

impl SiteNames {
    /// The sites of a ledger, in no order.
    pub fn sums(&mut self, ledger: &Arc<Ledger>, metrics: [Metric; 2]) -> Vec<SiteSum> {
        if self.names.len() > MOST {
            *self = Self::default();
        }
        self.follow(ledger);
        let unknown = self.places.unknown();
        // By the first number of the key, one more than where it is.
        let mut told = vec![0_usize; self.sites.len()];
        let mut sites: Vec<SiteSum> = Vec::with_capacity(self.sites.len());
        let count = u32::try_from(ledger.stacks.count()).unwrap_or(u32::MAX);
        let mut of_stack = Vec::with_capacity(ledger.stacks.count());
        for stack in 0..count {
            let key = key(ledger, stack, &self.numbers, unknown, true);
            let (at, number) = match self.sites.get(&key) {
                Some(known) => *known,
                None => self.add(key),
            };
            if told.len() <= at {
                told.resize(at + 1, 0);
            }
            if told[at] == 0 {
                let (place, words) = self.names[number as usize].clone();
                let (sums, stacks) = Default::default();
                sites.push(SiteSum { number, place, words, sums, stacks });
                told[at] = sites.len();
            }
            sites[told[at] - 1].stacks.push(stack);
            of_stack.push(told[at] - 1);
        }
        for row in &ledger.rows {
            let site = &mut sites[of_stack[row.stack as usize]];
            for (sum, metric) in site.sums.iter_mut().zip(metrics) {
                sum.merge(&row.sum(metric));
            }
        }
        sites
    }

    /// The places of this ledger's functions: those of the one before, if its functions are the first of these.
    fn follow(&mut self, ledger: &Arc<Ledger>) {
        let goes_on = self.last.as_ref().is_some_and(|last| goes_on(last, ledger));
        if !goes_on {
            (self.places, self.sites) = Default::default();
            self.numbers.clear();
        }
        self.places.extend(ledger, &mut self.numbers);
        self.last = Some(ledger.clone());
    }

    fn add(&mut self, key: Key) -> (usize, u32) {
        let place = Arc::new(key.place(&self.places));
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let number = *self.by_place.entry(place.clone()).or_insert(next);
        if number == next {
            let words = place.words().into();
            self.names.push((place, words));
        }
        let at = self.sites.len();
        self.sites.insert(key, (at, number));
        (at, number)
    }
}

fn goes_on(before: &Ledger, now: &Ledger) -> bool {
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
        let bytes = |sum: &Sum| sum.measure().bytes.value;
        let mut all: Vec<_> = names
            .sums(&Arc::new(ledger.clone()), METRICS)
            .into_iter()
            .map(|site| (site.words.to_string(), site.sums.each_ref().map(bytes), site.stacks))
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
        // More of the same; then a name that was not known before.
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
