//! A Go program collects so often that it costs: GOGC could be larger.
//!
//! Threshold: a tenth of the processor time, and no limit of memory that makes it so.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, Scene, Takes, go_limit::by_limit};

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let part = share(scene);
    if !scene.is(AllocatorKind::Go) || part < 0.1 || by_limit(scene) {
        return None;
    }
    let percent = scene.number("GOGC").and_then(|percent| u64::try_from(percent).ok())?;
    let live = scene.now.total("live_after_gc");
    let more = live.saturating_mul(percent) / 100;
    Some(Advice {
        rule: "go_time",
        observation: format!(
            "collections take {:.0} % of the processor time {}",
            part * 100.0,
            scene.when()
        ),
        cause: format!(
            "GOGC={percent}: one each time that the {} live grow by as much",
            bytes(live)
        ),
        setting: format!("GOGC={}", percent.saturating_mul(2).max(1)),
        live: Vec::new(),
        gain: "half as many collections".to_owned(),
        cost: format!("up to {} more memory", bytes(more)),
        takes: Takes::Call,
        source: "A Guide to the Go Garbage Collector, GOGC; debug.SetGCPercent",
    })
}

/// Which part of the processor time collections take: since the look before where the runtime counts that, or
/// else since the start.
pub(super) fn share(scene: &Scene<'_>) -> f64 {
    let since_start = scene.now.total("GCCPUFraction.ppm") as f64 / 1e6;
    let Some((before, _)) = scene.before else { return since_start };
    let grown = |name: &str| scene.now.total(name).saturating_sub(before.total(name));
    // They are counted at the end of each collection.
    match grown("cpu.TotalTime") {
        0 => since_start,
        all => {
            let own = grown("cpu.GCTotalTime").saturating_sub(grown("cpu.GCIdleTime"));
            own as f64 / all as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use heapattach_census::counters::Value;

    use super::{super::sample::Sample, *};

    #[test]
    fn collections_that_cost_much_are_told_with_what_rarer_ones_cost() {
        let busy = Sample::go().with("GCCPUFraction.ppm", 250_000);
        let advice = advise(&busy.scene()).unwrap();
        assert_eq!(
            (advice.setting.as_str(), advice.cost.as_str()),
            ("GOGC=200", "up to 200.0 MiB more memory")
        );
        assert!(advise(&busy.set("GOGC", Value::Text("off".to_owned())).scene()).is_none());
    }

    #[test]
    fn the_share_is_that_since_the_look_before() {
        let before = Sample::go().with("cpu.TotalTime", 1_000).with("cpu.GCTotalTime", 900);
        let now = Sample::go().with("cpu.TotalTime", 2_000).with("cpu.GCTotalTime", 950);
        let time = std::time::Duration::from_secs(1);
        let scene = Scene { before: Some((&before.now, time)), ..now.scene() };
        assert!((share(&scene) - 0.05).abs() < 1e-9);
    }
}
