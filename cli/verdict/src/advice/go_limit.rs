//! A Go program is near its memory limit, and collects ever more often to stay below it.
//!
//! Threshold: the limit, not GOGC, sets the goal, and collections take more than a tenth of the processor time.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, Scene, Takes, go_time::share};

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    if !scene.is(AllocatorKind::Go) {
        return None;
    }
    let limit = scene.number("GOMEMLIMIT").and_then(|limit| u64::try_from(limit).ok())?;
    let (ready, live) = (scene.now.total("mapped_ready"), scene.now.total("live_after_gc"));
    if !by_limit(scene) || share(scene) < 0.1 {
        return None;
    }
    let wanted = live.saturating_mul(2).saturating_add(ready.saturating_sub(live) / 2);
    Some(Advice {
        rule: "go_limit",
        observation: format!(
            "{} of GOMEMLIMIT {} are in use, and collections take {:.0} % of the processor time {}",
            bytes(ready),
            bytes(limit),
            share(scene) * 100.0,
            scene.when()
        ),
        cause: format!("{} are live, so little room is left until the limit", bytes(live)),
        setting: format!("GOMEMLIMIT={}MiB", (wanted >> 20).max((limit >> 20) + 1)),
        live: Vec::new(),
        gain: "collections as rare as GOGC has them".to_owned(),
        cost: format!("up to {} more memory", bytes(wanted.saturating_sub(limit))),
        takes: Takes::Call,
        source: "A Guide to the Go Garbage Collector, memory limit; debug.SetMemoryLimit",
    })
}

/// Whether the limit of memory, not GOGC, says when the next collection is.
pub(super) fn by_limit(scene: &Scene<'_>) -> bool {
    let (goal, live) = (scene.now.total("NextGC"), scene.now.total("live_after_gc"));
    let has_limit = scene.number("GOMEMLIMIT").is_some();
    // GOGC=off leaves the limit alone.
    let percent = scene.number("GOGC").and_then(|percent| u64::try_from(percent).ok());
    let by_percent =
        percent.map_or(u64::MAX, |percent| live.saturating_add(live.saturating_mul(percent) / 100));
    has_limit && goal < by_percent / 10 * 9
}

#[cfg(test)]
mod tests {
    use heapattach_census::counters::Value;

    use super::{super::sample::Sample, *};

    #[test]
    fn a_limit_that_makes_it_collect_all_the_time_is_told() {
        let near =
            Sample::go().set("GOMEMLIMIT", Value::Number(350 << 20)).with("NextGC", 210 << 20);
        assert!(advise(&near.scene()).is_none(), "it does not hurt");
        let hurts = near.with("GCCPUFraction.ppm", 300_000);
        let advice = advise(&hurts.scene()).unwrap();
        assert!(advice.observation.contains("30 %"), "{advice:?}");
        assert_eq!(advice.setting, "GOMEMLIMIT=470MiB");
    }
}
