//! `heapattach check` against programs that leak what is known to the byte.

use std::fs;

use heapattach_tests::{
    check::{self, Leaks},
    command::Heapattach,
    compile::Source,
};

const NODE: u64 = 48;

#[test]
fn finds_what_is_lost_to_the_byte() {
    let Some(leaks) = Leaks::build() else { return };
    let cases = [
        ("simple", [(1337, 1), (0, 0), (0, 0)]),
        ("list", [(NODE, 1), (99 * NODE, 99), (0, 0)]),
        ("tree", [(NODE, 1), (126 * NODE, 126), (0, 0)]),
        ("cycle", [(NODE, 1), (NODE, 1), (0, 0)]),
        ("big_ring", [(NODE, 1), (999 * NODE, 999), (0, 0)]),
        ("interior", [(0, 0), (0, 0), (100, 1)]),
        ("past_the_end", [(96, 1), (0, 0), (0, 0)]),
        ("unloaded", [(507, 1), (0, 0), (0, 0)]),
        ("ended_thread", [(512, 1), (0, 0), (0, 0)]),
    ];
    for (case, expected) in cases {
        let result = leaks.check(case, "return", &[]);
        assert_eq!(result.lost(), expected, "{case}: {}", result.talk);
        let is_lost = expected[0].1 > 0;
        assert_eq!(result.code, Some(if is_lost { 23 } else { 0 }), "{case}");
        assert_eq!(result.check()["doubts"].as_array().map(Vec::len), Some(0), "{case}");
    }
}

#[test]
fn what_is_lost_together_is_one_finding_with_its_stack() {
    let Some(leaks) = Leaks::build() else { return };
    for (case, function) in [("list", "list"), ("tree", "grow"), ("big_ring", "ring")] {
        let result = leaks.check(case, "return", &[]);
        assert_eq!(result.causes(1), [function], "{case}");
    }
}

/// What only some kinds of root hold: the case, these kinds, the size of the block.
const HELD: [(&str, &[&str], u64); 13] = [
    ("global", &["globals"], 501),
    ("tls", &["tls"], 502),
    ("mapped", &["mapped"], 503),
    ("shared", &["shared"], 504),
    ("epoll", &["kernel"], 505),
    ("timer", &["kernel"], 506),
    // The loader allocated the memory that thread-local variables of late libraries are in.
    ("late_tls", &["tls", "loader"], 508),
    ("register", &["registers"], 509),
    ("xmm", &["registers"], 510),
    ("stack", &["stacks"], 511),
    ("coroutine", &["globals"], 513),
    ("running_coroutine", &["stacks"], 514),
    ("thread_tls", &["tls"], 515),
];

const KINDS: [&str; 9] =
    ["registers", "stacks", "tls", "globals", "mapped", "shared", "heap", "kernel", "loader"];

#[test]
fn every_kind_of_root_holds_what_nothing_else_does() {
    let Some(leaks) = Leaks::build() else { return };
    for (case, kinds, size) in HELD {
        let all = leaks.check(case, "return", &[]);
        assert_eq!(all.lost(), [(0, 0); 3], "{case}: {}", all.talk);
        assert_eq!(all.code, Some(0), "{case}");
        let without = leaks.check(case, "return", &[&all_but(kinds)]);
        let lost = without.lost().iter().map(|sum| sum.0).sum::<u64>();
        assert!(lost >= size, "{case} is held without {kinds:?}: {:?}", without.lost());
    }
}

fn all_but(kinds: &[&str]) -> String {
    let others = KINDS.into_iter().filter(|other| !kinds.contains(other));
    format!("--roots={}", others.collect::<Vec<_>>().join(","))
}

#[test]
fn what_the_loader_keeps_in_its_own_way_is_held() {
    let Some(leaks) = Leaks::build() else { return };
    // It points to a place of 64 bytes' alignment in its block: four sizes, and one of them puts
    // the block's own address elsewhere.
    let lost_without = [1, 17, 33, 49].map(|padding: u64| {
        let leaks = leaks.with_padding(padding);
        let all = leaks.check("late_tls", "return", &[]);
        assert_eq!(all.lost(), [(0, 0); 3], "{}", all.talk);
        // No suppression is to hide it either.
        let options = [&all_but(&["loader"])[..], "--no-builtin-suppressions"];
        let without = leaks.check("late_tls", "return", &options);
        without.lost().iter().map(|sum| sum.1).sum::<u64>()
    });
    assert!(lost_without.iter().any(|&blocks| blocks > 0), "{lost_without:?}");
}

