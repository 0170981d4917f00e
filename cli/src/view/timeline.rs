//! The course of the session.

use std::time::Duration;

use serde::Serialize;

use super::{
    bar::sparkline,
    figure::{clock, whole},
    page::{Ink, Page, Span},
    table::{Column, Table},
};
use crate::{
    ledger::{Ledger, Moment},
    quantity,
};

/// The widest drawing.
const DRAWN: usize = 60;
/// What stands beside it.
const BESIDE: usize = 52;

/// The moments that were noted.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// Whether what is held and asked for is estimated; moments have no intervals.
    pub is_estimated: bool,
    /// In the order of time.
    pub moments: Vec<Noted>,
}

/// One of them; what is not known is not there.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Noted {
    /// Since counting began.
    pub at_ms: u64,
    /// Bytes of blocks held.
    pub live: f64,
    /// Bytes and blocks asked for since counting began.
    pub allocated: f64,
    /// See above.
    pub blocks: f64,
    /// Bytes of pages mapped since counting began, and still.
    pub mapped: u64,
    /// Memory of the process, in bytes: resident, its part of it, and that no file is behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss: Option<u64>,
    /// See above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pss: Option<u64>,
    /// See above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anonymous: Option<u64>,
    /// What its control group uses, and may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<u64>,
    /// See above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_limit: Option<u64>,
}

impl From<&Moment> for Noted {
    fn from(moment: &Moment) -> Self {
        let Moment { at_ms, live, allocated, blocks, mapped, rss, pss, .. } = *moment;
        let Moment { anonymous, cgroup, cgroup_limit, .. } = *moment;
        Self { at_ms, live, allocated, blocks, mapped, rss, pss, anonymous, cgroup, cgroup_limit }
    }
}

impl Timeline {
    /// Of a ledger.
    pub fn new(ledger: &Ledger) -> Self {
        let moments = ledger.moments.iter().map(Noted::from).collect();
        Self { is_estimated: ledger.about.every > 1, moments }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        let (Some(first), Some(last)) = (self.moments.first(), self.moments.last()) else {
            return page.prose("TIME", Ink::Plain, "no moment was noted");
        };
        let span = Duration::from_millis(last.at_ms.saturating_sub(first.at_ms));
        let number = self.moments.len();
        page.prose("TIME", Ink::Plain, &format!("{} in {number} moments", clock(span)));
        if self.is_estimated {
            let text = "what is held and asked for is estimated, without intervals";
            page.prose("", Ink::Dim, text);
        }
        page.gap();
        let room = page.width().map_or(DRAWN, |width| width.saturating_sub(BESIDE).clamp(8, DRAWN));
        let mut table = Table::new([
            Column::left(""),
            Column::right("first"),
            Column::right("last"),
            Column::right("most"),
            Column::left("course, drawn from 0"),
        ]);
        let about = if self.is_estimated { "~" } else { "" };
        for (name, values, is_counted) in self.series() {
            let told = |value: f64| {
                let about = if is_counted { "" } else { about };
                format!("{about}{}", quantity::bytes(whole(value)))
            };
            let (Some(first), Some(last)) = (values.first(), values.last()) else { continue };
            let most = values.iter().copied().fold(0.0, f64::max);
            table.row([
                name.into(),
                told(*first).into(),
                told(*last).into(),
                told(most).into(),
                Span::new(Ink::More, sparkline(&values, room)),
            ]);
        }
        table.write(page);
        if let Some(limit) = last.cgroup_limit {
            let text = format!("the control group may use {}", quantity::bytes(limit));
            page.prose("", Ink::Plain, &text);
        }
    }

    /// What there is to draw, and whether it is counted and no estimate.
    fn series(&self) -> Vec<(&'static str, Vec<f64>, bool)> {
        let known = |value: fn(&Noted) -> Option<u64>| -> Vec<f64> {
            self.moments.iter().filter_map(value).map(|bytes| bytes as f64).collect()
        };
        let mapped = known(|moment| Some(moment.mapped));
        let has_mapped = mapped.iter().any(|&bytes| bytes > 0.0);
        vec![
            ("still held", self.moments.iter().map(|moment| moment.live).collect(), false),
            ("asked for a second", self.rates(), false),
            ("mapped", if has_mapped { mapped } else { Vec::new() }, true),
            ("resident", known(|moment| moment.rss), true),
            ("its part of it", known(|moment| moment.pss), true),
            ("without a file", known(|moment| moment.anonymous), true),
            ("control group", known(|moment| moment.cgroup), true),
        ]
    }

    fn rates(&self) -> Vec<f64> {
        let pairs = self.moments.windows(2);
        let rate = |pair: &[Noted]| {
            let millis = pair[1].at_ms.saturating_sub(pair[0].at_ms).max(1);
            (pair[1].allocated - pair[0].allocated).max(0.0) * 1000.0 / millis as f64
        };
        pairs.map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::sample;

    #[test]
    fn the_course_is_drawn_and_its_ends_are_told() {
        let ledger = sample::ledger();
        let mut page = Page::new(Some(72), false);
        Timeline::new(&ledger).write(&mut page);
        let expected = "\
TIME      20.0 s in 21 moments

                       first       last       most  course, drawn from 0
still held               0 B  102.5 KiB  102.5 KiB  ▁▁▁▁▂▂▂▃▃▄▄▄▅▅▆▆▆▇▇█
asked for a second  58.6 KiB   58.6 KiB   58.6 KiB  ████████████████████
resident             9.5 MiB    9.7 MiB    9.7 MiB  ████████████████████
";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn without_moments_that_is_said() {
        let mut page = Page::new(None, false);
        Timeline::new(&Ledger::default()).write(&mut page);
        assert_eq!(page.finish(), "TIME      no moment was noted\n");
    }
}
