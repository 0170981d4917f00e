//! A Go heap has much free memory that it has not returned to the kernel yet.
//!
//! Threshold: more than 50 MiB, and a third of the resident set.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, LEAST, Scene, Takes};

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let free = scene.now.total("HeapIdle").saturating_sub(scene.now.total("HeapReleased"));
    if !scene.is(AllocatorKind::Go) || free <= 5 * LEAST || free <= scene.conditions.resident / 3 {
        return None;
    }
    Some(Advice {
        rule: "go_free",
        observation: format!("{} of the heap are free and not returned to the kernel", bytes(free)),
        cause: "the runtime returns memory slowly, and keeps a tenth more than it needs".to_owned(),
        setting: "debug.FreeOSMemory(), called by the program after its peak".to_owned(),
        live: Vec::new(),
        gain: format!("up to {}", bytes(free)),
        cost: "a collection, and page faults where memory is wanted again".to_owned(),
        takes: Takes::Call,
        source: "runtime/debug: FreeOSMemory, SetMemoryLimit",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn free_memory_after_a_peak_is_told() {
        let kept = Sample::go().with("HeapIdle", 400 << 20);
        assert!(advise(&kept.scene()).unwrap().observation.starts_with("305.0 MiB"));
    }
}
