//! Who mapped what is still mapped, for whom, and what of it is unusual: as `--view mmap` tells it.

use serde::Serialize;

use heapattach_ledger::{Ledger, Unhooked};
use heapattach_verdict::summary::{MappedSite, mapped_sites};

/// Places that are told; the page has room for more than a screen has.
const PLACES: usize = 40;

/// Mapped memory.
#[derive(Debug, Serialize)]
pub struct Mapped {
    /// The place with most of it still mapped comes first.
    places: Vec<Place>,
    /// Places that are not told.
    more: usize,
    /// Mappings that came by no hooked function: what they are, and their bytes.
    unhooked: Vec<(String, u64)>,
    /// When that was looked at, if not at the end.
    compared_ms: Option<u64>,
}

/// A place that mapped memory.
#[derive(Debug, Serialize)]
struct Place {
    place: String,
    /// What mapped it when this place called: an allocator, a runtime, a stack of a thread. Empty: the place itself.
    by: String,
    callers: Vec<String>,
    mapped: u64,
    live: u64,
    resident: Option<u64>,
    kinds: Vec<String>,
}

impl Mapped {
    /// Of a profile; `None` if nothing was mapped.
    pub fn new(ledger: &Ledger) -> Option<Self> {
        let mut sites = mapped_sites(ledger);
        let unhooked = ledger.about.unhooked.iter();
        let unhooked: Vec<_> =
            unhooked.map(|Unhooked { kind, bytes, .. }| (kind.clone(), *bytes)).collect();
        if sites.is_empty() && unhooked.is_empty() {
            return None;
        }
        let more = sites.len().saturating_sub(PLACES);
        sites.truncate(PLACES);
        let places = sites.into_iter().map(|site| {
            let MappedSite { place, by, callers, mapped, live, resident, kinds, .. } = site;
            Place { place, by, callers, mapped, live, resident, kinds }
        });
        let compared_ms = ledger.about.compared_ms.filter(|_| !unhooked.is_empty());
        Some(Self { places: places.collect(), more, unhooked, compared_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn who_mapped_for_whom_is_told_and_nothing_where_nothing_was() {
        let mapped = Mapped::new(&sample::ledger()).unwrap();
        let place = &mapped.places[0];
        let told = (place.place.as_str(), place.by.as_str(), place.mapped, place.live);
        assert_eq!(told, ("main (main.c:7)", "libc.so.6", 1 << 20, 1 << 19));
        assert!(Mapped::new(&Ledger::default()).is_none());
        let mut ledger = Ledger::default();
        let kind = "rings of io_uring".to_owned();
        ledger.about.unhooked = vec![Unhooked { kind: kind.clone(), start: 0, bytes: 4096 }];
        ledger.about.compared_ms = Some(1500);
        let mapped = Mapped::new(&ledger).unwrap();
        assert_eq!((mapped.unhooked, mapped.compared_ms), (vec![(kind, 4096)], Some(1500)));
    }
}
