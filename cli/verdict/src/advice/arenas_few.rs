//! Many threads wait for the locks of few arenas.
//!
//! Threshold: more than 4 threads an arena, and waits for bins and for dirty extents above 1 % of the time that
//! its threads had. As many arenas as threads, 1024 at most; each takes some tens of KiB. Half as many do not end
//! it where more threads run than there are processors: who holds a lock loses the processor, and the other waits.

use heapattach_census::counters::AllocatorKind;
use heapattach_text::quantity::bytes;

use super::{Advice, Scene, Takes};

/// Above so many threads an arena it is asked whether they wait.
pub(super) const THREADS: u64 = 4;
const PART: f64 = 0.01;
const MOST: u64 = 1024;
/// What an arena takes at least.
const ARENA: u64 = 37 << 10;

pub fn advise(scene: &Scene<'_>) -> Option<Advice> {
    let (threads, arenas) = (scene.now.total("nthreads"), scene.now.total("narenas").max(1));
    let (part, waits) = scene.waits(&["bins", "extents_dirty"]);
    if !scene.is(AllocatorKind::Jemalloc) || threads <= THREADS * arenas || part <= PART {
        return None;
    }
    let wanted = threads.clamp(arenas + 1, MOST.max(arenas + 1));
    let busiest = busiest(scene);
    Some(Advice {
        rule: "arenas_few",
        observation: format!(
            "{threads} threads share {arenas} {}; {:.1} % of their time went into {waits} waits for locks of \
             bins and dirty extents {}{busiest}",
            if arenas == 1 { "arena" } else { "arenas" },
            100.0 * part,
            scene.when(),
        ),
        cause: "threads of one arena take turns to fill their caches and to get pages".to_owned(),
        setting: scene.conf(&format!("narenas:{wanted}")),
        live: Vec::new(),
        gain: format!("most of these waits: {:.1} % of the time of threads", 100.0 * part),
        cost: format!(
            "at least {} of books, and free memory is spread over more arenas",
            bytes((wanted - arenas) * ARENA)
        ),
        takes: Takes::Restart,
        source: "jemalloc TUNING.md; measured with 1776 threads: 256 to 1024 arenas, processor time -4.5 %, memory +10 %; \
                 with 256 threads on 2 processors: 221 s of waits a second in 8 arenas, 52 in 128, none in 256",
    })
}

/// The class whose locks are waited for most.
fn busiest(scene: &Scene<'_>) -> String {
    let bins = scene.now.bins();
    let waited = |class: &&heapattach_census::counters::Class| {
        class.mutex.get("total_wait_time").copied().unwrap_or(0)
    };
    match bins.iter().max_by_key(waited) {
        Some(class) if waited(&class) > 0 => {
            format!(", most of all for blocks of {} B", class.size)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::sample::Sample, *};

    #[test]
    fn many_waiting_threads_are_told_to_have_more_arenas() {
        let mut sample = Sample::jemalloc().with("nthreads", 256).with("narenas", 4);
        assert_eq!(advise(&sample.scene()), None, "no thread waits");
        // 2 % of 256 threads for 1000 s.
        let class = &mut sample.now.arenas[0].bins[0];
        class.mutex = [("total_wait_time", 5_120_000_000_000), ("num_wait", 9)].into();
        let told = advise(&sample.scene()).unwrap();
        assert_eq!(told.setting, "MALLOC_CONF=narenas:256");
        assert!(told.observation.contains("2.0 % of their time went into 9 waits"), "{told:?}");
        assert!(told.observation.contains("blocks of 512 B"), "{told:?}");
        let sample = sample.with("narenas", 128);
        assert_eq!(advise(&sample.scene()), None, "it has them");
    }
}
