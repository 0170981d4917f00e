//! Caches are filled again and again from slabs of few blocks.
//!
//! Threshold: a sixteenth of the requests of a class and 100,000 of them fill a cache, and a slab has fewer than 16
//! blocks. Caches have room for 20 blocks of such classes, and a fill brings half of that: it is a tenth at most. Larger
//! slabs are filled from less often, under one lock.

use heapattach_census::counters::{AllocatorKind, Class};
use heapattach_text::quantity::count;

use super::{Advice, Scene, Takes};

/// A slab of fewer blocks is small.
pub(super) const REGIONS: u64 = 16;
const FILLS: u64 = 100_000;
/// One fill for so many requests.
const PART: u64 = 16;

/// Whether caches are filled with blocks of a class often: once for so many requests.
pub(super) fn is_filled_often(class: &Class, part: u64) -> bool {
    let of = |name: &str| class.numbers.get(name).copied().unwrap_or(0);
    of("nfills") >= FILLS && of("nfills") >= of("nrequests") / part
}

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    if !scene.is(AllocatorKind::Jemalloc) {
        return None;
    }
    let bins = scene.now.bins();
    let of = |class: &Class, name: &str| class.numbers.get(name).copied().unwrap_or(0);
    let class = bins
        .iter()
        .filter(|class| is_filled_often(class, PART) && (1..REGIONS).contains(&of(class, "nregs")))
        .max_by_key(|class| of(class, "nfills"))?;
    let size = class.size;
    // Caches have room for more blocks only where a slab has more than half of the 20 that they have anyway.
    let least = REGIONS.saturating_mul(size).div_ceil(4096);
    let pages = ((of(class, "slab_size") / 4096).max(1) * 4).max(least);
    Some(Advice {
        rule: "slab_sizes",
        observation: format!(
            "blocks of {size} B: {} fills of thread caches for {} requests, {} blocks a slab",
            count(of(class, "nfills")),
            count(of(class, "nrequests")),
            of(class, "nregs")
        ),
        cause: "a fill takes at most what one slab has, and each takes the lock of the bin"
            .to_owned(),
        setting: scene.conf(&format!("slab_sizes:{size}-{size}:{pages}")),
        live: Vec::new(),
        gain: "fewer fills, fewer slabs made and given up".to_owned(),
        cost: "a slab is free only when more blocks are".to_owned(),
        takes: Takes::Restart,
        source: "jemalloc: slab_sizes; measured on 512-byte classes",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn a_class_that_is_filled_often_is_told() {
        let mut sample = Sample::jemalloc();
        sample.now.arenas[0].bins[0].numbers.insert("nfills", 400_000);
        let told = advise(&sample.scene()).unwrap();
        assert_eq!(told.setting, "MALLOC_CONF=slab_sizes:512-512:4");
        let class = &mut sample.now.arenas[0].bins[0];
        class.size = 2048;
        class.numbers.insert("nregs", 2);
        // Four pages would have 8 blocks, and caches as many as before.
        assert_eq!(advise(&sample.scene()).unwrap().setting, "MALLOC_CONF=slab_sizes:2048-2048:8");
    }
}
