//! Programs that check themselves for leaks are left to it.

use std::{fs, path::PathBuf, process::Command};

use heapattach_tests::{
    command::Heapattach,
    compile::{fixture, is_there},
    skip::skip,
};

/// A compiler, what it is told, and what the program then carries.
const BUILDS: [(&str, &[&str], &str); 5] = [
    ("cc", &["-fsanitize=address"], "AddressSanitizer"),
    ("cc", &["-fsanitize=address", "-static-libasan"], "AddressSanitizer"),
    ("cc", &["-fsanitize=leak"], "LeakSanitizer"),
    ("clang", &["-fsanitize=address"], "AddressSanitizer"),
    ("clang", &["-fsanitize=leak"], "LeakSanitizer"),
];

fn build(compiler: &str, flags: &[&str], name: &str) -> Option<PathBuf> {
    let source = fixture("several_leaks.c");
    let file = format!("heapattach-own-{}-{name}", std::process::id());
    let program = std::env::temp_dir().join(file);
    let mut command = Command::new(compiler);
    command.args(["-g", "-fno-builtin"]).args(flags).arg("-o").arg(&program).arg(source);
    let is_built = is_there(compiler) && command.output().is_ok_and(|o| o.status.success());
    if !is_built {
        skip(&format!("{compiler} {flags:?} builds nothing"), "install its sanitizers' libraries");
    }
    is_built.then_some(program)
}

#[test]
fn a_program_with_a_check_of_its_own_runs_on_alone() {
    for (number, (compiler, flags, name)) in BUILDS.into_iter().enumerate() {
        let Some(program) = build(compiler, flags, &number.to_string()) else { continue };
        let alone = Command::new(&program).arg("kf").output().expect("a program of ours");
        let outcome = Heapattach::new(["check", "--"]).arg(&program).arg("kf").run();
        let talk = &outcome.stderr;
        assert_ne!(alone.status.code(), Some(0), "{flags:?}: it finds its leaks");
        assert_eq!(outcome.status.code(), alone.status.code(), "{flags:?}: {talk}");
        let said = format!("not checked: it was built with {name}, whose own check does the work");
        assert!(talk.contains(&said), "{flags:?}: {talk}");
        assert!(talk.contains("SUMMARY: ") && talk.contains("byte(s) leaked"), "{flags:?}: {talk}");
        let clean = Heapattach::new(["check", "--"]).arg(&program).arg("h").run();
        assert_eq!(clean.status.code(), Some(0), "{flags:?}: {}", clean.stderr);
        let _ = fs::remove_file(&program);
    }
}

#[test]
fn a_running_one_is_not_attached_to() {
    let Some(program) = build("cc", &["-fsanitize=address"], "running") else { return };
    let mut child = Command::new(&program).arg("www").spawn().expect("a program of ours");
    // It is what it is only when it has execed.
    while !fs::read_to_string(format!("/proc/{}/maps", child.id()))
        .is_ok_and(|maps| maps.contains("libasan"))
    {
        std::thread::yield_now();
    }
    let outcome = Heapattach::new(["check", "-p", &child.id().to_string()]).run();
    assert_eq!(outcome.status.code(), Some(4), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("built with AddressSanitizer"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("target: untouched"), "{}", outcome.stderr);
    assert_eq!(child.wait().expect("a child of ours").code(), Some(0));
    let _ = fs::remove_file(&program);
}
