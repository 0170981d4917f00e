//! Caches of threads have much of the heap.
//!
//! Threshold: above 5 % of what is allocated, and 10 MiB.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, LEAST, Scene, Takes};

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let total = |name: &str| scene.now.total(name);
    let cached = total("tcache_bytes").saturating_add(scene.now.sum("tcache_uncounted_bytes"));
    let allocated = total("allocated");
    let is_told = scene.is(AllocatorKind::Jemalloc) && scene.has_counts();
    if !is_told || cached <= LEAST || cached <= allocated / 20 {
        return None;
    }
    let setting = match scene.now.version.starts_with("5.2") {
        true => "lg_tcache_max:12",
        false => "tcache_max:4096",
    };
    Some(Advice {
        rule: "caches",
        observation: format!(
            "caches of {} threads have {} of {} that are allocated",
            total("nthreads"),
            bytes(cached),
            bytes(allocated)
        ),
        cause: "every thread keeps free blocks of each size".to_owned(),
        setting: scene.conf(setting),
        live: Vec::new(),
        gain: format!("a part of {}", bytes(cached)),
        cost: "blocks above 4 KiB then take the lock of their arena each time".to_owned(),
        takes: Takes::Restart,
        source: "jemalloc TUNING.md: lower tcache_max reduces memory",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn large_caches_are_told() {
        let sample = Sample::jemalloc().with("tcache_bytes", 50 << 20);
        assert!(
            advise(&sample.scene()).unwrap().observation.contains("have 50.0 MiB of 500.0 MiB")
        );
    }
}
