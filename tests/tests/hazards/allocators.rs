//! The door's hazards in programs whose allocator came by LD_PRELOAD: its functions are patched by
//! their entries, which are written otherwise than those of the C library.

use std::path::Path;

use heapattach_tests::{
    command::Hooks,
    fixture::{Fixture, Launch},
    hazard::{Calls, Hazard},
    skip::skip,
};

const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// The allocator's library, and its package.
const ALLOCATORS: [(&str, &str); 3] = [
    ("libjemalloc.so.2", "libjemalloc2"),
    ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    ("libmimalloc.so.2", "libmimalloc2.0"),
];

/// A hazard: what it is called, its program, with which words, and how far it must come first.
const HAZARDS: [(&str, &str, &[&str], u64); 3] = [
    ("8 threads", "hammer.c", &["8", "20000"], 1),
    ("fork/exec storm", "fork_storm.c", &[], 10),
    ("each blocking call", "blocking.c", &[], 60),
];

fn start(file: &str, words: &[&str], library: &Path) -> Option<Fixture> {
    let launch = words.iter().fold(Launch::new(file)?, |launch, word| launch.arg(word));
    Some(launch.env("LD_PRELOAD", library).start())
}

fn survives_every_hazard((library, package): (&str, &str)) {
    let path = Path::new(LIBRARIES).join(library);
    if !path.exists() {
        let what = format!("no {library} in {LIBRARIES}");
        return skip(&what, &format!("apt-get install {package}"));
    }
    for (name, file, words, warm_up) in HAZARDS {
        let Some(fixture) = start(file, words, &path) else { return };
        let name = format!("{name}, {library}");
        let hazard = Hazard::new(&name, fixture, Hooks::Auto).loose().warm_up(warm_up);
        hazard.calls(Calls::Sometimes).run_with(|_, report| {
            let mut own = report.functions.iter().filter(|one| one.module.contains(library));
            assert!(own.any(|one| one.via == "entry"), "{name}: {report:?}");
        });
    }
}

#[test]
fn jemalloc() {
    survives_every_hazard(ALLOCATORS[0]);
}

#[test]
fn tcmalloc() {
    survives_every_hazard(ALLOCATORS[1]);
}

#[test]
fn mimalloc() {
    survives_every_hazard(ALLOCATORS[2]);
}
