//! A verdict in sentences: the first names what grows, how fast, and where; or that nothing does.

use std::time::Duration;

use super::{Kind, Verdict, outside};
use crate::{
    figure::{Figure, Unit, bytes, bytes_a_second, clock, percent},
    keeping::{Habit, Keeping, goes_on},
    paths::{Path, Paths},
    subject::{Ask, Site, Subject},
    weight::share,
};
use heapattach_ledger::{Births, Ledger, Metric};
use heapattach_profile::{Estimate, Range, Sum};
use heapattach_text::quantity;

/// Places that are named as growing: the first that together have so much of the growth, and those that have
/// a good part of it by themselves; at most so many.
const MOST: f64 = 0.8;
const TOO_MUCH_TO_LEAVE: f64 = 0.1;
const NAMED: usize = 3;
/// Paths that have so much of the growth are why.
const EXPLAINED: f64 = 0.5;
/// A place that only holds, or only allocates and frees, is worth a word if it has this part of all.
const NOTABLE: f64 = 0.25;
/// Places that are looked at more closely: those that have most in use.
const LOOKED_AT: usize = 64;
/// What frees so much of what it allocates is turnover.
const TURNOVER: f64 = 0.9;

/// All of them.
pub fn of(verdict: &Verdict, ledger: &Ledger, sites: &[Site]) -> Vec<String> {
    Telling::new(verdict, ledger, sites).sentences()
}

struct Telling<'a> {
    verdict: &'a Verdict,
    ledger: &'a Ledger,
    /// Those that have something in use, told apart by callers where these differ.
    paths: Vec<Path>,
    /// The first of them as it is.
    first: Option<&'a Site>,
    live: Estimate,
    time: String,
    seconds: f64,
    /// Whether this is about all blocks of a session.
    is_all: bool,
}

impl<'a> Telling<'a> {
    fn new(verdict: &'a Verdict, ledger: &'a Ledger, sites: &'a [Site]) -> Self {
        let paths = Paths::of(ledger);
        let lasted = Duration::from_millis(ledger.about.lasted_ms);
        Self {
            verdict,
            ledger,
            paths: sites.iter().take(LOOKED_AT).flat_map(|site| paths.apart(site)).collect(),
            first: sites.first(),
            live: ledger.total.measure(Metric::Live).bytes,
            time: clock(lasted),
            seconds: lasted.as_secs_f64(),
            is_all: ledger.about.part.is_empty(),
        }
    }

    fn sentences(&self) -> Vec<String> {
        let Self { verdict, ledger, is_all, .. } = self;
        let word = verdict.growth.as_ref().filter(|_| verdict.kind != Kind::Incomplete);
        // The rule knows older blocks, too: what it says goes first.
        let mut told: Vec<String> = word.map(|growth| growth.text.clone()).into_iter().collect();
        let growing =
            if word.is_some() { None } else { self.growing().or_else(|| self.retained()) };
        let is_named = growing.is_some();
        told.extend(growing);
        if let Some(pages) = &verdict.mapped_growth {
            // What grows goes first, and so does what is certain to grow less, if that is blocks.
            let at = if verdict.kind == Kind::Grew { told.len() } else { 0 };
            told.insert(at, pages.text.clone());
        }
        told.push(self.sums(is_named));
        if !is_named {
            told.extend(self.holders());
        }
        told.extend(resident(ledger));
        if *is_all {
            told.extend(outside::unaccounted(ledger));
            told.extend(outside::vanished(ledger));
        }
        told.extend(self.held());
        told.extend(self.turnover());
        told.extend(verdict.growth.is_none().then(|| self.limits()).flatten());
        told
    }

