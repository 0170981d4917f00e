//! Three ledgers or more, in their order: what each place had at each moment, and whether it grew from
//! every one of them to the next.
//!
//! A difference of two cannot tell what grows from what was only larger the second time.

use std::collections::HashMap;

use serde::Serialize;

use crate::{
    figure::Unit,
    place::{Place, Places},
    subject::{Ask, Key, callers, key},
    weight::difference,
};
use heapattach_ledger::Ledger;
use heapattach_profile::{Amount, Measure, Sum};

/// The ledgers, the earliest first.
#[derive(Clone, Copy, Debug)]
pub struct Moments<'a>(pub &'a [Ledger]);

/// What is told of one place, or of all.
#[derive(Clone, Debug, Serialize)]
pub struct Steps {
    /// At each moment.
    pub amounts: Vec<Amount>,
    /// From each to the next.
    pub steps: Vec<Step>,
    /// From the first to the last.
    pub change: Amount,
    /// How steadily it grew.
    pub growth: Steadiness,
}

/// What became different between two moments that follow each other.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Step {
    /// The difference.
    #[serde(flatten)]
    pub change: Amount,
    /// Whether that, by the unit that was chosen, is more than chance.
    pub is_significant: bool,
}

/// How steadily something grew. The earlier the more so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Steadiness {
    /// More at every moment than at the one before, certainly.
    EveryStep,
    /// The same, but some of it may be chance.
    EveryStepOrChance,
    /// More in the end, but not at every moment.
    SomeSteps,
    /// Not more in the end than in the beginning.
    No,
}

/// A place.
#[derive(Clone, Debug)]
pub struct MomentSite {
    /// Who caused the allocations.
    pub place: Place,
    /// The calls behind it, innermost first, of its heaviest stack at the last moment.
    pub callers: Vec<Place>,
    /// What it had.
    pub steps: Steps,
}

#[derive(Clone, Debug)]
struct Own {
    sums: Vec<Sum>,
    /// Of the last ledger that has it: the number of that, the value there, and the stack.
    heaviest: (usize, f64, u32),
}

impl Moments<'_> {
    /// Everything.
    pub fn total(&self, ask: &Ask) -> Steps {
        let sums: Vec<Sum> = self.0.iter().map(|ledger| ledger.total.sum(ask.metric)).collect();
        Steps::of(&sums, ask.unit)
    }

    /// By cause: what grew in every step, then what changed most. Lines move from build to build and are
    /// left out, as in a difference of two.
    pub fn sites(&self, ask: &Ask) -> Vec<MomentSite> {
        let mut places = Places::default();
        let mut all: HashMap<Key, Own> = HashMap::new();
        for (number, ledger) in self.0.iter().enumerate() {
            let (numbers, unknown) = (places.of(ledger), places.unknown());
            for row in &ledger.rows {
                let key = key(ledger, row.stack, &numbers, unknown, false);
                let nothing = || Own {
                    sums: vec![Sum::default(); self.0.len()],
                    heaviest: (number, f64::MIN, row.stack),
                };
                let own = all.entry(key).or_insert_with(nothing);
                own.sums[number].merge(&row.sum(ask.metric));
                let value = ask.unit.of(&row.measure(ask.metric)).value;
                let (at, most, _) = own.heaviest;
                if number > at || value > most {
                    own.heaviest = (number, value, row.stack);
                }
            }
        }
        all.retain(|_, own| own.sums.iter().any(|sum| sum.records() > 0));
        let told = all.into_iter().map(|(key, own)| {
            let (at, _, stack) = own.heaviest;
            let steps = Steps::of(&own.sums, ask.unit);
            (MomentSite { place: key.place(&places), callers: Vec::new(), steps }, at, stack)
        });
        let mut told: Vec<_> = told.collect();
        told.sort_by(|(a, ..), (b, ..)| {
            let (one, other) = (&a.steps, &b.steps);
            let by_change = other.size(ask.unit).total_cmp(&one.size(ask.unit));
            one.growth.cmp(&other.growth).then(by_change).then_with(|| a.place.cmp(&b.place))
        });
        let with_callers = |(number, (site, at, stack)): (usize, (MomentSite, usize, u32))| {
            let callers = match self.0.get(at).filter(|_| number < ask.limit) {
                Some(ledger) => callers(ledger, stack),
                None => Vec::new(),
            };
            MomentSite { callers, ..site }
        };
        told.into_iter().enumerate().map(with_callers).collect()
    }
}

