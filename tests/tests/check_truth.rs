//! `heapattach check` against programs that know the truth about their own blocks.

use heapattach_tests::{
    check::{self, Sum},
    compile::Source,
    fixture::Launch,
    sample::is_soak,
    seed::{Random, seed},
};

/// Graphs that one program builds.
const GRAPHS: u64 = 20;
const KINDS: [&str; 4] = ["direct", "indirect", "possible", "reachable"];

/// What the program says of its blocks, by kind.
fn told(output: &str) -> [Sum; 4] {
    let numbers: Vec<u64> = output.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let (pairs, rest) = numbers.as_chunks::<2>();
    assert!(rest.is_empty(), "{output}");
    let sums: Vec<Sum> = pairs.iter().map(|[bytes, blocks]| (*bytes, *blocks)).collect();
    sums.try_into().unwrap_or_else(|_| panic!("no truth in {output:?}"))
}

#[test]
fn the_verdict_on_random_graphs_is_the_truth() {
    let Some(program) = Source::new("graph.c").build() else { return };
    let first = Random::new(seed()).between(0, 1 << 32);
    let programs = if is_soak() { 50 } else { 10 };
    let check = |seed: u64, graphs: u64| {
        let (seed, graphs) = (seed.to_string(), graphs.to_string());
        check::run(&program, &[&seed, &graphs], &[], &[])
    };
    // What belongs to its threads, and is in no graph.
    let besides = check(first, 0).sum("reachable");
    for seed in first..first + programs {
        let result = check(seed, GRAPHS);
        let mut truth = told(&result.output);
        truth[3].0 += besides.0;
        truth[3].1 += besides.1;
        assert_eq!(KINDS.map(|kind| result.sum(kind)), truth, "seed {seed}: {}", result.talk);
        assert_eq!(result.check()["doubts"].as_array().map(Vec::len), Some(0), "seed {seed}");
    }
    println!("{} graphs as they are, from seed {first} on", programs * GRAPHS);
}

#[test]
fn what_a_running_program_can_get_at_is_never_called_lost() {
    let Some(launch) = Launch::new("shifting.c") else { return };
    let mut fixture = launch.start();
    let (seed, times) = (seed(), if is_soak() { 90 } else { 9 });
    let mut random = Random::new(seed);
    let mut found = 0;
    for (turn, method) in (0..times).zip(["stop", "copy", "fork"].into_iter().cycle()) {
        // Past what the attach takes, so that it has something to find.
        let duration = format!("{}ms", random.between(20, 400));
        let options = ["--duration", &duration, "--max-pause", "10s", "--snapshot", method];
        let result = check::attach(fixture.pid(), &options);
        let strangers: Vec<String> = result.causes(0).into_iter().filter(|f| f != "lose").collect();
        let told = format!("{method}, turn {turn}, seed {seed}: {}", result.report);
        assert!(strangers.is_empty(), "{strangers:?}: {told}");
        assert_eq!(result.report["target"], "restored", "{told}");
        found += result.sum("direct").1;
        fixture.advance(5);
    }
    println!("{found} lost blocks found at {times} moments, and no other, seed {seed}");
    assert!(found > times, "{found} found only");
    fixture.finish();
}
