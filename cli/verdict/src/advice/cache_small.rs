//! Threads wait for dirty extents: their caches are filled and flushed too often, or do not take the size.
//!
//! Threshold: waits for dirty extents alone above 1 % of the time that threads had. A slab that is made takes that lock, and
//! each block that is larger than caches take: what there is more of says which setting helps.

use heapattach_census::counters::{AllocatorKind, Class, Value};
use heapattach_text::quantity::{bytes, count};

use super::{Advice, Scene, Takes, cache_room};

/// Largest size that a cache takes, if nothing else was set, and if anything was.
const USUAL: u64 = 32 << 10;
const LARGEST: u64 = 8 << 20;
/// So many times as many blocks are advised.
const TIMES: u64 = 4;
const MOST: u64 = 2000;
/// Caches have room for so many blocks of a large class.
const LARGE_BLOCKS: u64 = 20;
/// Classes that have so many of a hundred of the calls are meant.
const PART: u128 = 90;

/// What helps: the cause, the setting, the price.
struct Help {
    cause: String,
    setting: String,
    cost: String,
}

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let (part, waits) = scene.waits(&["extents_dirty"]);
    if !scene.is(AllocatorKind::Jemalloc) || part <= 0.01 {
        return None;
    }
    let Help { cause, setting, cost } = match scene.now.opt.get("tcache") {
        Some(Value::Flag(false)) => Help {
            cause: "threads have no caches: each call takes a lock".to_owned(),
            setting: "tcache:true".to_owned(),
            cost: "free blocks in caches of threads".to_owned(),
        },
        _ => large(scene).or_else(|| small(scene))?,
    };
    Some(Advice {
        rule: "cache_small",
        observation: format!(
            "{:.1} % of the time of threads went into {waits} waits for dirty extents {}",
            100.0 * part,
            scene.when()
        ),
        cause,
        setting: scene.conf(&setting),
        live: Vec::new(),
        gain: "fewer fills and flushes".to_owned(),
        cost,
        takes: Takes::Restart,
        source: "jemalloc TUNING.md: tcache; lock statistics",
    })
}

fn of(class: &Class, name: &str) -> u64 {
    class.numbers.get(name).copied().unwrap_or(0)
}

/// Where most that takes the lock is blocks of sizes that no cache takes.
fn large(scene: &Scene<'_>) -> Option<Help> {
    let is_old = scene.now.version.starts_with("5.2");
    let power = |name: &str| scene.number(name).and_then(|own| u32::try_from(own).ok());
    let most = match scene.number("tcache_max").and_then(|own| u64::try_from(own).ok()) {
        Some(most) => most,
        None => power("lg_tcache_max").map_or(USUAL, |power| 1 << power.min(40)),
    };
    let all = scene.now.arenas.iter().flat_map(|arena| &arena.lextents);
    let mut sizes = std::collections::BTreeMap::<u64, u64>::new();
    for class in all.filter(|class| class.size > most && class.size <= LARGEST) {
        *sizes.entry(class.size).or_default() += of(class, "nmalloc");
    }
    let calls: u64 = sizes.values().sum();
    let slabs: u64 = scene.now.bins().iter().map(|class| of(class, "nslabs")).sum();
    if calls <= slabs {
        return None;
    }
    let mut so_far = 0_u128;
    let size = sizes.iter().find_map(|(size, own)| {
        so_far += u128::from(*own);
        (so_far * 100 >= u128::from(calls) * PART).then_some(*size)
    })?;
    let threads = scene.now.total("nthreads").max(1);
    Some(Help {
        cause: format!(
            "{} blocks of up to {} were allocated, and caches take sizes up to {} only: each such call takes locks",
            count(calls),
            bytes(size),
            bytes(most)
        ),
        setting: match is_old {
            true => format!("lg_tcache_max:{}", size.next_power_of_two().trailing_zeros()),
            false => format!("tcache_max:{size}"),
        },
        cost: format!(
            "up to {} more of free blocks in caches",
            bytes(size.saturating_mul(LARGE_BLOCKS).saturating_mul(threads))
        ),
    })
}

/// Where it is slabs: of the class that is filled most often.
fn small(scene: &Scene<'_>) -> Option<Help> {
    let bins = scene.now.bins();
    let class = bins.iter().max_by_key(|class| of(class, "nfills"))?;
    // It has no setting for their number of blocks.
    if scene.now.version.starts_with("5.2") {
        return None;
    }
    let regions = of(class, "nregs");
    let now = cache_room::blocks(scene, regions);
    let wanted = (TIMES * now).min(MOST);
    (wanted > now).then(|| Help {
        cause: format!(
            "caches of threads are too small for their turnover, most of all of blocks of {} B ({} fills): slabs go \
             back and forth",
            class.size,
            count(of(class, "nfills"))
        ),
        setting: cache_room::setting(regions, wanted),
        cost: format!(
            "up to {wanted} free blocks of this size in a cache, where {now} were, and more of all small sizes"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    /// Threads wait.
    fn waiting() -> Sample {
        let mut sample = Sample::jemalloc();
        let lock = sample.now.arenas[0].mutexes.entry("extents_dirty").or_default();
        lock.insert("total_wait_time", 200_000_000_000);
        sample
    }

    #[test]
    fn waits_for_dirty_extents_are_told_with_what_has_an_effect() {
        assert_eq!(advise(&Sample::jemalloc().scene()), None);
        let mut sample = waiting();
        sample.now.arenas[0].bins[0].numbers.extend([("nfills", 400_000), ("nregs", 4)]);
        let told = advise(&sample.scene()).unwrap();
        // The maximum alone would leave the class at the 20 that it has.
        assert_eq!(told.setting, "MALLOC_CONF=tcache_nslots_small_max:200,lg_tcache_nslots_mul:5");
        assert!(told.cost.contains("80 free blocks"), "{told:?}");
        sample.now.opt.insert("tcache".to_owned(), Value::Flag(false));
        assert_eq!(advise(&sample.scene()).unwrap().setting, "MALLOC_CONF=tcache:true");
    }

    #[test]
    fn sizes_that_no_cache_takes_are_told_by_size() {
        let mut sample = waiting();
        let mut class = Class { size: 64 << 10, ..Class::default() };
        class.numbers.insert("nmalloc", 1 << 40);
        sample.now.arenas[0].lextents.push(class);
        let told = advise(&sample.scene()).unwrap();
        assert_eq!(told.setting, "MALLOC_CONF=tcache_max:65536");
        sample.now.version = "5.2.1".to_owned();
        assert_eq!(advise(&sample.scene()).unwrap().setting, "MALLOC_CONF=lg_tcache_max:16");
        sample.now.opt.insert("lg_tcache_max".to_owned(), Value::Number(17));
        assert_eq!(advise(&sample.scene()), None, "it takes them");
    }

    #[test]
    fn nothing_is_told_where_caches_are_as_large_as_they_become() {
        let mut sample = waiting();
        sample.now.arenas[0].bins[0].numbers.insert("nregs", 2000);
        sample.now.opt.insert("tcache_nslots_small_max".to_owned(), Value::Number(4000));
        assert_eq!(advise(&sample.scene()), None);
    }
}
