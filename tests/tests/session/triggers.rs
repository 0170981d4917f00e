//! What a session waits for: resident memory, growth, so much allocated; and what is run then.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use heapattach_tests::{
    command::{Heapattach, Outcome, binary},
    compile::Source,
    deadline::{PATIENCE, wait_until},
    fixture::Launch,
    real::children,
    recorded::Recorded,
    trace::Before,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// The time that the program counts in; it goes on after that.
const COURSE: &str = "6000";
/// More than it can take to find growth: a session that ends with it has found nothing.
const NEVER: &str = "2h";
/// Growth is looked for in this window first.
const WINDOW: [&str; 2] = ["--growth-window", "5s"];

/// A program whose growth is known, killed with the test.
struct Program(Child);

impl Program {
    fn start(source: &str, arguments: &[&str]) -> Option<Self> {
        let program = Source::new(source).build()?;
        let mut command = Command::new(program);
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().expect("ours");
        let stdout = child.stdout.take().expect("a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("it says when it is ready");
        assert_eq!(line, "ready\n");
        Some(Self(child))
    }

    fn growing(what: &str) -> Option<Self> {
        Self::start("growing.c", &[what, COURSE])
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("a pid")
    }

    fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a field");
        let kib = line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
        kib.expect("a number") * 1024
    }

    fn session(&self, options: &[&str]) -> Heapattach {
        self.session_of(NEVER, options)
    }

