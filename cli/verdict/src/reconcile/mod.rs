//! What all memory of a process is, at one moment: every byte that the kernel counts as resident or swapped
//! has a part, and the sums are those of the kernel.
//!
//! ```text
//! census (by arena: live, free, cached, top, books) -\
//! map, resident bytes of each mapping (smaps), stacks -> parts -> verdict: one sentence, the next command
//! ```

mod part;
mod says;

pub use part::{Part, PartKind, Parts};
pub use says::{Conclusion, Says};

use std::ops::Range;

use heapattach_census::{Census, Moment, Region, RegionKind, stats::Amount};

/// What is known besides the census.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// By the number of a region: what the kernel counts.
    pub usage: Vec<Amount>,
    /// Where threads have their stacks: addresses on them.
    pub stacks: Vec<u64>,
    /// Page tables, which are in no mapping.
    pub page_tables: u64,
}

/// Divides all memory.
pub fn reconcile(moment: &Moment<'_>, census: &Census, figures: &Figures) -> Parts {
    let mut parts = Parts { page_tables: figures.page_tables, ..Parts::default() };
    let kinds = census.kinds();
    parts.add(PartKind::Live, kinds.live);
    parts.add(PartKind::Free, kinds.free);
    parts.add(PartKind::Cached, kinds.cached);
    parts.add(PartKind::Top, kinds.top);
    parts.add(PartKind::Books, kinds.books);
    for (index, region) in moment.regions().iter().enumerate() {
        let usage = figures.usage.get(index).copied().unwrap_or_default();
        let owned = census.owned.get(index).copied().unwrap_or_default();
        parts.total.add(usage);
        // Pages that were only read are the kernel's one page of zeroes, which it counts for none.
        parts.zero_page += owned.resident.saturating_sub(usage.resident);
        let rest = usage.without(owned);
        parts.add(kind_of(moment, index, region, figures), rest);
    }
    parts.finish();
    parts
}

/// What a mapping is, but for what allocators have of it.
fn kind_of(moment: &Moment<'_>, index: usize, region: &Region, figures: &Figures) -> PartKind {
    let range = &region.range;
    match region.kind {
        RegionKind::Stack => PartKind::Stacks,
        RegionKind::Kernel if !region.shared => PartKind::Code,
        RegionKind::Kernel => PartKind::Shared,
        _ if region.shared && is_memory(region) => PartKind::Shared,
        RegionKind::File if region.executable => PartKind::Code,
        RegionKind::File if image_of(moment, range) => PartKind::Variables,
        RegionKind::File => PartKind::Files,
        _ if region.shared => PartKind::Shared,
        _ if image_of(moment, range) => PartKind::Variables,
        _ if figures.stacks.iter().any(|at| range.contains(at)) => PartKind::Stacks,
        _ if is_above_guard(moment, index) => PartKind::Stacks,
        RegionKind::Anonymous | RegionKind::Break => PartKind::Mapped,
    }
}

/// Whether a mapping is part of a program or library.
fn image_of(moment: &Moment<'_>, range: &Range<u64>) -> bool {
    let is_in = |image: &heapattach_census::Image| {
        image.range.start <= range.start && range.end <= image.range.end && !image.data.is_empty()
    };
    moment.images().iter().any(is_in)
}

/// A stack that no thread uses just now lies above a guard, as all do.
fn is_above_guard(moment: &Moment<'_>, index: usize) -> bool {
    const GUARD: u64 = 64 << 10;
    let below = index.checked_sub(1).and_then(|below| moment.regions().get(below));
    let own = &moment.regions()[index];
    below.is_some_and(|below| {
        let is_guard = !below.readable && !below.writable && !below.executable;
        is_guard && below.bytes() <= GUARD && below.range.end == own.range.start
    })
}

/// Shared memory that is no file on a disk.
fn is_memory(region: &Region) -> bool {
    let kinds = ["/memfd:", "/dev/zero", "/dev/shm/", "/SYSV", "[anon_shmem"];
    region.label.is_empty() || kinds.iter().any(|kind| region.label.starts_with(kind))
}

#[cfg(test)]
mod tests {
    use heapattach_census::synthetic::Synthetic;

    use super::*;

    #[test]
    fn every_resident_byte_has_a_part_and_sums_are_the_kernels() {
        let mut memory = Synthetic::default();
        memory.region(0x1000..0x5000, RegionKind::File, "/bin/app");
        memory.region(0x8000..0x18000, RegionKind::Break, "[heap]");
        memory.region(0x20000..0x30000, RegionKind::Anonymous, "");
        memory.region(0x40000..0x50000, RegionKind::Anonymous, "");
        memory.region(0x70000..0x80000, RegionKind::Stack, "[stack]");
        let moment = memory.moment();
        let amount = |resident| Amount { resident, swapped: 0 };
        let usage = [0x2000, 0x10000, 0x3000, 0x4000, 0x1000].map(amount).to_vec();
        let mut census = Census { owned: vec![Amount::default(); 5], ..Census::default() };
        census.owned[1] = amount(0xf000);
        census.owned[2] = amount(0x3800);
        let figures = Figures { usage, stacks: vec![0x41000], page_tables: 0x1000 };
        let parts = reconcile(&moment, &census, &figures);
        let of = |kind| parts.of(kind).resident;
        assert_eq!(of(PartKind::Variables), 0x2000);
        assert_eq!(of(PartKind::Mapped), 0x1000);
        assert_eq!(of(PartKind::Stacks), 0x5000);
        assert_eq!((parts.total.resident, parts.zero_page), (0x1a000, 0x800));
    }
}
