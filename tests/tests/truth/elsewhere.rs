//! What is said of memory that no sample tells of, and how sure it is of what samples tell a part of.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
};

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    compile::{Source, is_there},
    skip::skip,
};
use nix::sys::signal::Signal;
use serde_json::Value;

const MIB: f64 = 1_048_576.0;

/// A program that does one thing when it is told to; killed with the test.
struct Program(Child, BufReader<ChildStdout>);

impl Program {
    fn start(what: &str) -> Option<Self> {
        let program = Source::new("elsewhere.c").build()?;
        let mut command = Command::new(program);
        command.arg(what);
        Some(Self::of(command))
    }

    fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program of ours");
        let output = BufReader::new(child.stdout.take().expect("asked for"));
        let mut program = Self(child, output);
        program.says("ready\n");
        program
    }

    fn says(&mut self, word: &str) {
        let mut line = String::new();
        self.1.read_line(&mut line).expect("it says what it does");
        assert_eq!(line, word);
    }

    fn go(&mut self) {
        self.0.stdin.as_mut().expect("asked for").write_all(b"x").expect("it reads");
        self.says("done\n");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The report of a session in which the program does its thing.
fn report(program: &mut Program, options: &[&str]) -> Value {
    let pid = i32::try_from(program.0.id()).expect("a pid");
    let command = Attached::command(pid, Hooks::Auto);
    let command = options.iter().fold(command, |command: Heapattach, option| command.arg(*option));
    let attached = Attached::open(command).expect("it attaches");
    program.go();
    let running = attached.into_command();
    running.signal(Signal::SIGINT);
    // Ctrl-C, and detached cleanly.
    let outcome = running.wait().expect(130);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

fn verdict(report: &Value) -> &str {
    report["summary"]["verdict"]["text"].as_str().unwrap_or_else(|| panic!("{report:#}"))
}

#[test]
fn calls_too_few_to_be_sampled_are_not_nothing() {
    let Some(mut program) = Program::start("few") else { return };
    let report = report(&mut program, &["--every", "1G"]);
    let text = verdict(&report);
    assert!(text.starts_with("270 calls allocated 10.5 KiB in "), "{text}");
    assert!(text.contains("fewer than can be sampled"), "{text}");
}

#[test]
fn pages_are_told_where_no_block_was_asked_for() {
    let Some(mut program) = Program::start("mapped") else { return };
    let report = report(&mut program, &[]);
    let text = verdict(&report);
    assert!(text.contains("45.0 MiB of pages were mapped, 4.5 MiB of them still"), "{text}");
    assert!(!text.contains("came by no hooked function"), "{text}");
}

#[test]
fn memory_by_system_calls_of_its_own_is_told_with_its_kind() {
    let Some(mut program) = Program::start("raw") else { return };
    let report = report(&mut program, &[]);
    let text = verdict(&report);
    let told = text.split(" came by no hooked function: ").collect::<Vec<_>>();
    let [before, after] = told[..] else { panic!("{text}") };
    let size = before.rsplit(' ').nth(1).and_then(|number| number.parse::<f64>().ok());
    assert!(before.ends_with(" MiB") && size.is_some_and(|mib| mib > 70.0), "{text}");
    assert!(after.starts_with("anonymous mappings grew by "), "{text}");
}

#[test]
fn php_is_known_by_its_own_allocator() {
    if !is_there("php") {
        return skip("php is not installed", "apt-get install php-cli");
    }
    let script = "echo \"ready\\n\"; fgetc(STDIN); \
                  for ($i = 0; $i < 2000; $i++) { $a[$i % 50] = str_repeat('x', 50000); } \
                  echo \"done\\n\"; while (fgetc(STDIN) !== false) {}";
    let mut command = Command::new("php");
    command.args(["-n", "-r", script]).env_remove("USE_ZEND_ALLOC");
    let mut program = Program::of(command);
    let report = report(&mut program, &[]);
    let blind = report["summary"]["blind"].to_string();
    assert!(blind.contains("PHP ") && blind.contains(": blocks of Zend's allocator"), "{blind}");
    assert!(!verdict(&report).contains("Nobody"), "{}", verdict(&report));
}

#[test]
fn a_place_of_large_and_tiny_blocks_is_not_told_as_certain() {
    let Some(mut program) = Program::start("mixed") else { return };
    let report = report(&mut program, &[]);
    let sites = report["heap"]["sites"].as_array().expect("a list");
    let is_its = |site: &&Value| site["place"].as_str().is_some_and(|at| at.starts_with("mixed"));
    let site = sites.iter().find(is_its).unwrap_or_else(|| panic!("{report:#}"));
    let holds = |range: &Value, truth: f64| {
        let [low, high] = ["low", "high"].map(|end| range[end].as_f64().expect(end));
        assert!(low <= truth && truth <= high && low < high, "{truth} in {range:#}");
    };
    // What was asked for is counted, so no more can be unseen.
    holds(&site["live"]["bytes"], 20.0 * MIB + 100_000.0);
    holds(&site["live"]["blocks"], 1020.0);
}

#[test]
fn a_heap_of_certain_blocks_has_no_interval() {
    let Some(mut program) = Program::start("mixed") else { return };
    let report = report(&mut program, &["--every", "100"]);
    for sum in ["live", "allocated"] {
        for unit in ["bytes", "blocks"] {
            let range = &report["heap"][sum][unit];
            assert_eq!(range["low"], range["high"], "{sum} {unit}: {range:#}");
        }
    }
}
