//! Every call is counted, and no call twice.
//!
//! The fixture sleeps except for the steps it is told to do, so the counts of a session are those of
//! its steps: exactly.

use std::{collections::BTreeMap, path::Path};

use heapattach_tests::{
    attached::Attached,
    command::Hooks,
    compile::Source,
    fixture::{Fixture, Launch},
    page::Word,
    report::Report,
};

const PAGE: u64 = 4096;

/// One turn of a step of `explicit_calls.c`: each call it makes, and the bytes requested.
struct Step {
    number: u64,
    name: &'static str,
    calls: &'static [(&'static str, u64)],
    /// Which words its calls go through: some are out of reach of slots.
    reach: Reach,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Slots,
    EntriesOnly,
}

const fn step(number: u64, name: &'static str, calls: &'static [(&'static str, u64)]) -> Step {
    Step { number, name, calls, reach: Reach::Slots }
}

const STEPS: &[Step] = &[
    step(1, "malloc and free", &[("malloc", 100), ("free", 0)]),
    step(2, "calloc", &[("calloc", 300), ("free", 0)]),
    step(3, "realloc of null", &[("realloc", 100), ("free", 0)]),
    step(4, "realloc to nothing", &[("malloc", 100), ("realloc", 0)]),
    step(5, "realloc that grows", &[("malloc", 100), ("realloc", 2000), ("free", 0)]),
    step(6, "posix_memalign", &[("posix_memalign", 100), ("free", 0)]),
    step(7, "aligned_alloc", &[("aligned_alloc", 256), ("free", 0)]),
    step(8, "memalign", &[("memalign", 100), ("free", 0)]),
    step(9, "valloc", &[("valloc", 100), ("free", 0)]),
    step(10, "pvalloc", &[("pvalloc", 100), ("free", 0)]),
    // reallocarray is libc's, and calls realloc.
    step(11, "reallocarray of null", &[("realloc", 200), ("free", 0)]),
    step(12, "free of null", &[("free", 0)]),
    Step {
        number: 13,
        name: "pointers taken before the attach",
        calls: &[("malloc", 100), ("realloc", 200), ("free", 0)],
        reach: Reach::EntriesOnly,
    },
    step(14, "strdup", &[("malloc", 45), ("free", 0)]),
    step(15, "mmap", &[("mmap", 2 * PAGE), ("munmap", 2 * PAGE)]),
    step(16, "malloc by mapping", &[("malloc", 40 << 20), ("free", 0)]),
    step(17, "posix_memalign of little", &[("posix_memalign", 100), ("free", 0)]),
    step(18, "allocations only", &[("malloc", 100)]),
    step(19, "frees only", &[("free", 0)]),
    step(20, "mremap", &[("mmap", 2 * PAGE), ("mremap", 4 * PAGE), ("munmap", 4 * PAGE)]),
    step(21, "pointers in data", &[("malloc", 100), ("realloc", 200), ("free", 0)]),
];

type Totals = BTreeMap<String, (u64, u64)>;

/// In some versions of libc these are one function of two names.
fn canonical(name: &str) -> &str {
    match name {
        "mmap64" => "mmap",
        "aligned_alloc" => "memalign",
        other => other,
    }
}

/// Calls and bytes of each function, whichever module defines it.
fn totals(report: &Report) -> Totals {
    let mut totals = Totals::new();
    for function in &report.functions {
        let total = totals.entry(canonical(&function.function).to_owned()).or_default();
        total.0 += function.calls;
        total.1 += function.bytes;
    }
    totals.retain(|_, total| total.0 > 0);
    totals
}

/// Does each step another number of times, and compares the sum with what it must be.
fn counts_each_call_once(build: &str, flags: &[&str], hooks: Hooks) {
    let source = flags.iter().fold(Source::new("explicit_calls.c"), |s, flag| s.flag(flag));
    let Some(launch) = Launch::of(&source) else { return };
    let mut fixture = launch.start();
    for step in STEPS {
        let attached = Attached::to(&mut fixture, hooks);
        let times = 1000 + step.number;
        fixture.step(step.number, times);
        let report = attached.end();
        fixture.assert_well();
        if hooks != Hooks::Slots {
            let free = report.functions.iter().find(|f| f.function == "free");
            assert!(free.is_some_and(|f| f.via == "entry"), "free has no entry hook: {report:?}");
        }
        let expected: Totals = step
            .calls
            .iter()
            .map(|&(name, bytes)| (canonical(name).to_owned(), (times, times * bytes)))
            .collect();
        let got = totals(&report);
        let blind = hooks == Hooks::Slots && step.reach == Reach::EntriesOnly;
        if got != expected && !(blind && got.is_empty()) {
            fixture.fail(&format!(
                "({build}, {}) {times} times {}: counted {got:?} instead of {expected:?}\n{report:#?}\n",
                hooks.name(),
                step.name
            ));
        }
    }
    fixture.finish();
}

const PIE: &[&str] = &["-fPIE", "-pie"];
const NON_PIE: &[&str] = &["-fno-pie", "-no-pie"];
const NON_PIE_LAZY: &[&str] = &["-fno-pie", "-no-pie", "-Wl,-z,lazy"];
const PIE_NO_PLT: &[&str] = &["-fPIE", "-pie", "-fno-plt"];

#[test]
fn counts_each_call_once_by_automatic_hooks() {
    counts_each_call_once("PIE", PIE, Hooks::Auto);
}

#[test]
fn counts_each_call_once_by_slots() {
    counts_each_call_once("PIE", PIE, Hooks::Slots);
}

#[test]
fn counts_each_call_once_by_entries() {
    counts_each_call_once("PIE", PIE, Hooks::Entry);
}

#[test]
fn counts_each_call_once_in_a_non_pie_that_takes_the_address_of_free() {
    counts_each_call_once("non-PIE", NON_PIE, Hooks::Auto);
    counts_each_call_once("non-PIE", NON_PIE, Hooks::Slots);
    counts_each_call_once("lazy non-PIE", NON_PIE_LAZY, Hooks::Slots);
}

#[test]
fn counts_each_call_once_without_a_plt() {
    counts_each_call_once("PIE without PLT", PIE_NO_PLT, Hooks::Auto);
    counts_each_call_once("PIE without PLT", PIE_NO_PLT, Hooks::Slots);
}

/// The functions of the counting allocator, in the order of its counters.
const TRUTH: [(&str, Word); 9] = [
    ("malloc", Word::Malloc),
    ("calloc", Word::Calloc),
    ("realloc", Word::Realloc),
    ("free", Word::Free),
    ("posix_memalign", Word::PosixMemalign),
    ("aligned_alloc", Word::AlignedAlloc),
    ("memalign", Word::Memalign),
    ("valloc", Word::Valloc),
    ("pvalloc", Word::Pvalloc),
];

/// Steps of `late_loads.c`.
const LOADS: [(u64, &str); 8] = [
    (1, "a plugin"),
    (2, "fifty plugins"),
    (3, "iconv"),
    (4, "NSS"),
    (5, "threads"),
    (6, "a pointer to free taken before the attach"),
    (7, "name resolution"),
    (8, "a plugin that stays"),
];
const NOTHING: u64 = 9;

/// The counting allocator's own counts, as the fixture published them last.
fn truth(fixture: &Fixture) -> Totals {
    let page = fixture.page();
    TRUTH
        .iter()
        .map(|&(name, word)| (name.to_owned(), (page.get(word), page.bytes(word))))
        .collect()
}

fn gained(before: &Totals, after: &Totals) -> Totals {
    let mut gained = after.clone();
    for (name, total) in &mut gained {
        let then = before.get(name).copied().unwrap_or_default();
        *total = (total.0 - then.0, total.1 - then.1);
    }
    gained.retain(|_, total| total.0 > 0);
    gained
}

fn late_loads(plugin: &Path) -> Option<Launch> {
    Some(Launch::new("late_loads.c")?.arg(plugin))
}

fn agrees_with_the_allocator(allocator: Source, hooks: Hooks) {
    let Some(allocator) = allocator.build() else { return };
    let Some(plugin) = Source::new("late_plugin.c").build() else { return };
    let Some(launch) = late_loads(&plugin) else { return };
    let mut fixture = launch.env("LD_PRELOAD", &allocator).start();
    // Each kind of load for the first time in a session of its own; then all in one, as repeats.
    let alone = LOADS.map(|load| vec![load]);
    for loads in alone.into_iter().chain([LOADS.to_vec()]) {
        fixture.step(NOTHING, 0);
        let before = truth(&fixture);
        let attached = Attached::to(&mut fixture, hooks);
        for &(number, _) in &loads {
            fixture.step(number, 0);
        }
        let report = attached.end();
        fixture.assert_well();
        let expected = gained(&before, &truth(&fixture));
        let mut got = totals(&report);
        // The allocator counts no mappings.
        got.retain(|name, _| TRUTH.iter().any(|(function, _)| function == name));
        assert!(!expected.is_empty());
        if got != expected {
            fixture.fail(&format!(
                "({}) with {loads:?}: counted {got:?} instead of {expected:?}\n{report:#?}\n",
                hooks.name()
            ));
        }
    }
    fixture.finish();
}

#[test]
fn late_code_is_counted_exactly_by_automatic_hooks() {
    agrees_with_the_allocator(Source::new("truth_allocator.c"), Hooks::Auto);
}

#[test]
fn late_code_is_counted_exactly_by_entries() {
    agrees_with_the_allocator(Source::new("truth_allocator.c"), Hooks::Entry);
}

#[test]
fn an_allocator_around_another_is_counted_once() {
    let allocator = Source::new("truth_allocator.c").flag("-DDELEGATE");
    agrees_with_the_allocator(allocator, Hooks::Auto);
}

#[test]
fn a_late_plugin_cannot_free_past_the_hooks_of_libc() {
    let Some(plugin) = Source::new("late_plugin.c").build() else { return };
    let Some(launch) = late_loads(&plugin) else { return };
    let mut fixture = launch.start();
    let attached = Attached::recording_all(&mut fixture, Hooks::Auto);
    fixture.step(8, 0);
    let report = attached.end();
    // Of 1200 blocks it frees a third, resizes a third and replaces a third.
    let name = plugin.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let counted = ["malloc", "realloc", "free"].map(|f| report.calls_from(f, &name));
    assert_eq!(counted, [400, 400, 800], "{report:#?}");
    fixture.finish();
}

/// Steps of `namespaces.c`.
const LOAD_NAMESPACE: u64 = 1;
const RUN_THEIRS: u64 = 2;
const RUN_OURS: u64 = 3;

fn namespaces() -> Option<Fixture> {
    let plugin = Source::new("namespace_plugin.c").build()?;
    Some(Launch::new("namespaces.c")?.arg(plugin).start())
}

#[test]
fn a_second_libc_is_counted_as_well_and_apart() {
    for hooks in [Hooks::Auto, Hooks::Slots] {
        let Some(mut fixture) = namespaces() else { return };
        fixture.step(LOAD_NAMESPACE, 0);
        let attached = Attached::recording_all(&mut fixture, hooks);
        fixture.step(RUN_THEIRS, 700);
        fixture.step(RUN_OURS, 500);
        let report = attached.end();
        for function in ["malloc", "free"] {
            assert_eq!(report.calls_of(function), 1200, "{function}: {report:#?}");
            let from_plugin = report.calls_from(function, &plugin_name());
            assert_eq!(from_plugin, 700, "{function}: {report:#?}");
        }
        fixture.finish();
    }
}

#[test]
fn a_libc_that_comes_in_mid_session_is_hooked_before_long() {
    for hooks in [Hooks::Auto, Hooks::Slots] {
        let Some(mut fixture) = namespaces() else { return };
        let attached = Attached::recording_all(&mut fixture, hooks);
        fixture.step(LOAD_NAMESPACE, 0);
        // The loader tells no other process; a poll of the link map must find it meanwhile.
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(3);
        let mut calls = 0;
        while std::time::Instant::now() < patience {
            fixture.step(RUN_THEIRS, 100);
            calls += 100;
        }
        let report = attached.end();
        let counted = report.calls_from("free", &plugin_name());
        assert!(counted > calls / 4 && counted <= calls, "{counted} of {calls}: {report:#?}");
        fixture.finish();
    }
}

fn plugin_name() -> String {
    let plugin = Source::new("namespace_plugin.c").build().unwrap_or_default();
    plugin.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