    fn session_of(&self, duration: &str, options: &[&str]) -> Heapattach {
        let pid = self.pid().to_string();
        let line = [&["-p", &pid, "--json", "--duration", duration], options].concat();
        Heapattach::new(line).target(self.pid())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn trigger(outcome: &Outcome) -> Value {
    let report = outcome.report();
    assert_eq!((&*report.outcome, &*report.target), ("detached", "restored"), "{report:?}");
    report.trigger.unwrap_or_else(|| {
        panic!("nothing came: {}{}", report.why.unwrap_or_default(), outcome.stderr)
    })
}

#[test]
fn a_session_ends_when_so_much_is_resident() {
    let Some(program) = Program::growing("leak") else { return };
    let limit = program.resident() + (8 << 20);
    let outcome = program.session(&["--until-rss", &limit.to_string()]).run().expect(0);
    let came = trigger(&outcome);
    assert_eq!((&came["kind"], &came["limit"]), (&"rss".into(), &limit.into()), "{came}");
    assert!(came["bytes"].as_u64().is_some_and(|bytes| bytes >= limit), "{came}");
    assert!(outcome.report().why.is_some_and(|why| why.starts_with("resident memory is ")));
    assert!(outcome.stderr.contains("the limit ") && outcome.stderr.contains("detaching"));
    // What is there from the beginning is found at once.
    let at_once = program.session(&["--until-rss", "1MiB"]).run().expect(0);
    assert_eq!(trigger(&at_once)["kind"], "rss");
}

#[test]
fn a_session_ends_when_memory_grows_and_says_how_fast() {
    let Some(program) = Program::growing("leak") else { return };
    let options = [&["--until-growth", "20MiB/min"], &WINDOW[..]].concat();
    let outcome = program.session(&options).run().expect(0);
    let came = trigger(&outcome);
    assert_eq!((&came["kind"], &came["measure"]), (&"growth".into(), &"heap".into()), "{came}");
    // One block in twenty of ten a millisecond, each of 3 008 bytes of the heap.
    let truth = 0.05 * 10_000.0 * 3008.0 * 60.0;
    let rate = &came["bytes_per_minute"];
    let [value, low, high] = ["value", "low", "high"].map(|end| rate[end].as_f64().expect(end));
    assert!((value / truth - 1.0).abs() < 0.25, "{value} where {truth} is true");
    assert!(low < value && value < high && low > f64::from(20 << 20), "{rate}");
    assert!(outcome.stderr.contains(": memory in use grows by "), "{}", outcome.stderr);
    let summary: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert!(summary["summary"]["verdict"]["growth"].is_object(), "sizes were counted");
}

#[test]
fn what_comes_and_goes_does_not_end_a_session() {
    let Some(program) = Program::growing("steady") else { return };
    let options = [&["--until-growth", "64KiB/min"], &WINDOW[..]].concat();
    // Twice the shortest window, and the first of the longer ones.
    let outcome = program.session_of("12s", &options).run().expect(0);
    let report = outcome.report();
    assert!(report.trigger.is_none() && report.why.is_none(), "{:?}", report.trigger);
}

#[test]
fn resident_memory_that_the_heap_has_no_part_in_is_said_to_be_that() {
    let Some(program) = Program::start("growing_pages.c", &[]) else { return };
    let options = [&["--until-growth", "8MiB/min"], &WINDOW[..]].concat();
    let came = trigger(&program.session(&options).run().expect(0));
    assert_eq!((&came["kind"], &came["measure"]), (&"growth".into(), &"resident".into()), "{came}");
}

#[test]
fn a_command_is_run_once_when_memory_grows_and_can_read_the_recording() {
    let Some(program) = Program::growing("leak") else { return };
    let (file, told) = (Recorded::new(), Recorded::new());
    let path = file.0.to_str().expect("a path of ours");
    let script = format!(
        "env | grep ^HEAPATTACH_ >> '{0}'; '{1}' report \"$HEAPATTACH_RECORDING\" --view sites >> '{0}'; \
         echo end >> '{0}'; exit 3",
        told.0.display(),
        binary().display()
    );
    let command = format!("sh -c \"{}\"", script.replace('"', "\\\""));
    let options = ["--on-growth", &command, "--growth-rate", "20MiB/min", "-o", path];
    let running = program.session(&[&options[..], &WINDOW].concat()).start();
    let text = || fs::read_to_string(&told.0).unwrap_or_default();
    wait_until("the command to end", PATIENCE, || text().contains("end\n"));
    wait_until("its failure to be told", PATIENCE, || running.talk().contains("status 3"));
    // The session goes on, and is not ended by it.
    running.signal(Signal::SIGINT);
    let outcome = running.wait().expect(130);
    let text = text();
    assert_eq!(text.matches("end\n").count(), 1, "{text}");
    for entry in [
        format!("HEAPATTACH_PID={}\n", program.pid()),
        format!("HEAPATTACH_RECORDING={path}\n"),
        "HEAPATTACH_VERDICT=Grows".to_owned(),
    ] {
        assert!(text.contains(&entry), "{entry}: {text}");
    }
    // Both grow, and which one is known to first depends on when it is asked.
    let of = |what: &str| text.contains(&format!("HEAPATTACH_GROWTH={what} grows by "));
    assert!(of("memory in use") || of("resident memory"), "{text}");
    assert!(text.contains("leak_one"), "{text}");
    assert_eq!(trigger(&outcome)["kind"], "growth");
    assert!(outcome.stderr.contains("--on-growth: it ended with status 3"), "{}", outcome.stderr);
}

#[test]
fn with_until_growth_the_command_sees_the_result() {
    let Some(program) = Program::growing("leak") else { return };
    let (file, told) = (Recorded::new(), Recorded::new());
    let path = file.0.to_str().expect("a path of ours");
    let command = format!("cp {path} {}", told.0.display());
    let options = ["--until-growth", "20MiB/min", "--on-growth", &command, "-o", path];
    program.session(&[&options[..], &WINDOW].concat()).run().expect(0);
    assert!(told.open().is_final(), "the whole recording, names and all");
}

#[test]
fn a_command_that_does_not_end_holds_up_no_detach() {
    let Some(launch) = Launch::new("growing_steps.c") else { return };
    let mut fixture = launch.start();
    fixture.advance(10);
    let before = Before::of(&mut fixture).loose();
    let file = Recorded::new();
    let command = format!("sh -c 'echo $$ > {}; exec sleep 1000'", file.0.display());
    let pid = fixture.pid().to_string();
    let options = ["-p", &pid, "--json", "--no-record", "--on-growth", &command];
    let running = Heapattach::new([&options[..], &WINDOW].concat()).start();
    let sleeper = || fs::read_to_string(&file.0).ok()?.trim().parse::<i32>().ok();
    wait_until("the command to run", PATIENCE, || sleeper().is_some());
    running.signal(Signal::SIGINT);
    wait_until("the report", PATIENCE, || running.output().trim_end().ends_with('}'));
    before.assert_equal(&mut fixture, "while the command still runs");
    let sleeper = sleeper().expect("it runs");
    kill(Pid::from_raw(sleeper), None).expect("Ctrl-C is not meant for it");
    kill(Pid::from_raw(sleeper), Signal::SIGKILL).expect("it is ours");
    let outcome = running.wait().expect(130);
    assert!(outcome.stderr.contains("--on-growth: SIGKILL ended it"), "{}", outcome.stderr);
    fixture.finish();
}

#[test]
fn a_moment_is_marked_each_time_so_much_was_allocated() {
    let Some(program) = Program::growing("steady") else { return };
    let file = Recorded::new();
    let path: PathBuf = file.0.clone();
    let path = path.to_str().expect("a path of ours");
    let pid = program.pid().to_string();
    let options = ["-p", &pid, "--all", "--duration", "4s", "-o", path];
    let outcome = Heapattach::new(options).arg("--dump-every-allocated=4MiB").run().expect(0);
    let recording = file.open();
    let marks: Vec<_> = recording.marks().iter().filter(|m| m.why.ends_with(" by now")).collect();
    let total = recording.ledger(None).total.measure(heapattach_ledger::Metric::Allocated);
    let most = total.bytes.value / f64::from(4 << 20);
    assert!(marks.len() >= 2 && marks.len() as f64 <= most + 1.0, "{} of {most}", marks.len());
    assert!(outcome.stderr.contains("MiB allocated by now"), "{}", outcome.stderr);
    assert!(marks.is_sorted_by_key(|mark| mark.at_ms), "{marks:?}");
}

#[test]
fn what_a_child_is_waited_for_ends_the_session_of_the_family() {
    let Some(program) = Source::new("growing.c").build() else { return };
    let (fifo, report) = (Recorded::new(), Recorded::new());
    nix::unistd::mkfifo(&fifo.0, nix::sys::stat::Mode::S_IRWXU).expect("a fifo of ours");
    let script =
        format!("{} leak {COURSE} & read x < {}; kill $!", program.display(), fifo.0.display());
    let json = format!("--json={}", report.0.display());
    let options = ["run", "--follow-forks", "--no-record", "--until-rss", "40MiB", &json, "--"];
    let running = Heapattach::new([&options[..], &["sh", "-c", &script]].concat()).start();
    wait_until("the trigger", PATIENCE, || running.talk().contains("the limit 40.0 MiB"));
    // The shell goes on, and nothing traces it any more.
    let tracer = *children(running.pid()).first().expect("the tracing process");
    let shell = *children(tracer).first().expect("the program");
    let status = || fs::read_to_string(format!("/proc/{shell}/status")).expect("it runs");
    wait_until("it to be let go", PATIENCE, || status().contains("TracerPid:\t0\n"));
    fs::write(&fifo.0, "end\n").expect("the script reads");
    running.wait();
    let text = fs::read_to_string(&report.0).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["trigger"]["kind"], "rss", "{report:#}");
    assert!(report["why"].as_str().is_some_and(|why| why.contains(", in process ")), "{report:#}");
}
