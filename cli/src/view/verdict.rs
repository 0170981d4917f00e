//! What can be said for certain about a session, in a few sentences.
//!
//! Of what is seen since the attach alone it never says *leak*: what is held longer than the session
//! lasted looks the same from here. It says what was asked for and not given back, and whether that
//! went on. Where blocks were counted by size, [`Growth`] knows more.
//!
//! Whether it went on is seen by the second half of the session: what was held in the middle is
//! compared with what was held at the end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    figure::{Unit, bytes, clock, percent},
    place::Place,
    weight::{difference, share},
};
use crate::{
    growth::Growth,
    ledger::{Ledger, Metric},
    profile::{Estimate, Sum},
    quantity,
    site_report::Range,
};

/// With fewer moments there is no middle.
const MOMENTS: usize = 4;
/// The first sites that together hold so much are named together.
const MOST: f64 = 0.8;

/// What became of the memory that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Nobody asked for any.
    #[default]
    Idle,
    /// All of it was given back.
    Returned,
    /// Some is held, and in the second half more became so.
    Grew,
    /// Some is held; that more became so in the second half may be chance.
    Steady,
    /// Some is held; the session was too short, or a part of it was asked for, for more.
    Held,
    /// What was given back is not known: nothing is certain.
    Incomplete,
}

/// What can be said.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// In one word.
    pub kind: Kind,
    /// In sentences.
    pub text: String,
    /// Bytes still held in the end that were not in the middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_half: Option<Range>,
    /// So many sites hold the part of it that is told.
    pub sites: usize,
    /// See above.
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
        let kind = kind(ledger, live, allocated, second_half);
        let (sites, part) = first_sites(held_by, live);
        let mut verdict = Self {
            kind,
            text: String::new(),
            second_half: second_half.map(Range::from),
            sites,
            share: part.into(),
            growth: Growth::of(ledger, |stack| place(ledger, stack)),
        };
        verdict.text = verdict.sentences(ledger, live, allocated).join(" ");
        verdict
    }

    fn sentences(&self, ledger: &Ledger, live: Estimate, allocated: Estimate) -> Vec<String> {
        let time = clock(Duration::from_millis(ledger.about.lasted_ms));
        // What is told of some blocks alone may have been asked for in less than all of the time.
        let is_all = ledger.about.part.is_empty();
        let when = if is_all { format!("in {time}") } else { "in this part".to_owned() };
        let asked = format!("{} asked for {when}", bytes(allocated));
        let held = bytes(live);
        let second = self.second_half.map(|range| Unit::Bytes.show_change(range.into()));
        let second = second.unwrap_or_default();
        let first = match self.kind {
            Kind::Idle => format!("Nobody asked for memory {when}."),
            Kind::Returned => format!("Did not grow: all of {asked} was given back."),
            Kind::Grew => {
                format!(
                    "Grew: of {asked}, {held} are still held; {second} came in the second half."
                )
            }
            Kind::Steady => format!(
                "Of {asked}, {held} are still held; in the second half that did not grow beyond \
                 chance: {second}."
            ),
            Kind::Held => format!("Of {asked}, {held} are still held."),
            Kind::Incomplete => format!(
                "Uncertain: records of what was given back were lost. Of {asked}, at most {held} \
                 are still held."
            ),
        };
        let mut sentences = vec![first];
        let is_held = !matches!(self.kind, Kind::Idle | Kind::Returned);
        if is_held && self.sites > 0 {
            let who = match self.sites {
                1 => "One place holds".to_owned(),
                n => format!("The first {n} places hold"),
            };
            sentences.push(format!("{who} {} of it.", percent(self.share.into())));
        }
        sentences.extend(resident(ledger));
        if let Some(growth) = &self.growth {
            sentences.push(growth.text.clone());
            return sentences;
        }
        if ledger.moments.iter().any(|moment| moment.flow.is_some()) && is_all {
            let why = "most blocks are not of glibc's allocator, which alone tells their sizes";
            sentences.push(format!("Growth is not judged: {why}."));
        }
        if self.kind == Kind::Grew {
            sentences.push(format!("What is kept for longer than {time} looks the same."));
        }
        sentences
    }
}

fn kind(
    ledger: &Ledger,
    live: Estimate,
    allocated: Estimate,
    second_half: Option<Estimate>,
) -> Kind {
    let records = |metric| ledger.total.sum(metric).records();
    match second_half {
        _ if ledger.about.loss.frees > 0 && live.value > 0.0 => Kind::Incomplete,
        _ if records(Metric::Allocated) == 0 && allocated.value <= 0.0 => Kind::Idle,
        _ if records(Metric::Live) == 0 => Kind::Returned,
        Some(change) if change.low > 0.0 => Kind::Grew,
        Some(_) => Kind::Steady,
        None => Kind::Held,
    }
}

/// What is held more at the end than in the middle.
fn second_half(ledger: &Ledger, live: Estimate) -> Option<Estimate> {
    let (first, last) = (ledger.moments.first()?.at_ms, ledger.moments.last()?.at_ms);
    let middle = first.checked_add(last.checked_sub(first)? / 2)?;
    let at = ledger.moments.partition_point(|moment| moment.at_ms < middle);
    let then = ledger.moments.get(at).filter(|_| ledger.moments.len() >= MOMENTS)?;
    Some(difference(live, then.held(ledger.about.every)))
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

/// Who asks for memory by this stack.
pub fn place(ledger: &Ledger, stack: u32) -> String {
    ledger.cause(stack).map_or_else(Place::unknown, |call| Place::of(&call)).words()
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
    use crate::ledger::{Moment, sample};

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
