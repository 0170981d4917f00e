//! Places told apart by how they are called, where that makes a difference: a program's own wrapper of malloc
//! allocates what one caller forgets and what another one frees.

use std::collections::BTreeMap;

use crate::{
    keeping::{Habit, Keeping},
    place::Place,
    subject::{Site, own_calls},
};
use heapattach_ledger::{Ledger, Metric};

/// Calls that are looked at behind a place.
const DEPTH: usize = 8;
/// What has fewer records has no habit that is worth a word.
const FEWEST: u64 = 4;
/// Of fewer samples all may by chance be of one half.
const FEW: u64 = 12;
/// So few may be of one moment.
const SELDOM: u64 = 2;

/// A place, or the part of it that one caller has.
#[derive(Clone, Debug)]
pub struct Path {
    /// The place, with the sums of this part.
    pub site: Site,
    /// The call that tells this part from others; `None` if it is all of the place.
    pub from: Option<Place>,
    /// What becomes of it.
    pub keeping: Keeping,
}

/// Makes them.
pub struct Paths<'a> {
    ledger: &'a Ledger,
    rows: ByStack,
    births: ByStack,
}

/// What there are a million of, each with its stack.
struct ByStack {
    /// The numbers of these, those of each stack together, in the order of the stacks.
    numbers: Vec<u32>,
    /// Where those of each stack begin, and of the last one where they end.
    begins: Vec<u32>,
}

impl<'a> Paths<'a> {
    /// Of a ledger.
    pub fn of(ledger: &'a Ledger) -> Self {
        let count = ledger.stacks.count();
        let rows = ByStack::new(count, ledger.rows.iter().map(|row| row.stack));
        let births = ByStack::new(count, ledger.births.iter().map(|(stack, _)| *stack));
        Self { ledger, rows, births }
    }

    /// The place whole, if its callers have one habit; else its parts.
    pub fn apart(&self, site: &Site) -> Vec<Path> {
        let whole = Path {
            site: site.clone(),
            from: None,
            keeping: Keeping::of(site).under(&self.ledger.about),
        };
        self.divided(whole, 0)
    }

    fn divided(&self, whole: Path, depth: usize) -> Vec<Path> {
        if depth >= DEPTH || whole.site.stacks.len() < 2 {
            return vec![whole];
        }
        let mut groups: BTreeMap<(u32, Option<u32>), Vec<u32>> = BTreeMap::new();
        for &stack in &whole.site.stacks {
            let call = own_calls(self.ledger, stack).nth(depth + 1);
            let key = call.map_or((u32::MAX, None), |(function, call)| (function, call.line));
            groups.entry(key).or_default().push(stack);
        }
        if groups.len() < 2 {
            let from = whole.from.clone();
            let parts = self.divided(Path { from: None, ..whole.clone() }, depth + 1);
            return match parts.len() {
                1 => vec![Path { from, ..whole }],
                _ => parts,
            };
        }
        let parts: Vec<Path> =
            groups.into_values().map(|stacks| self.part(&whole.site, stacks, depth + 1)).collect();
        let is_known = |part: &&Path| {
            let sum = &part.site.weights[Metric::Allocated as usize].now;
            sum.records() >= FEWEST && part.keeping.habit != Habit::Unknown
        };
        let habits = || parts.iter().filter(is_known).map(|part| part.keeping.habit);
        let differ = habits().any(|habit| Some(habit) != habits().next());
        if !differ {
            return vec![whole];
        }
        parts.into_iter().flat_map(|part| self.divided(part, depth + 1)).collect()
    }

    /// The part of a place that has these stacks.
    fn part(&self, whole: &Site, stacks: Vec<u32>, depth: usize) -> Path {
        let mut site = Site::at(whole.place.clone());
        for stack in &stacks {
            for row in self.rows.of(*stack) {
                let row = &self.ledger.rows[*row as usize];
                for metric in Metric::ALL {
                    row.add_to(metric, &mut site.weights[metric as usize].now);
                }
            }
            for births in self.births.of(*stack) {
                site.births.merge(&self.ledger.births[*births as usize].1);
            }
        }
        let call = stacks.first().and_then(|&stack| own_calls(self.ledger, stack).nth(depth));
        let from = call.map(|(_, call)| Place::of(&call));
        site.stacks = stacks;
        let keeping = Keeping::of(&site).under(&self.ledger.about);
        Path { site, from, keeping }
    }
}

impl ByStack {
    /// Of so many stacks.
    fn new(count: usize, stacks: impl Iterator<Item = u32> + Clone) -> Self {
        let mut begins = vec![0_u32; count + 1];
        let known = || (0_u32..).zip(stacks.clone()).filter(|(_, stack)| (*stack as usize) < count);
        for (_, stack) in known() {
            begins[stack as usize + 1] += 1;
        }
        let mut sum = 0;
        for begin in &mut begins {
            sum += *begin;
            *begin = sum;
        }
        // Where the next one of each goes.
        let mut next = begins.clone();
        let mut numbers = vec![0; sum as usize];
        for (number, stack) in known() {
            let place = &mut next[stack as usize];
            numbers[*place as usize] = number;
            *place += 1;
        }
        Self { numbers, begins }
    }

