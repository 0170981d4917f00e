//! What a view is about, and what it is asked.

use std::collections::HashMap;

use crate::{
    figure::Unit,
    place::{Place, Places},
    weight::{Side, Weight},
};
use heapattach_ledger::{Births, Call, Ledger, Memory, Metric};

/// A ledger, and perhaps the one it is compared with.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What is looked at.
    pub now: &'a Ledger,
    /// What it was before.
    pub base: Option<&'a Ledger>,
}

/// Which end of the stacks comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// From `main` to the allocating function.
    #[default]
    TopDown,
    /// From the allocating function to `main`.
    BottomUp,
}

/// What a view is asked.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// What is measured.
    pub metric: Metric,
    /// Of which memory the ledger is; if that was not chosen, of blocks, with mapped memory beside them.
    pub memory: Option<Memory>,
    /// The unit: bytes or blocks.
    pub unit: Unit,
    /// Rows that are told.
    pub limit: usize,
    /// The order of trees.
    pub order: Order,
    /// Whether functions are in the order of what they have with all that they called.
    pub cum: bool,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            metric: Metric::Live,
            memory: None,
            unit: Unit::Bytes,
            limit: 20,
            order: Order::TopDown,
            cum: false,
        }
    }
}

/// The place that a stack is summed up under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    place: u32,
    /// The function that has the place's code, if it was inlined into one.
    body: u32,
    /// Lines move from build to build: not where two of them are compared.
    line: Option<u32>,
}

impl Key {
    /// The place itself.
    pub(crate) fn place(&self, places: &Places) -> Place {
        let mut place = places.get(self.place).clone();
        place.line = self.line;
        place
    }
}

/// All stacks with one cause.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// Who caused the allocations.
    pub place: Place,
    /// By [`Metric`].
    pub weights: [Weight; 5],
    /// Bytes of pages mapped.
    pub mapped: u64,
    /// Bytes of these that are still mapped.
    pub mapped_live: u64,
    /// When its blocks in use were allocated, as far as that is known.
    pub births: Births,
    /// Its stacks in the ledger that is looked at.
    pub stacks: Vec<u32>,
    /// The calls behind the cause, innermost first, of its heaviest stack.
    pub callers: Vec<Place>,
    heaviest: (f64, Option<(Side, u32)>),
}

impl Site {
    /// Nothing yet, at a place.
    pub fn at(place: Place) -> Self {
        Self { place, ..Self::default() }
    }

    /// Whether anything of it is in use, was allocated, or was mapped.
    pub fn has_anything(&self) -> bool {
        let is_seen = self.weights.iter().any(|weight| weight.now.records() > 0);
        is_seen || self.mapped > 0 || self.mapped_live > 0
    }

    /// Its heaviest stack, of the ledger that is looked at.
    pub fn stack(&self) -> Option<u32> {
        self.heaviest.1.filter(|(side, _)| *side == Side::Now).map(|(_, stack)| stack)
    }
}

impl<'a> Subject<'a> {
    /// Without a comparison.
    pub fn of(ledger: &'a Ledger) -> Self {
        Self { now: ledger, base: None }
    }

    /// Both, the one looked at first.
    pub fn sides(&self) -> impl Iterator<Item = (Side, &'a Ledger)> {
        let base = self.base.map(|base| (Side::Before, base));
        std::iter::once((Side::Now, self.now)).chain(base)
    }

    /// All of it.
    pub fn total(&self, metric: Metric) -> Weight {
        let before = self.base.map(|base| base.total.sum(metric)).unwrap_or_default();
        Weight { now: self.now.total.sum(metric), before }
    }

