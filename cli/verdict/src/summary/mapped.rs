//! Memory in pages: which code maps it, how much of it was unmapped, and whether more and more of it stays.
//! Every such call is recorded: nothing here is an estimate.
//!
//! What an allocator or a runtime maps for its heap is told as theirs: the code that allocated just then made
//! them do so, and its blocks are told elsewhere. It is never called growth of mapped memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    figure::{clock, whole},
    place::Place,
    subject::{Ask, Site, Subject, own_calls},
};
use heapattach_ledger::{Births, Ledger, Mapper, Moment, PageKinds, Row};
use heapattach_profile::SPANS;
use heapattach_text::quantity;

/// Places that are told, and calls behind each of them.
const SITES: usize = 4;
const CALLERS: usize = 4;
/// Parts of the session. What comes in the first may be of a beginning: threads, caches. In each of the others
/// so much of the growth must come, or it did not go on.
const PARTS: usize = 4;
const STEADY: f64 = 0.05;
/// What has less of what became more is not told as what grows.
const PART: f64 = 0.5;
/// The part of the session in which that is looked for.
const LATER: f64 = 0.75;
/// What maps the stacks of threads.
const THREADS: &str = "stacks of threads";
/// Less is not worth a word.
const LEAST: u64 = 256 << 10;

/// One place that maps memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedSite {
    /// In words.
    pub place: String,
    /// As it is.
    #[serde(skip)]
    pub at: Place,
    /// What mapped it when this place called it: the module of an allocator, a library or a runtime, or
    /// `stacks of threads`; left out where the place itself did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Who called, innermost first.
    pub callers: Vec<String>,
    /// Bytes mapped since the attach.
    pub mapped: u64,
    /// Bytes of these that are still mapped.
    pub live: u64,
    /// When these were mapped, as far as that is known.
    #[serde(skip)]
    births: Births,
    /// Of these what was resident at the end, as far as the kernel told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
    /// What is unusual of these pages: `never touched`, `guard pages`, `huge pages`, `code`, files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
}

impl MappedSite {
    /// Bytes that are still mapped, of each part of the session.
    fn parts(&self) -> [u64; PARTS] {
        let mut parts = [0_u64; PARTS];
        for (span, bytes) in self.births.bytes.iter().enumerate() {
            let part = &mut parts[span * PARTS / SPANS];
            *part = part.saturating_add(*bytes);
        }
        parts
    }

    /// Bytes that are still mapped and came after the first part, if the place maps them itself and in each
    /// later part some of them.
    fn goes_on(&self) -> Option<u64> {
        let [_, later @ ..] = self.parts();
        let all = later.iter().fold(0_u64, |all, bytes| all.saturating_add(*bytes));
        let is_steady = later.iter().all(|bytes| *bytes as f64 >= STEADY * all as f64);
        (self.by.is_empty() && is_steady && all > 0).then_some(all)
    }

    /// The part that was unmapped, in a word or two.
    pub fn unmapped(&self) -> String {
        let part = 100.0 * self.mapped.saturating_sub(self.live) as f64 / self.mapped.max(1) as f64;
        match self.live {
            0 => "all".to_owned(),
            live if live >= self.mapped => "never".to_owned(),
            _ if part > 99.0 => format!("{:.1} %", part.min(99.9)),
            _ => format!("{part:.0} %"),
        }
    }
}

/// The places with most still mapped, of all that have any; those first that go on mapping more, then those
/// that map it themselves.
pub fn sites(ledger: &Ledger) -> Vec<MappedSite> {
    let mut told = all(ledger);
    told.truncate(SITES);
    told
}

/// All of them.
pub fn all(ledger: &Ledger) -> Vec<MappedSite> {
    if ledger.total.mapped == 0 {
        return Vec::new();
    }
    let sites = Subject::of(ledger).sites(&Ask { limit: 0, ..Ask::default() });
    let mapping = sites.iter().filter(|site| site.mapped > 0);
    let mut told: Vec<MappedSite> = mapping.flat_map(|site| parts(ledger, site)).collect();
    told.sort_by(|a, b| {
        let size = |site: &MappedSite| (site.goes_on(), site.by.is_empty(), site.live, site.mapped);
        size(b).cmp(&size(a)).then_with(|| (&a.place, &a.by).cmp(&(&b.place, &b.by)))
    });
    told
}

