//! Much is resident that nothing is in: pages that decay slowly.
//!
//! Threshold: dirty pages above a tenth of the resident set, and 10 MiB, as redis has it in MEMORY DOCTOR.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, LEAST, Scene, Takes};

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let (dirty, resident) = (scene.dirty(), scene.conditions.resident);
    if !scene.is(AllocatorKind::Jemalloc) || dirty <= LEAST || dirty <= resident / 10 {
        return None;
    }
    let times = scene.now.arenas.iter().filter_map(|arena| arena.settings.get("dirty_decay_ms"));
    let time = times.map(|time| if *time < 0 { i64::MAX } else { *time }).max()?;
    let (how, setting) = match time {
        i64::MAX => ("are never returned".to_owned(), "10000"),
        0..=1000 => return None,
        time => (format!("decay for {} s", time / 1000), "1000"),
    };
    Some(Advice {
        rule: "dirty",
        observation: format!(
            "about {} of {} resident are dirty pages",
            bytes(dirty),
            bytes(resident)
        ),
        cause: format!("pages that become free {how}"),
        setting: scene.conf(&format!("dirty_decay_ms:{setting},background_thread:true")),
        live: vec![if time == i64::MAX { "dirty_decay_ms=10000" } else { "dirty_decay_ms=1000" }],
        gain: format!("up to {}", bytes(dirty)),
        cost: "more calls of madvise, and page faults where memory is wanted again soon".to_owned(),
        takes: Takes::Restart,
        source: "redis MEMORY DOCTOR (10 % and 10 MiB); jemalloc TUNING.md: 1000 to 5000 for less memory",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn slow_decay_is_told_and_fast_decay_is_not() {
        let mut sample = Sample::jemalloc().with("dirty", 100 << 20);
        assert!(advise(&sample.scene()).unwrap().cause.contains("decay for 10 s"));
        sample.now.arenas[0].settings.insert("dirty_decay_ms", -1);
        assert!(advise(&sample.scene()).unwrap().cause.contains("never"));
        sample.now.arenas[0].settings.insert("dirty_decay_ms", 0);
        assert_eq!(advise(&sample.scene()), None);
    }
}
