//! More arenas of glibc than needed, each with free memory of its own.
//!
//! Threshold: more than twice the processors and more than 4, and more than 10 MiB and a tenth of all free in
//! arenas besides the main one.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, LEAST, Scene, Takes};

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let (arenas, cpus) = (scene.now.total("narenas"), scene.conditions.cpus.max(1));
    let others = scene.now.arenas.iter().filter(|arena| arena.index > 0);
    let free = |arena: &heapattach_census::counters::Arena| {
        let of = |name: &str| arena.numbers.get(name).copied().unwrap_or(0);
        of("rest.size").max(of("top"))
    };
    let free = others.map(free).fold(0, u64::saturating_add);
    let is_many = arenas > 4 && arenas > 2 * cpus;
    if !scene.is(AllocatorKind::Glibc)
        || !is_many
        || free <= LEAST
        || free <= scene.now.total("system.current") / 10
    {
        return None;
    }
    Some(Advice {
        rule: "glibc_arenas",
        observation: format!(
            "{arenas} arenas on {cpus} processors; {} are free in those besides the main one",
            bytes(free)
        ),
        cause: "each thread is given an arena of its own, up to 8 a processor, and free memory stays in it"
            .to_owned(),
        setting: "MALLOC_ARENA_MAX=4".to_owned(),
        live: Vec::new(),
        gain: format!("a part of {}", bytes(free)),
        cost: "threads may wait for each other's locks; mallopt(M_ARENA_MAX, 4) does it live for new threads"
            .to_owned(),
        takes: Takes::Restart,
        source: "mallopt(3), M_ARENA_MAX",
    })
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn many_arenas_with_free_memory_are_told() {
        let mut sample = Sample::glibc().with("narenas", 32);
        assert_eq!(advise(&sample.scene()), None);
        sample.now.arenas[1].numbers.insert("rest.size", 60 << 20);
        assert_eq!(advise(&sample.scene()).unwrap().setting, "MALLOC_ARENA_MAX=4");
    }
}
