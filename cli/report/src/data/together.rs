//! What the processes of a family have in use by the same place.

use std::collections::HashMap;

use heapattach_profile::{Amount, Range};
use serde::{Deserialize, Serialize};

use super::session::Report;

/// Places that are kept.
const PLACES: usize = 1000;

/// One place, in all processes: a function, and its line where that is known.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TogetherReport {
    /// The place, in words.
    pub place: String,
    /// In how many processes it allocated.
    pub processes: usize,
    /// What it has in use, in each at the end of its session.
    pub live: Amount,
    /// What it allocated.
    pub allocated: Amount,
}

/// All places of a report and of those in it, what has most in use first; none if there is one process only.
pub fn together(report: &Report) -> Vec<TogetherReport> {
    if report.processes.is_empty() {
        return Vec::new();
    }
    let mut places: HashMap<&str, TogetherReport> = HashMap::new();
    for report in std::iter::once(report).chain(&report.processes) {
        for site in &report.heap.sites {
            let sum = places.entry(&site.place).or_default();
            sum.processes += 1;
            sum.live = both(sum.live, site.live);
            sum.allocated = both(sum.allocated, site.allocated);
        }
    }
    let named = places.into_iter();
    let mut all: Vec<_> =
        named.map(|(place, sum)| TogetherReport { place: place.to_owned(), ..sum }).collect();
    let size = |sum: &TogetherReport| (sum.live.bytes.value, sum.allocated.bytes.value);
    all.sort_by(|a, b| {
        let [(live, allocated), (more, most)] = [size(a), size(b)];
        more.total_cmp(&live).then(most.total_cmp(&allocated)).then_with(|| a.place.cmp(&b.place))
    });
    all.truncate(PLACES);
    all
}

fn both(a: Amount, b: Amount) -> Amount {
    Amount { bytes: sum(a.bytes, b.bytes), blocks: sum(a.blocks, b.blocks) }
}

/// Samples of different processes err independently.
fn sum(a: Range, b: Range) -> Range {
    let value = a.value + b.value;
    let below = (a.value - a.low).hypot(b.value - b.low);
    let above = (a.high - a.value).hypot(b.high - b.value);
    Range { value, low: value - below, high: value + above }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SiteReport;

    fn process(pid: i32, sites: &[(&str, u64)]) -> Report {
        let mut report = Report::new(pid, "app".to_owned());
        let site = |&(place, bytes): &(&str, u64)| SiteReport {
            place: place.to_owned(),
            live: Amount { bytes: Range::exact(bytes), blocks: Range::exact(1) },
            ..SiteReport::default()
        };
        report.heap.sites = sites.iter().map(site).collect();
        report
    }

    #[test]
    fn a_place_is_the_same_in_all_processes_by_function_and_line() {
        let mut first = process(1, &[("make (a.c:1)", 10), ("keep (a.c:9)", 25)]);
        assert!(together(&first).is_empty(), "one process has its own table");
        first.processes =
            vec![process(2, &[("make (a.c:1)", 20)]), process(3, &[("make (a.c:2)", 1)])];
        let told: Vec<_> = together(&first)
            .into_iter()
            .map(|sum| (sum.place, sum.processes, sum.live.bytes.value, sum.live.bytes.high))
            .collect();
        let row = |place: &str, processes, value| (place.to_owned(), processes, value, value);
        assert_eq!(told[0], row("make (a.c:1)", 2, 30.0));
        assert_eq!(told[1..], [row("keep (a.c:9)", 1, 25.0), row("make (a.c:2)", 1, 1.0)]);
    }

    #[test]
    fn intervals_of_several_processes_are_narrower_than_their_sum() {
        let one = Range { value: 10.0, low: 7.0, high: 14.0 };
        let other = Range { value: 10.0, low: 6.0, high: 13.0 };
        assert_eq!(sum(one, other), Range { value: 20.0, low: 15.0, high: 25.0 });
    }
}