    /// What grows, or at least keeps what it allocates, and how fast.
    fn growing(&self) -> Option<String> {
        let has_grown = self.verdict.kind == Kind::Grew;
        if !has_grown && !matches!(self.verdict.kind, Kind::Held | Kind::Steady) {
            return None;
        }
        let mut all = self.candidates(has_grown);
        let mut births = Births::default();
        all.iter().for_each(|path| births.merge(&path.site.births));
        let is_steady = goes_on(&births);
        if !has_grown && !is_steady {
            return None;
        }
        // What comes steadily is weighed by all that came of it: that is twice as much to know it by.
        let weigh = |path: &Path| match is_steady {
            true => path.site.births.all_bytes() as f64,
            false => path.keeping.recent.unwrap_or_default() as f64,
        };
        all.sort_by(|a, b| weigh(b).total_cmp(&weigh(a)));
        // Records of a damaged file may have no bytes at all.
        let whole = all.iter().map(|path| weigh(path)).sum::<f64>().max(1.0);
        let part = |path: &Path| weigh(path) / whole;
        let mut sum = 0.0;
        all.retain(|path| {
            let is_named = sum < MOST || part(path) >= TOO_MUCH_TO_LEAVE;
            sum += part(path);
            is_named
        });
        all.truncate(NAMED);
        let named = all;
        let (first, others) = named.split_first()?;
        let is_same = others.iter().all(|path| path.keeping.words() == first.keeping.words());
        // That it is never freed is as short as it is important: it stands before the names. Which part was
        // freed is told of a place, behind it.
        let (never, freed) = match first.keeping {
            _ if !is_same => (String::new(), String::new()),
            of if of.is_never_freed => (format!(", never freed in {}", self.time), String::new()),
            of => {
                (String::new(), format!("; {} of what was allocated there was freed", of.words()))
            }
        };
        let who = if others.is_empty() {
            format!(", {} by {}", of_it(part(first)), first.words_with_caller())
        } else {
            let each = named.iter().map(|path| {
                let freed = if is_same {
                    String::new()
                } else {
                    format!(" ({} freed)", path.keeping.words())
                };
                format!("{:.0} % {}{freed}", 100.0 * part(path), path.words())
            });
            format!(": {}", each.collect::<Vec<_>>().join(", "))
        };
        let mut bytes_of = Sum::default();
        named.iter().for_each(|path| bytes_of.merge(&path.site.weights[Metric::Live as usize].now));
        // The names go before the interval: the first two lines of a narrow page have room for them.
        let Figure { value, interval } = self.rate(&bytes_of);
        let within = match (has_grown && !is_steady, interval.as_str()) {
            (true, _) | (_, "") => String::new(),
            (false, interval) => format!(" (rate: {interval})"),
        };
        let how = match (has_grown, is_steady) {
            (true, true) => format!("Grows by {value}"),
            (false, _) => format!("Keeps {value}"),
            (true, false) => {
                let more = named.iter().filter_map(|path| path.keeping.recent);
                let more = quantity::bytes(more.fold(0, u64::saturating_add));
                format!("Grew by {more} in the second half")
            }
        };
        Some(format!("{how}{never}{who}{freed}{within}."))
    }

    /// The paths that may be why it grows: what is never freed, if that is a good part
    /// of the growth; else all that keeps more and more; else all that has new blocks in use, or may have.
    fn candidates(&self, has_grown: bool) -> Vec<&Path> {
        let growth = self.verdict.second_half.map_or(0.0, |change| change.value);
        let tiers: [fn(&Path) -> bool; 3] = [
            |path| path.keeping.is_never_freed && path.may_keep(),
            |path| path.keeping.habit == Habit::Keeps,
            |path| path.keeping.recent > Some(0) || path.came_again(),
        ];
        let of_tier = |tier: fn(&Path) -> bool| {
            let is_it = |path: &&Path| tier(path) && (has_grown || path.keeping.is_never_freed);
            self.paths.iter().filter(is_it).collect::<Vec<&Path>>()
        };
        let explains = |all: &Vec<&Path>| {
            let recent = all.iter().filter_map(|path| path.keeping.recent);
            recent.map(|bytes| bytes as f64).sum::<f64>() >= EXPLAINED * growth
        };
        let found = tiers[..2].iter().map(|tier| of_tier(*tier));
        let mut found = found.filter(|all| has_grown && !all.is_empty() && explains(all));
        found.next().unwrap_or_else(|| of_tier(tiers[2]))
    }

