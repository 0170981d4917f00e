//! Mappings are exact after all kinds of calls, and none that the allocator makes for itself counts.

use std::process::Command;

use heapattach_tests::{
    attached::Attached,
    command::Hooks,
    compile::Source,
    fixture::Launch,
    report::Report,
    seed::seed,
    truth::{EXACT, MARK, ROUND, maps, run, told},
};

const FAMILY: [&str; 6] = ["mmap", "munmap", "mremap", "brk", "sbrk", "madvise"];

fn assert_exact(what: &str, report: &Report, output: &str) {
    assert!(report.is_complete(), "{what}: lost {:?}", report.heap.lost);
    let got = (report.heap.mapped, report.heap.mapped_live);
    assert_eq!(got, maps(output), "{what}: mapped and still mapped\n{:#?}", report.heap.sites);
    let sum = |of: fn(&heapattach_tests::report::Site) -> u64| {
        report.heap.sites.iter().map(of).sum::<u64>()
    };
    assert_eq!((sum(|s| s.mapped), sum(|s| s.mapped_live)), got, "{what}: by site");
    let named = report.heap.sites.iter().filter(|s| s.is_in("site_map") || s.is_in("site_remap"));
    assert_eq!(
        named.map(|site| site.mapped).sum::<u64>(),
        got.0,
        "{what}: {:#?}",
        report.heap.sites
    );
}

#[test]
fn the_mappings_of_a_run_are_exact() {
    let Some(program) = Source::new("truth_maps.c").build() else { return };
    let seed = seed();
    for hooks in ["auto", "slots", "entry"] {
        for cycle in 0..3 {
            let number = seed.wrapping_add(cycle).to_string();
            let options = [&EXACT[..], &["--hooks", hooks]].concat();
            let (outcome, report) = run(&options, &program, &["5000", &number]);
            assert_exact(&format!("seed {number}, {hooks}"), &report, &outcome.stdout);
        }
    }
}

#[test]
fn the_mappings_of_a_sampled_run_are_as_exact() {
    let Some(program) = Source::new("truth_maps.c").build() else { return };
    let number = seed().to_string();
    let options = ["--every", "1MiB", "--on-full", "wait"];
    let (outcome, report) = run(&options, &program, &["5000", &number]);
    assert_exact(&format!("seed {number}"), &report, &outcome.stdout);
}

#[test]
fn mappings_are_exact_from_an_attach_on() {
    let Some(launch) = Launch::new("truth_maps.c") else { return };
    let seed = seed();
    let mut fixture = launch.arg("3000").arg(seed.to_string()).start();
    for session in 0..4 {
        // What is older is unmapped, resized and replaced in the session, and never spoken of.
        fixture.step(ROUND, 0);
        fixture.step(MARK, 0);
        let hooks = if session % 2 == 0 { Hooks::Auto } else { Hooks::Slots };
        let command = Attached::command(fixture.pid(), hooks);
        let command = EXACT.iter().fold(command, |command, option| command.arg(*option));
        let attached = Attached::start(command, &mut fixture);
        fixture.step(ROUND, 0);
        let output = told(&mut fixture);
        let report = attached.end();
        fixture.assert_well();
        assert_exact(&format!("seed {seed}, session {session}"), &report, &output);
    }
    fixture.finish();
}

fn number_of(output: &str, name: &str) -> u64 {
    let line = output.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|number| number.trim().parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {output}"))
}

/// So often, at most, before processor times are believed.
const ROUNDS: u32 = 20;

#[test]
fn mappings_that_come_fast_are_all_told_without_being_asked_for() {
    let Some(program) = Source::new("map_pairs.c").build() else { return };
    for threads in ["1", "4", "16"] {
        // Once is enough to see what is dropped; the best of some to see what it costs, and of the more the
        // busier the machine is.
        let (mut plain, mut watched) = (u64::MAX, u64::MAX);
        let mut rounds = 0;
        while rounds < ROUNDS && (rounds < 2 || watched as f64 / plain as f64 > 1.5) {
            rounds += 1;
            let words = [threads, "40000"];
            let alone = Command::new(&program).args(words).output().expect("a fixture");
            let alone = String::from_utf8_lossy(&alone.stdout).into_owned();
            plain = plain.min(number_of(&alone, "microseconds"));
            let (outcome, report) = run(&[], &program, &words);
            let what = format!("{threads} threads");
            assert!(report.is_complete(), "{what}: {:?}", report.heap.lost);
            let pairs = number_of(&outcome.stdout, "pairs");
            let sites = report.heap.sites.iter().filter(|site| site.is_in("site_pair"));
            let (mapped, live) = sites.fold((0, 0), |(m, l), s| (m + s.mapped, l + s.mapped_live));
            assert_eq!((mapped, live), (pairs * 8192, 0), "{what}");
            watched = watched.min(number_of(&outcome.stdout, "microseconds"));
        }
        let ratio = watched as f64 / plain as f64;
        println!("{threads} threads: {ratio:.2} times the processor time, {rounds} rounds");
        assert!(ratio <= 1.5, "{threads} threads: {watched} us instead of {plain}");
    }
}

#[test]
fn without_mappings_there_are_none() {
    let Some(program) = Source::new("truth_maps.c").build() else { return };
    let options = [&EXACT[..], &["--no-mmap"]].concat();
    let (_, report) = run(&options, &program, &["100", "1"]);
    assert_eq!((report.heap.mapped, report.heap.mapped_live), (0, 0));
    let functions = || report.functions.iter().map(|f| f.function.as_str());
    assert!(functions().any(|name| name == "malloc"), "{:?}", report.functions);
    assert!(!functions().any(|name| FAMILY.contains(&name)), "{:?}", report.functions);

    let (_, report) = run(&EXACT, &program, &["100", "1"]);
    let functions = || report.functions.iter().map(|f| f.function.as_str());
    assert!(FAMILY.iter().all(|name| functions().any(|f| f == *name)), "{:?}", report.functions);
}