    /// The numbers of those of a stack.
    fn of(&self, stack: u32) -> &[u32] {
        let ends = self.begins.get(stack as usize).zip(self.begins.get(stack as usize + 1));
        let range = ends.map(|(first, last)| *first as usize..*last as usize);
        range.and_then(|range| self.numbers.get(range)).unwrap_or_default()
    }
}

impl Path {
    /// Whether it keeps more and more, or has so few samples that these may by chance not show it: some of
    /// them, at different times, or one or two of what comes seldom.
    pub fn may_keep(&self) -> bool {
        let records = self.site.births.all_records();
        let (_, samples) = self.site.weights[Metric::Live as usize].now.parts();
        self.came_again() || (1..=SELDOM).contains(&records) && samples.is_some()
    }

    /// Whether it keeps more and more, or has few samples, of different times: that none is of late may be chance.
    pub fn came_again(&self) -> bool {
        let births = &self.site.births;
        let times = births.records.iter().filter(|&&records| records > 0).count();
        self.keeping.habit == Habit::Keeps || births.all_records() < FEW && times > 1
    }

    /// The place, and where it is called from if that tells it from others.
    pub fn words(&self) -> String {
        let place = self.site.place.words();
        match &self.from {
            Some(from) => format!("{place}, called from {}", from.words()),
            None => place,
        }
    }

    /// The same with the nearest caller in any case.
    pub fn words_with_caller(&self) -> String {
        match (&self.from, self.site.callers.first()) {
            (None, Some(caller)) => {
                format!("{}, called from {}", self.site.place.words(), caller.words())
            }
            _ => self.words(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::{Ask, Subject};
    use heapattach_ledger::{Births, EndReason, Line, Location, Row, sample};
    use heapattach_profile::{SPANS, Sum};

    #[test]
    fn few_samples_of_several_times_may_keep_though_none_is_of_late() {
        let came_again = |records: [u32; SPANS]| {
            let births = Births { records, bytes: records.map(u64::from) };
            let mut site = Site::default();
            site.births = births;
            Path { site, from: None, keeping: Keeping::default() }.came_again()
        };
        assert!(came_again([2, 1, 1, 0, 0, 0, 0, 0]));
        assert!(!came_again([4, 0, 0, 0, 0, 0, 0, 0]), "all at once");
        assert!(!came_again([11, 1, 0, 0, 0, 0, 0, 0]), "so many are no chance");
    }

    /// A wrapper by which `main` keeps all and `work` frees all.
    fn wrapped() -> Ledger {
        let mut ledger = sample::ledger();
        let called = |from: &Location, line| {
            let mut location = from.clone();
            location.lines = vec![Line { function: 1, line: Some(5) }];
            location.address += line;
            location
        };
        ledger.locations.push(called(&ledger.locations[1], 8));
        let wrapper = u32::try_from(ledger.locations.len() - 1).unwrap();
        ledger.stacks = heapattach_ledger::Stacks::default();
        ledger.stacks.push(&[0, wrapper, 2], EndReason::Outermost, 1);
        ledger.stacks.push(&[0, wrapper, 3], EndReason::Outermost, 1);
        ledger.rows.clear();
        for (stack, freed) in [(0, 0), (1, 1000)] {
            let mut row = Row { stack, ..Row::default() };
            row.set(Metric::Allocated, &Sum::exact(64, 1000));
            row.set(Metric::Freed, &Sum::exact(64, freed));
            row.set(Metric::Live, &Sum::exact(64, 1000 - freed));
            ledger.rows.push(row);
        }
        ledger.births = vec![(0, Births { records: [125; 8], bytes: [8000; 8] })];
        ledger
    }

    #[test]
    fn callers_of_different_habits_are_told_apart() {
        let ledger = wrapped();
        let sites = Subject::of(&ledger).sites(&Ask::default());
        assert_eq!(sites.len(), 1, "one place: {sites:?}");
        let parts = Paths::of(&ledger).apart(&sites[0]);
        let told: Vec<_> = parts.iter().map(|part| (part.words(), part.keeping.habit)).collect();
        let expected = [
            ("make_node (list.c:5), called from main (main.c:7)".to_owned(), Habit::Keeps),
            (
                "make_node (list.c:5), called from work<int>(std::string const&) (work.cc:99)"
                    .to_owned(),
                Habit::Frees,
            ),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn callers_of_one_habit_are_one_place() {
        let mut ledger = wrapped();
        ledger.births.push((1, Births { records: [125; 8], bytes: [8000; 8] }));
        ledger.rows[1].set(Metric::Freed, &Sum::default());
        ledger.rows[1].set(Metric::Live, &Sum::exact(64, 1000));
        let sites = Subject::of(&ledger).sites(&Ask::default());
        let parts = Paths::of(&ledger).apart(&sites[0]);
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].words(), "make_node (list.c:5)");
        assert_eq!(
            parts[0].words_with_caller(),
            "make_node (list.c:5), called from main (main.c:7)"
        );
    }
}