    /// By cause, the most important first.
    pub fn sites(&self, ask: &Ask) -> Vec<Site> {
        let mut places = Places::default();
        let mut sites: HashMap<Key, Site> = HashMap::new();
        for (side, ledger) in self.sides() {
            let (numbers, unknown) = (places.of(ledger), places.unknown());
            let stacks = (0_u32..).take(ledger.stacks.count());
            let has_lines = self.base.is_none();
            let keys: Vec<_> =
                stacks.map(|stack| key(ledger, stack, &numbers, unknown, has_lines)).collect();
            for (stack, births) in ledger.births.iter().filter(|_| side == Side::Now) {
                if let Some(key) = keys.get(*stack as usize) {
                    sites.entry(*key).or_default().births.merge(births);
                }
            }
            for (stack, key) in (0_u32..).zip(&keys).filter(|_| side == Side::Now) {
                sites.entry(*key).or_default().stacks.push(stack);
            }
            for row in &ledger.rows {
                let key = keys[row.stack as usize];
                let site = sites.entry(key).or_default();
                for metric in Metric::ALL {
                    row.add_to(metric, site.weights[metric as usize].of(side));
                }
                if side == Side::Now {
                    site.mapped = site.mapped.saturating_add(row.mapped);
                    site.mapped_live = site.mapped_live.saturating_add(row.mapped_live);
                }
                let value = ask.unit.of(&row.measure(ask.metric)).value;
                if site.heaviest.1.is_none() || value > site.heaviest.0 {
                    site.heaviest = (value, Some((side, row.stack)));
                }
            }
        }
        let told = sites.into_iter().map(|(key, mut site)| {
            site.place = key.place(&places);
            site
        });
        let mut sites = self.in_order(told.collect(), ask);
        sites.iter_mut().take(ask.limit).for_each(|site| site.callers = self.callers(site));
        sites
    }

    /// The most important first. There may be tens of thousands, of a kilobyte each: each is moved once.
    fn in_order(&self, sites: Vec<Site>, ask: &Ask) -> Vec<Site> {
        let is_change = self.base.is_some();
        let rank = |site: &Site| site.weights[ask.metric as usize].rank(ask.unit, is_change);
        let mut order: Vec<(f64, usize)> = sites.iter().map(rank).zip(0..).collect();
        order.sort_unstable_by(|(a, one), (b, other)| {
            b.total_cmp(a).then_with(|| sites[*one].place.cmp(&sites[*other].place))
        });
        let mut sites: Vec<Option<Site>> = sites.into_iter().map(Some).collect();
        order.into_iter().filter_map(|(_, at)| sites[at].take()).collect()
    }

    fn callers(&self, site: &Site) -> Vec<Place> {
        let Some((side, stack)) = site.heaviest.1 else { return Vec::new() };
        let ledger = if side == Side::Now { Some(self.now) } else { self.base };
        ledger.map_or(Vec::new(), |ledger| callers(ledger, stack))
    }
}

/// The place that a stack of a ledger is summed up under; `numbers` are those of its functions' places.
pub(crate) fn key(
    ledger: &Ledger,
    stack: u32,
    numbers: &[u32],
    unknown: u32,
    has_line: bool,
) -> Key {
    let mut calls = own_calls(ledger, stack);
    let Some((function, call)) = calls.next() else {
        return Key { place: unknown, body: unknown, line: None };
    };
    let place = numbers[function as usize];
    let body = if call.is_inlined { calls.find(|(_, c)| !c.is_inlined) } else { None };
    let body = body.map_or(place, |(function, _)| numbers[function as usize]);
    Key { place, body, line: call.line.filter(|_| has_line) }
}

/// The calls behind the cause of a stack, innermost first.
pub(crate) fn callers(ledger: &Ledger, stack: u32) -> Vec<Place> {
    own_calls(ledger, stack).skip(1).map(|(_, call)| Place::of(&call)).collect()
}

/// The calls of a stack from its cause outwards, each with the number of its function.
pub fn own_calls(ledger: &Ledger, stack: u32) -> impl Iterator<Item = (u32, Call<'_>)> {
    let cause = ledger.stacks.get(stack).map_or(0, |stack| stack.cause as usize);
    ledger.functions_of(stack).zip(ledger.calls(stack)).skip(cause)
}
