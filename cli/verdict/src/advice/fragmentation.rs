//! Slabs are kept by few blocks each.
//!
//! Threshold: active pages above 1.1 times what is allocated, and 10 MiB, as redis has it in MEMORY DOCTOR. No
//! setting packs blocks: what does it is named where it is known.

use heapattach_text::quantity::bytes;

use super::{Advice, LEAST, Scene, Takes};

/// Classes that are named.
const NAMED: usize = 4;

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let (active, allocated) = (scene.now.total("active"), scene.now.total("allocated"));
    let lost = active.saturating_sub(allocated);
    let is_told = scene.is("jemalloc") && scene.has_counts();
    if !is_told || lost <= LEAST || lost <= allocated / 10 {
        return None;
    }
    let mut classes: Vec<(u64, u64, u64)> = (scene.now.bins().iter())
        .filter_map(|class| {
            let of = |name: &str| class.numbers.get(name).copied().unwrap_or(0);
            let taken = of("curslabs").saturating_mul(of("slab_size"));
            let used = of("curregs").saturating_mul(class.size);
            (taken > used).then_some((taken - used, class.size, 100 * used / taken.max(1)))
        })
        .collect();
    classes.sort_unstable();
    let slabs: u64 = classes.iter().map(|(lost, ..)| *lost).sum();
    let named = classes.iter().rev().take(NAMED);
    let named: Vec<_> = named
        .map(|(lost, size, percent)| format!("{size} B ({percent} % full, {})", bytes(*lost)))
        .collect();
    let is_redis = scene.now.module.ends_with("/redis-server");
    let cause = format!(
        "slabs that few blocks keep: {} of it, most in {}",
        bytes(slabs.min(lost)),
        named.join(", ")
    );
    Some(Advice {
        rule: "fragmentation",
        observation: format!(
            "{} active for {} allocated ({:.2}): {} lie in gaps",
            bytes(active),
            bytes(allocated),
            active as f64 / allocated.max(1) as f64,
            bytes(lost)
        ),
        cause,
        setting: if is_redis { "redis-cli CONFIG SET activedefrag yes".to_owned() } else { String::new() },
        gain: format!("up to {}: packed, the blocks would need {}", bytes(lost), bytes(allocated)),
        cost: match is_redis {
            true => "processor time while it moves blocks".to_owned(),
            false => "no setting packs blocks: a restart does, or code that moves them (redis: activedefrag, \
                      which needs its bundled jemalloc)"
                .to_owned(),
        },
        takes: if is_redis { Takes::Call } else { Takes::Restart },
        source: "redis MEMORY DOCTOR (10 % and 10 MiB)",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn the_classes_that_are_sparse_are_named() {
        let mut sample = Sample::jemalloc().with("active", 700 << 20);
        let class = &mut sample.now.arenas[0].bins[0];
        class.numbers.insert("curslabs", 51_200);
        let told = advise(&sample.scene()).unwrap();
        assert!(told.observation.contains("(1.40): 200.0 MiB lie in gaps"), "{told:?}");
        assert!(
            told.cause.contains("151.2 MiB of it, most in 512 B (24 % full, 151.2 MiB)"),
            "{told:?}"
        );
        assert_eq!(told.setting, "");
        sample.now.module = "/usr/bin/redis-server".to_owned();
        assert!(advise(&sample.scene()).unwrap().setting.contains("activedefrag"));
    }
}
