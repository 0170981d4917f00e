//! Much of tcmalloc's page heap is free, and was not given back.
//!
//! Threshold: above 20 % of the heap, and 10 MiB.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, LEAST, Scene, Takes};

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let free = scene.now.total("tcmalloc.pageheap_free_bytes");
    let heap = scene.now.total("generic.heap_size");
    if !scene.is(AllocatorKind::Tcmalloc) || free <= LEAST || free <= heap / 5 {
        return None;
    }
    Some(Advice {
        rule: "tcmalloc_free",
        observation: format!("{} of {} are free in the page heap", bytes(free), bytes(heap)),
        cause: "free spans are returned slowly: one for every thousand pages freed".to_owned(),
        setting: "TCMALLOC_RELEASE_RATE=5".to_owned(),
        live: vec!["trim"],
        gain: format!("up to {}", bytes(free)),
        cost: "more calls of madvise, and page faults; MallocExtension::ReleaseFreeMemory does it live"
            .to_owned(),
        takes: Takes::Restart,
        source: "gperftools, tcmalloc: TCMALLOC_RELEASE_RATE",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn free_spans_are_told() {
        let sample = Sample::tcmalloc().with("tcmalloc.pageheap_free_bytes", 100 << 20);
        assert_eq!(advise(&sample.scene()).unwrap().setting, "TCMALLOC_RELEASE_RATE=5");
    }
}