    /// That the allocator keeps what was freed, and beside which blocks.
    fn retained(&self) -> Option<String> {
        let [free, growth] = outside::retained(self.ledger).filter(|_| self.is_all)?;
        let beside = match self.paths.first() {
            Some(path) => format!(", beside live blocks of {}", path.words_with_caller()),
            None => String::new(),
        };
        let [free, growth] = [free, growth].map(quantity::bytes);
        Some(format!(
            "Freed memory stays resident: {free} of {growth} of growth{beside}; the allocator keeps it."
        ))
    }

    fn rate(&self, sum: &Sum) -> Figure {
        bytes_a_second(sum.measure().bytes, self.seconds)
    }

    /// How much was allocated, and how much of it is in use.
    fn sums(&self, is_named: bool) -> String {
        let allocated = self.ledger.total.measure(Metric::Allocated).bytes;
        // What is told of some blocks alone may have been allocated in less than all of the time.
        let when =
            if self.is_all { format!("in {}", self.time) } else { "in this part".to_owned() };
        let all = format!("{} allocated {when}", bytes(allocated));
        let live = bytes(self.live);
        match self.verdict.kind {
            _ if self.ledger.about.in_use_only => {
                let whose = &self.ledger.about.counted_by;
                format!(
                    "{live} were in use of what {whose} had sampled; what was freed is not known."
                )
            }
            Kind::Idle => outside::idle(self.ledger, &when).join(" "),
            Kind::Returned if self.live.high > 0.0 => {
                let most = quantity::bytes(most(self.live.high));
                format!(
                    "Of {all}, no block that was sampled is in use: at most {most}.{}",
                    self.peak()
                )
            }
            Kind::Returned => format!("All of {all} was freed.{}", self.peak()),
            Kind::Incomplete => format!(
                "Uncertain: records of freed blocks were dropped. Of {all}, at most {live} are in use."
            ),
            Kind::Grew if self.verdict.growth.is_none() && !is_named => {
                format!("Grew: of {all}, {live} are in use{}.", self.later())
            }
            Kind::Grew | Kind::Steady | Kind::Held => {
                format!("Of {all}, {live} are in use{}.", self.later())
            }
        }
    }

    /// Where the most was in use at once.
    fn peak(&self) -> String {
        let ask = Ask { metric: Metric::Peak, limit: 1, ..Ask::default() };
        let sites = Subject::of(self.ledger).sites(&ask);
        let bytes_of = |site: &Site| site.weights[Metric::Peak as usize].now.measure().bytes;
        let all = self.ledger.total.measure(Metric::Peak).bytes;
        let Some(first) = sites.first().filter(|site| bytes_of(site).value > 0.0) else {
            return String::new();
        };
        let part = of_it(share(bytes_of(first), all).value);
        let peak = bytes(self.ledger.peak);
        format!(" At most {peak} were in use at once, {part} by {}.", first.place.words())
    }

    /// What of it came in the second half.
    fn later(&self) -> String {
        let Some(change) = self.verdict.second_half else { return String::new() };
        let told = Unit::Bytes.show_change(change.into()).to_string();
        match change {
            Range { low, high, .. } if low == 0.0 && high == 0.0 => {
                "; none of it came in the second half".to_owned()
            }
            Range { low, .. } if low > 0.0 => format!("; {told} came in the second half"),
            Range { high, .. } if high < 0.0 => format!("; {told} in the second half"),
            Range { value, low, high } if value.abs() < 1.0 => {
                let within = high.max(-low);
                let within = Estimate { value: within, low: within, high: within };
                format!("; no change was seen in the second half, to within {}", bytes(within))
            }
            _ => format!("; {told} in the second half, which may be chance"),
        }
    }