/// What a place mapped itself, and what others did for it.
fn parts(ledger: &Ledger, site: &Site) -> Vec<MappedSite> {
    let mut parts: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    let own = ledger.rows.iter().filter(|row| row.mapped > 0 && site.stacks.contains(&row.stack));
    for row in own {
        parts.entry(through(ledger, row.stack)).or_default().push(row);
    }
    let told = parts.into_iter().filter_map(|(by, rows)| {
        let most = rows.iter().max_by_key(|row| (row.mapped_live, row.mapped))?;
        let calls = own_calls(ledger, most.stack).skip(1).take(CALLERS);
        let sum = |of: fn(&Row) -> u64| rows.iter().map(|row| of(row)).fold(0, u64::saturating_add);
        let mut births = Births::default();
        let own = |stack: u32| rows.iter().any(|row| row.stack == stack);
        let known = ledger.page_births.iter().filter(|(stack, _)| own(*stack));
        known.for_each(|(_, more)| births.merge(more));
        let pages = pages(ledger, &rows);
        Some(MappedSite {
            resident: pages.as_ref().map(|pages| pages.all().resident),
            kinds: pages.map_or(Vec::new(), |pages| pages.words()),
            place: site.place.words(),
            at: site.place.clone(),
            callers: calls.map(|(_, call)| Place::of(&call).words()).collect(),
            mapped: sum(|row| row.mapped),
            live: sum(|row| row.mapped_live),
            births,
            by,
        })
    });
    told.collect()
}

/// What the pages of some rows are; `None` if that was not told.
fn pages(ledger: &Ledger, rows: &[&Row]) -> Option<PageKinds> {
    let first = |row: &&Row| {
        let first = *ledger.stacks.get(row.stack)?.locations.first()?;
        Some(ledger.locations.get(first as usize)?.address)
    };
    let live = || rows.iter().filter(|row| row.mapped_live > 0);
    let stacks: BTreeSet<u32> = live().map(|row| row.stack).collect();
    let addresses: BTreeSet<u64> = live().filter_map(first).collect();
    let is_theirs = |one: &&PageKinds| match one.stack {
        Some(stack) => stacks.contains(&stack),
        None => addresses.contains(&one.address),
    };
    let mut all: Option<PageKinds> = None;
    for one in ledger.about.pages.iter().filter(is_theirs) {
        all.get_or_insert_default().merge(one);
    }
    all
}

/// What called mmap, if that is none of the place itself.
fn through(ledger: &Ledger, stack: u32) -> String {
    match ledger.mapper(stack) {
        Mapper::Program => String::new(),
        Mapper::Thread => THREADS.to_owned(),
        Mapper::Module(module) => module,
    }
}

/// That mapped memory grows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MappedGrowth {
    /// How fast.
    pub bytes_per_minute: f64,
    /// In a sentence.
    pub text: String,
}

impl MappedGrowth {
    /// Of a ledger; `None` if it does not, as far as it is seen.
    pub fn of(ledger: &Ledger) -> Option<Self> {
        growth(ledger, &sites(ledger))
    }
}

