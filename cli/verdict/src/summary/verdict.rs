//! What can be said for certain about a session, in a few sentences.
//!
//! Of what is seen since the attach alone it never says *leak*: what is held longer than the session
//! lasted looks the same from here. It says what was allocated and not freed, and whether that
//! went on. Where blocks were counted by size, [`Growth`] knows more.
//!
//! Whether it went on is seen by the second half of the session: what was held in the middle is
//! compared with what was in use at the end. Of blocks seen since the attach more and more are held in
//! every process, until as many of them die as come; that the process grew is said only if its memory
//! in pages did, too. Where blocks were counted by size, the word is that of the rule.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::outside;
use crate::growth::{self, Growth};
use crate::{
    figure::{Unit, bytes, clock, percent},
    place::Place,
    weight::{difference, share},
};
use heapattach_ledger::{Ledger, Metric, Moment};
use heapattach_profile::{Estimate, Range, Sum};
use heapattach_text::quantity;

/// With fewer moments there is no middle.
const MOMENTS: usize = 4;
/// The first sites that together hold so much are named together.
const MOST: f64 = 0.8;

/// Memory in pages grew, too, if it grew by this part of what blocks did.
const CARRIED: f64 = 0.25;

/// What became of the memory that was allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// No block was recorded.
    #[default]
    Idle,
    /// All of it was freed.
    Returned,
    /// Some is in use, and in the second half more became so, and more pages; or the rule says that the
    /// heap grows.
    Grew,
    /// Some is in use; that more became so in the second half may be chance.
    Steady,
    /// Some is in use; whether that is growth is not known: the session was too short, the user asked for a
    /// part of it, or blocks seen may replace older ones.
    Held,
    /// What was freed is not known: nothing is certain.
    Incomplete,
}

/// What can be said.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// In one word.
    pub kind: Kind,
    /// In sentences.
    pub text: String,
    /// Bytes still in use in the end that were not in the middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_half: Option<Range>,
    /// How many sites hold `share`.
    pub sites: usize,
    /// The part of it that these sites hold.
    pub share: Range,
    /// What is said of growth, where blocks were counted by size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
}

impl Verdict {
    /// Of a ledger, and what its sites hold, those that hold most first.
    pub fn new(ledger: &Ledger, held_by: &[&Sum]) -> Self {
        let measure = |metric| ledger.total.measure(metric).bytes;
        let (live, allocated) = (measure(Metric::Live), measure(Metric::Allocated));
        let second_half = second_half(ledger, live);
        let growth = Growth::of(ledger, |stack| place(ledger, stack));
        let kind = kind(ledger, live, allocated, second_half, growth.as_ref());
        let (sites, part) = first_sites(held_by, live);
        let mut verdict = Self {
            kind,
            text: String::new(),
            second_half: second_half.map(Range::from),
            sites,
            share: part.into(),
            growth,
        };
        verdict.text = verdict.sentences(ledger, live, allocated).join(" ");
        verdict
    }

    fn sentences(&self, ledger: &Ledger, live: Estimate, allocated: Estimate) -> Vec<String> {
        let time = clock(Duration::from_millis(ledger.about.lasted_ms));
        // What is told of some blocks alone may have been allocated in less than all of the time.
        let is_all = ledger.about.part.is_empty();
        let when = if is_all { format!("in {time}") } else { "in this part".to_owned() };
        let asked = format!("{} asked for {when}", bytes(allocated));
        let held = bytes(live);
        let first = match self.kind {
            Kind::Idle => outside::idle(ledger, &when).join(" "),
            Kind::Returned if live.high > 0.0 => {
                let most = quantity::bytes(most(live.high));
                format!("Of {asked}, no block that was sampled is still held: at most {most}.")
            }
            Kind::Returned => format!("All of {asked} was given back."),
            Kind::Incomplete => format!(
                "Uncertain: records of what was given back were lost. Of {asked}, at most {held} \
                 are still held."
            ),
            Kind::Grew if self.growth.is_none() => {
                format!("Grew: of {asked}, {held} are still held{}.", self.later())
            }
            Kind::Grew | Kind::Steady | Kind::Held => {
                format!("Of {asked}, {held} are still held{}.", self.later())
            }
        };
        let word = self.growth.as_ref().filter(|_| self.kind != Kind::Incomplete);
        let mut sentences: Vec<String> =
            word.map(|growth| growth.headline.clone()).into_iter().chain([first]).collect();
        let is_held = !matches!(self.kind, Kind::Idle | Kind::Returned);
        if is_held && self.sites > 0 {
            let who = match self.sites {
                1 => "One place holds".to_owned(),
                n => format!("The first {n} places hold"),
            };
            sentences.push(format!("{who} {} of it.", percent(self.share.into())));
        }
        sentences.extend(resident(ledger));
        if is_all {
            sentences.extend(outside::unaccounted(ledger));
        }
        if let Some(growth) = &self.growth {
            let told = word.map_or("", |growth| growth.headline.as_str());
            let rest = growth.text.strip_prefix(told).unwrap_or(&growth.text).trim_start();
            sentences.extend((!rest.is_empty()).then(|| rest.to_owned()));
            return sentences;
        }
        if ledger.moments.iter().any(|moment| moment.flow.is_some()) && is_all {
            let why = "most blocks are not of glibc's allocator, which alone tells their sizes, \
                       and those older than the attach are not known otherwise (heapattach run \
                       --flow knows all)";
            sentences.push(format!("Growth is not judged: {why}."));
        }
        if self.kind == Kind::Grew {
            sentences.push(format!("What is kept for longer than {time} looks the same."));
        }
        if self.kind == Kind::Held && self.second_half.is_some_and(|change| change.low > 0.0) {
            sentences.push(
                "Older blocks that these may replace are not seen: --flow tells whether the heap \
                 grows."
                    .to_owned(),
            );
        }
        sentences
    }

