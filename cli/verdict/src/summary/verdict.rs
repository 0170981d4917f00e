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

use serde::{Deserialize, Serialize};

use super::{
    MappedSite,
    mapped::{self, MappedGrowth},
    sentences,
};
use crate::growth::{self, Growth};
use crate::{
    place::Place,
    subject::Site,
    weight::{difference, share},
};
use heapattach_ledger::{Births, Ledger, Metric, Moment};
use heapattach_profile::{Estimate, Range, Sum};

/// With fewer moments there is no middle.
const MOMENTS: usize = 4;
/// The first sites that together hold so much are named together.
const MOST: f64 = 0.8;

/// So much of what is in use is as much.
const AS_MUCH: f64 = 0.8;
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
    /// Some is in use; that more became so in the second half may be chance, or its turn.
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
    /// The first of them: what grows, or that nothing does.
    #[serde(skip)]
    pub first: String,
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
    /// How mapped memory grows, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped_growth: Option<MappedGrowth>,
}

impl Verdict {
    /// Of a ledger, of its places that have something in use, those with most first, and of those that have
    /// mapped something.
    pub fn new(ledger: &Ledger, sites: &[Site], mapped: &[MappedSite]) -> Self {
        let measure = |metric| ledger.total.measure(metric).bytes;
        let (live, allocated) = (measure(Metric::Live), measure(Metric::Allocated));
        let second_half = second_half(ledger, live);
        let growth = Growth::of(ledger, |stack| place(ledger, stack));
        let kind = kind(ledger, live, allocated, second_half, growth.as_ref());
        let is_told = ledger.about.part.is_empty() && kind != Kind::Incomplete;
        let mapped_growth = is_told.then(|| mapped::growth(ledger, mapped)).flatten();
        let (first, part) = first_sites(sites, live);
        let mut verdict = Self {
            kind,
            text: String::new(),
            first: String::new(),
            second_half: second_half.map(Range::from),
            sites: first,
            share: part.into(),
            growth,
            mapped_growth,
        };
        let told = sentences::of(&verdict, ledger, sites);
        verdict.text = told.join(" ");
        // The rule on growth says several at once, and heads them itself.
        let headline = verdict.growth.as_ref().map(|growth| growth.headline.clone());
        let headline = headline.filter(|headline| verdict.text.starts_with(headline));
        verdict.first = headline.or_else(|| told.into_iter().next()).unwrap_or_default();
        verdict
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
        Some(_) if is_turn(ledger, live) => Kind::Steady,
        Some(change) if change.low > 0.0 && is_carried(ledger, change) => Kind::Grew,
        Some(change) if change.low > 0.0 => Kind::Held,
        Some(_) => Kind::Steady,
        None => Kind::Held,
    }
}

/// Whether it comes and goes: all came at one time, and in the first half as much was in use at another one.
fn is_turn(ledger: &Ledger, live: Estimate) -> bool {
    let Some(middle) = middle(ledger) else { return false };
    let mut births = Births::default();
    ledger.births.iter().for_each(|(_, of_stack)| births.merge(of_stack));
    let times = births.records.iter().filter(|&&records| records > 0).count();
    let mut before = ledger.moments.iter().filter(|moment| moment.at_ms <= middle.at_ms);
    times == 1 && before.any(|moment| moment.live >= AS_MUCH * live.value)
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
fn first_sites(sites: &[Site], live: Estimate) -> (usize, Estimate) {
    let mut sum = Sum::default();
    let mut first = (0, Estimate::default());
    for (number, site) in sites.iter().take(3).enumerate() {
        sum.merge(&site.weights[Metric::Live as usize].now);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::{Ask, Subject};
    use heapattach_ledger::sample;

    fn verdict(ledger: &Ledger) -> Verdict {
        let mut sites = Subject::of(ledger).sites(&Ask::default());
        sites.retain(|site| site.weights[Metric::Live as usize].now.records() > 0);
        Verdict::new(ledger, &sites, &[])
    }

    #[test]
    fn what_grew_is_said_to_have_grown_and_not_to_be_a_leak() {
        let verdict = verdict(&sample::ledger());
        assert_eq!(verdict.kind, Kind::Grew);
        let expected = "Grows by 3.1 KiB/s, all of it by make_node (list.c:12), called from grow_list \
                        (list.c:40); 33 % of what was allocated there was freed. Of 1.2 MiB allocated in 20.0 s, 102.5 KiB are in \
                        use; +51.2 KiB came in the second half. Resident memory grew by 195.3 KiB to \
                        9.7 MiB. main (main.c:7) does not grow: 40.0 KiB in 10 blocks, of the first \
                        half. work<int>(std::string const&) (work.cc:99) allocates most, 54.7 \
                        KiB/s, and all of it was freed. Blocks that live for longer than 20.0 s \
                        look the same.";
        assert_eq!(verdict.text, expected);
        assert!(!verdict.text.contains("leak"));
        assert!(verdict.first.ends_with("of what was allocated there was freed."), "{verdict:?}");
        assert!(verdict.text.starts_with(&verdict.first));
    }

    #[test]
    fn what_came_in_the_first_half_alone_did_not_grow() {
        let mut ledger = sample::ledger();
        let end = ledger.total.measure(Metric::Live).bytes.value;
        ledger.moments.iter_mut().skip(5).for_each(|moment| moment.live = end);
        assert_eq!(verdict(&ledger).kind, Kind::Steady);
    }

    #[test]
    fn what_came_at_one_time_and_was_in_use_before_has_its_turn() {
        let mut ledger = sample::ledger();
        let live = ledger.total.measure(Metric::Live).bytes.value;
        ledger.births.truncate(1);
        ledger.births[0].1.records = [0, 0, 0, 0, 0, 0, 0, 100];
        assert_eq!(verdict(&ledger).kind, Kind::Grew, "it was never in use before");
        ledger.moments[1].live = 0.9 * live;
        assert_eq!(verdict(&ledger).kind, Kind::Steady);
        ledger.births[0].1.records = [10, 10, 10, 10, 10, 10, 10, 10];
        assert_eq!(verdict(&ledger).kind, Kind::Grew, "it goes on coming");
    }

    #[test]
    fn what_may_replace_older_blocks_is_not_called_growth() {
        let mut ledger = sample::ledger();
        ledger.moments.iter_mut().for_each(|moment| moment.rss = Some(10_000_000));
        let verdict = verdict(&ledger);
        assert_eq!(verdict.kind, Kind::Held, "{}", verdict.text);
        assert!(verdict.text.starts_with("Of 1.2 MiB allocated in 20.0 s, 102.5"), "{verdict:?}");
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
            let text = sentences::of(&verdict, &ledger, &[]).join(" ");
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
    fn of_what_was_all_freed_the_peak_is_told_and_who_made_it() {
        let mut ledger = sample::ledger();
        ledger.total.set(Metric::Live, &Sum::default());
        let verdict = verdict(&ledger);
        let told = "All of 1.2 MiB allocated in 20.0 s was freed. At most 115.8 KiB were in use at once, \
                    65 % of it by make_node (list.c:12).";
        assert!(verdict.text.starts_with(told), "{}", verdict.text);
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