impl Steps {
    fn of(sums: &[Sum], unit: Unit) -> Self {
        let measures: Vec<Measure> = sums.iter().map(Sum::measure).collect();
        let change = |from: &Measure, to: &Measure| Measure {
            bytes: difference(to.bytes, from.bytes),
            count: difference(to.count, from.count),
        };
        let changes = measures.windows(2).map(|pair| change(&pair[0], &pair[1]));
        let changes: Vec<Measure> = changes.collect();
        let steps = changes.iter().map(|change| {
            let told = unit.of(change);
            let is_significant = told.low > 0.0 || told.high < 0.0;
            Step { change: (*change).into(), is_significant }
        });
        let all = match (measures.first(), measures.last()) {
            (Some(first), Some(last)) => change(first, last),
            _ => Measure::default(),
        };
        let growth = if changes.iter().all(|change| unit.of(change).low > 0.0) {
            Steadiness::EveryStep
        } else if changes.iter().all(|change| unit.of(change).value > 0.0) {
            Steadiness::EveryStepOrChance
        } else if unit.of(&all).value > 0.0 {
            Steadiness::SomeSteps
        } else {
            Steadiness::No
        };
        let amounts = measures.iter().map(|measure| (*measure).into()).collect();
        Self { steps: steps.collect(), amounts, change: all.into(), growth }
    }

    /// How much became different, in all or in one step.
    fn size(&self, unit: Unit) -> f64 {
        let steps = self.steps.iter().map(|step| &step.change);
        let sizes = steps.chain([&self.change]).map(|change| unit.of_amount(change).value.abs());
        // What is not a number is passed over.
        sizes.fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::{Metric, sample};

    /// A ledger in which the first row has so many blocks in use, and the second.
    fn ledger(blocks: [u64; 2]) -> Ledger {
        let mut ledger = sample::ledger();
        let mut total = Sum::default();
        for (row, blocks) in ledger.rows.iter_mut().zip(blocks.into_iter().chain([0])) {
            row.set(Metric::Live, &Sum::exact(64, blocks));
            total.merge(&Sum::exact(64, blocks));
        }
        ledger.total.set(Metric::Live, &total);
        ledger
    }

    fn told(ledgers: &[Ledger]) -> Vec<(String, Steadiness, f64)> {
        let sites = Moments(ledgers).sites(&Ask::default());
        let told = sites
            .into_iter()
            .map(|site| (site.place.function, site.steps.growth, site.steps.change.bytes.value));
        told.collect()
    }

    #[test]
    fn what_grew_in_every_step_is_told_before_what_grew_more() {
        let ledgers = [[10, 10], [20, 900], [30, 400], [40, 1000]].map(ledger);
        let expected = [
            ("make_node".to_owned(), Steadiness::EveryStep, 30.0 * 64.0),
            ("main".to_owned(), Steadiness::SomeSteps, 990.0 * 64.0),
        ];
        assert_eq!(told(&ledgers), expected);
        let total = Moments(&ledgers).total(&Ask::default());
        assert_eq!(total.amounts.len(), 4);
        assert_eq!(total.steps[1].change.bytes.value, -490.0 * 64.0);
        assert_eq!(total.growth, Steadiness::SomeSteps);
    }

    #[test]
    fn what_comes_or_goes_meanwhile_is_nothing_at_the_other_moments() {
        let mut ledgers = [[5, 7], [6, 7], [7, 0]].map(ledger);
        ledgers[0].rows.remove(0);
        let told = told(&ledgers);
        assert_eq!(told[0], ("make_node".to_owned(), Steadiness::EveryStep, 7.0 * 64.0));
        assert_eq!(told[1], ("main".to_owned(), Steadiness::No, -7.0 * 64.0));
    }

    #[test]
    fn growth_of_samples_may_be_chance() {
        let sampled = |blocks| {
            let mut ledger = ledger([0, 0]);
            ledger.rows[0].set(Metric::Live, &Sum::sampled(64, blocks, 4096));
            ledger
        };
        let some = [3, 4, 5].map(sampled);
        assert_eq!(told(&some)[0].1, Steadiness::EveryStepOrChance);
        let many = [300, 600, 900].map(sampled);
        assert_eq!(told(&many)[0].1, Steadiness::EveryStep);
    }
}
