//! A session of an agent, in a process of its own, that ends with the agent whatever ends it.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use heapattach_agent::{Facts, Key, Mode, Rule};
use heapattach_report::Report;
use heapattach_serve::Target;

use super::events::now;
use crate::fork_server::{Begin, ForkServer, Member};

/// When tables of a session that goes on are written anew.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    written: Instant,
    took: Duration,
}

impl Default for Tables {
    fn default() -> Self {
        Self { written: Instant::now(), took: Duration::ZERO }
    }
}

impl Tables {
    /// Whether that is now, if it is to be so often and to take so much of the time at most, percent: a session of many
    /// intervals takes long, and has it more seldom.
    pub fn are_due(&self, every: Duration, percent: f64) -> bool {
        // Longer than any session.
        let rest = (self.took.as_secs_f64() * 100.0 / percent).min(1e9);
        self.written.elapsed() >= every.max(Duration::from_secs_f64(rest))
    }

    /// They were, from then on.
    pub fn note(&mut self, began: Instant) {
        *self = Self { written: Instant::now(), took: began.elapsed() };
    }
}

/// A session.
#[derive(Debug)]
pub struct Session {
    /// The target.
    pub key: Key,
    /// What it is called.
    pub name: String,
    /// By which rule it is watched.
    pub rule: String,
    /// What it is in tables.
    pub service: String,
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
    /// When its tables are written anew.
    pub tables: Tables,
    /// What is told of it over HTTP.
    pub target: Arc<Target>,
    /// What is written down.
    pub recording: PathBuf,
    report: PathBuf,
    member: Member,
}

impl Session {
    /// Begins one.
    pub fn begin(
        one: &Facts,
        rule: &Rule,
        every: u64,
        folder: &Path,
        server: &ForkServer,
    ) -> std::io::Result<Self> {
        let pid = one.key.pid;
        let recording = folder.join(format!("{pid}.heapattach"));
        let report = folder.join(format!("{pid}.report.json"));
        let (of, every_word) = (pid.to_string(), every.to_string());
        let words = ["-p", &of, "--every", &every_word, "--quiet", "--redact", "--json"];
        let mut words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        words.extend(["--max-size".into(), "4MiB".into(), "-o".into(), recording.clone().into()]);
        let member = server.begin(Begin {
            words,
            output: Some(report.clone()),
            log: Some(report.with_extension("log")),
            recording: recording.clone(),
        })?;
        let target = Target::new(pid, one.name.clone(), recording.clone(), false);
        let target = match rule.mode {
            Mode::Continuous => target,
            Mode::Rotate => target.of_slot(),
        };
        Ok(Self {
            target: Arc::new(target),
            key: one.key,
            name: one.name.clone(),
            rule: rule.name.clone(),
            service: rule.service.clone().unwrap_or_else(|| one.name.clone()),
            tables: Tables::default(),
            mode: rule.mode,
            every,
            began: Instant::now(),
            at: now(),
            told: None,
            recording,
            report,
            member,
        })
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.member.pid()
    }

    /// Has it detach.
    pub fn end(&mut self, why: &str) {
        if self.told.is_none() {
            self.told = Some(why.to_owned());
            self.member.end();
        }
    }

    /// How it has ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.member.ended()
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
