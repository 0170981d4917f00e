//! Spans of a Go heap are half empty: one object keeps the whole span.
//!
//! Threshold: more than 10 MiB and a third of the spans in use hold no object.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, LEAST, Scene, Takes};

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let (used, spans) = (scene.now.total("HeapAlloc"), scene.now.total("HeapInuse"));
    let gaps = spans.saturating_sub(used);
    if !scene.is(AllocatorKind::Go) || gaps <= LEAST || gaps <= spans / 3 {
        return None;
    }
    Some(Advice {
        rule: "go_gaps",
        observation: format!("{} of {} in spans hold no object", bytes(gaps), bytes(spans)),
        cause: "objects never move: a span is free only once its last object is".to_owned(),
        setting: String::new(),
        live: Vec::new(),
        gain: format!("up to {}, if long-lived objects were made at one time", bytes(gaps)),
        cost: "none that a setting has; heapattach heap -p PID --view sizes tells the classes"
            .to_owned(),
        takes: Takes::Restart,
        source: "runtime.MemStats: HeapInuse minus HeapAlloc",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn half_empty_spans_are_told() {
        let empty = Sample::go().with("HeapAlloc", 150 << 20);
        assert!(advise(&empty.scene()).unwrap().observation.contains("170.0 MiB of 320.0 MiB"));
    }
}
