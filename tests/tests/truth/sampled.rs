//! A sample estimates what is true, as closely as it says.
//!
//! A block of size s below the interval T is a sample with probability p = 1 - exp(-s/T), by itself;
//! so the variance of the estimates is known from the truth: a block adds (1 - p)/p to that of the
//! blocks, and s * s times that to that of the bytes.

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    compile::Source,
    fixture::{Fixture, Launch},
    hazard::cycles,
    report::{Amount, Range, Report},
    sample::is_soak,
    seed::seed,
    truth::{ROUND, Size, run, sizes, told},
};

const EVERY: &str = "4KiB";
const INTERVAL: f64 = 4096.0;
/// Beyond so many standard deviations it is not chance: one in 1.7 million, for a normal law.
const FAR: f64 = 5.0;

/// What an estimate is of, and how far it may lie off.
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    truth: f64,
    variance: f64,
    /// What the sample that stands for most stands for.
    heaviest: f64,
}

/// Blocks and bytes of sizes with numbers of blocks.
fn expected(of: impl Iterator<Item = (u64, u64)>) -> [Expected; 2] {
    let [mut blocks, mut bytes] = [Expected::default(); 2];
    for (size, number) in of {
        let (size, number) = (size as f64, number as f64);
        let left_out = if size < INTERVAL { (-size / INTERVAL).exp() } else { 0.0 };
        let variance = number * left_out / (1.0 - left_out);
        blocks.truth += number;
        blocks.variance += variance;
        bytes.truth += number * size;
        bytes.variance += variance * size * size;
        let weight = 1.0 / (1.0 - left_out);
        blocks.heaviest = blocks.heaviest.max(weight);
        bytes.heaviest = bytes.heaviest.max(weight * size);
    }
    [blocks, bytes]
}

/// Standard deviations between an estimate and the truth. No law is normal where one block in
/// thousands is taken and stands for thousands: three of them more are an accident that happens.
fn off(expected: Expected, got: f64) -> f64 {
    let error = (got - expected.truth).abs() - 3.0 * expected.heaviest;
    error.max(0.0) / expected.variance.max(1e-6).sqrt()
}

fn assert_near(what: &str, expected: [Expected; 2], got: Amount) {
    for (expected, range, unit) in
        [(expected[0], got.blocks, "blocks"), (expected[1], got.bytes, "bytes")]
    {
        let off = off(expected, range.value);
        assert!(off.abs() < FAR, "{what}: {unit} are {off} deviations off: {range:?} {expected:?}");
        assert!(range.low <= range.value && range.value <= range.high, "{what}: {range:?}");
    }
}

/// The 95 % interval told is as wide as the truth says it must be, within what it can itself know.
fn assert_width(what: &str, expected: Expected, got: Range) {
    let ratio = (got.high - got.low) / (2.0 * 1.96 * expected.variance.sqrt());
    assert!((0.7..1.4).contains(&ratio), "{what}: {ratio} of the true width: {got:?} {expected:?}");
}

fn site(report: &Report, name: &str) -> Amounts {
    let sites = report.heap.sites.iter().filter(|site| site.is_in(name));
    let mut sum = Amounts::default();
    for site in sites {
        add(&mut sum.allocated, site.allocated);
        add(&mut sum.live, site.live);
    }
    sum
}

#[derive(Default)]
struct Amounts {
    allocated: Amount,
    live: Amount,
}

/// All that is asked of one is the value: widths do not add up.
fn add(sum: &mut Amount, one: Amount) {
    for (sum, one) in [(&mut sum.blocks, one.blocks), (&mut sum.bytes, one.bytes)] {
        sum.value += one.value;
        sum.low += one.low;
        sum.high += one.high;
    }
}

fn assert_sites(what: &str, report: &Report, truth: &[Size]) {
    assert!(report.is_complete(), "{what}: lost {:?}", report.heap.lost);
    assert_eq!(report.heap.every, 4096, "{what}");
    for name in ["site_churn", "site_kept", "site_leak"] {
        let own = || truth.iter().filter(|size| size.name == name);
        let got = site(report, name);
        let what = format!("{what}, {name}");
        assert_near(&what, expected(own().map(|s| (s.size, s.blocks))), got.allocated);
        assert_near(&format!("{what}, live"), expected(own().map(|s| (s.size, s.live))), got.live);
    }
    assert!(report.heap.sites[0].is_in("site_leak"), "{what}: first is {:?}", report.heap.sites[0]);
}

#[test]
fn a_sampled_run_estimates_the_truth() {
    let Some(program) = Source::new("truth_sizes.c").build() else { return };
    let seed = seed();
    for threads in ["1", "4", "64"] {
        let number = seed.to_string();
        let turns = if threads == "64" { "1500" } else { "20000" };
        let options = ["--every", EVERY, "--on-full", "wait"];
        let (outcome, report) = run(&options, &program, &[threads, turns, &number]);
        let what = format!("{threads} threads, seed {number}");
        assert_sites(&what, &report, &sizes(&outcome.stdout));
    }
}