    /// What came of it in the second half.
    fn later(&self) -> String {
        let Some(change) = self.second_half else { return String::new() };
        let told = Unit::Bytes.show_change(change.into());
        match change {
            Range { low, high, .. } if low == 0.0 && high == 0.0 => {
                "; none of it came in the second half".to_owned()
            }
            Range { low, .. } if low > 0.0 => format!("; {told} came in the second half"),
            Range { high, .. } if high < 0.0 => format!("; {told} in the second half"),
            _ => format!("; {told} in the second half, which may be chance"),
        }
    }
}

fn kind(
    ledger: &Ledger,
    live: Estimate,
    allocated: Estimate,
    second_half: Option<Estimate>,
    growth: Option<&Growth>,
) -> Kind {
    let records = |metric| ledger.total.sum(metric).records();
    match second_half {
        _ if ledger.about.loss.frees > 0 && live.value > 0.0 => Kind::Incomplete,
        _ if records(Metric::Allocated) == 0 && allocated.value <= 0.0 => Kind::Idle,
        _ if records(Metric::Live) == 0 => Kind::Returned,
        _ if growth.is_some_and(|growth| growth.kind > growth::Kind::Turnover) => Kind::Grew,
        _ if growth.is_some() => Kind::Steady,
        Some(change) if change.low > 0.0 && is_carried(ledger, change) => Kind::Grew,
        Some(change) if change.low > 0.0 => Kind::Held,
        Some(_) => Kind::Steady,
        None => Kind::Held,
    }
}

/// Whether the memory of the process in pages grew by a good part of this, too, in the second half. If
/// it did not, blocks seen took the place of older ones.
fn is_carried(ledger: &Ledger, change: Estimate) -> bool {
    let of = |moment: &Moment| moment.anonymous.or(moment.rss).map(|bytes| bytes as f64);
    let then = middle(ledger).and_then(of);
    let last = ledger.moments.last().and_then(of);
    then.zip(last).is_some_and(|(then, last)| last - then >= CARRIED * change.low)
}

/// Bytes in use at the end beyond those in the middle.
fn second_half(ledger: &Ledger, live: Estimate) -> Option<Estimate> {
    Some(difference(live, middle(ledger)?.held(ledger.about.every)))
}

/// The moment next to the middle of the session, if it is in the middle third: else what came after it
/// is not what came in the second half.
fn middle(ledger: &Ledger) -> Option<&Moment> {
    let moments = &ledger.moments;
    let (first, last) = (moments.first()?.at_ms, moments.last()?.at_ms);
    let length = last.checked_sub(first)?;
    let middle = first.checked_add(length / 2)?;
    let nearest = moments.iter().min_by_key(|moment| moment.at_ms.abs_diff(middle))?;
    let is_near = nearest.at_ms.abs_diff(middle) <= length / 6;
    Some(nearest).filter(|_| is_near && moments.len() >= MOMENTS)
}

/// The fewest of the first sites that hold most, and which part that is. If these are many, the part
/// of the first.
fn first_sites(held_by: &[&Sum], live: Estimate) -> (usize, Estimate) {
    let mut sum = Sum::default();
    let mut first = (0, Estimate::default());
    for (number, site) in held_by.iter().take(3).enumerate() {
        sum.merge(site);
        let part = share(sum.measure().bytes, live);
        if number == 0 || part.value >= MOST {
            first = (number + 1, part);
        }
        if part.value >= MOST {
            break;
        }
    }
    first
}

