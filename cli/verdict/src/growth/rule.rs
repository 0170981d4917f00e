//! What is said of the growth of one stack, and why.

use super::{
    Ladder,
    cohort::{Cohort, Load, Survival},
    trend::{Trend, value_at},
};

/// No shorter window tells a leak from what is kept for some minutes.
pub const LONG_ENOUGH: f64 = 600.0;
/// Growth that is less than this, or than this part of what was allocated, is not reported.
const LEAST_BYTES: f64 = 65_536.0;
const LEAST_PART: f64 = 0.03;
/// Blocks that would die less often than this in a window do not die.
const UNDYING: f64 = 0.15;
/// Of what does not die the heap must have grown by so much, to say that it grows by it, and that it
/// leaks: else as much goes elsewhere as comes.
const SEEN: f64 = 0.5;
const ACCOUNTED: f64 = 0.7;
/// A load is flat between these.
const FLAT: [f64; 2] = [0.8, 1.25];
/// What ends up below this part of its load has been warming up.
const WARMING: f64 = 0.5;
/// A process younger than so many windows is still filling what it will keep.
const GROWN_UP: f64 = 2.0;

/// What is said. The later the worse.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Nothing grows.
    #[default]
    Steady,
    /// Blocks are kept for long, but as many go as come.
    Turnover,
    /// It grows, but allocates less and less.
    Warming,
    /// It grows; that may be the load, its youth, or the window is too short to say more.
    Growing,
    /// It grows by blocks that are not freed, however old they are.
    Leaking,
}

/// What is known of a stack.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    /// Its own blocks.
    pub cohort: &'a Cohort,
    /// If these are one block at a time, ever larger.
    pub ladder: Option<Ladder>,
    /// Bytes in use of the sizes that it allocates, by all stacks, since before the window: at times in
    /// seconds from 0 on.
    pub net: &'a [(f64, f64)],
    /// Bytes of these sizes that were allocated in the window.
    pub asked: f64,
    /// Bytes of these sizes that are in use at the end and are older than a part of the window, of
    /// all stacks.
    pub old: &'a dyn Fn(f64) -> f64,
    /// Seconds.
    pub window: f64,
    /// How old the process was in the end, in seconds.
    pub uptime: f64,
}

/// What is said, with every number that led to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Judgement {
    /// In one word.
    pub kind: Kind,
    /// Growth of the sizes.
    pub trend: Trend,
    /// What the stack keeps.
    pub survival: Survival,
    /// Which part of what all stacks keep the heap grew by.
    pub accounted: f64,
    /// How its load changed.
    pub load: Option<Load>,
    /// Why it is not worse.
    pub excuse: Option<Excuse>,
    /// It is one block at a time, ever larger.
    pub is_one_block: bool,
}

/// Why something that grows is not called a leak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// Its load went up or down.
    Load,
    /// It allocated nothing in a third of the window: whether its load changed is not known.
    Unknown,
    /// What gets old still dies, or too few are known to be old.
    Mortal,
    /// As much goes elsewhere as stays here.
    Exchange,
    /// The window is too short.
    Short,
    /// The process is too young.
    Young,
}

/// The rule.
pub fn judge(case: &Case<'_>) -> Judgement {
    let survival = case.cohort.survival();
    // One block that is ever larger is kept, however young the last of them is.
    let keeps = survival.hazard < UNDYING || case.ladder.is_some();
    let trend = Trend::of(case.net).unwrap_or_default();
    let grown = trend.rate * case.window;
    let since = survival.age * case.window;
    let late = value_at(case.net, case.window) - value_at(case.net, since);
    let accounted = match case.ladder {
        Some(ladder) => grown / ladder.grown.max(1.0),
        None => late / (case.old)(survival.age).max(survival.bytes).max(1.0),
    };
    let load = case.cohort.load();
    let is_one_block = case.ladder.is_some();
    let mut said =
        Judgement { trend, survival, accounted, load, is_one_block, ..Judgement::default() };
    // What is seen to be kept block by block needs no test of its sum.
    let is_seen = keeps && accounted >= SEEN;
    let is_much = grown >= LEAST_BYTES && (is_seen || grown >= LEAST_PART * case.asked);
    if !is_much || !(trend.is_growth || is_seen) {
        said.kind = if keeps { Kind::Turnover } else { Kind::Steady };
        return said;
    }
    let (is_up, is_down) =
        load.map_or((false, false), |load| (load.low > FLAT[1], load.high < FLAT[0]));
    let is_uneven = is_up || is_down;
    // One that grows by a part of itself asks ever more seldom for ever more: that is not its load.
    let excuse = if is_uneven && !is_one_block {
        Some(Excuse::Load)
    } else if is_uneven || load.is_none() {
        Some(Excuse::Unknown)
    } else if !keeps {
        Some(Excuse::Mortal)
    } else if accounted < ACCOUNTED {
        Some(Excuse::Exchange)
    } else if case.window < LONG_ENOUGH {
        Some(Excuse::Short)
    } else if case.uptime < GROWN_UP * case.window {
        Some(Excuse::Young)
    } else {
        None
    };
    said.excuse = excuse;
    said.kind = match excuse {
        None => Kind::Leaking,
        Some(Excuse::Load) if is_down && load.is_some_and(|load| load.ratio < WARMING) => {
            Kind::Warming
        }
        Some(_) => Kind::Growing,
    };
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::cohort::Cell;

    const SPANS: usize = 24;

    /// What is said of blocks that are all kept, so many for each span, in a window of so many seconds.
    fn said(blocks: impl Fn(usize) -> f64, window: f64) -> Judgement {
        let size = 10_000.0;
        let cells = (0..SPANS).map(|birth| {
            let blocks = blocks(birth);
            Cell { birth, death: None, blocks, squares: blocks, bytes: blocks * size }
        });
        let cohort = Cohort::new(SPANS, cells);
        let mut net = vec![(0.0, 0.0)];
        for span in 0..SPANS {
            let at = window * (span + 1) as f64 / SPANS as f64;
            net.push((at, net[span].1 + blocks(span) * size));
        }
        let (old, asked) = (|age| cohort.held(age), net[SPANS].1);
        let (cohort, net, ladder, uptime) = (&cohort, &net[..], None, 100.0 * window);
        judge(&Case { cohort, ladder, net, asked, old: &old, window, uptime })
    }

    #[test]
    fn a_load_is_an_excuse_where_it_changed_and_never_where_it_is_flat() {
        let flat = said(|_| 100.0, LONG_ENOUGH);
        assert_eq!((flat.kind, flat.excuse), (Kind::Leaking, None), "{flat:?}");
        let short = said(|_| 100.0, LONG_ENOUGH / 2.0);
        assert_eq!((short.kind, short.excuse), (Kind::Growing, Some(Excuse::Short)), "{short:?}");
        // As it differs by chance, not by its third.
        let uneven = said(|span| 90.0 + 20.0 * (span % 2) as f64, LONG_ENOUGH);
        assert_eq!(uneven.excuse, None, "{uneven:?}");
        let more = said(|span| 100.0 + 20.0 * span as f64, LONG_ENOUGH);
        assert_eq!((more.kind, more.excuse), (Kind::Growing, Some(Excuse::Load)), "{more:?}");
        let less = said(|span| 600.0 - 20.0 * span as f64, LONG_ENOUGH);
        assert_eq!(less.excuse, Some(Excuse::Load), "{less:?}");
    }
}