fn session(fixture: &mut Fixture) -> Report {
    let command = Attached::command(fixture.pid(), Hooks::Auto);
    let command = command.arg("--every").arg(EVERY).arg("--on-full").arg("wait");
    let attached = Attached::start(command, fixture);
    fixture.step(ROUND, 0);
    attached.end()
}

#[test]
fn a_sampled_session_estimates_the_truth_and_tells_how_closely() {
    let seed = seed();
    // Of blocks and of bytes.
    let (mut inside, mut asked) = ([0_u64; 2], 0_u64);
    for cycle in 0..if is_soak() { cycles() } else { 5 } {
        let number = seed.wrapping_add(cycle).to_string();
        let Some(launch) = Launch::new("truth_sizes.c") else { return };
        let mut fixture = launch.arg("4").arg("15000").arg(&number).start();
        let report = session(&mut fixture);
        let truth = sizes(&told(&mut fixture));
        let what = format!("seed {number}");
        assert_sites(&what, &report, &truth);

        // Nothing else allocates memory, so the whole is known as well, and the calls exactly.
        let all = expected(truth.iter().map(|s| (s.size, s.blocks)));
        let live = expected(truth.iter().map(|s| (s.size, s.live)));
        let freed = expected(truth.iter().map(|s| (s.size, s.blocks - s.live)));
        let heap = &report.heap;
        assert_near(&format!("{what}, all"), all, heap.allocated);
        assert_near(&format!("{what}, live"), live, heap.live);
        assert_near(&format!("{what}, freed"), freed, heap.freed);
        let calls: u64 = truth.iter().map(|s| s.blocks).sum();
        let bytes: u64 = truth.iter().map(|s| s.blocks * s.size).sum();
        assert_eq!(
            (report.calls_of("malloc"), report.bytes_of("malloc")),
            (calls, bytes),
            "{what}"
        );
        let frees: u64 = truth.iter().map(|s| s.blocks - s.live).sum();
        assert_eq!(report.calls_of("free"), frees, "{what}");

        for (expected, got) in [(all, heap.allocated), (live, heap.live), (freed, heap.freed)] {
            assert_width(&format!("{what}, bytes"), expected[1], got.bytes);
            asked += 1;
            for (unit, range) in [got.blocks, got.bytes].into_iter().enumerate() {
                inside[unit] += u64::from((range.low..=range.high).contains(&expected[unit].truth));
            }
        }
        fixture.finish();
    }
    println!("of {asked} intervals of 95 %, {inside:?} of blocks and of bytes hold the truth");
    // All three of a cycle go together, so this is not a binomial law: of few cycles three of five fail by chance
    // once in a thousand runs. Of many, most must be right.
    let enough = if is_soak() { 82 } else { 40 };
    assert!(inside.iter().all(|n| n * 100 >= asked * enough), "only {inside:?} of {asked}");
}

#[test]
fn blocks_of_at_least_the_interval_are_exact() {
    let Some(launch) = Launch::new("truth_sizes.c") else { return };
    let mut fixture = launch.arg("4").arg("5000").arg(seed().to_string()).start();
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--every").arg("1");
    let attached = Attached::start(command.arg("--on-full").arg("wait"), &mut fixture);
    fixture.step(ROUND, 0);
    let report = attached.end();
    let truth = sizes(&told(&mut fixture));
    let [blocks, bytes] = expected(truth.iter().map(|s| (s.size, s.blocks)));
    let heap = &report.heap;
    assert!(report.is_complete(), "lost {:?}", heap.lost);
    assert_eq!(
        (heap.allocated.blocks.value, heap.allocated.bytes.value),
        (blocks.truth, bytes.truth)
    );
    let [blocks, bytes] = expected(truth.iter().map(|s| (s.size, s.live)));
    assert_eq!((heap.live.blocks.value, heap.live.bytes.value), (blocks.truth, bytes.truth));
    fixture.finish();
}

#[test]
fn refuses_what_cannot_be_meant() {
    let cases: [(&[&str], &str); 8] = [
        (&["--every", "0"], "1TiB"),
        (&["--every", "9999999TiB"], "9999999TiB"),
        (&["--every", "2TiB"], "1TiB"),
        (&["--every", "often"], "often"),
        (&["--ring", "1"], "4KiB to 8MiB"),
        (&["--ring", "1GiB"], "4KiB to 8MiB"),
        (&["--all", "--every", "4KiB"], "cannot be used with"),
        (&["--on-full", "panic"], "wait"),
    ];
    cases.iter().for_each(|(arguments, hint)| refuses(arguments, hint));
}

#[test]
fn a_negative_number_is_called_by_its_name() {
    refuses(&["--every", "-1"], "--every");
    refuses(&["--ring", "-1"], "--ring");
}

fn refuses(arguments: &[&str], hint: &str) {
    for (first, after) in [(&["-p", "1"][..], &[][..]), (&["run"], &["--", "true"])] {
        let outcome = Heapattach::new([first, arguments, after].concat()).run();
        let what = format!("{first:?} {arguments:?}: {}", outcome.stderr);
        assert_eq!(outcome.code(), Some(2), "{what}");
        assert!(outcome.stderr.contains(hint), "no `{hint}` in {what}");
        assert_eq!(outcome.stdout, "");
    }
}
