//! Programs whose addresses are not random, as under a debugger or a recorder, where what looks free is
//! not; and programs that cannot be watched at all, which is never told as a success.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks, Outcome},
    compile::Source,
    fixture::{Fixture, Launch},
    report::Report,
    skip::skip,
    trace::Before,
};

const WINDOW: Duration = Duration::from_millis(20);
const DONE: i32 = 0;
const RUN_FAILED: i32 = 125;
const INCOMPLETE: i32 = 6;
const LEAKS: i32 = 23;

/// Whether programs can be started so here.
fn is_possible() -> bool {
    let status = Command::new("setarch").args(["-R", "true"]).status();
    let is_possible = status.is_ok_and(|status| status.success());
    if !is_possible {
        skip("setarch -R does not work here", "apt-get install util-linux; allow personality(2)");
    }
    is_possible
}

fn launch(program: &Path) -> Launch {
    Launch::program(Path::new("setarch")).arg("-R").arg(program)
}

fn built(file: &str, flags: &[&str]) -> Option<PathBuf> {
    flags.iter().fold(Source::new(file), |source, flag| source.flag(flag)).build()
}

/// Attaches with each of `hooks`: everything is hooked and counted, and nothing is left.
fn is_attached_to(flags: &[&str], hooks: &[Hooks], loader: &str) {
    let Some(program) = built("steady.c", flags).filter(|_| is_possible()) else { return };
    let mut fixture = launch(&program).start();
    let before = Before::of(&mut fixture);
    for &hooks in hooks {
        let command = Attached::command(fixture.pid(), hooks).arg("--loader").arg(loader);
        let attached = Attached::start(command, &mut fixture);
        fixture.advance(20);
        let report = attached.end();
        assert!(report.calls() > 0, "{flags:?}, {hooks:?}, {loader}: nothing was counted");
        if loader == "map" {
            before.assert_equal(&mut fixture, &format!("after {hooks:?} of {flags:?}"));
        }
    }
    fixture.finish();
}

#[test]
fn a_program_at_fixed_addresses_is_attached_to() {
    let all = [Hooks::Auto, Hooks::Entry, Hooks::Slots];
    is_attached_to(&["-pie", "-fPIE"], &all, "map");
    is_attached_to(&["-no-pie"], &all, "map");
}

#[test]
fn a_static_program_at_fixed_addresses_is_attached_to() {
    is_attached_to(&["-static"], &[Hooks::Auto, Hooks::Entry], "map");
    is_attached_to(&["-static-pie"], &[Hooks::Auto, Hooks::Entry], "map");
}

#[test]
fn a_program_at_fixed_addresses_loads_the_hooks() {
    is_attached_to(&[], &[Hooks::Auto, Hooks::Slots], "dlopen");
}

/// Runs it with the report in a file.
fn run(options: &[&str], program: &[&str]) -> (Outcome, Option<Report>) {
    let file = Heapattach::new(["run", "--no-record", "--json"]).start_file();
    let command = options.iter().fold(file.0, |command, option| command.arg(*option));
    let command = command.arg("--report").arg(&file.1).arg("--");
    let outcome = program.iter().fold(command, |command, word| command.arg(*word)).run();
    let report = fs::read_to_string(&file.1).ok().and_then(|text| serde_json::from_str(&text).ok());
    let _ = fs::remove_file(&file.1);
    (outcome, report)
}

/// A command and a file for its report.
trait WithFile: Sized {
    fn start_file(self) -> (Self, PathBuf);
}

impl WithFile for Heapattach {
    fn start_file(self) -> (Self, PathBuf) {
        use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("heapattach-fixed-{}-{number}", std::process::id());
        (self, std::env::temp_dir().join(name))
    }
}

#[test]
fn where_one_place_is_refused_the_next_is_tried() {
    let Some(mut fixture) = Launch::new("steady.c").map(Launch::start) else { return };
    let before = Before::of(&mut fixture);
    let attach = |fixture: &mut Fixture, fault: &str| {
        // At rest, so that each run makes the same calls.
        fixture.pause();
        let attach = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).fault(fault);
        let outcome = attach.run().expect(DONE);
        fixture.resume();
        outcome
    };
    let traced = attach(&mut fixture, "trace");
    let places = traced.calls_named("mmap home");
    let [first] = places[..] else { panic!("one place is asked for: {places:?}") };
    let told = attach(&mut fixture, &format!("refuse:{first}")).stderr;
    assert!(told.contains(&format!("call {first} is mmap home")), "another was refused: {told}");
    before.assert_equal(&mut fixture, "after it had to be another place");
    fixture.finish();
}

#[test]
fn what_setarch_becomes_is_watched() {
    let Some(program) = built("from_start.c", &[]).filter(|_| is_possible()) else { return };
    let program = program.to_string_lossy().into_owned();
    for options in [&["--all"][..], &["--hooks", "slots"], &["--hooks", "entry"]] {
        let (outcome, report) = run(options, &["setarch", "-R", &program]);
        let report = report.unwrap_or_else(|| panic!("no report: {}", outcome.stderr));
        outcome.expect(DONE);
        assert!(report.command.starts_with(&program), "of {} only", report.command);
        assert!(report.calls() >= 1250, "{} calls only", report.calls());
    }
}

#[test]
fn what_setarch_becomes_is_checked() {
    let Some(program) = built("several_leaks.c", &[]).filter(|_| is_possible()) else { return };
    let check = Heapattach::new(["check", "--", "setarch", "-R"]).arg(program).arg("f");
    check.run().expect(LEAKS);
}

/// A program of whose allocator nothing is known: it cannot be watched by any means.
fn opaque() -> Option<String> {
    let program = built("from_start.c", &["-static", "-s"])?;
    Some(program.to_string_lossy().into_owned())
}

#[test]
fn what_could_not_be_watched_is_no_success_of_run() {
    let Some(program) = opaque() else { return };
    for (options, command) in [
        (&[][..], &[&*program][..]),
        (&[], &["env", "A=1", &program]),
        (&["--follow-forks"], &["sh", "-c", "\"$0\"; exit 0", &program]),
    ] {
        let (outcome, report) = run(options, command);
        let told = outcome.expect(RUN_FAILED).stderr;
        assert!(told.contains("statically linked"), "{told}");
        let report = report.unwrap_or_else(|| panic!("no report: {told}"));
        let mut all = report.processes.iter().chain([&report]);
        assert!(all.any(|report| report.error.is_some()), "the report does not tell");
    }
    // Its own failure is told first.
    let (outcome, _) = run(&["--follow-forks"], &["sh", "-c", "\"$0\"; exit 3", &program]);
    let told = outcome.expect(3).stderr;
    assert!(told.contains("was not watched"), "{told}");
    // What was not to be watched does not count.
    run(&[], &["sh", "-c", "\"$0\"; exit 0", &program]).0.expect(DONE);
}

#[test]
fn what_could_not_be_checked_is_no_success_of_check() {
    let Some(program) = opaque() else { return };
    Heapattach::new(["check", "--", "env", "A=1", &program]).run().expect(INCOMPLETE);
}
