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
            let what = "blocks for long, but as much goes elsewhere as comes: turnover.";
            sentences.push(format!("{who} {what}"));
        }
        if self.is_retained {
            let advice = "the allocator keeps it, or it was never malloc's.";
            sentences.push(format!("Resident memory grew, what is held did not: {advice}"));
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
mod tests {
    use super::*;
    use heapattach_ledger::{Cell, Fate, Metric, sample};
    use heapattach_profile::Sum;

    const SPANS: u8 = 64;

    /// Ten minutes in which one stack keeps ten blocks a span, and another gives all of them back.
    fn leaking() -> Ledger {
        let mut ledger = sample::ledger();
        (ledger.about.lasted_ms, ledger.about.up_ms) = (640_000, 6_000_000);
        ledger.total.set(Metric::Allocated, &Sum::exact(4000, 20 * u64::from(SPANS)));
        ledger.course.bounds_ms = (0..=u64::from(SPANS)).map(|span| span * 10_000).collect();
        let class = heapattach_abi::flow::class(4016) as u64;
        ledger.moments = (1..=u64::from(SPANS))
            .map(|span| heapattach_ledger::Moment {
                at_ms: span * 10_000,
                flow: Some(vec![[class, 20 * span, 10 * span]]),
                ..heapattach_ledger::Moment::default()
            })
            .collect();
        ledger.rows.iter_mut().for_each(|row| row.sizes = heapattach_ledger::Histogram::default());
        for birth in 0..SPANS {
            let cell =
                |stack, fate| Cell { stack, thread: 0, birth, fate, sum: Sum::exact(4000, 10) };
            ledger.course.cells.push(cell(0, Fate::Held));
            ledger.course.cells.push(cell(2, Fate::Freed { span: birth, is_soon: true }));
        }
        ledger
    }

    fn growth(ledger: &Ledger) -> Growth {
        Growth::of(ledger, |stack| format!("stack {stack}")).expect("sizes were counted")
    }

    #[test]
    fn a_leak_is_told_with_the_numbers_that_make_it_one() {
        let growth = growth(&leaking());
        assert_eq!(growth.kind, Kind::Leaking);
        let [one] = &growth.stacks[..] else { panic!("one stack: {:?}", growth.stacks) };
        assert_eq!((one.stack, one.excuse.as_str()), (0, ""));
        assert!(growth.text.contains("stack 0 leaks: its sizes by"), "{}", growth.text);
        assert!(growth.text.contains("cannot be told from leaks"), "{}", growth.text);
    }

    #[test]
    fn a_short_window_and_a_young_process_are_reasons_not_to_say_it() {
        let mut young = leaking();
        young.about.up_ms = 1000;
        assert!(growth(&young).text.contains("too young"), "{}", growth(&young).text);
        assert!(growth(&young).unexcused() > 0.0);
        let mut short = leaking();
        short.about.lasted_ms /= 64;
        short.course.bounds_ms.iter_mut().for_each(|bound| *bound /= 64);
        short.moments.iter_mut().for_each(|moment| moment.at_ms /= 64);
        let growth = growth(&short);
        assert_eq!(growth.kind, Kind::Growing);
        assert!(growth.text.contains("not called a leak: that takes 10 min"), "{}", growth.text);
    }

    #[test]
    fn blocks_of_another_allocator_are_no_growth_of_ours() {
        let mut ledger = leaking();
        ledger.total.set(Metric::Allocated, &Sum::exact(4000, 1 << 20));
        assert!(Growth::of(&ledger, |_| String::new()).is_none());
    }

    #[test]
    fn a_program_seen_from_its_start_is_judged_whatever_allocator_it_has() {
        let mut ledger = leaking();
        ledger.moments.iter_mut().for_each(|moment| moment.flow = Some(Vec::new()));
        assert!(Growth::of(&ledger, |_| String::new()).is_none());
        ledger.about.from_start = true;
        let growth = growth(&ledger);
        assert_eq!(growth.kind, Kind::Leaking, "{}", growth.text);
        // As many go as come.
        for cell in &mut ledger.course.cells {
            cell.fate = Fate::Freed { span: cell.birth, is_soon: true };
        }
        let growth = Growth::of(&ledger, |_| String::new()).unwrap();
        assert_eq!((growth.kind, growth.unexcused()), (Kind::Steady, 0.0), "{}", growth.text);
        assert!(growth.headline.starts_with("Steady: "), "{}", growth.text);
    }

    /// A vector that `realloc` makes larger by the same amount, ten times a span.
    fn vector() -> Ledger {
        let mut ledger = leaking();
        ledger.course.cells.clear();
        ledger.moments.clear();
        let mut flow = std::collections::BTreeMap::<u64, [u64; 2]>::new();
        let class = |step: u64| heapattach_abi::flow::class(1000 * step + 16) as u64;
        for span in 0..SPANS {
            for step in 1 + 10 * u64::from(span)..=10 + 10 * u64::from(span) {
                flow.entry(class(step)).or_default()[0] += 1;
                if step > 1 {
                    flow.entry(class(step - 1)).or_default()[1] += 1;
                }
                let last = step % 10 == 0;
                let fate = match span + 1 {
                    SPANS if last => Fate::Held,
                    next => Fate::Freed { span: if last { next } else { span }, is_soon: true },
                };
                let sum = Sum::exact(1000 * step, 1);
                ledger.course.cells.push(Cell { stack: 0, thread: 0, birth: span, fate, sum });
            }
            ledger.moments.push(heapattach_ledger::Moment {
                at_ms: 10_000 * (u64::from(span) + 1),
                flow: Some(
                    flow.iter().map(|(class, [came, went])| [*class, *came, *went]).collect(),
                ),
                ..heapattach_ledger::Moment::default()
            });
        }
        ledger.total.set(Metric::Allocated, &Sum::exact(1000, 640));
        ledger.rows.truncate(1);
        ledger.rows[0].set(Metric::Allocated, &Sum::exact(1000, 640));
        ledger.rows[0].reallocated = 639.0;
        ledger
    }

    #[test]
    fn a_vector_that_grows_by_realloc_and_never_shrinks_is_a_leak_like_any_other() {
        let growing = growth(&vector());
        assert_eq!(growing.kind, Kind::Leaking, "{}", growing.text);
        // Told of one by one, though, nothing of it gets old.
        let mut plain = vector();
        plain.rows[0].reallocated = 0.0;
        let first = plain.course.cells[0].clone();
        plain.course.cells.push(Cell { fate: Fate::Held, ..first });
        assert_ne!(growth(&plain).kind, Kind::Leaking);
    }

    #[test]
    fn a_vector_that_grows_by_new_and_copy_is_a_leak_like_any_other() {
        let mut copied = vector();
        copied.rows[0].reallocated = 0.0;
        // One a span; all within a span are freed in it.
        let growing = growth(&copied);
        assert_eq!(growing.kind, Kind::Leaking, "{}", growing.text);
        assert!(growing.text.contains("one block at a time, ever larger"), "{}", growing.text);
        // The same blocks, and one more that stays: they are not one.
        let mut other = copied;
        let first = other.course.cells[0].clone();
        other.course.cells.push(Cell { fate: Fate::Held, ..first });
        assert_ne!(growth(&other).kind, Kind::Leaking);
    }

    #[test]
    fn the_headline_neither_claims_nor_denies_more_than_its_interval() {
        let told = |kind, low, high, is_significant| {
            let bytes_per_minute = Range { value: (low + high) / 2.0, low, high };
            Growth { kind, bytes_per_minute, is_significant, ..Growth::default() }.headline()
        };
        let beyond = "does not grow beyond chance";
        assert!(told(Kind::Steady, -1.0, 7.0, false).contains(beyond));
        let uneven = told(Kind::Steady, 1.6, 7.0, false);
        assert!(uneven.starts_with("Grew: ") && !uneven.contains(beyond), "{uneven}");
        let grows = told(Kind::Growing, 1.6, 7.0, true);
        assert!(grows.starts_with("Grows: the heap grows by 4 B a minute"), "{grows}");
        let places = told(Kind::Growing, -1.0, 7.0, false);
        assert!(
            places.starts_with("Grows in places, but the heap as a whole does not"),
            "{places}"
        );
        assert!(told(Kind::Leaking, 1.0, 7.0, true).starts_with("Leaks: "));
        assert!(told(Kind::Turnover, -7.0, -1.0, false).contains("shrinks"));
    }

    #[test]
    fn what_the_allocator_keeps_is_told() {
        let mut ledger = leaking();
        ledger.course.cells.clear();
        for (number, moment) in (0..).zip(&mut ledger.moments) {
            moment.rss = Some((10 + number) << 20);
            moment.flow.iter_mut().flatten().for_each(|[_, came, went]| *went = *came);
        }
        let growth = growth(&ledger);
        assert!(growth.is_retained && growth.kind == Kind::Steady, "{growth:?}");
    }

    #[test]
    fn numbers_of_a_hostile_file_are_no_reason_to_fail() {
        let mut ledger = leaking();
        ledger.about.lasted_ms = u64::MAX;
        ledger.course.bounds_ms = vec![u64::MAX, 0, 7];
        ledger.course.cells.iter_mut().for_each(|cell| cell.birth = u8::MAX);
        for (moment, at_ms) in ledger.moments.iter_mut().zip([u64::MAX, 0, 5].into_iter().cycle()) {
            moment.at_ms = at_ms;
            moment.flow = Some(vec![[u64::MAX; 3], [3, u64::MAX, 0], [0; 3]]);
        }
        assert!(growth(&ledger).text.len() < 2000);
        ledger.course.bounds_ms.clear();
        assert!(!growth(&ledger).text.is_empty());
    }
}
