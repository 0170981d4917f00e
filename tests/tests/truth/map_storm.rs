//! Random operations on mappings by eight threads at once: what heapattach says of every place that maps is
//! what the program knows, and what the program knows is what the kernel has.
//!
//! Twenty seeds; a thousand with
//!
//! ```text
//! HEAPATTACH_CYCLES=1000 cargo test -p heapattach-tests --test truth -- map_storm --nocapture
//! ```

use std::collections::BTreeMap;

use heapattach_tests::{
    attached::Attached,
    command::Hooks,
    compile::Source,
    fixture::Launch,
    hazard::cycles,
    report::Report,
    seed::seed,
    truth::{EXACT, MARK, ROUND, maps, pages, places, run, told},
};

const SEEDS: u64 = 20;
const TURNS: &str = "2000";
/// Every call recorded, or blocks sampled: mappings are exact in both.
const WAYS: [&[&str]; 4] = [
    &EXACT,
    &["--all", "--on-full", "wait", "--hide-frames=none", "--hooks", "slots"],
    &["--every", "1MiB", "--hooks", "entry"],
    &["--every", "64KiB", "--hooks", "auto"],
];

const DLOPEN: (Hooks, &str) = (Hooks::Auto, "dlopen");

fn assert_exact(what: &str, report: &Report, output: &str) {
    assert!(report.is_complete(), "{what}: lost {:?}", report.heap.lost);
    let truth = places(output);
    let mut got: BTreeMap<String, [u64; 2]> =
        truth.keys().map(|name| (name.clone(), [0; 2])).collect();
    // Stacks of threads, which the C library maps.
    let mut others = [0; 2];
    for site in report.heap.sites.iter().filter(|site| site.mapped > 0) {
        let place = got.iter_mut().find(|(name, _)| site.is_in(name));
        let sums = place.map_or(&mut others, |(_, sums)| sums);
        *sums = [sums[0] + site.mapped, sums[1] + site.mapped_live];
    }
    assert_eq!(got, truth, "{what}: bytes mapped and still mapped");
    let all = [report.heap.mapped - others[0], report.heap.mapped_live - others[1]];
    assert_eq!((all[0], all[1]), maps(output), "{what}: {others:?} of others");
}

#[test]
fn a_storm_of_mappings_is_exact_by_place() {
    let Some(program) = Source::new("truth_map_storm.c").build() else { return };
    let first = seed();
    for turn in 0..cycles().max(SEEDS) {
        let number = first.wrapping_add(turn).to_string();
        let index = usize::try_from(turn).expect("a few") % WAYS.len();
        // The fixture itself compares its account with the kernel's list.
        let (outcome, report) = run(WAYS[index], &program, &[TURNS, &number]);
        assert_exact(&format!("seed {number}, {:?}", WAYS[index]), &report, &outcome.stdout);
        assert!(!outcome.stderr.contains("the account"), "{}", outcome.stderr);
    }
    println!("{} seeds from {first} on", cycles().max(SEEDS));
}

#[test]
fn a_storm_of_mappings_is_exact_from_an_attach_on() {
    let Some(launch) = Launch::new("truth_map_storm.c") else { return };
    let seed = seed();
    let mut fixture = launch.arg(TURNS).arg(seed.to_string()).start();
    let ways = [(Hooks::Auto, "map"), (Hooks::Slots, "map"), (Hooks::Entry, "map"), DLOPEN];
    for (hooks, loader) in ways {
        fixture.step(ROUND, 0);
        fixture.step(MARK, 0);
        let command = Attached::command(fixture.pid(), hooks).arg("--hide-frames=none");
        let command = command.arg("--loader").arg(loader);
        let attached = Attached::start(command, &mut fixture);
        let before = of_kernel(fixture.pid()) - pages(&told(&mut fixture));
        fixture.step(ROUND, 0);
        let output = told(&mut fixture);
        let after = of_kernel(fixture.pid()) - pages(&output);
        let report = attached.end();
        fixture.assert_well();
        let what = format!("seed {seed}, {}, --loader {loader}", hooks.name());
        assert_exact(&what, &report, &output);
        assert_eq!(after, before, "{what}: bytes that the kernel has and the account has not");
    }
    fixture.finish();
}

/// Bytes of private mappings without a file, as the kernel lists them.
fn of_kernel(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a program of ours");
    let sizes = text.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).expect("hex"));
        let label = rest.split_whitespace().nth(4).unwrap_or_default();
        matches!(label, "" | "/dev/zero").then_some(to - from)
    });
    sizes.sum()
}
