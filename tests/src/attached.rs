//! A session held open while the test has the fixture do its steps.

use std::time::Duration;

use nix::{sys::signal::Signal, unistd::Pid};

use crate::{
    command::{Heapattach, Hooks, Running},
    deadline::{PATIENCE, poll},
    fixture::Fixture,
    real::children,
    report::Report,
};

/// What the command says on stderr once its hooks count.
const SAID: &str = "attached to";
/// The exit code after Ctrl-C and a clean detach.
pub const INTERRUPTED: i32 = 130;

/// A running session on a fixture; from its making to [`Attached::end`] every call is counted.
#[derive(Debug)]
pub struct Attached {
    command: Running,
}

impl Attached {
    /// Attaches and returns when the command says so.
    ///
    /// # Panics
    /// If it does not in time.
    pub fn to(fixture: &mut Fixture, hooks: Hooks) -> Self {
        Self::start(Self::command(fixture.pid(), hooks), fixture)
    }

    /// The same, with every call recorded, so that the report knows who called.
    ///
    /// # Panics
    /// If it does not in time.
    pub fn recording_all(fixture: &mut Fixture, hooks: Hooks) -> Self {
        let command = Self::command(fixture.pid(), hooks).arg("--all").arg("--on-full=wait");
        // Who called the allocator, not who caused it.
        let command = command.arg("--hide-frames=none");
        Self::start(command, fixture)
    }

    /// The command [`Attached::to`] starts.
    pub fn command(pid: i32, hooks: Hooks) -> Heapattach {
        let args = ["-p", &pid.to_string(), "--hooks", hooks.name(), "--json"];
        Heapattach::new(args).target(pid).limit(PATIENCE + Duration::from_secs(60))
    }

    /// Whether the command's talk says that it has attached.
    pub fn is_told(talk: &str) -> bool {
        talk.contains(SAID)
    }

    /// Starts `command`, which attaches to `fixture`, and returns when it has.
    ///
    /// # Panics
    /// If it does not in time.
    pub fn start(command: Heapattach, fixture: &mut Fixture) -> Self {
        Self::open(command).unwrap_or_else(|why| fixture.fail(&why))
    }

    /// Starts `command` and returns when it has attached.
    ///
    /// # Errors
    /// What it said, if it does not in time.
    pub fn open(command: Heapattach) -> Result<Self, String> {
        let mut command = command.start();
        let told = poll(PATIENCE, || {
            let told = Self::is_told(&command.talk());
            (told || !command.is_running()).then_some(told)
        });
        match told {
            Some(true) => Ok(Self { command }),
            _ => Err(format!("was not attached to ({told:?}):\n{}", command.talk())),
        }
    }

    /// The pid of the command.
    pub fn pid(&self) -> i32 {
        self.command.pid()
    }

    /// The process that does its work.
    ///
    /// # Panics
    /// If there is none.
    pub fn tracer(&self) -> Pid {
        Pid::from_raw(*children(self.pid()).first().expect("the command has a tracing process"))
    }

    /// The command itself.
    pub fn into_command(self) -> Running {
        self.command
    }

    /// Interrupts it as Ctrl-C does, and returns its report.
    ///
    /// # Panics
    /// If it does not detach cleanly.
    pub fn end(self) -> Report {
        self.command.signal(Signal::SIGINT);
        let outcome = self.command.wait().expect(INTERRUPTED);
        let report = outcome.report();
        assert_eq!((&*report.outcome, &*report.target), ("detached", "restored"), "{report:?}");
        assert!(report.left.is_empty(), "left: {:?}", report.left);
        report
    }
}
