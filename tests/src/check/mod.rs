//! `heapattach check`: run as a user would, and its result read as data.

pub mod opens;
pub mod pipeline;
pub mod verdicts;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{
    command::{Heapattach, Outcome, binary},
    compile::Source,
};

/// A result.
#[derive(Debug)]
pub struct Result {
    /// The exit status of the command.
    pub code: Option<i32>,
    /// The JSON it wrote.
    pub report: Value,
    /// What it said.
    pub talk: String,
    /// What the program wrote.
    pub output: String,
}

/// The program of a check, and the library it may load.
#[derive(Debug)]
pub struct Leaks {
    program: PathBuf,
    plugin: PathBuf,
    padding: u64,
}

/// One kind of blocks: bytes, and how many.
pub type Sum = (u64, u64);

/// Checks a program from its start, with these arguments, environment variables and options.
///
/// # Panics
/// If there is no result.
#[must_use]
pub fn run(program: &Path, words: &[&str], env: &[(&str, &str)], options: &[&str]) -> Result {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Relaxed);
    let name = format!("heapattach-check-{}-{number}", std::process::id());
    let file = std::env::temp_dir().join(name);
    let mut command = Heapattach::new(["check", "--json", "--report"]).arg(&file);
    command = options.iter().fold(command, |command, option| command.arg(*option));
    command = env.iter().fold(command, |command, (name, value)| command.env(name, value));
    command = command.arg("--").arg(program);
    let command = words.iter().fold(command, |command, word| command.arg(*word));
    let Outcome { status, stdout, stderr, .. } = command.run();
    let text = fs::read_to_string(&file).unwrap_or_default();
    let _ = fs::remove_file(&file);
    let report = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{words:?}: no result ({error}): {stderr}"));
    Result { code: status.code(), report, talk: stderr, output: stdout }
}

/// Checks a process that runs, with these options.
///
/// # Panics
/// If there is no result.
#[must_use]
pub fn attach(pid: i32, options: &[&str]) -> Result {
    attach_with(pid, &[], options)
}

/// The same with these environment variables.
///
/// # Panics
/// If there is no result.
#[must_use]
pub fn attach_with(pid: i32, env: &[(&str, &str)], options: &[&str]) -> Result {
    let command = Heapattach::new(["check", "--json", "-p", &pid.to_string()]);
    let command = env.iter().fold(command, |command, (name, value)| command.env(name, value));
    let command = options.iter().fold(command, |command, option| command.arg(*option));
    let Outcome { status, stdout, stderr, .. } = command.run();
    let report = serde_json::from_str(&stdout)
        .unwrap_or_else(|error| panic!("no result ({error}): {stderr}"));
    Result { code: status.code(), report, talk: stderr, output: String::new() }
}

impl Leaks {
    /// Compiles them; `None` (reported as skipped) where there is no compiler.
    #[must_use]
    pub fn build() -> Option<Self> {
        let program = Source::new("leaks.c").build()?;
        Some(Self { program, plugin: Source::new("leaks_plugin.c").build()?, padding: 0 })
    }

    /// The same, whose program asks for so many bytes before it loads its library.
    #[must_use]
    pub fn with_padding(&self, padding: u64) -> Self {
        Self { program: self.program.clone(), plugin: self.plugin.clone(), padding }
    }

    /// Checks a case that ends in this way, with these options.
    ///
    /// # Panics
    /// If there is no result.
    #[must_use]
    pub fn check(&self, case: &str, end: &str, options: &[&str]) -> Result {
        self.run(&self.program, &[case, end], options)
    }

    /// The same, when another program execs it.
    ///
    /// # Panics
    /// If there is no result.
    #[must_use]
    pub fn check_by(&self, case: &str, end: &str, before: &str, words: &[&str]) -> Result {
        self.check_by_with(case, end, (before, words), &[])
    }

    /// The same with these options.
    ///
    /// # Panics
    /// If there is no result.
    #[must_use]
    pub fn check_by_with(
        &self,
        case: &str,
        end: &str,
        (before, words): (&str, &[&str]),
        options: &[&str],
    ) -> Result {
        let program = self.program.to_str().expect("a plain path");
        self.run(Path::new(before), &[words, &[program, case, end]].concat(), options)
    }

    fn run(&self, program: &Path, words: &[&str], options: &[&str]) -> Result {
        let plugin = self.plugin.to_str().expect("a plain path");
        let padding = self.padding.to_string();
        let env = [("LEAKS_PADDING", &*padding), ("LEAKS_PLUGIN", plugin)];
        run(program, words, &env, options)
    }