/// That more and more stays mapped, how fast, and who maps it.
pub fn growth(ledger: &Ledger, sites: &[MappedSite]) -> Option<MappedGrowth> {
    let grown = grown(&ledger.moments)?;
    let first = sites.first().filter(|site| accounts_for(site, grown))?;
    let lasted = Duration::from_millis(ledger.about.lasted_ms);
    let a_second = grown as f64 / (lasted.as_secs_f64() * LATER).max(1e-3);
    let rate = quantity::bytes(whole(a_second));
    let part = first.goes_on().unwrap_or(first.live) as f64 / grown.max(1) as f64;
    let part = if part > 0.995 { "all".to_owned() } else { format!("{:.0} %", 100.0 * part) };
    let from = first.callers.first();
    let from = from.map_or(String::new(), |from| format!(", called from {from}"));
    let unmapped = match first.unmapped().as_str() {
        "never" => format!(", never unmapped in these {}", clock(lasted)),
        part => format!("; {part} of what was mapped there was unmapped"),
    };
    let text = format!(
        "Mapped memory grows by {rate}/s, {part} of it mapped by {}{from}{unmapped}.",
        first.place
    );
    Some(MappedGrowth { bytes_per_minute: 60.0 * a_second, text })
}

/// Whether more and more stays mapped, by these places.
pub fn has_grown(ledger: &Ledger, sites: &[MappedSite]) -> bool {
    let first = sites.first();
    let is_it = |grown| first.is_some_and(|site| accounts_for(site, grown));
    grown(&ledger.moments).is_some_and(is_it)
}

/// Whether a place maps memory itself, and so much that the growth may be its.
fn accounts_for(site: &MappedSite, grown: u64) -> bool {
    let came = match site.births.all_records() {
        // Of a part of a session that is not known.
        0 => Some(site.live).filter(|_| site.by.is_empty()),
        _ => site.goes_on(),
    };
    came.is_some_and(|came| came as f64 >= PART * grown as f64)
}

/// Of what the program mapped itself, where that is known.
fn mapped(moment: &Moment) -> u64 {
    moment.own_mapped.unwrap_or(moment.mapped)
}

/// What the program has mapped in the course of time, of so many moments at most; nothing where there is
/// none of it.
pub fn course(moments: &[Moment], most: usize) -> Vec<u64> {
    let columns = moments.len().min(most);
    let course = (0..columns).map(|at| moments[(at * moments.len()) / columns].own_mapped);
    let course: Vec<u64> = course.collect::<Option<_>>().unwrap_or_default();
    if course.iter().all(|bytes| *bytes == 0) { Vec::new() } else { course }
}

