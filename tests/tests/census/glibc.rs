//! glibc's heap, in every state that its settings and others bring it into, and of several releases: no block
//! is missing, none is too many, none has a wrong size.

use heapattach_census::walkers::Glibc;
use heapattach_tests::{
    census::LiveBlocks,
    compile::Source,
    fixture::Launch,
    libc_release::{Libc, RELEASES},
    sample::is_soak,
};

const TUNABLES: &str = "GLIBC_TUNABLES";

/// States of a heap: a variable and its value.
const STATES: [(&str, &str); 13] = [
    ("PLAIN", "1"),
    ("FOREIGN_SBRK", "1"),
    ("BLOCKED_BREAK", "1"),
    ("TRIM", "1"),
    (TUNABLES, "glibc.malloc.hugetlb=1"),
    (TUNABLES, "glibc.malloc.hugetlb=2"),
    (TUNABLES, "glibc.malloc.arena_max=1"),
    (TUNABLES, "glibc.malloc.tcache_count=0"),
    (TUNABLES, "glibc.malloc.tcache_count=127"),
    (TUNABLES, "glibc.malloc.tcache_max=1048576"),
    (TUNABLES, "glibc.malloc.mmap_threshold=4096"),
    (TUNABLES, "glibc.malloc.mmap_max=0"),
    (TUNABLES, "glibc.malloc.perturb=85"),
];

/// The fixture as a program of a C library, in all states.
fn exact_in_all_states(name: &str, source: Source, old: Option<&Libc>) {
    let Some(program) = source.build() else { return };
    for (variable, value) in STATES {
        let launch = Launch::program(&program).arg("5").env(variable, value);
        let Some((launch, truth)) = LiveBlocks::of(launch, old) else { return };
        let mut fixture = launch.start();
        let walked = truth.walk(fixture.pid(), &Glibc);
        let what = format!("{name}, {variable}={value}");
        assert!(walked.truth.len() > 5000, "{what}: {}", walked.truth.len());
        walked.assert_exact(&what);
        fixture.assert_well();
        fixture.finish();
    }
}

#[test]
fn every_block_of_the_systems_own_release_is_told_as_it_is() {
    exact_in_all_states("the system's", Source::new("heap_states.c"), None);
}

#[test]
fn every_block_of_later_releases_is_told_as_it_is() {
    for release in RELEASES {
        let Some(libc) = Libc::release(release) else { continue };
        exact_in_all_states(release, libc.program(Source::new("heap_states.c")), None);
    }
}

#[test]
fn every_block_of_an_old_release_is_told_as_it_is() {
    let Some(libc) = Libc::oldest() else { return };
    let source = libc.built_with(Source::new("heap_states.c"));
    exact_in_all_states("Debian 11", source, Some(&libc));
}

/// Threads that allocate and free all the time are stopped anywhere: of each at most one call is in flight. One of
/// realloc has two blocks, the old one and the new one.
#[test]
fn under_load_at_most_a_block_of_each_thread_is_in_flight() {
    const THREADS: usize = 2;
    let Some(program) = Source::new("heap_states.c").build() else { return };
    let launch = Launch::program(&program).arg(THREADS.to_string()).env("BUSY", "1");
    let Some((launch, truth)) = LiveBlocks::of(launch, None) else { return };
    let mut fixture = launch.start();
    let (mut exact, stops) = (0, if is_soak() { 1000 } else { 25 });
    for stop in 0..stops {
        fixture.advance(100);
        let walked = truth.walk(fixture.pid(), &Glibc);
        let difference = walked.difference();
        let wrong = difference.missing.len() + difference.extra.len();
        assert!(wrong <= 2 * THREADS, "stop {stop}: {difference:x?}, {:?}", walked.walk.trust);
        assert_eq!(difference.sizes, [], "stop {stop}");
        exact += usize::from(walked.walk.is_exact());
    }
    println!("{exact} of {stops} stops were exact by all checks");
    fixture.assert_well();
    fixture.finish();
}