    /// Starts a case that waits to be told when to begin, and when to end.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(&self, case: &str) -> Waiting {
        let mut child = Command::new(&self.program)
            .args([case, "return"])
            .env("LEAKS_WAIT", "1")
            .env("LEAKS_PLUGIN", &self.plugin)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a program of ours");
        let told = BufReader::new(child.stdout.take().expect("piped"));
        let mut waiting = Waiting { child, told };
        assert_eq!(waiting.hear(), "ready\n");
        waiting
    }
}

/// A program that takes a step whenever it is told, and ends when it is told no more.
#[derive(Debug)]
pub struct Stepping {
    child: Child,
    told: BufReader<std::process::ChildStdout>,
}

impl Stepping {
    /// Starts it with these words.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(program: &Path, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        Self::of(command.args(words))
    }

    /// Starts what says `ready`, and `done` after each step.
    ///
    /// # Panics
    /// If it does not start.
    pub fn of(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program of ours");
        let told = BufReader::new(child.stdout.take().expect("piped"));
        let mut stepping = Self { child, told };
        assert_eq!(stepping.hear(), "ready\n");
        stepping
    }

    /// Its pid.
    ///
    /// # Panics
    /// Never: pids are small.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// Has it take a step.
    ///
    /// # Panics
    /// If it does not.
    pub fn step(&mut self) {
        self.tell_and_hear("done\n");
    }

    /// The same of one that says something else then.
    ///
    /// # Panics
    /// If it does not.
    pub fn tell_and_hear(&mut self, said: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        input.write_all(b"\n").expect("it reads");
        assert_eq!(self.hear(), said);
    }

    /// Tells it no more; its exit status.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn end(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.child.wait().expect("a child of ours").code()
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        let _ = self.told.read_line(&mut line);
        line
    }
}

impl Drop for Stepping {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A case that is running.
#[derive(Debug)]
pub struct Waiting {
    child: Child,
    told: BufReader<std::process::ChildStdout>,
}

impl Waiting {
    /// Its pid.
    ///
    /// # Panics
    /// Never: pids are small.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// Has it run its case, checked from outside from before that until after it.
    ///
    /// # Panics
    /// If there is no result.
    pub fn check(&mut self, options: &[&str]) -> Result {
        let mut command = Command::new(binary())
            .args(["check", "--json", "-p", &self.pid().to_string()])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command under test runs");
        let mut talk = BufReader::new(command.stderr.take().expect("piped"));
        let mut said = String::new();
        while !said.contains("attached to") && talk.read_line(&mut said).is_ok_and(|n| n > 0) {}
        self.tell();
        assert_eq!(self.hear(), "done\n");
        let pid = Pid::from_raw(i32::try_from(command.id()).expect("a pid"));
        let _ = kill(pid, Signal::SIGINT);
        let reading = std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = std::io::Read::read_to_string(&mut talk, &mut rest);
            rest
        });
        let output = command.wait_with_output().expect("a child of ours");
        said += &reading.join().expect("no panic");
        let text = String::from_utf8_lossy(&output.stdout);
        let report = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("no result ({error}): {text}\n{said}"));
        Result { code: output.status.code(), report, talk: said, output: String::new() }
    }

    /// Has it end, and answers its exit status.
    ///
    /// # Panics
    /// If it is not there any more.
    pub fn end(mut self) -> Option<i32> {
        self.tell();
        self.child.wait().expect("a child of ours").code()
    }

    fn tell(&mut self) {
        let input = self.child.stdin.as_mut().expect("piped");
        input.write_all(b"\n").expect("it reads");
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        let _ = self.told.read_line(&mut line);
        line
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Result {
    /// The check itself.
    ///
    /// # Panics
    /// If there was none.
    #[must_use]
    pub fn check(&self) -> &Value {
        let check = &self.report["check"];
        assert!(check.is_object(), "not checked: {}\n{}", self.report, self.talk);
        check
    }

    /// All blocks of a kind.
    #[must_use]
    pub fn sum(&self, kind: &str) -> Sum {
        let sum = &self.check()["sums"][kind];
        (sum["bytes"].as_u64().unwrap_or(0), sum["blocks"].as_u64().unwrap_or(0))
    }

    /// Direct, indirect, possible.
    #[must_use]
    pub fn lost(&self) -> [Sum; 3] {
        ["direct", "indirect", "possible"].map(|kind| self.sum(kind))
    }

    /// The names of the functions that allocated what leaked, so many calls above the cause.
    #[must_use]
    pub fn causes(&self, above: usize) -> Vec<String> {
        let findings = self.check()["findings"].as_array().cloned().unwrap_or_default();
        let function = |finding: &Value| {
            let cause = usize::try_from(finding["cause"].as_u64()?).ok()?;
            Some(finding["frames"][cause + above]["function"].as_str()?.to_owned())
        };
        findings.iter().filter(|f| f["kind"] != "possible").filter_map(function).collect()
    }
}
