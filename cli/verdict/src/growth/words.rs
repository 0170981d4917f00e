//! What is found, in sentences with their numbers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Excuse, Finding, Judgement, Kind, LONG_ENOUGH, StackFinding, Trend};
use heapattach_ledger::{self, Ledger};
use heapattach_profile::Range;
use heapattach_text::quantity;

/// Reasons not to call it a leak that are only that it was not looked at for longer.
const TIME: [Excuse; 2] = [Excuse::Short, Excuse::Young];

/// Stacks that are told of.
const STACKS: usize = 5;
const MINUTE: f64 = 60.0;
/// Growth of resident memory that is worth a word.
const RESIDENT: u64 = 1 << 20;

/// Growth, for scripts and for people.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Growth {
    /// The worst that is said of any stack; of all memory together, if none could be judged.
    pub kind: Kind,
    /// How fast the heap grows, with its interval, blocks older than the session counting when they go.
    pub bytes_per_minute: Range,
    /// Whether that is certain to be growth.
    pub is_significant: bool,
    /// Resident memory grew, and the bytes in use did not: the allocator keeps it.
    pub is_retained: bool,
    /// Stacks that grow, or keep what they allocate; the worst first.
    pub stacks: Vec<GrowingStack>,
    /// The first sentence: the word of the rule.
    #[serde(default)]
    pub headline: String,
    /// In sentences, that one first.
    pub text: String,
}

/// A stack that grows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GrowingStack {
    /// Its number in the recording.
    pub stack: u32,
    /// Who it is, in words.
    pub place: String,
    /// What is said of it.
    pub kind: Kind,
    /// What it holds of the heap.
    pub held: u64,
    /// How fast its sizes grow, per minute.
    pub bytes_per_minute: Range,
    /// Records of blocks older than `older_than` that are in use at the end.
    pub survivors: f64,
    /// In seconds.
    pub older_than: f64,
    /// Of blocks so old at most this part dies in a window; 95 % certain. None if nothing got so old.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dying: Option<f64>,
    /// Which part of what all stacks keep of its sizes the heap grew by.
    pub accounted: f64,
    /// What was allocated in the last third, by the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Range>,
    /// It holds one block at a time, ever larger.
    #[serde(default)]
    pub is_one_block: bool,
    /// Why it is not called worse; empty if nothing excuses it.
    pub excuse: String,
}

impl Growth {
    /// Of a whole session in which sizes were counted; with words for a stack.
    pub fn of(ledger: &Ledger, place: impl Fn(u32) -> String) -> Option<Self> {
        let found = Finding::of(ledger)?;
        let worth = found.stacks.iter().filter(|one| one.said.kind > Kind::Steady);
        let stacks: Vec<GrowingStack> =
            worth.take(STACKS).map(|one| told(one, &found, &place)).collect();
        let is_significant = found.trend.is_growth;
        let kind = match found.kind() {
            Kind::Steady | Kind::Turnover if is_significant => Kind::Growing,
            kind => kind,
        };
        let is_retained = is_retained(ledger, &found.trend, found.window);
        let bytes_per_minute = per_minute(&found.trend);
        let mut growth = Self {
            kind,
            bytes_per_minute,
            is_significant,
            is_retained,
            stacks,
            headline: String::new(),
            text: String::new(),
        };
        growth.headline = growth.headline();
        growth.text = growth.sentences(&found).join(" ");
        Some(growth)
    }

    /// Bytes a minute by which sizes grow whose stacks grow as a leak does: of those that nothing
    /// excuses but time.
    pub fn unexcused(&self) -> f64 {
        let is_unexcused = |stack: &&GrowingStack| match stack.kind {
            Kind::Leaking => true,
            Kind::Growing => TIME.into_iter().any(|time| stack.excuse == because(time)),
            _ => false,
        };
        let rates = self.stacks.iter().filter(is_unexcused);
        rates.map(|stack| stack.bytes_per_minute.value).fold(0.0, f64::max)
    }

    /// The word of the rule, and what the heap as a whole does: no more than its interval carries, and
    /// no less.
    fn headline(&self) -> String {
        let Range { low, high, .. } = self.bytes_per_minute;
        let rate = rate(self.bytes_per_minute);
        let is_up = self.is_significant || low > 0.0;
        let all = match is_up {
            _ if self.is_significant => format!("the heap grows by {rate}, older blocks included"),
            true => format!(
                "the heap grew by {rate}, older blocks included, too unevenly to say that it goes on"
            ),
            false if high < 0.0 => format!("the heap shrinks: {rate}"),
            false if low == high => format!("the heap as a whole does not grow: {rate}"),
            false => format!("the heap as a whole does not grow beyond chance: {rate}"),
        };
        let word = match self.kind {
            Kind::Leaking => "Leaks",
            Kind::Growing => "Grows",
            Kind::Warming => "Warms up",
            Kind::Turnover | Kind::Steady if is_up => "Grew",
            Kind::Turnover => "Turnover",
            Kind::Steady => "Steady",
        };
        let places = if self.kind > Kind::Turnover && !is_up { " in places" } else { "" };
        let but = if places.is_empty() { "" } else { "but " };
        let colon = if places.is_empty() { ":" } else { "," };
        format!("{word}{places}{colon} {but}{all}.")
    }

