//! A program that ends in the session leaves no list of the kernel behind: what its own system calls mapped
//! and unmapped is told as of the last look before its end. And no call of a hooked function is told as one of
//! those, however fast mappings come and go.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use heapattach_tests::{
    attached::{Attached, INTERRUPTED},
    command::{Hooks, binary},
    compile::Source,
    fixture::Launch,
    report::fresh_file,
};
use nix::sys::signal::Signal;
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A run of the program that does one thing, and ends so much later; its report.
fn run(program: &Path, what: &str, hooks: &str, later: Duration) -> Value {
    let mut command = Command::new(binary());
    let file = fresh_file();
    command.args(["run", "--json", "--no-record", "--hooks", hooks, "--report"]).arg(&file);
    command.arg("--").arg(program).arg(what);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = pipes.spawn().expect("the command");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut says = |word: &str| {
        let mut line = String::new();
        output.read_line(&mut line).expect("it says what it does");
        assert_eq!(line, word);
    };
    says("ready\n");
    input.write_all(b"x").expect("it reads");
    says("done\n");
    thread::sleep(later);
    drop(input);
    assert!(child.wait().expect("a child").success(), "it ends well");
    let text = fs::read_to_string(&file).expect("a report");
    let _ = fs::remove_file(&file);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn what_a_program_that_ended_mapped_by_calls_of_its_own_is_told_as_of_the_last_look() {
    let Some(program) = Source::new("kernel_calls.c").build() else { return };
    for hooks in ["entry", "slots"] {
        // When it is looked at depends on the machine: the program waits longer until it was.
        for turn in 0.. {
            let report = run(&program, "raw", hooks, Duration::from_millis(400 << turn));
            let summary = &report["summary"];
            let one = &summary["unhooked"][0];
            // The last look may be in the middle.
            let has_all = one["bytes"] == 20 * MIB && summary["vanished"] == 4 * MIB;
            if !has_all && turn < 5 {
                continue;
            }
            assert_eq!(
                (&one["kind"], &one["bytes"]),
                (&"anonymous mappings".into(), &(20 * MIB).into())
            );
            assert_eq!(summary["unhooked"].as_array().map(Vec::len), Some(1), "{summary:#}");
            assert_eq!(summary["vanished"], 4 * MIB, "{summary:#}");
            let at = summary["compared_ms"].as_u64().expect("it says when");
            let text = summary["verdict"]["text"].as_str().unwrap_or_default();
            assert!(text.contains("20.0 MiB at 0x"), "{at}: {text}");
            assert!(text.contains("(the last look before its end)"), "{at}: {text}");
            let heap = &report["heap"];
            assert_eq!(heap["mapped_live"], 3 * MIB, "{heap:#}");
            // One MiB of it was never touched; the kernel tells of mappings that touch together.
            let sites = summary["mapped_sites"].as_array().cloned().unwrap_or_default();
            let resident = sites.iter().filter_map(|site| site["resident"].as_u64());
            assert!((MIB..=3 * MIB).contains(&resident.sum::<u64>()), "{sites:#?}");
            break;
        }
    }
}

#[test]
fn mappings_that_come_and_go_fast_are_never_told_as_unhooked() {
    for hooks in [Hooks::Entry, Hooks::Slots] {
        // Large enough to be worth a word.
        let Some(launch) = Launch::new("map_pairs.c") else { return };
        let mut fixture = launch.arg("1").arg("0").arg("1048576").start();
        let attached = Attached::start(Attached::command(fixture.pid(), hooks), &mut fixture);
        fixture.advance(20_000);
        let running = attached.into_command();
        running.signal(Signal::SIGINT);
        let report: Value =
            serde_json::from_str(&running.wait().expect(INTERRUPTED).stdout).expect("JSON");
        let summary = &report["summary"];
        assert_eq!(summary["unhooked"], Value::Null, "{summary:#}");
        assert_eq!(summary["vanished"], Value::Null, "{summary:#}");
        fixture.finish();
    }
}