#[test]
fn the_runtimes_calls_are_told_where_that_is_asked_for() {
    // What is told in any case, and what with all calls alone.
    let programs: [(&str, &[&str], &str, &str); 3] = [
        ("leaky_suite.c", &["lose", "7"], " in main ", "libc_start"),
        ("leaks.cpp", &["string"], "leaks.cpp:", "libc_start"),
        ("leaks.rs", &["leaked_box"], "leaks::leaked_box", "lang_start"),
    ];
    for (source, arguments, own, of_runtime) in programs {
        let Some(program) = Source::new(source).build() else { continue };
        let talk = |options: &[&str]| {
            let command = Heapattach::new(["check"].iter().chain(options));
            let command = command.arg("--").arg(&program);
            arguments.iter().fold(command, |command, word| command.arg(*word)).run().stderr
        };
        let (short, long) = (talk(&[]), talk(&["--full-stacks"]));
        assert!(short.contains(own), "{short}");
        let is_folded = !short.contains(of_runtime) && long.contains(of_runtime);
        assert!(is_folded, "{source}: {short}\n{long}");
    }
}

#[test]
fn a_quiet_check_says_nothing_of_what_is_clean() {
    let outcome = Heapattach::new(["check", "--quiet", "--", "true"]).run().expect(0);
    assert_eq!((&*outcome.stdout, &*outcome.stderr), ("", ""));
    let Some(program) = Source::new("leaky_suite.c").build() else { return };
    let talk =
        Heapattach::new(["check", "-q", "--"]).arg(&program).arg("lose").arg("7").run().stderr;
    assert!(talk.contains("SUMMARY: heapattach: "), "{talk}");
    assert!(!talk.contains("attached to") && !talk.contains("CHECKED"), "{talk}");
}

#[test]
fn what_comes_and_goes_is_not_lost() {
    let Some(leaks) = Leaks::build() else { return };
    let result = leaks.check("clean", "return", &[]);
    assert_eq!((result.lost(), result.code), ([(0, 0); 3], Some(0)));
}

#[test]
fn every_way_to_end_is_met_and_its_status_passed_through() {
    let Some(leaks) = Leaks::build() else { return };
    let ends = [
        ("return", 23),
        ("exit", 23),
        ("_exit", 23),
        ("status", 7),
        ("abort", 134),
        ("kill", 143),
        ("thread", 23),
    ];
    for (end, code) in ends {
        let result = leaks.check("simple", end, &[]);
        assert_eq!(result.sum("direct"), (1337, 1), "{end}: {}", result.talk);
        assert_eq!(result.check()["at"], "exit", "{end}");
        assert_eq!(result.code, Some(code), "{end}");
    }
    let result = leaks.check("simple", "exit", &["--error-exitcode", "9"]);
    assert_eq!(result.code, Some(9));
}

#[test]
fn what_is_given_back_at_exit_is_held_when_it_begins() {
    let Some(leaks) = Leaks::build() else { return };
    for (at, direct, reachable) in [("exit-start", (0, 0), (518, 1)), ("exit", (517, 1), (0, 0))] {
        for end in ["return", "status"] {
            let result = leaks.check("given_back_at_exit", end, &["--at", at]);
            assert_eq!(result.check()["at"], at, "{}", result.talk);
            assert_eq!(result.sum("direct"), direct, "{at} {end}");
            assert_eq!(result.sum("reachable"), reachable, "{at} {end}");
        }
    }
}