    fn sentences(&self, found: &Finding) -> Vec<String> {
        let window = clock(found.window);
        let mut sentences = vec![self.headline.clone()];
        for stack in self.stacks.iter().filter(|stack| stack.kind > Kind::Turnover) {
            sentences.push(stack.sentence());
        }
        let kept = self.stacks.iter().filter(|stack| stack.kind == Kind::Turnover).count();
        if kept > 0 && self.kind <= Kind::Turnover {
            let who = if kept == 1 { "One place keeps" } else { "Some places keep" };
            let what = "blocks for long, but as much is freed elsewhere as is allocated: turnover.";
            sentences.push(format!("{who} {what}"));
        }
        if self.is_retained {
            let advice = "the allocator keeps it, or it was never malloc's.";
            sentences.push(format!("Resident memory grew, memory in use did not: {advice}"));
        }
        if !found.why_none.is_empty() {
            sentences.push(format!("No place could be judged: {}.", found.why_none));
        }
        let dying = self.stacks.first().filter(|one| one.kind == Kind::Leaking);
        let longest = dying.and_then(|one| one.dying).map_or(found.window, |d| found.window / d);
        sentences.push(format!(
            "Blocks that live longer than {} cannot be told from leaks in {window}.",
            clock(longest)
        ));
        sentences
    }
}

impl GrowingStack {
    fn sentence(&self) -> String {
        let what = match self.kind {
            Kind::Leaking => "leaks",
            Kind::Warming => "is warming up",
            _ => "grows",
        };
        let mut reasons = vec![format!("its sizes by {}", rate(self.bytes_per_minute))];
        if self.is_one_block {
            reasons.push("one block at a time, ever larger".to_owned());
        } else if let Some(dying) = self.dying.filter(|dying| *dying < 1.0) {
            reasons.push(format!(
                "of blocks older than {} at most {} die in such a time ({:.0} records)",
                clock(self.older_than),
                format_args!("{:.0} %", (dying * 100.0).ceil()),
                self.survivors
            ));
        }
        if let Some(load) = self.load {
            reasons.push(format!("load {:.2} ({:.2} to {:.2})", load.value, load.low, load.high));
        }
        let excuse = match self.excuse.as_str() {
            "" => String::new(),
            excuse => format!("; not called a leak: {excuse}"),
        };
        format!("{} {what}: {}{excuse}.", self.place, reasons.join(", "))
    }
}

fn told(one: &StackFinding, found: &Finding, place: impl Fn(u32) -> String) -> GrowingStack {
    let Judgement { kind, trend, survival, accounted, load, excuse, is_one_block } = one.said;
    let load = load.map(|load| Range { value: load.ratio, low: load.low, high: load.high });
    GrowingStack {
        stack: one.stack,
        place: place(one.stack),
        kind,
        held: whole(one.held),
        bytes_per_minute: per_minute(&trend),
        survivors: survival.records,
        older_than: survival.age * found.window,
        dying: survival.hazard.is_finite().then_some(survival.hazard),
        accounted,
        load,
        is_one_block,
        excuse: excuse.map(because).unwrap_or_default(),
    }
}

fn because(excuse: Excuse) -> String {
    match excuse {
        Excuse::Load => "its load changed".to_owned(),
        Excuse::Unknown => "it allocated too seldom to tell a leak from a single event".to_owned(),
        Excuse::Mortal => "what gets old may still die".to_owned(),
        Excuse::Exchange => "much of what it keeps is made up for elsewhere".to_owned(),
        Excuse::Short => format!("that takes {}", clock(LONG_ENOUGH)),
        Excuse::Young => "the process is too young to have settled".to_owned(),
    }
}

fn is_retained(ledger: &Ledger, trend: &Trend, window: f64) -> bool {
    let known = |of: fn(&heapattach_ledger::Moment) -> Option<u64>| {
        let mut known = ledger.moments.iter().filter_map(of);
        let first = known.next()?;
        known.next_back()?.checked_sub(first)
    };
    let mapped = known(|moment| Some(moment.mapped)).unwrap_or_default();
    let resident = known(|moment| moment.rss).unwrap_or_default().saturating_sub(mapped);
    resident >= RESIDENT && !trend.is_growth && trend.high * window < resident as f64 / 2.0
}

fn per_minute(trend: &Trend) -> Range {
    let Trend { rate, low, high, .. } = *trend;
    Range { value: rate * MINUTE, low: low * MINUTE, high: high * MINUTE }
}

fn rate(range: Range) -> String {
    let told = |bytes: f64| {
        let sign = if bytes < 0.0 { "-" } else { "" };
        format!("{sign}{}", quantity::bytes(whole(bytes.abs())))
    };
    format!("{} a minute ({} to {})", told(range.value), told(range.low), told(range.high))
}

fn clock(seconds: f64) -> String {
    quantity::clock(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX))
}

fn whole(number: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let whole = number as u64;
    whole
}

#[cfg(test)]
mod tests;
