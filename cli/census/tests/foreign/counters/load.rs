//! Threads that allocate and free all the time: counters that only grow never shrink, sums stay likely, and looks
//! end.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use heapattach_census::{
    Live, Moment,
    counters::{self, AllocatorKind},
};

use crate::program::{build, library};

use super::told::Told;

const LOOKS: u32 = 60;
/// A look takes some milliseconds, on a machine that has nothing else to do.
const MOST: Duration = Duration::from_secs(20);

#[test]
fn what_only_grows_never_shrinks_under_load() {
    let cases = [
        (AllocatorKind::Jemalloc, "libjemalloc.so.2", "libjemalloc2"),
        (AllocatorKind::Tcmalloc, "libtcmalloc_minimal.so.4", "google-perftools"),
        (AllocatorKind::Mimalloc, "libmimalloc.so.2", "libmimalloc2.0"),
        (AllocatorKind::Glibc, "libc.so.6", "libc6"),
    ];
    let Some(program) = build("cc", "own_numbers.c", &[]) else { return };
    for (allocator, name, package) in cases {
        let Some(library) = library(name, package) else { continue };
        let mut command = Command::new(&program);
        if allocator != AllocatorKind::Glibc {
            command.env("LD_PRELOAD", library);
        }
        let told = Told::start(command.args(["3", "1000", "loop"]));
        let process = told.process();
        let live = Live::open(&process).unwrap();
        let moment = || Moment::new(&live, Live::regions(&process).unwrap(), Vec::new());
        // The allocator is there before its first thread; what it counts comes with the first blocks.
        let until = Instant::now() + MOST;
        let places = loop {
            let places = counters::find(&moment());
            let is_there = |place: &counters::Place| {
                let own = place.read(&moment());
                own.is_some_and(|own| own.allocator == allocator && own.unknown.len() < 2)
            };
            if places.iter().any(is_there) {
                break places;
            }
            assert!(Instant::now() < until, "{allocator} was never found");
        };
        let mut before: Option<std::collections::BTreeMap<String, u64>> = None;
        let mut whole = 0;
        for number in 0..LOOKS {
            let began = Instant::now();
            // What is changed while it is read may not be told by one look.
            let read = || {
                let now = moment();
                let all: Vec<_> = places.iter().filter_map(|place| place.read(&now)).collect();
                all.into_iter().find(|own| own.allocator == allocator)
            };
            let own = loop {
                if let Some(own) = read() {
                    break own;
                }
                assert!(began.elapsed() < MOST, "{allocator}: gone at look {number}");
            };
            assert!(began.elapsed() < MOST, "{allocator}: {:?}", began.elapsed());
            let counted = own.counted();
            for (name, old) in before.iter().flatten() {
                let now = counted.get(name).copied().unwrap_or(0);
                assert!(now >= *old, "{allocator}, look {number}: {name} was {old}, and is {now}");
            }
            whole += u32::from(!own.unknown.iter().any(|why| why.contains("change")));
            before = Some(counted);
        }
        eprintln!("{allocator}: {whole} of {LOOKS} looks told everything");
        // A list that changes is followed again: most looks tell it.
        assert!(whole > 0, "{allocator}");
    }
}
