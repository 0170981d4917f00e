//! Programs that are annotated for valgrind are told so, and go on as without it.

use heapattach_tests::{
    check::{self, Result},
    compile::Source,
};

fn run(flags: &[&str]) -> Option<Result> {
    let source = Source::new("valgrind_words.c").flag("-g");
    let source = flags.iter().fold(source, |source, flag| source.flag(flag));
    Some(check::run(&source.build()?, &["y"], &[], &[]))
}

#[test]
fn requests_to_valgrind_are_told_by_kind_where_they_bear_on_leaks() {
    for optimized in ["-O0", "-O1", "-O2"] {
        let Some(result) = run(&["-DANNOTATED", optimized]) else { return };
        // RUNNING_ON_VALGRIND is 0, and one of the pool's blocks is leaked.
        assert_eq!(result.code, Some(23), "{}", result.talk);
        let notes = result.check()["notes"].to_string();
        let told = "annotated for valgrind: 6 requests (4 of pools, 1 of checks for leaks, 1 others): those of pools";
        assert!(notes.contains(told), "{optimized}: {notes}");
        let sums = ["direct", "indirect"].map(|kind| result.sum(kind));
        assert_eq!(sums, [(100, 1), (0, 0)], "{optimized}: {}", result.report);
    }
}

#[test]
fn a_program_that_only_asks_whether_valgrind_runs_it_is_told_nothing() {
    let Some(result) = run(&[]) else { return };
    assert_eq!(result.code, Some(0), "{}", result.talk);
    assert!(!result.check()["notes"].to_string().contains("annotated"));
}
