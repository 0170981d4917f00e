//! The course of the session.

use std::time::Duration;

use serde::Serialize;

use super::{
    bar::sparkline,
    page::{Ink, Page, Span},
    table::{Column, Table},
};
use heapattach_ledger::{Ledger, Moment};
use heapattach_profile::{Bound, Estimate};
use heapattach_text::quantity;
use heapattach_verdict::figure::{Unit, clock, is_exact, whole};

/// The widest drawing.
const DRAWN: usize = 60;
/// What stands beside it, and what does with intervals.
const BESIDE: usize = 52;
const BESIDE_ENDS: usize = 80;
/// On a page of fewer columns there are none.
const ENDS_FROM: usize = 100;
/// Above a course of so many columns it is said where it is drawn from.
const WIDE: usize = 20;
/// Points of a rate: between two moments there are too few samples.
const RATES: usize = 60;

/// The moments that were noted.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// Whether what is in use and allocated is estimated.
    pub is_estimated: bool,
    /// In the order of time.
    pub moments: Vec<Noted>,
    /// Mean bytes between samples.
    #[serde(skip)]
    every: u64,
}

/// One of them; what is not known is not there.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Noted {
    /// Since counting began.
    pub at_ms: u64,
    /// Bytes of blocks in use.
    pub live: f64,
    /// Bytes requested since counting began.
    pub allocated: f64,
    /// Blocks allocated since then.
    pub blocks: f64,
    /// The ends of the interval of `live`, where it is estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_ends: Option<[f64; 2]>,
    /// The same of `allocated`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_ends: Option<[f64; 2]>,
    /// The same of `blocks`, where it was written down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks_ends: Option<[f64; 2]>,
    /// Bytes of pages mapped since counting began, and still.
    pub mapped: u64,
    /// Resident memory of the process, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss: Option<u64>,
    /// Its part of what it shares with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pss: Option<u64>,
    /// Of its memory what no file is behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anonymous: Option<u64>,
    /// What its control group uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<u64>,
    /// What its control group may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_limit: Option<u64>,
}

impl Noted {
    fn new(moment: &Moment, every: u64) -> Self {
        let Moment { at_ms, live, allocated, blocks, mapped, rss, pss, .. } = *moment;
        let Moment { anonymous, cgroup, cgroup_limit, ends, .. } = *moment;
        let known = |estimate: Estimate| (every > 1).then_some([estimate.low, estimate.high]);
        Self {
            at_ms,
            live,
            allocated,
            blocks,
            live_ends: known(moment.held(every)),
            allocated_ends: known(moment.asked(every)),
            blocks_ends: ends.map(|ends| ends.blocks).filter(|_| every > 1),
            mapped,
            rss,
            pss,
            anonymous,
            cgroup,
            cgroup_limit,
        }
    }

    fn held(&self) -> Estimate {
        let [low, high] = self.live_ends.unwrap_or([self.live; 2]);
        Estimate { value: self.live, low, high }
    }
}

impl Timeline {
    /// Of a ledger.
    pub fn new(ledger: &Ledger) -> Self {
        let every = ledger.about.every;
        let moments = ledger.moments.iter().map(|moment| Noted::new(moment, every)).collect();
        Self { is_estimated: every > 1, moments, every }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        let (Some(first), Some(last)) = (self.moments.first(), self.moments.last()) else {
            return page.prose("TIME", Ink::Plain, "no moment was noted");
        };
        let span = Duration::from_millis(last.at_ms.saturating_sub(first.at_ms));
        let number = self.moments.len();
        page.prose("TIME", Ink::Plain, &format!("{} in {number} moments", clock(span)));
        let has_ends = self.is_estimated && page.width().is_none_or(|width| width >= ENDS_FROM);
        if self.is_estimated {
            let ends = match has_ends {
                true => "below them: 95 % CI",
                false => "95 % CIs are left out for want of room (--json has them)",
            };
            let text = format!("memory in use and the allocation rate are estimated; {ends}");
            page.prose("", Ink::Dim, &text);
        }
        page.gap();
        let beside = if has_ends { BESIDE_ENDS } else { BESIDE };
        let room = page.width().map_or(DRAWN, |width| width.saturating_sub(beside).clamp(8, DRAWN));
        let mut table = Table::new([
            Column::left(""),
            Column::right("first"),
            Column::right("last"),
            Column::right("most"),
            Column::left(if room < WIDE { "course" } else { "course, drawn from 0" }),
        ]);
        for (name, course) in self.series() {
            let (Some(&first), Some(&last)) = (course.first(), course.last()) else { continue };
            let most = course.iter().copied().fold(first, Estimate::max);
            let told = [first, last, most];
            let [a, b, c] = told.map(|estimate| quantity::bytes(whole(estimate.value)).into());
            let values: Vec<f64> = course.iter().map(|estimate| estimate.value).collect();
            table.row([name.into(), a, b, c, Span::new(Ink::More, sparkline(&values, room))]);
            if has_ends && told.iter().any(|estimate| !is_exact(*estimate)) {
                let [a, b, c] =
                    told.map(|estimate| Span::new(Ink::Dim, Unit::Bytes.show(estimate).interval));
                table.row(["".into(), a, b, c, "".into()]);
            }
        }
        table.write(page);
        if let Some(limit) = last.cgroup_limit {
            let text = format!("the control group may use {}", quantity::bytes(limit));
            page.prose("", Ink::Plain, &text);
        }
    }

