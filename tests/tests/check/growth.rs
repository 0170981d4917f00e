//! `heapattach check` where the heap may not grow: what grows as a leak does fails it, with its rate;
//! what comes and goes does not, and what was watched for too short a time is not judged.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use heapattach_tests::{
    check::Leaks,
    command::{Heapattach, Outcome},
    compile::Source,
    skip::skip,
};
use serde_json::Value;

/// As the command has it, and as the program.
const WINDOW: (&str, &str) = ("12s", "12000");

/// A program, killed with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Checks a program, looked at in the middle of its life, with these options.
fn check(program: &Path, what: &str, window: &str, options: &[&str]) -> Outcome {
    check_with(program, None, what, window, options)
}

/// The same of a program that has its memory from this library.
fn check_with(
    program: &Path,
    library: Option<&Path>,
    what: &str,
    window: &str,
    options: &[&str],
) -> Outcome {
    let mut command = Command::new(program);
    command.args([what, WINDOW.1]).stdout(Stdio::piped());
    library.map(|library| command.env("LD_PRELOAD", library));
    let mut program = Program(command.spawn().expect("a program of ours"));
    let mut line = String::new();
    let stdout = program.0.stdout.take().expect("asked for");
    BufReader::new(stdout).read_line(&mut line).expect("it says when it is ready");
    assert_eq!(line, "ready\n");
    let pid = program.0.id().to_string();
    let arguments = [&["check", "-p", &pid, "--duration", window], options].concat();
    Heapattach::new(&arguments).arg("--max-pause=60s").run()
}

fn report(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {}", outcome.stderr))
}

#[test]
fn what_grows_as_a_leak_does_fails_and_what_comes_and_goes_and_a_cache_do_not() {
    let Some(program) = Source::new("growing.c").build() else { return };
    let program = &program;
    let cases = [("steady", 0), ("leak", 23), ("cache", 0)];
    let outcomes = thread::scope(|scope| {
        let options = ["--fail-on", "growing,direct,indirect", "--json"];
        let looks =
            cases.map(|(what, _)| scope.spawn(move || check(program, what, WINDOW.0, &options)));
        looks.map(|look| look.join().expect("it looks at it"))
    });
    for ((what, code), outcome) in cases.into_iter().zip(outcomes) {
        let report = report(&outcome);
        let growth = &report["check"]["growth"];
        assert_eq!(outcome.code(), Some(code), "{what}: {growth:#} {}", outcome.stderr);
        let breaches = report["findings"]["breaches"].as_array().expect("a list");
        let limits: Vec<_> = breaches.iter().filter_map(|b| b["limit"].as_str()).collect();
        let expected = if code == 0 { &[][..] } else { &["--fail-on growing"] };
        assert_eq!(limits, expected, "{what}: {growth:#}");
    }
}

