//! What can be said of a ledger on one screen, as data: what is certain, who holds memory, and how much
//! of it to believe. How it is drawn is not known here.

mod advice;
mod doubt;
mod mapped;
mod outside;
mod pools;
mod sentences;
mod verdict;

use serde::{Deserialize, Serialize};

pub use advice::Advice;
pub use mapped::{MappedGrowth, MappedSite, all as mapped_sites};
pub use verdict::{Kind, Verdict, place};

use crate::keeping::Keeping;
use crate::subject::{Ask, Site, Subject};
use crate::weight::share;
use heapattach_ledger::{About, Ledger, Metric, TypeSum, Unhooked, blind_spots};
use heapattach_profile::{Amount, Range, Sum};

/// Sites that are told, and calls behind each of them.
const SITES: usize = 8;
const CALLERS: usize = 4;
/// Moments of the course that are kept.
pub const COURSE: usize = 60;

/// Everything on that screen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// What can be said for certain.
    pub verdict: Verdict,
    /// Allocated since the attach.
    pub allocated: Amount,
    /// Freed of that.
    pub freed: Amount,
    /// In use of that.
    pub live: Amount,
    /// The most bytes that were in use at once.
    pub peak: Range,
    /// Bytes of pages mapped since the attach.
    pub mapped: u64,
    /// Bytes of these that are still mapped.
    pub mapped_live: u64,
    /// Those that mapped most of that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mapped_sites: Vec<MappedSite>,
    /// The largest mappings that the kernel has at the end, and that came by no hooked function.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unhooked: Vec<Unhooked>,
    /// When the kernel's list was last compared with the records, in milliseconds; left out if that was at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared_ms: Option<u64>,
    /// Bytes of recorded mappings that no hooked function unmapped, and the kernel no longer has.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub vanished: u64,
    /// Those that hold most.
    pub sites: Vec<SummarySite>,
    /// Sites that are not listed.
    pub more_sites: usize,
    /// The types that its code allocates, where the code states them: those of most bytes in use first. Of the whole
    /// session only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TypeSum>,
    /// The part of all blocks that lived for less than `temporary_ms`.
    pub temporary: Range,
    /// What lived for less than so long is temporary.
    pub temporary_ms: u64,
    /// The place that allocated most of these, in words; empty if there is none.
    pub temporary_by: String,
    /// Bytes in use in the course of time.
    pub course: Vec<f64>,
    /// The same of what the program mapped itself; left out if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mapped_course: Vec<u64>,
    /// What is missing.
    pub lost: Vec<String>,
    /// What could not be seen.
    pub blind: Vec<String>,
    /// How exact the numbers are.
    pub accuracy: String,
    /// What to type next.
    #[serde(default)]
    pub next: Vec<Advice>,
}

/// One place that allocates memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SummarySite {
    /// In words.
    pub place: String,
    /// Who called, innermost first.
    pub callers: Vec<String>,
    /// What it holds.
    pub live: Amount,
    /// Its part of all bytes in use.
    pub share: Range,
    /// What it allocated since the attach.
    pub allocated: Amount,
    /// What became of that.
    #[serde(default)]
    pub keeping: Keeping,
}

impl Summary {
    /// Of a ledger.
    pub fn new(ledger: &Ledger) -> Self {
        let subject = Subject::of(ledger);
        let ask = Ask { limit: SITES, ..Ask::default() };
        let mut sites = subject.sites(&ask);
        let sum = |site: &Site, metric| -> Sum { site.weights[metric as usize].now.clone() };
        let temporary = sites.iter().max_by(|a, b| {
            let count = |site| sum(site, Metric::Temporary).measure().count.value;
            count(a).total_cmp(&count(b))
        });
        let temporary_by = temporary
            .filter(|site| sum(site, Metric::Temporary).records() > 0)
            .map_or(String::new(), |site| site.place.words());
        sites.retain(|site| sum(site, Metric::Live).records() > 0);
        let mapped_sites = mapped::sites(ledger);
        let verdict = Verdict::new(ledger, &sites, &mapped_sites);
        let next =
            advice::advice(&verdict, ledger, &sites, mapped::has_grown(ledger, &mapped_sites));
        let measure = |metric| ledger.total.measure(metric);
        let live = measure(Metric::Live);
        let rows = sites.iter().take(SITES).map(|site| SummarySite {
            place: site.place.words(),
            callers: site.callers.iter().take(CALLERS).map(|place| place.words()).collect(),
            share: share(sum(site, Metric::Live).measure().bytes, live.bytes).into(),
            live: sum(site, Metric::Live).measure().into(),
            allocated: sum(site, Metric::Allocated).measure().into(),
            keeping: Keeping::of(site).under(&ledger.about),
        });
        Self {
            verdict,
            allocated: measure(Metric::Allocated).into(),
            freed: measure(Metric::Freed).into(),
            live: live.into(),
            peak: ledger.peak.into(),
            mapped: ledger.total.mapped,
            mapped_live: ledger.total.mapped_live,
            mapped_sites,
            unhooked: ledger.about.unhooked.clone(),
            compared_ms: ledger.about.compared_ms,
            vanished: ledger.about.vanished,
            more_sites: sites.len().saturating_sub(SITES),
            types: types(&ledger.about).to_vec(),
            sites: rows.collect(),
            temporary: share(measure(Metric::Temporary).count, measure(Metric::Allocated).count)
                .into(),
            temporary_ms: ledger.about.temporary_ms,
            temporary_by,
            course: course(ledger),
            mapped_course: mapped::course(&ledger.moments, COURSE),
            lost: blind_spots::lost_beside(&ledger.about.loss, Some(live.count.value)),
            blind: doubt::blind(&ledger.about).into_iter().chain(pools::told(ledger)).collect(),
            accuracy: doubt::accuracy(ledger),
            next,
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The types of a session; which of them a part of it allocates is not known.
pub fn types(about: &About) -> &[TypeSum] {
    if about.part.is_empty() { &about.types } else { &[] }
}

fn course(ledger: &Ledger) -> Vec<f64> {
    let moments = &ledger.moments;
    let columns = moments.len().min(COURSE);
    (0..columns).map(|at| moments[(at * moments.len()) / columns].live).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn a_summary_travels_as_json() {
        let summary = Summary::new(&sample::ledger());
        let text = serde_json::to_string(&summary).unwrap();
        let again: Summary = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }

    #[test]
    fn those_that_hold_most_come_first_with_their_callers() {
        let summary = Summary::new(&sample::ledger());
        let told = summary.sites.iter().map(|site| (site.place.as_str(), site.live.bytes.value));
        let expected = [("make_node (list.c:12)", 64_000.0), ("main (main.c:7)", 40_960.0)];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        assert_eq!(summary.sites[0].callers, ["grow_list (list.c:40)", "main (main.c:7)"]);
        assert_eq!(summary.more_sites, 0);
    }

    #[test]
    fn a_long_course_is_thinned_out() {
        let mut ledger = sample::ledger();
        let last = ledger.moments.last().unwrap().clone();
        ledger.moments.extend(std::iter::repeat_n(last, 1000));
        assert_eq!(Summary::new(&ledger).course.len(), COURSE);
    }
}
