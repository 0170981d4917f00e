//! `heapattach check` in a pipeline: what fails it, and what is said.

use heapattach_tests::check::pipeline::{Pipeline, result_of};

/// Options, the program's words, the exit status, and what is said.
type Case = (&'static [&'static str], &'static [&'static str], i32, &'static str);

/// `k` loses 64 bytes that lead to 40, `f` loses 33, `i` may have lost 100, `h` holds 500.
const CASES: [Case; 24] = [
    (&[], &["kf"], 23, "LIMIT     --max-leak allows 0, found 137\n"),
    (&[], &["h"], 0, "SUMMARY: heapattach: 0 byte(s) leaked in 0 allocation(s).\n"),
    (&[], &["kf", "7"], 7, "SUMMARY: heapattach: 137 byte(s) leaked in 3 allocation(s).\n"),
    (&["--error-exitcode", "9"], &["f"], 9, "found 33\n"),
    (&["--max-leak", "137"], &["kf"], 0, "137 byte(s) leaked"),
    (&["--max-leak", "136"], &["kf"], 23, "LIMIT     --max-leak allows 136, found 137\n"),
    (&["--max-leak-per-stack", "104"], &["kf"], 0, "137 byte(s) leaked"),
    (
        &["--max-leak-per-stack", "103"],
        &["kf"],
        23,
        "--max-leak-per-stack allows 103, found 104 by",
    ),
    (
        &["--max-leak-per-stack=104", "--max-leak=0"],
        &["kf"],
        23,
        "--max-leak allows 0, found 137\n",
    ),
    (&["--max-peak", "500"], &["h"], 0, "0 byte(s) leaked"),
    (&["--max-peak", "499"], &["h"], 23, "LIMIT     --max-peak allows 499, found 500\n"),
    (&["--max-live", "500"], &["h"], 0, "0 byte(s) leaked"),
    (&["--max-live", "499"], &["h"], 23, "LIMIT     --max-live allows 499, found 500\n"),
    (&["--max-allocs=2", "--max-leak=500"], &["hh"], 0, "500 byte(s) leaked"),
    (&["--max-allocs=1", "--max-leak=500"], &["hh"], 23, "--max-allocs allows 1, found 2\n"),
    (&["--fail-on", "direct"], &["kf"], 23, "LIMIT     --max-leak allows 0, found 97\n"),
    (&["--fail-on", "definite"], &["kf"], 23, "LIMIT     --max-leak allows 0, found 97\n"),
    (&["--fail-on", "indirect"], &["kf"], 23, "LIMIT     --max-leak allows 0, found 40\n"),
    (&[], &["i"], 0, "POSSIBLE  100 B in 1 block\n"),
    (&["--fail-on", "possible"], &["i"], 23, "LIMIT     --max-leak allows 0, found 100\n"),
    (&["--max-growth", "1KiB/min"], &["h"], 6, "whether the heap grows cannot be judged"),
    (&["--fail-on", "growing"], &["h"], 6, "whether the heap grows cannot be judged"),
    (
        &["--warmup", "500ms"],
        &["fwk"],
        23,
        "before the end of the warm-up: 33 byte(s) in 1 object(s)",
    ),
    (
        &["--warmup", "500ms"],
        &["fw"],
        0,
        "before the end of the warm-up: 33 byte(s) in 1 object(s)",
    ),
];

#[test]
fn each_limit_fails_the_check_just_when_it_is_passed() {
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    for (options, words, code, said) in CASES {
        let outcome = pipeline.check(options, words);
        let talk = &outcome.stderr;
        assert_eq!(outcome.status.code(), Some(code), "{options:?} {words:?}: {talk}");
        assert!(talk.contains(said), "{options:?} {words:?} does not say `{said}`: {talk}");
    }
}

#[test]
fn the_result_reads_as_sanitizers_have_it() {
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    let outcome = pipeline.check(&[], &["kf"]);
    let expected = "\
=================================================================
==PID==ERROR: heapattach: detected memory leaks

make_holder (several_leaks.c:33): 104 B in 2 blocks
Direct leak of 64 byte(s) in 1 object(s), which alone lead to 40 byte(s) in 1 object(s) allocated from:
    #0 0x? in make_holder several_leaks.c:33
    #1 0x? in known several_leaks.c:45
    #2 0x? in main several_leaks.c:70

fresh (several_leaks.c:50): 33 B in 1 block
Direct leak of 33 byte(s) in 1 object(s) allocated from:
    #0 0x? in fresh several_leaks.c:50
    #1 0x? in main several_leaks.c:71

LEAKED BY several_leaks: 137 B in 3 blocks
DIRECT    97 B in 2 blocks
INDIRECT  40 B in 1 block
POSSIBLE  0 B in 0 blocks
REACHABLE 0 B in 0 blocks
LIMIT     --max-leak allows 0, found 137
SUMMARY: heapattach: 137 byte(s) leaked in 3 allocation(s).
";
    assert_eq!(result_of(&outcome, &pipeline), expected);
}

#[test]
fn what_is_not_lost_for_certain_is_told_where_that_is_asked_for() {
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    for (options, reachable, possible) in [
        (&[][..], false, false),
        (&["--show", "reachable"][..], true, false),
        (&["--show", "possible"], false, true),
        (&["--show", "reachable,possible"], true, true),
    ] {
        let outcome = pipeline.check(options, &["ih"]);
        let talk = &outcome.stderr;
        let told = "Reachable memory of 500 byte(s) in 1 object(s) allocated from:";
        assert_eq!(talk.contains(told), reachable, "{options:?}: {talk}");
        let told = "Possible leak of 100 byte(s) in 1 object(s) allocated from:";
        assert_eq!(talk.contains(told), possible, "{options:?}: {talk}");
        assert_eq!(outcome.status.code(), Some(0), "{options:?}: {talk}");
    }
}

#[test]
fn a_baseline_survives_other_builds_and_only_more_than_that_fails() {
    let Some(first) = Pipeline::build(&["-O2"]) else { return };
    let file = first.path("known.json");
    let options = ["--baseline", &file];
    let missing = first.check(&options, &["k"]);
    assert_eq!(missing.status.code(), Some(2), "{}", missing.stderr);
    assert!(missing.stderr.contains("make it with --update-baseline"), "{}", missing.stderr);

    let made = first.check(&["--baseline", &file, "--update-baseline"], &["kf"]);
    assert_eq!(made.status.code(), Some(0), "{}", made.stderr);
    for flags in [&["-O2"][..], &["-O0"], &["-O2", "-DADDED"], &["-O1", "-no-pie", "-DADDED"]] {
        let Some(other) = Pipeline::build(flags) else { return };
        let same = other.check(&options, &["kf"]);
        assert_eq!(same.status.code(), Some(0), "{flags:?}: {}", same.stderr);
        let said = "KNOWN     137 B by the baseline, new 0 B";
        assert!(same.stderr.contains(said), "{flags:?}: {}", same.stderr);
    }
    let grown = first.check(&options, &["kff"]);
    assert_eq!(grown.status.code(), Some(23), "{}", grown.stderr);
    assert!(grown.stderr.contains("--max-leak allows 0, found 66\n"), "{}", grown.stderr);
    let new = first.check(&[&options[..], &["--no-builtin-suppressions"]].concat(), &["kt"]);
    assert_eq!(new.status.code(), Some(23), "{}", new.stderr);
    assert!(new.stderr.contains("--max-leak allows 0, found 22\n"), "{}", new.stderr);
}
