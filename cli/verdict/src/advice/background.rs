//! Dirty pages wait until a thread uses their arena.
//!
//! Decay is done by threads that allocate or free in the arena. Where no thread of the allocator's own does it,
//! arenas whose threads rest keep their dirty pages. Threshold: more than 10 MiB dirty, for longer than the time
//! that was set, as far as two looks tell; else above 5 % of what is resident.

use heapattach_census::counters::AllocatorKind;
use heapattach_census::counters::Value;
use heapattach_text::quantity::bytes;

use super::{Advice, LEAST, Scene, Takes};

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let dirty = scene.dirty();
    let resident = scene.now.total("resident").max(scene.conditions.resident);
    let has_thread = scene.conditions.background_threads > 0
        || scene.now.opt.get("background_thread") == Some(&Value::Flag(true));
    let never = scene.now.opt.get("dirty_decay_ms") == Some(&Value::Number(-1));
    if !scene.is(AllocatorKind::Jemalloc)
        || has_thread
        || never
        || dirty <= LEAST
        || dirty <= resident / 20
    {
        return None;
    }
    // That rule's setting has it, too.
    if super::dirty::advise(scene).is_some() {
        return None;
    }
    if scene.before.is_some_and(|(before, _)| before.total("dirty") > scene.now.total("dirty")) {
        return None;
    }
    Some(Advice {
        rule: "background_thread",
        observation: format!("about {} in dirty pages, and no background thread", bytes(dirty)),
        cause: "without one, pages decay only when a thread of their arena allocates or frees"
            .to_owned(),
        setting: scene.conf("background_thread:true"),
        live: {
            let now = if scene.now.version.starts_with("5.3") { "purge" } else { "trim" };
            // A program with one thread may count on that.
            let is_one = scene.conditions.threads < 2;
            if is_one { vec![now] } else { vec![now, "background_thread=true"] }
        },
        gain: format!("up to {} where threads rest", bytes(dirty)),
        cost: "a thread for every processor, at most; allocating threads are spared the calls"
            .to_owned(),
        takes: Takes::Restart,
        source: "jemalloc TUNING.md: background_thread; the same name in mallctl",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn dirty_pages_without_a_background_thread_are_told() {
        let mut sample = Sample::jemalloc().with("dirty", 60 << 20);
        assert_eq!(advise(&sample.scene()), None, "a faster decay is told already");
        sample.now.arenas[0].settings.insert("dirty_decay_ms", 500);
        assert!(advise(&sample.scene()).is_some());
        sample.conditions.background_threads = 1;
        assert_eq!(advise(&sample.scene()), None);
    }
}
