//! `heapattach check` against programs that know the truth about their own blocks.

use std::{ops::Range, path::Path};

use heapattach_tests::{
    check::{self, Sum},
    compile::Source,
    fixture::Launch,
    sample::is_soak,
    seed::{Random, seed},
    skip::skip,
};

/// Graphs that one program builds.
const GRAPHS: u64 = 20;
/// Allocators to preload, and where they come from.
const ALLOCATORS: [(&str, &str); 4] = [
    ("libjemalloc.so.2", "libjemalloc2"),
    ("libtcmalloc.so.4", "libgoogle-perftools4"),
    ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    ("libmimalloc.so.2.0", "libmimalloc2.0"),
];
const KINDS: [&str; 4] = ["direct", "indirect", "possible", "reachable"];

/// What the program says of its blocks, by kind.
fn told(output: &str) -> [Sum; 4] {
    let numbers: Vec<u64> = output.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let (pairs, rest) = numbers.as_chunks::<2>();
    assert!(rest.is_empty(), "{output}");
    let sums: Vec<Sum> = pairs.iter().map(|[bytes, blocks]| (*bytes, *blocks)).collect();
    sums.try_into().unwrap_or_else(|_| panic!("no truth in {output:?}"))
}

/// Checks graphs from this seed on, beside what belongs to the program's threads and its allocator.
fn assert_true(program: &Path, env: &[(&str, &str)], seeds: Range<u64>) {
    let check = |seed: u64, graphs: u64| {
        let (seed, graphs) = (seed.to_string(), graphs.to_string());
        check::run(program, &[&seed, &graphs], env, &[])
    };
    let besides = KINDS.map(|kind| check(seeds.start, 0).sum(kind));
    for seed in seeds {
        let result = check(seed, GRAPHS);
        let mut truth = told(&result.output);
        for (sum, more) in truth.iter_mut().zip(besides) {
            *sum = (sum.0 + more.0, sum.1 + more.1);
        }
        let told = format!("seed {seed}, {env:?}: {}", result.talk);
        assert_eq!(KINDS.map(|kind| result.sum(kind)), truth, "{told}");
        assert_eq!(result.check()["doubts"].as_array().map(Vec::len), Some(0), "{told}");
        assert_eq!(result.check()["is_complete"], true, "{told}");
    }
}

fn first_seed() -> u64 {
    Random::new(seed()).between(0, 1 << 32)
}

#[test]
fn the_verdict_on_random_graphs_is_the_truth() {
    let Some(program) = Source::new("graph.c").build() else { return };
    let (first, programs) = (first_seed(), if is_soak() { 50 } else { 10 });
    assert_true(&program, &[], first..first + programs);
    println!("{} graphs as they are, from seed {first} on", programs * GRAPHS);
}

#[test]
fn the_books_of_other_allocators_hold_nothing() {
    let Some(program) = Source::new("graph.c").build() else { return };
    let (first, programs) = (first_seed(), if is_soak() { 20 } else { 2 });
    for (name, package) in ALLOCATORS {
        let library = Path::new("/usr/lib/x86_64-linux-gnu").join(name);
        if !library.exists() {
            skip(&format!("no {name} here"), &format!("apt-get install {package}"));
            continue;
        }
        let library = library.to_str().expect("a plain path");
        assert_true(&program, &[("LD_PRELOAD", library)], first..first + programs);
        println!("{} graphs in {name}, from seed {first} on", programs * GRAPHS);
    }
}

#[test]
fn what_a_running_program_can_get_at_is_never_called_lost() {
    assert_none_but_lost("shifting.c", &["stop", "copy", "fork", "early"]);
}

/// What is copied early is not all: pages come, go and move meanwhile. A thousand moments:
///
/// ```text
/// HEAPATTACH_MOMENTS=1000 cargo test --release --test check memory_moves -- --nocapture
/// ```
#[test]
fn nor_while_its_memory_moves() {
    assert_none_but_lost("moving_memory.c", &["early", "fork"]);
}

/// Graphs change while they are copied; in the stop all memory that a full stop would look at is read once more: each
/// page of it is in the copies, and the same. What is made of both is the same code's, so verdicts are equal, too.
/// A thousand moments:
///
/// ```text
/// HEAPATTACH_MOMENTS=500 cargo test --release --test check copied_early_is_what -- --nocapture
/// ```
#[test]
fn what_is_copied_early_is_what_a_full_stop_would_read() {
    let mut random = Random::new(seed());
    for program in ["shifting.c", "moving_memory.c"] {
        let Some(launch) = Launch::new(program) else { return };
        let mut fixture = launch.start();
        let (mut all, mut late) = (0, 0);
        for turn in 0..moments() {
            let duration = format!("{}ms", random.between(20, 400));
            let options = ["--duration", &duration, "--max-pause", "60s", "--snapshot", "early"];
            let result =
                check::attach_with(fixture.pid(), &[("HEAPATTACH_COMPARE", "1")], &options);
            let told = format!("{program}, turn {turn}, seed {}: {}", seed(), result.talk);
            let look = &result.check()["look"];
            assert_eq!(look["method"], "early", "{told}");
            late += look["copied_late"].as_u64().unwrap_or(0);
            let compared = result.talk.lines().find_map(|line| {
                let (_, counts) = line.split_once("faults: ")?;
                let (pages, rest) = counts.split_once(" pages compared, ")?;
                Some((
                    pages.parse::<u64>().ok()?,
                    rest.strip_suffix(" differ")?.parse::<u64>().ok()?,
                ))
            });
            let (pages, differing) = compared.unwrap_or_else(|| panic!("nothing compared: {told}"));
            assert_eq!(differing, 0, "of {pages} pages: {told}");
            all += pages;
            fixture.advance(5);
        }
        println!(
            "{program}: {all} pages are the same in {} moments, {late} bytes copied in the stops",
            moments()
        );
        assert!(all > 100 * moments() && late > 0, "{all} pages, {late} bytes late");
        fixture.finish();
    }
}

/// How often a program is looked at.
fn moments() -> u64 {
    let wanted = std::env::var("HEAPATTACH_MOMENTS").ok();
    let wanted = wanted.map(|count| count.parse().expect("HEAPATTACH_MOMENTS is a number"));
    wanted.unwrap_or(if is_soak() { 90 } else { 8 })
}

/// Checks a program again and again, in each of these ways: it leaks in `lose`, and nowhere else.
fn assert_none_but_lost(program: &str, methods: &[&str]) {
    let Some(launch) = Launch::new(program) else { return };
    let mut fixture = launch.start();
    let (seed, times) = (seed(), moments());
    let mut random = Random::new(seed);
    let mut found = 0;
    for (turn, &method) in (0..times).zip(methods.iter().cycle()) {
        // Past what the attach takes, so that it has something to find.
        let duration = format!("{}ms", random.between(20, 400));
        let options = ["--duration", &duration, "--max-pause", "10s", "--snapshot", method];
        let result = check::attach(fixture.pid(), &options);
        let strangers: Vec<String> = result.causes(0).into_iter().filter(|f| f != "lose").collect();
        let told = format!("{method}, turn {turn}, seed {seed}: {}", result.report);
        assert!(strangers.is_empty(), "{strangers:?}: {told}");
        assert_eq!(result.report["target"], "restored", "{told}");
        assert_eq!(result.check()["look"]["method"], method, "{told}");
        found += result.sum("direct").1;
        fixture.advance(5);
    }
    println!("{found} lost blocks found at {times} moments, and no other, seed {seed}");
    assert!(found > times, "{found} found only");
    fixture.finish();
}