    /// What there is to draw.
    fn series(&self) -> Vec<(&'static str, Vec<Estimate>)> {
        let known = |value: fn(&Noted) -> Option<u64>| -> Vec<Estimate> {
            let known = self.moments.iter().filter_map(value).map(|bytes| bytes as f64);
            known.map(|value| Estimate { value, low: value, high: value }).collect()
        };
        let mapped = known(|moment| Some(moment.mapped));
        let has_mapped = mapped.iter().any(|bytes| bytes.value > 0.0);
        vec![
            ("in use", self.moments.iter().map(Noted::held).collect()),
            ("allocated a second", self.rates()),
            ("mapped", if has_mapped { mapped } else { Vec::new() }),
            ("resident", known(|moment| moment.rss)),
            ("its part of it", known(|moment| moment.pss)),
            ("without a file", known(|moment| moment.anonymous)),
            ("control group", known(|moment| moment.cgroup)),
        ]
    }

    /// What was allocated in each part of the time, by the second.
    fn rates(&self) -> Vec<Estimate> {
        let steps = self.moments.len().saturating_sub(1);
        let step = steps.div_ceil(RATES).max(1);
        let rate = |at: usize| {
            let (from, to) = (&self.moments[at], &self.moments[(at + step).min(steps)]);
            let seconds = to.at_ms.saturating_sub(from.at_ms).max(1) as f64 / 1000.0;
            let value = (to.allocated - from.allocated).max(0.0);
            let asked = match self.is_estimated {
                true => Bound::bytes(value, self.every).estimate(),
                false => Estimate { value, low: value, high: value },
            };
            let Estimate { value, low, high } = asked;
            Estimate { value: value / seconds, low: low / seconds, high: high / seconds }
        };
        (0..steps).step_by(step).map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn the_course_is_drawn_and_its_ends_are_told() {
        let ledger = sample::ledger();
        let mut page = Page::new(Some(72), false);
        Timeline::new(&ledger).write(&mut page);
        let expected = "\
TIME      20.0 s in 21 moments

                       first       last       most  course, drawn from 0
in use                   0 B  102.5 KiB  102.5 KiB  ▁▁▁▁▂▂▂▃▃▄▄▄▅▅▆▆▆▇▇█
allocated a second  58.6 KiB   58.6 KiB   58.6 KiB  ████████████████████
resident             9.5 MiB    9.7 MiB    9.7 MiB  ████████████████████
";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn moments_of_samples_have_their_intervals_below() {
        let mut ledger = sample::ledger();
        ledger.about.every = 4096;
        let at_width = |width| {
            let mut page = Page::new(Some(width), false);
            Timeline::new(&ledger).write(&mut page);
            let text = page.finish();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            text
        };
        assert!(at_width(80).contains("95 % CIs are left"), "{}", at_width(80));
        let text = at_width(100);
        let lines: Vec<_> = text.lines().collect();
        let held = lines.iter().position(|line| line.starts_with("in use")).unwrap();
        assert!(lines[held + 1].contains("67.9 to 148.7 KiB"), "{text}");
        let resident = lines.iter().position(|line| line.starts_with("resident")).unwrap();
        assert_eq!(resident + 1, lines.len(), "what is counted has none: {text}");
    }

    #[test]
    fn without_moments_that_is_said() {
        let mut page = Page::new(None, false);
        Timeline::new(&Ledger::default()).write(&mut page);
        assert_eq!(page.finish(), "TIME      no moment was noted\n");
    }
}
