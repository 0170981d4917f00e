//! `heapattach check` on what C++ and Rust make of the heap, and on what happens around `main`.

use std::path::Path;

use heapattach_tests::{
    check::{self, Sum},
    compile::{Source, is_there},
    skip::skip,
};

/// A case, and what it leaks: direct, indirect, possible.
type Case = (&'static str, [Sum; 3]);

const NOTHING: [Sum; 3] = [(0, 0); 3];

fn assert_found(program: &Path, cases: &[Case]) {
    for (case, expected) in cases {
        let result = check::run(program, &[case], &[], &[]);
        assert_eq!(result.lost(), *expected, "{case}: {}", result.talk);
        let code = if *expected == NOTHING { 0 } else { 23 };
        assert_eq!(result.code, Some(code), "{case}: {}", result.report);
        assert_eq!(result.check()["doubts"].as_array().map(Vec::len), Some(0), "{case}");
    }
}

#[test]
fn objects_of_cpp_are_held_and_lost_as_cpp_means_it() {
    let Some(program) = Source::new("leaks.cpp").build() else { return };
    let cases = [
        // The string, and its letters.
        ("string", [(32, 1), (201, 1), (0, 0)]),
        ("held_string", NOTHING),
        // The number of elements lies in front of them.
        ("array", [(208, 1), (0, 0), (0, 0)]),
        ("held_array", NOTHING),
        ("empty_array", NOTHING),
        ("bases", [(72, 1), (0, 0), (0, 0)]),
        ("held_second_base", NOTHING),
        ("vector", [(24, 1), (400, 1), (0, 0)]),
        ("cycle", [(136, 1), (136, 1), (0, 0)]),
        ("held_shared", NOTHING),
        ("exception", NOTHING),
    ];
    assert_found(&program, &cases);
}

#[test]
fn what_rust_forgets_is_lost_and_nothing_else() {
    let Some(program) = Source::new("leaks.rs").build() else { return };
    let cases = [
        ("leaked_box", [(240, 1), (0, 0), (0, 0)]),
        ("leaked_to_static", NOTHING),
        ("cycle", [(112, 1), (112, 1), (0, 0)]),
        ("forgotten_vector", [(333, 1), (0, 0), (0, 0)]),
        ("kept_in_static", NOTHING),
        ("ended_thread", [(555, 1), (0, 0), (0, 0)]),
    ];
    assert_found(&program, &cases);
}

#[test]
fn what_is_lost_before_and_after_main_and_beside_a_child_is_found() {
    let Some(program) = Source::new("leaks_around.c").build() else { return };
    let cases = [
        ("constructor", [(601, 1), (0, 0), (0, 0)]),
        ("destructor", [(602, 1), (0, 0), (0, 0)]),
        ("forked", [(606, 1), (0, 0), (0, 0)]),
    ];
    assert_found(&program, &cases);
}

#[test]
fn what_the_kernel_or_a_shared_file_leads_to_is_held_by_them_alone() {
    let Some(program) = Source::new("leaks_around.c").build() else { return };
    const OTHERS: &str = "--roots=registers,stacks,tls,globals,mapped,heap,loader";
    for (case, other, size) in [("robust", ",shared", 603), ("shared_file", ",kernel", 605)] {
        let all = check::run(&program, &[case], &[], &[]);
        assert_eq!(all.lost(), NOTHING, "{case}: {}", all.talk);
        let without = check::run(&program, &[case], &[], &[&format!("{OTHERS}{other}")]);
        let lost = without.lost().iter().map(|sum| sum.0).sum::<u64>();
        assert_eq!(lost, size, "{case} is held without: {}", without.report);
    }
}

#[test]
fn what_python_asks_c_for_and_forgets_is_told_with_the_python_function() {
    const SCRIPT: &str = "import ctypes\n\
        c = ctypes.CDLL(None)\n\
        def forgetful():\n    c.malloc(43210)\n\
        forgetful()\n";
    if !is_there("python3") {
        return skip("no python3 here", "apt-get install python3");
    }
    let result = check::run(Path::new("python3"), &["-c", SCRIPT], &[], &[]);
    let findings = result.check()["findings"].as_array().cloned().unwrap_or_default();
    let found = findings.iter().find(|found| found["own"]["bytes"] == 43210);
    let found = found.unwrap_or_else(|| panic!("{}", result.talk));
    let frames = found["frames"].as_array().cloned().unwrap_or_default();
    let is_named = frames.iter().any(|frame| frame["function"] == "forgetful");
    assert!(is_named, "{frames:?}: {}\n{}", result.talk, result.report["runtimes"]);
}
