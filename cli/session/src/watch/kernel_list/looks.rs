//! Looks at the kernel's list while a program runs, for the case that it ends in the session: it is not
//! stopped then, and when its end is noticed there is no list any more.
//!
//! ```text
//! list, question, answer      list, question, answer      ...      end: the last two are compared
//! ```
//!
//! Two of them, since the program runs: a mapping may just have come that is not recorded yet. What was unmapped
//! between them by a hooked function is left out as well: what is in both lists may be two mappings.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use heapattach_ledger::PageKinds;
use heapattach_process::proc::{Process, maps};
use heapattach_profile::{Profile, Tick, clock::Clock};

use super::{
    Comparison, Judgement, KernelList, Range, overlaps,
    question::{Answer, Question, Recorded},
    spread::{Spread, grown, spread},
    union,
};
use crate::{page_kinds::Regions, watch::memory_course::resident};

/// Between two looks at least.
const LEAST: Duration = Duration::from_millis(100);
/// And at most.
const MOST: Duration = Duration::from_secs(30);
/// The last look is not older than this part of the time before it.
const PART: u32 = 4;
/// Never more than this part of the time is spent on looking.
const SHARE: u32 = 50;
/// Of a process with more memory it is not asked what its pages are: the kernel walks through all of them, and
/// who maps has to wait.
const SMALL: u64 = 256 << 20;

/// The list of a moment.
#[derive(Debug)]
struct Look {
    at: Duration,
    list: KernelList,
    spread: Spread,
    /// Records with a higher stamp may be later than the list.
    stamp: u64,
}

/// A list, and what was recorded by then.
type Told = Arc<(Look, Answer)>;

/// Looks when it is time.
#[derive(Debug)]
pub struct Looks<'a> {
    process: &'a Process,
    /// What is ours.
    home: Range<u64>,
    clock: Clock,
    next: Duration,
    /// Waits for its answer.
    asked: Option<Look>,
    last: Option<Told>,
    /// The last two that can be compared.
    pair: Option<[Told; 2]>,
    /// What its pages were when that was last asked.
    regions: Option<Regions>,
}

/// What the last look saw.
#[derive(Debug)]
pub struct Seen {
    /// When that was.
    pub at: Duration,
    /// By how much each kind of mapping was larger than before the attach.
    pub grown: Spread,
    /// What came and went by no hooked function until then.
    pub judgement: Judgement,
}

impl<'a> Looks<'a> {
    /// None so far.
    pub fn new(process: &'a Process, home: Range<u64>, clock: Clock) -> Self {
        let (next, asked, last, pair, regions) = Default::default();
        Self { process, home, clock, next, asked, last, pair, regions }
    }

