//! A few threads allocate nearly everything, and wait for locks that they share with all others.
//!
//! Threshold: 16 threads or more, of which at most a quarter allocates 90 % of the bytes, and waits for bins and dirty extents
//! above 1 % of the time that these few had. Said only where every thread that counts for itself is known by its number.

use std::collections::BTreeMap;

use heapattach_census::counters::{AllocatorKind, Statistics};

use super::{Advice, Scene, Takes};

const THREADS: usize = 16;
/// One of so many.
const FEW: usize = 4;
/// Of a hundred.
const MOST: u128 = 90;
const PART: f64 = 0.01;
/// So many are named.
const NAMED: usize = 8;

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    if !scene.is(AllocatorKind::Jemalloc)
        || scene.now.unknown.iter().any(|why| why.contains("control block"))
    {
        return None;
    }
    let all = allocated(scene);
    let sum: u128 = all.iter().map(|(_, bytes)| u128::from(*bytes)).sum();
    let mut so_far = 0_u128;
    let few = 1 + all.iter().position(|(_, bytes)| {
        so_far += u128::from(*bytes);
        so_far * 100 >= sum * MOST
    })?;
    if all.len() < THREADS || sum == 0 || few * FEW > all.len() {
        return None;
    }
    let (part, waits) = scene.waits(&["bins", "extents_dirty"]);
    // How long a process runs is known to a second.
    let part = (part * scene.now.total("nthreads").max(1) as f64 / few as f64).min(1.0);
    if part <= PART {
        return None;
    }
    let names: Vec<String> =
        all.iter().take(few.min(NAMED)).map(|(tid, _)| tid.to_string()).collect();
    let more = if few > NAMED { ", ..." } else { "" };
    let muzzy = scene.now.arenas.iter().filter_map(|arena| arena.settings.get("muzzy_decay_ms"));
    let others = match muzzy.max() {
        Some(0) | None => "",
        Some(_) => "; a lower muzzy_decay_ms for the arenas of the others",
    };
    Some(Advice {
        rule: "hot_threads",
        observation: format!(
            "{few} of {} threads allocate 90 % of the bytes {} ({}{more}), and wait for locks of bins and dirty extents \
             {waits} times: {:.1} % of their time",
            all.len(),
            scene.when(),
            names.join(", "),
            100.0 * part,
        ),
        cause: "they share arenas with threads that hardly allocate".to_owned(),
        setting: format!(
            "in each of these threads, when it begins: unsigned arena; size_t size = sizeof arena; \
             mallctl(\"arenas.create\", &arena, &size, NULL, 0); \
             mallctl(\"thread.arena\", NULL, NULL, &arena, sizeof arena){others}"
        ),
        live: Vec::new(),
        gain: format!("most of these waits: {:.1} % of the time of {few} threads", 100.0 * part),
        cost: format!("{few} arenas more; what one of these threads frees stays in its own arena"),
        takes: Takes::Call,
        source: "the article on tuning jemalloc: exclusive arenas for 80 hot threads of 1776, processor time -4 %, memory as before",
    })
}

/// Bytes by thread, the most at first: since the look before, or since each began.
fn allocated(scene: &Scene<'_>) -> Vec<(i32, u64)> {
    let by_thread = |own: &Statistics| -> BTreeMap<i32, u64> {
        let threads = own.arenas.iter().flat_map(|arena| &arena.threads);
        threads.map(|thread| (thread.tid, thread.allocated)).collect()
    };
    let before = scene.before.map(|(before, _)| by_thread(before)).unwrap_or_default();
    let now = by_thread(scene.now).into_iter();
    // One that is new, or another one of the same number, has allocated since all that it counts.
    let since = now.map(|(tid, now)| {
        (tid, now.checked_sub(before.get(&tid).copied().unwrap_or(0)).unwrap_or(now))
    });
    let mut all: Vec<_> = since.collect();
    all.sort_by_key(|(tid, bytes)| (std::cmp::Reverse(*bytes), *tid));
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use heapattach_census::counters::ThreadCount;

    use super::{super::sample::Sample, *};

    /// Of 40 threads two allocate nearly everything.
    fn sample(hot: u64) -> Sample {
        let mut sample = Sample::jemalloc().with("nthreads", 40);
        let bytes = |tid| if tid < 1002 { hot } else { 1 << 20 };
        let threads =
            (1000..1040).map(|tid| ThreadCount { tid, allocated: bytes(tid), deallocated: 0 });
        sample.now.arenas[0].threads = threads.collect();
        sample.now.arenas[0].bins[0].mutex =
            [("total_wait_time", 100_000_000_000), ("num_wait", 9)].into();
        sample
    }

    #[test]
    fn few_threads_that_allocate_most_and_wait_are_told_to_have_arenas_of_their_own() {
        let sample = sample(10 << 30);
        let told = advise(&sample.scene()).unwrap();
        assert!(
            told.observation.contains("2 of 40 threads allocate 90 % of the bytes since the start"),
            "{told:?}"
        );
        // 100 s of two threads in 1000 s.
        assert!(
            told.observation.contains("(1000, 1001)")
                && told.observation.contains("9 times: 5.0 %"),
            "{told:?}"
        );
        assert!(
            told.setting.contains("arenas.create") && told.setting.contains("thread.arena"),
            "{told:?}"
        );
        assert!(!told.setting.contains("muzzy"), "it is 0 already: {told:?}");
    }

    #[test]
    fn between_two_looks_only_what_was_allocated_there_counts() {
        let (before, mut now) = (sample(10 << 30), sample(10 << 30));
        // The others caught up.
        now.now.arenas[0].threads.iter_mut().for_each(|thread| thread.allocated += 1 << 30);
        let scene = Scene { before: Some((&before.now, Duration::from_secs(10))), ..now.scene() };
        assert_eq!(advise(&scene), None);
    }

    #[test]
    fn nothing_is_told_where_threads_are_alike_or_do_not_wait_or_are_not_all_known() {
        assert_eq!(advise(&sample(1 << 20).scene()), None, "alike");
        let mut calm = sample(10 << 30);
        calm.now.arenas[0].bins[0].mutex.clear();
        assert_eq!(advise(&calm.scene()), None, "no thread waits");
        let mut few = sample(10 << 30);
        few.now.arenas[0].threads.truncate(8);
        assert_eq!(advise(&few.scene()), None, "few threads");
        let mut strange = sample(10 << 30);
        strange.now.unknown.push(
            "what 3 threads of arena 0 allocate: their control blocks were not found".to_owned(),
        );
        assert_eq!(advise(&strange.scene()), None, "not certain");
    }
}
