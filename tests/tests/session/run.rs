//! `heapattach run`: a program from its first instruction on, which notices nothing.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};

use heapattach_tests::{
    command::{Heapattach, Outcome, binary},
    compile::Source,
    deadline::{PATIENCE, wait_until},
    report::Report,
};
use nix::sys::signal::Signal;

/// What `from_start.c` calls of malloc and of free: before main, in it, after it.
const PAIRS: u64 = 1000 + 50 + 200;

fn shell(script: &str) -> Outcome {
    Heapattach::new(["run", "--no-record", "--", "sh", "-c", script]).run()
}

fn report_file() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("heapattach-report-{}-{number}", std::process::id());
    std::env::temp_dir().join(name)
}

/// Runs a program with the report in a file; gives the report too.
fn run_with_report(options: &[&str], program: &[&str]) -> (Outcome, Report) {
    let file = report_file();
    let mut command = Heapattach::new(["run", "--json", "--report"]).arg(&file);
    for argument in options.iter().chain(&["--"]).chain(program) {
        command = command.arg(*argument);
    }
    let outcome = command.run();
    let text = fs::read_to_string(&file).unwrap_or_default();
    let _ = fs::remove_file(&file);
    let report = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("no report ({error}): {text}\n{}", outcome.stderr));
    (outcome, report)
}

#[test]
fn passes_the_exit_status_through() {
    for code in [0, 1, 42, 255] {
        shell(&format!("exit {code}")).expect(code);
    }
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("ABRT", 134)] {
        shell(&format!("kill -{signal} $$")).expect(code);
    }
}

#[test]
fn passes_input_and_output_through() {
    let mut child = Command::new(binary())
        .args(["run", "--no-record", "--", "sh", "-c", "cat; echo talk >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command under test runs");
    let text: Vec<u8> = (0..400_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut stdin = child.stdin.take().expect("piped");
    let copy = text.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&copy));
    let Output { status, stdout, stderr } = child.wait_with_output().expect("a child of ours");
    writer.join().expect("no panic").expect("cat reads all");
    assert_eq!(status.code(), Some(0));
    assert!(stdout == text, "{} bytes of {} came through", stdout.len(), text.len());
    assert!(String::from_utf8_lossy(&stderr).contains("talk\n"));
}

#[test]
fn counts_from_before_main_to_the_end() {
    let Some(program) = Source::new("from_start.c").build() else { return };
    let path = program.to_string_lossy().into_owned();
    for hooks in ["auto", "slots", "entry"] {
        let (outcome, report) = run_with_report(
            &["--hooks", hooks, "--all", "--on-full", "wait"],
            &[&path, "one", "two"],
        );
        assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
        assert_eq!(report.outcome, "exited", "{report:?}");
        assert_eq!(report.exit.as_ref().and_then(|exit| exit.code), Some(2), "{report:?}");
        let name = program.file_name().expect("a file").to_string_lossy().into_owned();
        for function in ["malloc", "free"] {
            let counted = report.calls_from(function, &name);
            assert_eq!(counted, PAIRS, "{function} by {hooks}: {report:#?}");
        }
        assert_eq!(outcome.stdout, "", "the report leaked into the program's output");
    }
}

#[test]
fn reports_to_standard_error_and_leaves_standard_output_alone() {
    let outcome = shell("echo mine").expect(0);
    assert_eq!(outcome.stdout, "mine\n");
    assert!(outcome.stderr.contains("malloc"), "no report: {}", outcome.stderr);
}

#[test]
fn passes_signals_on() {
    let Some(program) = Source::new("from_start.c").build() else { return };
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let command =
            Heapattach::new(["run", "--no-record", "--"]).arg(&program).arg("wait").start();
        wait_until("the program to wait", PATIENCE, || command.output().contains("waiting"));
        command.signal(signal);
        command.wait().expect(signal as i32);
    }
}

#[test]
fn what_it_execs_inherits_nothing() {
    let script = "cat /proc/self/maps; cat /proc/self/environ | tr '\\0' '\\n'";
    let outcome = shell(script).expect(0);
    for trace in ["heapattach", "LD_PRELOAD", "HEAPATTACHSTUB"] {
        // The test itself may run from a folder of that name: only what is mapped counts.
        let found = outcome.stdout.lines().find(|line| {
            line.contains(trace)
                && !line.contains("PWD=")
                && !line.contains("CARGO")
                && !line.contains("PATH=")
                && !line.contains("HEAPATTACH_")
        });
        assert_eq!(found, None);
    }
    let status = shell("grep -E '^(SigBlk|SigIgn|SigCgt)' /proc/self/status").expect(0);
    let plain = Command::new("sh")
        .args(["-c", "grep -E '^(SigBlk|SigIgn|SigCgt)' /proc/self/status"])
        .output()
        .expect("there is a shell");
    assert_eq!(status.stdout, String::from_utf8_lossy(&plain.stdout));
}

#[test]
fn detaches_in_mid_run_and_the_program_goes_on() {
    let script = "for i in 1 2 3 4 5 6 7 8; do sleep 0.05; done; echo end; exit 7";
    let (outcome, report) = run_with_report(&["--duration", "100ms"], &["sh", "-c", script]);
    assert_eq!(outcome.code(), Some(7), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "end\n");
    assert_eq!(report.target, "restored", "{report:?}");
    assert!(outcome.took >= Duration::from_millis(400), "ended with the session");
}

#[test]
fn many_short_programs_in_a_row_all_end_as_they_would() {
    for turn in 0..30 {
        let outcome = Heapattach::new(["run", "--no-record", "--", "/bin/true"]).run();
        assert_eq!(outcome.code(), Some(0), "turn {turn}: {}", outcome.stderr);
    }
}
