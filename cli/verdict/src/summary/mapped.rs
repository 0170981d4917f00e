//! Memory that the program maps by itself: which code maps it, how much of it was unmapped, and whether more
//! and more of it stays. Every such call is recorded: nothing here is an estimate.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    figure::{clock, whole},
    place::Place,
    subject::{Ask, Site, Subject, own_calls},
};
use heapattach_ledger::{Ledger, Moment};
use heapattach_text::quantity;

/// Places that are told, and calls behind each of them.
const SITES: usize = 4;
const CALLERS: usize = 4;
/// Parts of the session; in each of them so much of the growth must come, or it did not go on.
const PARTS: usize = 4;
const STEADY: f64 = 0.05;
/// Less is not worth a word.
const LEAST: u64 = 256 << 10;

/// One place that maps memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedSite {
    /// In words.
    pub place: String,
    /// Who called, innermost first.
    pub callers: Vec<String>,
    /// Bytes mapped since the attach.
    pub mapped: u64,
    /// Bytes of these that are still mapped.
    pub live: u64,
}

impl MappedSite {
    /// The part that was unmapped, in a word or two.
    pub fn unmapped(&self) -> String {
        #[allow(clippy::cast_precision_loss)]
        let part = 100.0 * self.mapped.saturating_sub(self.live) as f64 / self.mapped.max(1) as f64;
        match self.live {
            0 => "all".to_owned(),
            live if live >= self.mapped => "never".to_owned(),
            _ if part > 99.0 => format!("{:.1} %", part.min(99.9)),
            _ => format!("{part:.0} %"),
        }
    }
}

/// The places with most still mapped, of all that have any.
pub fn sites(ledger: &Ledger) -> Vec<MappedSite> {
    if ledger.total.mapped == 0 {
        return Vec::new();
    }
    let mut sites = Subject::of(ledger).sites(&Ask { limit: 0, ..Ask::default() });
    sites.retain(|site| site.mapped > 0);
    sites.sort_by(|a, b| {
        let size = |site: &Site| (site.mapped_live, site.mapped);
        size(b).cmp(&size(a)).then_with(|| a.place.cmp(&b.place))
    });
    sites.truncate(SITES);
    let told = sites.into_iter().map(|site| MappedSite {
        callers: callers(ledger, &site),
        place: site.place.words(),
        mapped: site.mapped,
        live: site.mapped_live,
    });
    told.collect()
}

/// Of the stack by which most of it is still mapped.
fn callers(ledger: &Ledger, site: &Site) -> Vec<String> {
    let own = ledger.rows.iter().filter(|row| row.mapped > 0 && site.stacks.contains(&row.stack));
    let Some(most) = own.max_by_key(|row| (row.mapped_live, row.mapped)) else { return Vec::new() };
    let calls = own_calls(ledger, most.stack).skip(1).take(CALLERS);
    calls.map(|(_, call)| Place::of(&call).words()).collect()
}

/// That more and more stays mapped, how fast, and who maps it.
pub fn growing(ledger: &Ledger, sites: &[MappedSite]) -> Option<String> {
    let grown = grown(&ledger.moments)?;
    let first = sites.first().filter(|site| site.live > 0)?;
    let lasted = Duration::from_millis(ledger.about.lasted_ms);
    #[allow(clippy::cast_precision_loss)]
    let rate = quantity::bytes(whole(grown as f64 / lasted.as_secs_f64().max(1e-3)));
    #[allow(clippy::cast_precision_loss)]
    let part = first.live as f64 / ledger.total.mapped_live.max(1) as f64;
    let part = if part > 0.995 { "all".to_owned() } else { format!("{:.0} %", 100.0 * part) };
    let from = first.callers.first();
    let from = from.map_or(String::new(), |from| format!(", called from {from}"));
    let unmapped = match first.unmapped().as_str() {
        "never" => format!(", never unmapped in these {}", clock(lasted)),
        part => format!("; {part} of what was mapped there was unmapped"),
    };
    Some(format!(
        "Mapped memory grows by {rate}/s, {part} of what stays is mapped by {}{from}{unmapped}.",
        first.place
    ))
}

/// Whether more and more stays mapped.
pub fn has_grown(ledger: &Ledger) -> bool {
    grown(&ledger.moments).is_some()
}

/// By how much there is more in the end, if it became more in each part of the session.
fn grown(moments: &[Moment]) -> Option<u64> {
    let at = |part: usize| moments.get(part * moments.len().checked_sub(1)? / PARTS);
    let marks: Option<Vec<u64>> = (0..=PARTS).map(|part| Some(at(part)?.mapped)).collect();
    let marks = marks.filter(|_| moments.len() > PARTS)?;
    let grown = marks.last()?.checked_sub(*marks.first()?).filter(|&grown| grown >= LEAST)?;
    #[allow(clippy::cast_precision_loss)]
    let goes_on = |pair: &[u64]| pair[1].saturating_sub(pair[0]) as f64 >= STEADY * grown as f64;
    marks.windows(2).all(goes_on).then_some(grown)
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

    #[test]
    fn what_goes_on_being_mapped_is_named_with_its_rate_and_caller() {
        let mut ledger = sample::ledger();
        ledger.moments = moments((0..=20_u64).map(|second| second << 20));
        ledger.rows[1].mapped = 200 << 20;
        ledger.rows[1].mapped_live = 20 << 20;
        (ledger.total.mapped, ledger.total.mapped_live) = (200 << 20, 20 << 20);
        let sites = sites(&ledger);
        assert_eq!(sites.len(), 1);
        assert_eq!(
            growing(&ledger, &sites).unwrap(),
            "Mapped memory grows by 1.0 MiB/s, all of what stays is mapped by main (main.c:7); 90 % of \
             what was mapped there was unmapped."
        );
        ledger.rows[1].mapped = 20 << 20;
        let told = growing(&ledger, &super::sites(&ledger)).unwrap();
        assert!(told.ends_with("main (main.c:7), never unmapped in these 20.0 s."), "{told}");
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
        assert_eq!(grown(&moments((0..=20_u64).map(|second| second << 20))), Some(20 << 20));
    }

    #[test]
    fn the_part_that_was_unmapped_is_told_in_words() {
        let words = |mapped, live| MappedSite { mapped, live, ..MappedSite::default() }.unmapped();
        let told = [words(10, 10), words(10, 0), words(10, 4), words(1000, 1)];
        assert_eq!(told, ["never", "all", "60 %", "99.9 %"]);
    }
}
