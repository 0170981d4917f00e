//! Very many goroutines wait: perhaps for ever.
//!
//! Threshold: 10,000 that wait, and 10 MiB of stacks.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::{bytes, count};

use super::{Advice, LEAST, Scene, Takes};

const MANY: u64 = 10_000;

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let (waiting, stacks) =
        (scene.now.total("goroutines.waiting"), scene.now.total("goroutines.stacks"));
    if !scene.is(AllocatorKind::Go) || waiting < MANY || stacks < LEAST {
        return None;
    }
    Some(Advice {
        rule: "go_stacks",
        observation: format!(
            "{} goroutines wait, with {} of stacks",
            count(waiting),
            bytes(stacks)
        ),
        cause: "each keeps its stack, and all that its stack leads to".to_owned(),
        setting: String::new(),
        live: Vec::new(),
        gain: format!("{} and more", bytes(stacks)),
        cost: "none; heapattach heap -p PID --view go tells which of them wait for ever, and where"
            .to_owned(),
        takes: Takes::Restart,
        source: "runtime: a goroutine that waits on a channel that nothing else has is never collected",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn many_that_wait_are_told() {
        let many =
            Sample::go().with("goroutines.waiting", 200_000).with("goroutines.stacks", 800 << 20);
        assert!(advise(&many.scene()).unwrap().observation.starts_with("200 000 goroutines wait"));
    }
}