    /// The places that have most of it in use.
    fn holders(&self) -> Option<String> {
        let has_some = !matches!(self.verdict.kind, Kind::Idle | Kind::Returned);
        let first = self.first.filter(|_| has_some)?;
        let part = percent(self.verdict.share.into());
        Some(match self.verdict.sites {
            0 => return None,
            1 => format!("{} has {part} of it.", first.place.words()),
            2 => format!("{} and 1 more place have {part} of it.", first.place.words()),
            n => format!("{} and {} more places have {part} of it.", first.place.words(), n - 1),
        })
    }

    /// A place that holds much and does not grow.
    fn held(&self) -> Option<String> {
        let is_it = |path: &&Path| {
            let live = path.site.weights[Metric::Live as usize].now.measure().bytes.value;
            let recent = path.keeping.recent.unwrap_or_default() as f64;
            path.keeping.habit == Habit::Holds
                && live >= NOTABLE * self.live.value
                && recent < NOTABLE * live
        };
        let path = self.paths.iter().find(is_it)?;
        let live = path.site.weights[Metric::Live as usize].now.measure();
        let blocks = crate::figure::blocks(live.count);
        let noun = if live.count.value > 1.0 { "blocks" } else { "block" };
        Some(format!(
            "{} does not grow: {} in {blocks} {noun}, of the first half.",
            path.words(),
            bytes(live.bytes)
        ))
    }

    /// A place that allocates much and frees it.
    fn turnover(&self) -> Option<String> {
        let first = turnover(self.ledger)?;
        let from = first.callers.first();
        let from = from.map_or(String::new(), |from| format!(", called from {},", from.words()));
        Some(format!(
            "{}{from} allocates most, {}, and {} of it was freed.",
            first.place.words(),
            self.rate(&first.weights[Metric::Allocated as usize].now),
            Keeping::of(&first).words()
        ))
    }

    /// What cannot be known from here.
    fn limits(&self) -> Option<String> {
        let has_sizes = self.ledger.moments.iter().any(|moment| moment.flow.is_some());
        if has_sizes && self.is_all {
            let why = "most blocks are not of glibc's allocator, which alone tells their sizes, \
                       and those older than the attach are not known otherwise (heapattach run \
                       --flow knows all)";
            return Some(format!("Growth is not judged: {why}."));
        }
        match self.verdict.kind {
            Kind::Grew => {
                Some(format!("Blocks that live for longer than {} look the same.", self.time))
            }
            Kind::Held if self.verdict.second_half.is_some_and(|change| change.low > 0.0) => Some(
                "Older blocks that these may replace are not seen: --flow tells whether the heap \
                 grows."
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

/// The place that allocates most, if that is a good part of all, and freed.
pub fn turnover(ledger: &Ledger) -> Option<Site> {
    let ask = Ask { metric: Metric::Allocated, limit: 1, ..Ask::default() };
    let first = Subject::of(ledger).sites(&ask).into_iter().next()?;
    let allocated = first.weights[Metric::Allocated as usize].now.measure().bytes.value;
    let all = ledger.total.measure(Metric::Allocated).bytes.value;
    let is_it = Keeping::of(&first).freed.value >= TURNOVER && allocated >= NOTABLE * all;
    Some(first).filter(|_| is_it && allocated > 0.0)
}

/// A part of something, in words.
fn of_it(part: f64) -> String {
    if part > 0.995 { "all of it".to_owned() } else { format!("{:.0} % of it", 100.0 * part) }
}

fn most(number: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let most = number.ceil() as u64;
    most
}

/// What the kernel says, exactly.
fn resident(ledger: &Ledger) -> Option<String> {
    let known: Vec<u64> = ledger.moments.iter().filter_map(|moment| moment.rss).collect();
    let (first, last) = (*known.first()?, *known.last()?);
    let what = match last.cmp(&first) {
        std::cmp::Ordering::Greater => "grew by",
        std::cmp::Ordering::Less => "shrank by",
        std::cmp::Ordering::Equal => {
            return Some(format!("Resident memory stayed at {}.", quantity::bytes(last)));
        }
    };
    let change = quantity::bytes(last.abs_diff(first));
    Some(format!("Resident memory {what} {change} to {}.", quantity::bytes(last)))
}
