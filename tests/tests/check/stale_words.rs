//! What frames left behind holds nothing at the end of a program; what is in frames that were not left
//! does, with all compilers.

use heapattach_tests::{check, compile::Source, sample::is_soak, seed::seed};

const COMPILERS: [&str; 2] = ["gcc", "clang"];
const LEVELS: [&str; 5] = ["-O0", "-O1", "-O2", "-O3", "-Os"];
/// What a list of ten blocks of 104 bytes takes.
const LIST: (u64, u64) = (1040, 10);

/// Each build of a fixture, with its name.
fn builds(file: &str) -> impl Iterator<Item = (String, std::path::PathBuf)> {
    let all = COMPILERS.into_iter().flat_map(|compiler| LEVELS.map(|level| (compiler, level)));
    all.filter_map(move |(compiler, level)| {
        let program = Source::new(file).compiler(compiler).flag(level).build()?;
        Some((format!("{compiler} {level}"), program))
    })
}

/// Bytes and blocks that are leaked, without those of the C library itself.
fn lost(result: &check::Result) -> (u64, u64) {
    let sums = result.lost();
    sums.iter().fold((0, 0), |all, sum| (all.0 + sum.0, all.1 + sum.1))
}

#[test]
fn a_list_that_only_a_frame_left_behind_leads_to_is_lost_as_a_whole() {
    for (build, program) in builds("stale_words.c") {
        for case in ["list", "handler", "handler_that_leaves"] {
            let result = check::run(&program, &[case], &[], &[]);
            assert_eq!(lost(&result), LIST, "{build}, {case}: {}", result.talk);
        }
    }
}

#[test]
fn what_frames_hold_that_have_called_exit_is_not_lost() {
    for (build, program) in builds("stale_words.c") {
        for case in ["hold", "hold_and_leave"] {
            let result = check::run(&program, &[case], &[], &[]);
            assert_eq!(lost(&result), (0, 0), "{build}, {case}: {}", result.talk);
            assert_eq!(result.code, Some(0), "{build}, {case}");
        }
    }
}

#[test]
fn a_program_without_a_loader_is_told_the_same() {
    let Some(program) = Source::new("stale_words.c").flag("-O2").flag("-static").build() else {
        return;
    };
    for (case, expected) in [("list", LIST), ("hold", (0, 0))] {
        let result = check::run(&program, &[case], &[], &[]);
        assert_eq!(lost(&result), expected, "{case}: {}", result.talk);
    }
}

#[test]
fn the_verdict_on_random_graphs_is_the_truth_whatever_compiler_built_them() {
    let first = seed();
    let (mut programs, graphs) = (0, 10 * if is_soak() { 10 } else { 2 });
    for (build, program) in builds("graph.c") {
        let words = [first + programs, graphs].map(|n| n.to_string());
        let result = check::run(&program, &[&words[0], &words[1]], &[], &[]);
        let none = check::run(&program, &[&words[0], "0"], &[], &[]);
        let told: Vec<u64> =
            result.output.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        for (number, kind) in ["direct", "indirect", "possible", "reachable"].iter().enumerate() {
            let (bytes, blocks) = none.sum(kind);
            let truth = (told[number * 2] + bytes, told[number * 2 + 1] + blocks);
            assert_eq!(result.sum(kind), truth, "{build}, seed {}: {}", words[0], result.talk);
        }
        programs += 1;
    }
    println!("{} graphs of {programs} builds, from seed {first} on", programs * graphs);
}
