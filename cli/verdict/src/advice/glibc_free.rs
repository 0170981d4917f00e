//! Much is free within arenas of glibc, which returns only the end of a heap by itself.
//!
//! Threshold: more free below the top than 10 MiB and a fifth of what arenas have.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, LEAST, Scene, Takes};

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let (free, system) = (scene.now.total("free"), scene.now.total("system.current"));
    if !scene.is(AllocatorKind::Glibc) || free <= LEAST || free <= system / 5 {
        return None;
    }
    Some(Advice {
        rule: "glibc_free",
        observation: format!("{} of {} are free chunks below the top", bytes(free), bytes(system)),
        cause: "free returns to the kernel only what is free at the end of a heap".to_owned(),
        setting: "malloc_trim(0), called by the program now and then".to_owned(),
        live: vec!["trim"],
        gain: format!("up to {}: whole pages within free chunks", bytes(free)),
        cost: "it takes the lock of each arena in turn; page faults where memory is wanted again"
            .to_owned(),
        takes: Takes::Call,
        source: "malloc_trim(3): since glibc 2.8 all arenas, and pages in the middle",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn free_chunks_in_the_middle_are_told() {
        let sample = Sample::glibc().with("free", 200 << 20);
        assert!(advise(&sample.scene()).unwrap().setting.contains("malloc_trim"));
    }
}
