//! Threads wait for dirty extents: their caches are filled and flushed too often.
//!
//! Threshold: waits for dirty extents alone above 1 % of the time that threads had.

use heapattach_census::counters::AllocatorKind;
use heapattach_census::counters::Value;

use super::{Advice, Scene, Takes};

const SMALL: &str =
    "caches of threads are too small for their turnover: slabs and large blocks go back and forth";

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let (part, waits) = scene.waits(&["extents_dirty"]);
    if !scene.is(AllocatorKind::Jemalloc) || part <= 0.01 {
        return None;
    }
    let has_none = scene.now.opt.get("tcache") == Some(&Value::Flag(false));
    let (setting, cause) = match (has_none, scene.now.version.starts_with("5.2")) {
        (true, _) => ("tcache:true", "threads have no caches: each call takes a lock"),
        // 5.2 has no setting for their number of blocks.
        (false, true) => ("lg_tcache_max:16", SMALL),
        (false, false) => ("tcache_nslots_small_max:400,lg_tcache_nslots_mul:2", SMALL),
    };
    Some(Advice {
        rule: "cache_small",
        observation: format!(
            "{:.1} % of the time of threads went into {waits} waits for dirty extents {}",
            100.0 * part,
            scene.when()
        ),
        cause: cause.to_owned(),
        setting: scene.conf(setting),
        live: Vec::new(),
        gain: "fewer fills and flushes".to_owned(),
        cost: "more free blocks in caches of threads".to_owned(),
        takes: Takes::Restart,
        source: "jemalloc TUNING.md: tcache; lock statistics",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn waits_for_dirty_extents_are_told() {
        let mut sample = Sample::jemalloc();
        assert_eq!(advise(&sample.scene()), None);
        let lock = sample.now.arenas[0].mutexes.entry("extents_dirty").or_default();
        lock.insert("total_wait_time", 200_000_000_000);
        assert!(advise(&sample.scene()).unwrap().setting.contains("tcache_nslots_small_max"));
        sample.now.opt.insert("tcache".to_owned(), Value::Flag(false));
        assert_eq!(advise(&sample.scene()).unwrap().setting, "MALLOC_CONF=tcache:true");
    }
}
