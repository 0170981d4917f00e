//! The allocator's own books are large.
//!
//! Threshold: above 5 % of what is allocated, and 10 MiB, with more arenas than twice as many as its threads and processors need.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, LEAST, Scene, Takes};

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let total = |name: &str| scene.now.total(name);
    let (metadata, arenas, wanted) = (total("metadata"), total("narenas"), scene.enough_arenas()?);
    let is_large = metadata > LEAST && metadata > total("allocated") / 20;
    if !scene.is(AllocatorKind::Jemalloc)
        || !scene.has_counts()
        || !is_large
        || arenas <= 2 * wanted
    {
        return None;
    }
    Some(Advice {
        rule: "metadata",
        observation: format!("{} of books for {arenas} arenas", bytes(metadata)),
        cause: "each arena has its own bins, lists and base".to_owned(),
        setting: scene.conf(&format!("narenas:{wanted}")),
        live: Vec::new(),
        gain: format!("a part of {}", bytes(metadata)),
        cost: "more threads an arena: look again for waits".to_owned(),
        takes: Takes::Restart,
        source: "measured: 1024 arenas take about 37 KiB each; jemalloc TUNING.md",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn large_books_of_many_arenas_are_told() {
        let sample = Sample::jemalloc().with("metadata", 60 << 20);
        assert_eq!(advise(&sample.scene()), None);
        assert!(advise(&sample.with("narenas", 200).scene()).is_some());
    }
}
