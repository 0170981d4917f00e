//! More arenas than processors can use keep free memory to themselves.
//!
//! Threshold: more than 4 arenas a processor, and thread caches and dirty pages above 10 % of what is allocated.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, LEAST, Scene, Takes};

const ARENAS: u64 = 4;

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let (arenas, cpus) = (scene.now.total("narenas"), scene.conditions.cpus.max(1));
    let kept = scene.now.total("tcache_bytes").saturating_add(scene.now.total("dirty"));
    let allocated = scene.now.total("allocated");
    let is_many = scene.is(AllocatorKind::Jemalloc) && arenas > ARENAS * cpus;
    if !is_many || kept <= LEAST || kept <= allocated / 10 || !scene.has_counts() {
        return None;
    }
    let wanted = scene.enough_arenas().filter(|wanted| *wanted < arenas)?;
    Some(Advice {
        rule: "arenas_many",
        observation: format!(
            "{arenas} arenas on {cpus} processors; thread caches and dirty pages have {}, {} are allocated",
            bytes(kept),
            bytes(allocated)
        ),
        cause: "what is free in one arena is not used for the threads of another".to_owned(),
        setting: scene.conf(&format!("narenas:{wanted}")),
        live: Vec::new(),
        gain: format!("a part of {}", bytes(kept)),
        cost: "more threads an arena: look again for waits".to_owned(),
        takes: Takes::Restart,
        source: "jemalloc TUNING.md: lower narenas reduces fragmentation across arenas",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn many_arenas_that_keep_memory_are_told() {
        let sample = Sample::jemalloc().with("narenas", 64);
        assert_eq!(advise(&sample.scene()), None);
        let mut sample = sample.with("dirty", 80 << 20);
        assert_eq!(advise(&sample.scene()).unwrap().setting, "MALLOC_CONF=narenas:4");
        let threads = sample.clone().with("nthreads", 100);
        assert_eq!(advise(&threads.scene()).unwrap().setting, "MALLOC_CONF=narenas:25");
        // 1000 s, 64 arenas.
        sample.now.arenas[0].bins[0].numbers.insert("nfills", 65_000_000);
        assert_eq!(advise(&sample.scene()), None, "threads would wait for fewer");
    }
}