#[test]
fn the_rate_is_held_against_the_limit_and_told_in_every_form() {
    let Some(program) = Source::new("growing.c").build() else { return };
    // One block in twenty of ten a millisecond, each with the head of its chunk.
    let truth = 0.05 * 10_000.0 * 1008.0 * 60.0;
    let folder = std::env::temp_dir().join(format!("heapattach-growth-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    let file = |name: &str| folder.join(name).display().to_string();
    let (below, above) = (format!("{}/min", truth / 2.0), format!("{}/min", truth * 2.0));
    let (junit, sarif) = (file("junit.xml"), file("sarif.json"));
    let program = &program;
    let [failed, passed] = thread::scope(|scope| {
        let failing = ["--max-growth", &*below, "--junit", &*junit, "--sarif", &*sarif];
        let failed = scope.spawn(move || check(program, "same", WINDOW.0, &failing));
        let passing = ["--max-growth", &*above, "--json"];
        let passed = check(program, "same", WINDOW.0, &passing);
        [failed.join().expect("it looks at it"), passed]
    });
    let forms = [&junit, &sarif].map(|path| fs::read_to_string(path).expect("it was written"));
    let _ = fs::remove_dir_all(&folder);

    assert_eq!(failed.code(), Some(23), "{}{}", failed.stdout, failed.stderr);
    let line = failed.stdout.lines().find(|line| line.contains("--max-growth allows"));
    let found = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    let found = found.unwrap_or_else(|| panic!("no rate: {}", failed.stdout));
    assert!((found / truth - 1.0).abs() < 0.2, "{found} where {truth} is true");
    assert!(failed.stdout.contains("GROWTH    Grows: the heap grows by"), "{}", failed.stdout);
    for form in &forms {
        assert!(
            form.contains("come_and_go (growing.c:") && form.contains(" grows: its sizes by"),
            "{form}"
        );
    }

    assert_eq!(passed.code(), Some(0), "{}", passed.stderr);
    let measured = report(&passed)["findings"]["measured"]["growth"].as_f64().expect("a rate");
    assert!((measured / truth - 1.0).abs() < 0.2, "{measured} where {truth} is true");
}

#[test]
fn a_time_that_is_too_short_is_no_reason_to_say_anything() {
    let Some(program) = Source::new("growing.c").build() else { return };
    let outcome = check(&program, "leak", "1s", &["--fail-on", "growing"]);
    assert_eq!(outcome.code(), Some(6), "{}", outcome.stderr);
    let said = "whether the heap grows cannot be judged: it was watched for 1.0";
    assert!(outcome.stdout.contains(said), "{}", outcome.stdout);
}

#[test]
fn what_is_lost_is_found_to_the_byte_while_blocks_are_counted_by_size() {
    let Some(leaks) = Leaks::build() else { return };
    for (case, direct) in [("simple", (1337, 1)), ("late_tls", (0, 0)), ("unloaded", (507, 1))] {
        let result = leaks.check(case, "return", &["--flow"]);
        assert_eq!(result.sum("direct"), direct, "{case}: {}", result.talk);
        assert!(result.check()["why_no_growth"].is_string(), "{case}: {}", result.report);
        // No limit was set.
        assert_eq!(result.code, Some(if direct.1 > 0 { 23 } else { 0 }), "{case}");
    }
}

#[test]
fn what_grows_fails_whatever_allocator_the_program_has() {
    let Some(program) = Source::new("growing.c").build() else { return };
    for (name, package) in [
        ("libjemalloc.so.2", "libjemalloc2"),
        ("libtcmalloc.so.4", "libgoogle-perftools4"),
        ("libmimalloc.so.2", "libmimalloc2.0"),
    ] {
        let library = Path::new("/usr/lib/x86_64-linux-gnu").join(name);
        if !library.exists() {
            skip(&format!("no {name} here"), &format!("apt-get install {package}"));
            continue;
        }
        let (program, library) = (&program, &library);
        let cases: [(&str, &[&str]); 3] = [
            ("steady", &["--fail-on", "growing"]),
            ("leak", &["--fail-on", "growing"]),
            ("leak", &["--max-growth", "1KiB/min"]),
        ];
        let looks = || {
            thread::scope(|scope| {
                let looks = cases.map(|(what, how)| {
                    scope.spawn(move || check_with(program, Some(library), what, WINDOW.0, how))
                });
                looks.map(|look| look.join().expect("it looks at it"))
            })
        };
        let mut outcomes = looks();
        // A program that got no processor for seconds did change its load, and is looked at again.
        let is_disturbed = |outcome: &Outcome| outcome.stdout.contains("its load changed");
        for _ in 0..2 {
            if outcomes.iter().any(is_disturbed) {
                outcomes = looks();
            }
        }
        let codes = outcomes.each_ref().map(Outcome::code);
        let told = outcomes.each_ref().map(|outcome| &outcome.stdout);
        assert_eq!(codes, [Some(0), Some(23), Some(23)], "{name}: {told:#?}");
    }
}