/// What allocates memory by this stack.
pub fn place(ledger: &Ledger, stack: u32) -> String {
    ledger.cause(stack).map_or_else(Place::unknown, |call| Place::of(&call)).words()
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

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    fn verdict(ledger: &Ledger) -> Verdict {
        let mut rows: Vec<_> = ledger.rows.iter().map(|row| row.sum(Metric::Live)).collect();
        rows.sort_by_key(|sum| std::cmp::Reverse(sum.parts().0.bytes));
        Verdict::new(ledger, &rows.iter().collect::<Vec<_>>())
    }

    #[test]
    fn what_grew_is_said_to_have_grown_and_not_to_be_a_leak() {
        let verdict = verdict(&sample::ledger());
        assert_eq!(verdict.kind, Kind::Grew);
        let expected = "Grew: of 1.2 MiB asked for in 20.0 s, 102.5 KiB are still held; \
                        +51.2 KiB came in the second half. The first 2 places hold 100 % of it. \
                        Resident memory grew by 195.3 KiB to 9.7 MiB. What is kept for longer than \
                        20.0 s looks the same.";
        assert_eq!(verdict.text, expected);
        assert!(!verdict.text.contains("leak"));
    }

    #[test]
    fn what_came_in_the_first_half_alone_did_not_grow() {
        let mut ledger = sample::ledger();
        let end = ledger.total.measure(Metric::Live).bytes.value;
        ledger.moments.iter_mut().skip(5).for_each(|moment| moment.live = end);
        assert_eq!(verdict(&ledger).kind, Kind::Steady);
    }

    #[test]
    fn what_may_replace_older_blocks_is_not_called_growth() {
        let mut ledger = sample::ledger();
        ledger.moments.iter_mut().for_each(|moment| moment.rss = Some(10_000_000));
        let verdict = verdict(&ledger);
        assert_eq!(verdict.kind, Kind::Held, "{}", verdict.text);
        assert!(verdict.text.starts_with("Of 1.2 MiB asked for in 20.0 s, 102.5"), "{verdict:?}");
        assert!(verdict.text.contains("+51.2 KiB came in the second half"), "{}", verdict.text);
        assert!(!verdict.text.contains("rew"), "{}", verdict.text);
    }

    #[test]
    fn a_moment_near_the_end_is_not_the_middle() {
        let mut ledger = sample::ledger();
        let length = ledger.moments.last().unwrap().at_ms;
        ledger.moments.retain(|moment| moment.at_ms < length / 5 || moment.at_ms > length / 10 * 9);
        assert!(ledger.moments.len() >= MOMENTS);
        let verdict = verdict(&ledger);
        assert_eq!(verdict.kind, Kind::Held, "{}", verdict.text);
        assert!(verdict.second_half.is_none() && !verdict.text.contains("chance"), "{verdict:?}");
    }

    #[test]
    fn the_word_of_the_rule_comes_first_and_is_not_contradicted() {
        for (kind, headline, is_growth) in [
            (growth::Kind::Steady, "Steady: the heap as a whole does not grow", false),
            (growth::Kind::Turnover, "Turnover: the heap as a whole does not grow", false),
            (growth::Kind::Growing, "Grows: the heap grows", true),
        ] {
            let ledger = sample::ledger();
            let headline = format!("{headline}.");
            let text = format!("{headline} More.");
            let growth = Growth { kind, headline: headline.clone(), text, ..Growth::default() };
            let [live, allocated] =
                [Metric::Live, Metric::Allocated].map(|metric| ledger.total.measure(metric).bytes);
            let second_half = second_half(&ledger, live);
            let said = super::kind(&ledger, live, allocated, second_half, Some(&growth));
            assert_eq!(said, if is_growth { Kind::Grew } else { Kind::Steady });
            let verdict = Verdict { kind: said, growth: Some(growth), ..self::verdict(&ledger) };
            let text = verdict.sentences(&ledger, live, allocated).join(" ");
            assert!(text.starts_with(&headline) && !text.contains("Grew"), "{text}");
            assert_eq!(text.matches(&headline).count(), 1, "{text}");
        }
    }

    #[test]
    fn nothing_is_certain_where_frees_were_lost() {
        let mut ledger = sample::ledger();
        ledger.about.loss.frees = 1;
        let verdict = verdict(&ledger);
        assert_eq!(verdict.kind, Kind::Incomplete);
        assert!(verdict.text.starts_with("Uncertain: "), "{}", verdict.text);
    }

    #[test]
    fn nothing_is_said_to_be_held_where_nothing_is() {
        let mut ledger = sample::ledger();
        ledger.total.set(Metric::Live, &Sum::default());
        assert_eq!(verdict(&ledger).kind, Kind::Returned);
        assert_eq!(verdict(&Ledger::default()).kind, Kind::Idle);
    }

    #[test]
    fn a_short_session_says_nothing_of_growth() {
        let mut ledger = sample::ledger();
        ledger.moments.truncate(3);
        assert_eq!(verdict(&ledger).kind, Kind::Held);
    }

    #[test]
    fn moments_of_a_hostile_file_are_no_reason_to_fail() {
        let mut ledger = sample::ledger();
        for (at_ms, live) in [(u64::MAX, f64::NAN), (0, -1e300), (7, f64::INFINITY)] {
            ledger.moments.insert(2, Moment { at_ms, live, ..Moment::default() });
            assert!(!verdict(&ledger).text.is_empty());
        }
    }
}
