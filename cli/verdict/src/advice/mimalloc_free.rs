//! Much is free within pages of mimalloc.
//!
//! Threshold: above 20 % of the pages in use, and 10 MiB.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, LEAST, Scene, Takes};

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let (free, pages) = (scene.now.total("free_in_pages"), scene.now.total("pages"));
    if !scene.is(AllocatorKind::Mimalloc) || free <= LEAST || free <= pages / 5 {
        return None;
    }
    Some(Advice {
        rule: "mimalloc_free",
        observation: format!("{} of {} are free blocks in pages in use", bytes(free), bytes(pages)),
        cause: "pages are kept by few blocks each, or by threads that free no more".to_owned(),
        setting: "mi_collect(true), called by the threads that allocated".to_owned(),
        live: vec!["trim"],
        gain: "pages that are empty; blocks are not moved".to_owned(),
        cost: "each thread collects its own heap alone".to_owned(),
        takes: Takes::Call,
        source: "mimalloc documentation: mi_collect",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn free_blocks_in_pages_are_told() {
        let sample = Sample::mimalloc().with("free_in_pages", 100 << 20);
        assert!(advise(&sample.scene()).unwrap().setting.contains("mi_collect"));
    }
}