    /// Looks if it is time, or takes the answer to the last question.
    pub fn look(&mut self, before: &KernelList, recorded: &Recorded) {
        if let Some(look) = self.asked.take() {
            match recorded.answer() {
                Some(answer) => self.take(look, answer),
                None => self.asked = Some(look),
            }
            return;
        }
        let at = self.clock.elapsed();
        if at < self.next {
            return;
        }
        let (began, stamp) = (Instant::now(), recorded.stamp());
        let text = self.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).unwrap_or_default();
        let (list, spread) = (KernelList::of(&maps, &self.home), spread(&maps, &self.home));
        let pause = (at / PART).clamp(LEAST, MOST);
        self.next = at + pause;
        if !list.has_ours {
            // It has ended, or has become another program.
            return;
        }
        let ranges = list.beyond(before);
        // Nothing has come that could be told: the kernel is spared the walk.
        let is_wanted = self.regions.is_some() || !ranges.is_empty();
        if is_wanted && resident(self.process).0.is_some_and(|bytes| bytes <= SMALL) {
            self.regions = Some(Regions::of(self.process));
        }
        let since = self.last.as_ref().map_or(stamp, |last| last.0.stamp);
        recorded.ask(Question { ranges, since });
        self.asked = Some(Look { at, list, spread, stamp });
        self.next = self.clock.elapsed() + pause.max(began.elapsed() * SHARE);
    }

    /// What these ranges were at the last look, each with the row of the stack that mapped it.
    pub fn kinds(&self, ranges: &[(Range<u64>, u32)]) -> Vec<PageKinds> {
        self.regions.as_ref().map_or_else(Vec::new, |regions| regions.kinds(ranges))
    }

    fn take(&mut self, look: Look, answer: Answer) {
        let now = Arc::new((look, answer));
        let before = self.last.replace(Arc::clone(&now));
        if let Some(before) = before.filter(|_| now.1.unmapped.is_some()) {
            self.pair = Some([before, now]);
        }
    }

    /// What the last look saw, if that can be told; the profile has all records.
    pub fn seen(&self, before: (KernelList, &Spread), profile: &Profile) -> Option<Seen> {
        let [first, last] = self.pair.as_ref()?;
        let (Look { at, list, stamp, .. }, Look { list: after, spread, .. }) = (&first.0, &last.0);
        let comparison =
            Comparison { before: before.0, during: list.clone(), after: after.clone() };
        if !comparison.is_sound() {
            return None;
        }
        // A thread that had not recorded its mapping by then has now.
        let later = Answer::of(profile, &Question { ranges: Vec::new(), since: *stamp });
        let mut known: Vec<Range<u64>> = Vec::new();
        for Answer { ranges, unmapped, .. } in [&first.1, &last.1, &later] {
            known.extend(ranges.iter().map(|(range, _)| range.clone()));
            known.extend(unmapped.iter().flatten().cloned());
        }
        let blocks = first.1.blocks.iter().chain(&last.1.blocks).copied();
        let unhooked = comparison.mapped(&union(known), blocks);
        // What is recorded both then and at the end as one mapping.
        let still = later.mapped_before(Tick::after(*at));
        let then = comparison.vanished(&last.1.mapped_before(Tick::after(*at)));
        let vanished = then.iter().flat_map(|range| overlaps(range, &still)).collect();
        let judgement = Judgement { unhooked, vanished };
        Some(Seen { at: last.0.at, grown: grown(before.1, spread), judgement })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "1000-2000 rw-p 00000000 00:00 0 \n\
        700000-701000 rw-s 00000000 00:01 5    /memfd:heapattach (deleted)\n";

    fn told(
        at_ms: u64,
        mappings: &[&str],
        recorded: &[(u64, u64)],
        unmapped: &[(u64, u64)],
    ) -> Told {
        let lines = mappings.iter().map(|range| format!("{range} rw-p 00000000 00:00 0 \n"));
        let (low, high) = OLD.split_at(OLD.find("70").unwrap());
        let text = low.to_owned() + &lines.collect::<String>() + high;
        let (text, at) = (text.as_bytes(), Duration::from_millis(at_ms));
        let maps = maps::parse(text).unwrap();
        let (list, spread) = (KernelList::of(&maps, &(0..0)), spread(&maps, &(0..0)));
        let range = |&(start, end): &(u64, u64)| start..end;
        let answer = Answer {
            ranges: recorded.iter().map(|pair| (range(pair), Tick::default())).collect(),
            blocks: Vec::new(),
            unmapped: Some(unmapped.iter().map(range).collect()),
        };
        Arc::new((Look { at, list, spread, stamp: 0 }, answer))
    }

    /// What two looks tell of a process that had little before: where mappings came by no hooked
    /// function.
    fn starts(first: Told, last: Told) -> Vec<u64> {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let mut looks = Looks::new(&process, 0..0, Clock::start());
        looks.pair = Some([first, last]);
        let before = KernelList::of(&maps::parse(OLD.as_bytes()).unwrap(), &(0..0));
        let profile = Profile::new(heapattach_profile::Limits::default(), 0);
        let seen = looks.seen((before, &Spread::new()), &profile).unwrap();
        assert_eq!(seen.at, Duration::from_millis(200));
        seen.judgement.unhooked.0.iter().map(|one| one.start).collect()
    }

    #[test]
    fn only_what_two_lists_have_and_no_record_ever_touched_came_by_no_hooked_function() {
        let own = "100000-200000";
        let first = || told(100, &[own, "300000-400000"], &[], &[]);
        assert_eq!(starts(first(), told(200, &[own], &[], &[])), [0x10_0000], "the other went");
        let recorded = told(200, &[own, "300000-400000"], &[(0x30_0000, 0x40_0000)], &[]);
        assert_eq!(starts(first(), recorded), [0x10_0000], "its record came later");
        let replaced = told(200, &[own, "300000-400000"], &[], &[(0x30_0000, 0x40_0000)]);
        assert_eq!(starts(first(), replaced), [0x10_0000], "another one has its place");
    }

    #[test]
    fn a_process_without_our_rings_is_another_program_and_tells_nothing() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let mut looks = Looks::new(&process, 0..0, Clock::start());
        let recorded = Recorded::default();
        looks.look(&KernelList::default(), &recorded);
        assert!(!recorded.hear() && looks.asked.is_none(), "nothing is asked");
        looks.pair = Some([told(100, &[], &[], &[]), told(200, &[], &[], &[])]);
        let profile = Profile::new(heapattach_profile::Limits::default(), 0);
        assert!(looks.seen((KernelList::default(), &Spread::new()), &profile).is_none());
        assert!(looks.kinds(std::slice::from_ref(&(0x1000..0x2000, 7))).is_empty());
    }

    #[test]
    fn a_question_is_answered_with_what_was_recorded_before_it() {
        let recorded = Recorded::default();
        let profile = Profile::new(heapattach_profile::Limits::default(), 0);
        recorded.reply(&profile);
        assert!(recorded.answer().is_none() && !recorded.hear());
        recorded.ask(Question::default());
        recorded.reply(&profile);
        assert!(recorded.answer().is_none(), "the records were not read since");
        assert!(recorded.hear());
        recorded.reply(&profile);
        let answer = recorded.answer().unwrap();
        assert_eq!(answer, Answer { unmapped: Some(Vec::new()), ..Answer::default() });
        assert!(recorded.answer().is_none(), "once");
    }
}
