//! Slabs are kept by few blocks each.
//!
//! Threshold: active pages above 1.1 times what is allocated, as redis has it in MEMORY DOCTOR, and so much of it in
//! gaps of slabs, and 10 MiB: the rest are ends of large blocks that are never touched. No setting packs blocks: what
//! does it is named where it is known.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, LEAST, Scene, Takes};

/// Classes that are named.
const NAMED: usize = 4;

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let (active, allocated) = (scene.now.total("active"), scene.now.total("allocated"));
    let classes = scene.now.slab_gaps();
    let gaps = classes.iter().map(|(gap, ..)| *gap).fold(0, u64::saturating_add);
    let is_told = scene.is(AllocatorKind::Jemalloc) && scene.has_counts();
    let is_sparse = active.saturating_sub(allocated) > allocated / 10;
    if !is_told || !is_sparse || gaps <= LEAST || gaps <= allocated / 10 {
        return None;
    }
    let named = classes.iter().rev().take(NAMED);
    let named: Vec<_> = named
        .map(|(gap, size, percent)| format!("{size} B ({percent} % full, {})", bytes(*gap)))
        .collect();
    let is_redis = scene.now.module.ends_with("/redis-server");
    let cause = format!("slabs that few blocks keep, most in {}", named.join(", "));
    Some(Advice {
        rule: "fragmentation",
        observation: format!(
            "{} active for {} allocated ({:.2}): {} lie in gaps of slabs",
            bytes(active),
            bytes(allocated),
            active as f64 / allocated.max(1) as f64,
            bytes(gaps)
        ),
        cause,
        setting: if is_redis { "redis-cli CONFIG SET activedefrag yes".to_owned() } else { String::new() },
        live: Vec::new(),
        gain: format!("up to {}, if the blocks were packed", bytes(gaps)),
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
        assert!(told.observation.contains("(1.40): 151.2 MiB lie in gaps"), "{told:?}");
        assert!(told.cause.contains("most in 512 B (24 % full, 151.2 MiB)"), "{told:?}");
        assert_eq!(told.setting, "");
        sample.now.module = "/usr/bin/redis-server".to_owned();
        assert!(advise(&sample.scene()).unwrap().setting.contains("activedefrag"));
    }
}