#[test]
fn what_is_lost_when_a_program_becomes_another_is_found_where_that_is_asked_for() {
    let Some(leaks) = Leaks::build() else { return };
    let cases = [
        ("simple", [(1337, 1), (0, 0)]),
        ("list", [(NODE, 1), (99 * NODE, 99)]),
        ("clean", [(0, 0); 2]),
    ];
    for (case, lost) in cases {
        let result = leaks.check(case, "exec", &["--at", "exec"]);
        assert_eq!(result.check()["at"], "exec", "{case}: {}", result.talk);
        assert_eq!(result.lost()[..2], lost, "{case}: {}", result.talk);
        // What it became ends with 0.
        assert_eq!(result.report["exit"]["code"], 0, "{case}: {}", result.report);
        assert_eq!(result.code, Some(if lost[0].1 > 0 { 23 } else { 0 }), "{case}");
    }
    let never = leaks.check("simple", "return", &["--at", "exec"]);
    assert_eq!((&never.check()["at"], never.sum("direct")), (&"exit".into(), (1337, 1)));
}

#[test]
fn what_a_program_becomes_is_checked_in_its_place() {
    let Some(leaks) = Leaks::build() else { return };
    let result = leaks.check("simple", "exec", &[]);
    assert_eq!(result.lost(), [(0, 0); 3], "what was lost is gone: {}", result.talk);
    assert_eq!(result.report["processes"][0]["outcome"], "execed", "{}", result.report);
    assert_eq!(result.code, Some(0));
    let before = leaks.check_by("simple", "return", "sh", &["-c", "exec \"$0\" \"$@\""]);
    assert_eq!(before.sum("direct"), (1337, 1), "{}", before.talk);
    assert_eq!(before.code, Some(23));
}

#[test]
fn threads_that_end_for_an_exec_are_not_the_end_of_the_program() {
    let Some(program) = Source::new("leaky_suite.c").build() else { return };
    let result = check::run(&program, &["become", "250"], &[], &[]);
    assert_eq!(result.sum("direct"), (250, 1), "{}", result.talk);
    assert_eq!(result.report["processes"][0]["outcome"], "execed", "{}", result.report);
}

#[test]
fn a_signal_is_a_moment_too_and_the_program_does_not_see_it() {
    let Some(leaks) = Leaks::build() else { return };
    for method in ["stop", "copy", "fork"] {
        let options = ["--at", "signal:USR2", "--max-pause", "5s", "--snapshot", method];
        let result = leaks.check("simple", "signal", &options);
        assert_eq!(result.sum("direct"), (1337, 1), "{method}: {}", result.talk);
        assert_eq!(result.check()["at"], "signal", "{method}");
        assert_eq!(result.check()["look"]["method"], method);
        assert_eq!(result.report["target"], "restored", "{method}: {}", result.report);
        let codes = (result.code, &result.report["exit"]["code"]);
        assert_eq!(codes, (Some(23), &0.into()), "{method}: {}", result.check());
    }
}

#[test]
fn a_living_process_is_checked_and_goes_on() {
    let Some(leaks) = Leaks::build() else { return };
    for method in ["stop", "copy", "fork"] {
        for (case, expected) in [
            ("simple", [(1337, 1), (0, 0)]),
            ("list", [(NODE, 1), (99 * NODE, 99)]),
            ("stack", [(0, 0), (0, 0)]),
        ] {
            let mut program = leaks.start(case);
            let result = program.check(&["--max-pause", "5s", "--snapshot", method]);
            assert_eq!(result.lost()[..2], expected, "{method} {case}: {}", result.talk);
            assert_eq!(result.check()["is_complete"], false);
            assert_eq!(result.report["target"], "restored", "{}", result.report);
            // Of a clone, nothing is left.
            let children = format!("/proc/{0}/task/{0}/children", program.pid());
            assert_eq!(fs::read_to_string(children).expect("it lives"), "", "{method}");
            assert_eq!(program.end(), Some(0), "{method} {case}");
        }
    }
}

#[test]
fn a_check_that_would_take_too_long_is_refused_before_anything_is_touched() {
    let Some(leaks) = Leaks::build() else { return };
    let program = leaks.start("simple");
    let pid = program.pid().to_string();
    let args = ["check", "-p", &pid, "--max-pause", "1ms"];
    let outcome = heapattach_tests::command::Heapattach::new(args).run();
    assert_eq!(outcome.status.code(), Some(3), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("raise --max-pause"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("untouched"), "{}", outcome.stderr);
}
