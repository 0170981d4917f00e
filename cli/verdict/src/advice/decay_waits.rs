//! Threads wait for muzzy or retained extents: pages are purged and needed again.
//!
//! Threshold: waits for these above 1 % of the time that threads had.

use super::{Advice, Scene, Takes};
use heapattach_census::counters::AllocatorKind;

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let (part, waits) = scene.waits(&["extents_muzzy", "extents_retained"]);
    if !scene.is(AllocatorKind::Jemalloc) || part <= 0.01 {
        return None;
    }
    Some(Advice {
        rule: "decay_waits",
        observation: format!(
            "{:.1} % of the time of threads went into {waits} waits for muzzy and retained extents {}",
            100.0 * part,
            scene.when()
        ),
        cause: "pages decay sooner than they are wanted again".to_owned(),
        setting: scene.conf("dirty_decay_ms:30000,muzzy_decay_ms:30000"),
        live: live(scene),
        gain: "fewer calls of the kernel, and fewer page faults".to_owned(),
        cost: "pages stay resident for longer; -1 (never) can end in OOM".to_owned(),
        takes: Takes::Restart,
        source: "jemalloc TUNING.md: decay; arena.<i>.dirty_decay_ms sets it live",
    })
}

/// Those that are shorter in the first arena, by which all are set.
fn live(scene: &Scene<'_>) -> Vec<&'static str> {
    let first = scene.now.arenas.first().map(|arena| &arena.settings);
    let is_short =
        |name: &str| first.and_then(|all| all.get(name)).is_some_and(|ms| (0..30_000).contains(ms));
    let all =
        [("dirty_decay_ms", "dirty_decay_ms=30000"), ("muzzy_decay_ms", "muzzy_decay_ms=30000")];
    all.into_iter().filter(|(name, _)| is_short(name)).map(|(_, remedy)| remedy).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn waits_for_retained_extents_are_told() {
        let mut sample = Sample::jemalloc();
        let lock = sample.now.arenas[0].mutexes.entry("extents_retained").or_default();
        lock.insert("total_wait_time", 200_000_000_000);
        let told = advise(&sample.scene()).unwrap();
        assert!(told.cost.contains("OOM"));
        assert_eq!(told.live, ["dirty_decay_ms=30000", "muzzy_decay_ms=30000"]);
        sample.now.arenas[0].settings.insert("dirty_decay_ms", -1);
        assert_eq!(advise(&sample.scene()).unwrap().live, ["muzzy_decay_ms=30000"], "for ever");
    }
}
