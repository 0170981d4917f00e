//! Caches of threads are filled again and again with blocks of one size, from slabs that have many.
//!
//! Threshold: a tenth of the requests of a class and 100,000 of them fill a cache, and a slab has 16
//! blocks or more: it is the cache that is too small. jemalloc 5.3.1 has a number for each size; 5.3.0 one for all.

use heapattach_census::counters::{AllocatorKind, Class, Value};
use heapattach_text::quantity::{bytes, count};

use super::{Advice, Scene, Takes, cache_room, slabs};

/// So many times as many are advised.
const TIMES: u64 = 4;
const MOST: u64 = 2000;
/// One fill for so many requests.
const PART: u64 = 10;

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    if !scene.is(AllocatorKind::Jemalloc) || scene.now.version.starts_with("5.2") {
        return None;
    }
    if scene.now.opt.get("tcache") == Some(&Value::Flag(false)) {
        return None;
    }
    let of = |class: &Class, name: &str| class.numbers.get(name).copied().unwrap_or(0);
    let bins = scene.now.bins();
    let often = bins.iter().filter(|class| {
        slabs::is_filled_often(class, PART) && of(class, "nregs") >= slabs::REGIONS
    });
    let class = often.max_by_key(|class| of(class, "nfills"))?;
    let now = cache_room::blocks(scene, of(class, "nregs"));
    let wanted = (TIMES * now).min(MOST);
    if wanted <= now {
        return None;
    }
    let size = class.size;
    let by_class = !scene.now.version.starts_with("5.3.0");
    let setting = match by_class {
        true => format!("tcache_ncached_max:{size}-{size}:{wanted}"),
        false => cache_room::setting(of(class, "nregs"), wanted),
    };
    let threads = scene.now.total("nthreads").max(1);
    let more = (wanted - now).saturating_mul(size).saturating_mul(threads);
    Some(Advice {
        rule: "cache_classes",
        observation: format!(
            "blocks of {size} B: {} fills of thread caches for {} requests, about {now} blocks a cache",
            count(of(class, "nfills")),
            count(of(class, "nrequests")),
        ),
        cause: "threads allocate, or free, more blocks of this size in a row than their caches have room for".to_owned(),
        setting: scene.conf(&setting),
        live: Vec::new(),
        gain: "fewer fills and flushes, each of which takes the lock of the bin".to_owned(),
        cost: match by_class {
            true => format!("up to {} more of free blocks in caches", bytes(more)),
            false => "more free blocks of every small size in caches (5.3.1 has tcache_ncached_max by size)".to_owned(),
        },
        takes: Takes::Restart,
        source: "jemalloc TUNING.md: tcache; the article on tuning jemalloc: nfills by class; 5.3.1: tcache_ncached_max",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    /// A class of 64 blocks a slab, filled often.
    fn sample(version: &str) -> Sample {
        let mut sample = Sample::jemalloc();
        sample.now.version = version.to_owned();
        let numbers = &mut sample.now.arenas[0].bins[0].numbers;
        numbers.insert("nregs", 64);
        numbers.insert("nfills", 400_000);
        sample
    }

    #[test]
    fn a_class_whose_caches_are_too_small_is_told() {
        let told = advise(&sample("5.3.1").scene()).unwrap();
        assert_eq!(told.setting, "MALLOC_CONF=tcache_ncached_max:512-512:512");
        assert!(told.observation.contains("about 128 blocks a cache"), "{told:?}");
        let told = advise(&sample("5.3.0-0-g54eaed1d").scene()).unwrap();
        assert!(told.setting.contains("tcache_nslots_small_max:512"), "{told:?}");
        assert!(told.cost.contains("every small size"), "{told:?}");
    }

    #[test]
    fn nothing_is_told_where_slabs_are_small_or_nothing_would_change() {
        assert_eq!(advise(&sample("5.2.1").scene()), None, "it has no such setting");
        let mut small = sample("5.3.1");
        small.now.arenas[0].bins[0].numbers.insert("nregs", 8);
        assert_eq!(advise(&small.scene()), None, "slab_sizes is told");
        let large = sample("5.3.1").set("tcache_nslots_small_max", Value::Number(4000));
        let large = large.set("lg_tcache_nslots_mul", Value::Number(6));
        assert_eq!(advise(&large.scene()), None, "it has them");
        let off = sample("5.3.1").set("tcache", Value::Flag(false));
        assert_eq!(advise(&off.scene()), None, "there are no caches");
    }
}
