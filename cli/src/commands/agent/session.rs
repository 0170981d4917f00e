//! A session of an agent, in a command of its own, that ends with the agent whatever ends it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Instant,
};

use heapattach_agent::{Facts, Key, Mode, Rule};
use heapattach_files::output_file::{Readers, begin_anew};
use heapattach_report::Report;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::events::now;

/// A session.
#[derive(Debug)]
pub struct Session {
    /// The target.
    pub key: Key,
    /// What it is called.
    pub name: String,
    /// By which rule it is watched.
    pub rule: String,
    /// How.
    pub mode: Mode,
    /// Mean bytes between samples.
    pub every: u64,
    /// When it was begun.
    pub began: Instant,
    /// The same, in seconds since 1970.
    pub at: u64,
    /// Why it was told to end, if it was.
    pub told: Option<String>,
    /// What is written down.
    pub recording: PathBuf,
    report: PathBuf,
    child: Child,
}

impl Session {
    /// Begins one.
    pub fn begin(one: &Facts, rule: &Rule, every: u64, folder: &Path) -> std::io::Result<Self> {
        let pid = one.key.pid;
        let recording = folder.join(format!("{pid}.heapattach"));
        let report = folder.join(format!("{pid}.report.json"));
        let mut command = Command::new(std::env::current_exe()?);
        command.args([
            "-p",
            &pid.to_string(),
            "--every",
            &every.to_string(),
            "--quiet",
            "--redact",
        ]);
        command.arg("-o").arg(&recording).args(["--max-size", "4MiB", "--json"]);
        command.args(["--ends-with", &std::process::id().to_string()]);
        command.stdin(Stdio::null()).stdout(begin_anew(&report, Readers::Owner)?);
        command.stderr(begin_anew(&report.with_extension("log"), Readers::Owner)?);
        let child = command.spawn()?;
        Ok(Self {
            key: one.key,
            name: one.name.clone(),
            rule: rule.name.clone(),
            mode: rule.mode,
            every,
            began: Instant::now(),
            at: now(),
            told: None,
            recording,
            report,
            child,
        })
    }

    /// The command.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Has it detach.
    pub fn end(&mut self, why: &str) {
        if self.told.is_none() {
            self.told = Some(why.to_owned());
            let _ = kill(Pid::from_raw(self.pid()), Signal::SIGINT);
        }
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// What it reports, once it has ended.
    pub fn report(&self) -> Option<Report> {
        serde_json::from_slice(&fs::read(&self.report).ok()?).ok()
    }

    /// Removes its files.
    pub fn remove(&self) {
        for path in [&self.recording, &self.report, &self.report.with_extension("log")] {
            let _ = fs::remove_file(path);
        }
    }
}
