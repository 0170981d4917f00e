//! How many blocks of a small class the cache of a thread has room for, by settings of jemalloc.
//!
//! `(blocks of a slab << lg_tcache_nslots_mul)`, at least `tcache_nslots_small_min` and at most `tcache_nslots_small_max`: of
//! classes with few blocks a slab the maximum alone changes nothing.

use super::Scene;

/// So many blocks at least and at most, if nothing else was set.
const USUAL: [u64; 2] = [20, 200];
/// What the maximum is never set below: it is for all classes.
const LEAST_MAX: u64 = 200;
/// More is not shifted.
const MOST_SHIFT: u32 = 16;

/// How many blocks of a class whose slabs have so many a cache has room for.
pub(super) fn blocks(scene: &Scene<'_>, regions: u64) -> u64 {
    let number = |name: &str, usual: u64| {
        scene.number(name).and_then(|own| u64::try_from(own).ok()).unwrap_or(usual)
    };
    let [least, most] = USUAL;
    let (least, most) =
        (number("tcache_nslots_small_min", least), number("tcache_nslots_small_max", most));
    let shift = scene.number("lg_tcache_nslots_mul").unwrap_or(1).clamp(-16, 16);
    let wanted = match u32::try_from(shift) {
        Ok(shift) => regions << shift,
        Err(_) => regions >> shift.unsigned_abs(),
    };
    wanted.max(least).min(most)
}

/// What has a class whose slabs have so many blocks get so many in caches.
pub(super) fn setting(regions: u64, wanted: u64) -> String {
    let is_enough = |shift: &u32| regions.max(1) << shift >= wanted;
    let shift = (1..MOST_SHIFT).find(is_enough).unwrap_or(MOST_SHIFT);
    format!("tcache_nslots_small_max:{},lg_tcache_nslots_mul:{shift}", wanted.max(LEAST_MAX))
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn a_class_of_few_blocks_a_slab_gets_them_by_the_shift() {
        let sample = Sample::jemalloc();
        assert_eq!(blocks(&sample.scene(), 4), 20);
        assert_eq!(setting(4, 80), "tcache_nslots_small_max:200,lg_tcache_nslots_mul:5");
        assert_eq!(setting(64, 512), "tcache_nslots_small_max:512,lg_tcache_nslots_mul:3");
        assert_eq!(
            setting(0, 1 << 40),
            format!("tcache_nslots_small_max:{},lg_tcache_nslots_mul:16", 1_u64 << 40)
        );
    }
}