/// By how much there is more in the end than after the first part of the session, if it became more in each
/// of the later ones.
fn grown(moments: &[Moment]) -> Option<u64> {
    let at = |part: usize| moments.get(part * moments.len().checked_sub(1)? / PARTS);
    let marks: Option<Vec<u64>> = (0..=PARTS).map(|part| at(part).map(mapped)).collect();
    let marks = marks.filter(|_| moments.len() > PARTS)?;
    let later = &marks[1..];
    let grown = later.last()?.checked_sub(*later.first()?).filter(|&grown| grown >= LEAST)?;
    let goes_on = |pair: &[u64]| pair[1].saturating_sub(pair[0]) as f64 >= STEADY * grown as f64;
    later.windows(2).all(goes_on).then_some(grown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    /// What is still mapped at each moment.
    fn moments(mapped: impl IntoIterator<Item = u64>) -> Vec<Moment> {
        let moment =
            |(at, mapped): (u64, u64)| Moment { at_ms: at * 1000, mapped, ..Moment::default() };
        (0..).zip(mapped).map(moment).collect()
    }

    /// Without the allocator's frames before the cause of a row's stack.
    fn calls_itself(ledger: &mut Ledger, row: usize) {
        let stack = ledger.rows[row].stack;
        ledger.stacks.edit(stack, |stack| {
            let others = usize::try_from(stack.cause).unwrap();
            stack.locations.drain(..others);
            stack.cause = 0;
        });
    }

    #[test]
    fn what_goes_on_being_mapped_is_named_with_its_rate_and_caller() {
        let mut ledger = sample::ledger();
        ledger.moments = moments((0..=20_u64).map(|second| second << 20));
        ledger.rows[1].mapped = 200 << 20;
        ledger.rows[1].mapped_live = 20 << 20;
        calls_itself(&mut ledger, 1);
        (ledger.total.mapped, ledger.total.mapped_live) = (200 << 20, 20 << 20);
        let sites = sites(&ledger);
        assert_eq!(sites.len(), 1);
        assert_eq!(
            growth(&ledger, &sites).unwrap().text,
            "Mapped memory grows by 1.0 MiB/s, all of it mapped by main (main.c:7); 90 % of what was \
             mapped there was unmapped."
        );
        ledger.rows[1].mapped = 20 << 20;
        let told = growth(&ledger, &super::sites(&ledger)).unwrap().text;
        assert!(told.ends_with("main (main.c:7), never unmapped in these 20.0 s."), "{told}");
    }

    #[test]
    fn what_an_allocator_maps_is_its_and_no_growth_of_mapped_memory() {
        let mut ledger = sample::ledger();
        ledger.moments = moments((0..=20).map(|second| second << 20));
        (ledger.rows[1].mapped, ledger.rows[1].mapped_live) = (0, 0);
        (ledger.rows[0].mapped, ledger.rows[0].mapped_live) = (20 << 20, 20 << 20);
        (ledger.total.mapped, ledger.total.mapped_live) = (20 << 20, 20 << 20);
        let told = sites(&ledger);
        assert!(!told[0].by.is_empty(), "{told:?}");
        assert!(!has_grown(&ledger, &told) && growth(&ledger, &told).is_none(), "{told:?}");
        calls_itself(&mut ledger, 0);
        assert!(has_grown(&ledger, &sites(&ledger)));
    }

    #[test]
    fn what_goes_on_is_told_before_what_is_larger_and_came_in_the_beginning() {
        let mut ledger = sample::ledger();
        ledger.moments = moments((0..=20).map(|second| (80 + second) << 20));
        let sizes = [(1, 80_u64, [80, 0, 0, 0, 0, 0, 0, 0]), (0, 16, [2; SPANS])];
        for (row, mebibytes, bytes) in sizes {
            calls_itself(&mut ledger, row);
            (ledger.rows[row].mapped, ledger.rows[row].mapped_live) =
                (mebibytes << 20, mebibytes << 20);
            let (stack, bytes) = (ledger.rows[row].stack, bytes.map(|mib: u64| mib << 20));
            ledger.page_births.push((stack, Births { records: [1; SPANS], bytes }));
        }
        ledger.total.mapped = 96 << 20;
        let told = sites(&ledger);
        assert_eq!(told[0].live, 16 << 20, "{told:?}");
        let text = growth(&ledger, &told).unwrap().text;
        assert!(text.starts_with("Mapped memory grows by 1.0 MiB/s, 80 % of it"), "{text}");
        // What comes and goes does not.
        ledger.page_births[1].1.bytes = [0, 0, 0, 0, 0, 0, 0, 16 << 20];
        assert!(!has_grown(&ledger, &sites(&ledger)));
    }

    #[test]
    fn what_came_once_or_comes_and_goes_does_not_grow() {
        let once = (0..=20_u64).map(|second| if second < 3 { 0 } else { 64_u64 << 20 });
        assert_eq!(grown(&moments(once)), None);
        let saw = (0..=20_u64).map(|second| (second % 5) << 20);
        assert_eq!(grown(&moments(saw)), None);
        assert_eq!(grown(&moments((0..=20_u64).map(|second| second << 10))), None, "20 KiB");
        assert_eq!(grown(&moments([0, 1 << 30])), None, "two moments");
        assert_eq!(grown(&[]), None);
        assert_eq!(grown(&moments((0..=20_u64).map(|second| second << 20))), Some(15 << 20));
        let begun = (0..=20_u64).map(|second| if second == 0 { 0 } else { (90 + second) << 20 });
        assert_eq!(grown(&moments(begun)), Some(15 << 20), "threads had their stacks");
    }

    #[test]
    fn the_part_that_was_unmapped_is_told_in_words() {
        let words = |mapped, live| MappedSite { mapped, live, ..MappedSite::default() }.unmapped();
        let told = [words(10, 10), words(10, 0), words(10, 4), words(1000, 1)];
        assert_eq!(told, ["never", "all", "60 %", "99.9 %"]);
    }
}
