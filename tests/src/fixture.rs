//! A living fixture: started, watched through its page, and ended with the test.

use std::{
    fs::{self, File},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::{
    compile::Source,
    deadline::{PATIENCE, poll},
    hang,
    page::{Page, Word},
};

/// The exit status of a fixture that may not do here what it is for.
const NOT_ALLOWED: i32 = 77;

/// A fixture about to be started.
#[derive(Debug)]
pub struct Launch {
    name: String,
    command: Command,
}

/// A running fixture; dropping it ends it and the children it made.
#[derive(Debug)]
pub struct Fixture {
    name: String,
    child: Child,
    page: Arc<Page>,
    output: PathBuf,
    status: Option<ExitStatus>,
}

impl Launch {
    /// Prepares `fixtures/<file>`; `None` when the machine has no compiler for it.
    pub fn new(file: &str) -> Option<Self> {
        Self::of(&Source::new(file))
    }

    /// Prepares a fixture with flags of its own.
    pub fn of(source: &Source) -> Option<Self> {
        Some(Self::program(&source.build()?))
    }

    /// Prepares a program that speaks the page protocol.
    pub fn program(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, command: Command::new(path) }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the folder that it works in.
    #[must_use]
    pub fn folder(mut self, path: &Path) -> Self {
        self.command.current_dir(path);
        self
    }

    /// Starts it and waits until it says it is ready.
    ///
    /// The kernel ends the fixture when the *thread* that called this ends.
    ///
    /// # Panics
    /// If it does not start, ends early, or is not ready in time.
    pub fn start(self) -> Fixture {
        let mut fixture = self.spawn();
        fixture.wait_for("it to be ready", |f| f.page.get(Word::Ready) != 0);
        fixture
    }

    /// As [`Launch::start`], but `None` if it says that the machine does not allow what it does.
    ///
    /// # Panics
    /// If it is not ready in time, or ends for another reason.
    pub fn start_if_allowed(self) -> Option<Fixture> {
        let mut fixture = self.spawn();
        let begun = |f: &mut Fixture| f.page.get(Word::Ready) != 0 || f.ended().is_some();
        poll(PATIENCE, || begun(&mut fixture).then_some(()));
        if fixture.ended().is_some_and(|status| status.code() == Some(NOT_ALLOWED)) {
            return None;
        }
        fixture.wait_for("it to be ready", |f| f.page.get(Word::Ready) != 0);
        Some(fixture)
    }

    fn spawn(mut self) -> Fixture {
        let page = Page::create().expect("a page in the folder for temporary files");
        let page = Arc::new(page);
        let output = page.path().with_extension("output");
        let sink = File::create(&output).expect("a file in the folder for temporary files");
        let copy = sink.try_clone().expect("a second descriptor");
        self.command.env("FIXTURE_PAGE", page.path());
        self.command.stdin(Stdio::null()).stdout(sink).stderr(copy);
        // A group of its own: its children can be ended with it, and no other process.
        self.command.process_group(0);
        let child = self.command.spawn().unwrap_or_else(|e| panic!("{}: {e}", self.name));
        Fixture { name: self.name, child, page, output, status: None }
    }
}

impl Fixture {
    /// The process to attach to.
    ///
    /// # Panics
    /// If the fixture names an impossible one.
    pub fn pid(&self) -> i32 {
        match self.page.get(Word::Target) {
            0 => i32::try_from(self.child.id()).expect("a pid"),
            target => i32::try_from(target).expect("a pid"),
        }
    }

    /// What it is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The shared page.
    pub fn page(&self) -> &Arc<Page> {
        &self.page
    }

    /// How far the workers have come.
    pub fn progress(&self) -> u64 {
        self.page.get(Word::Progress)
    }

    /// Waits until the workers have done `steps` more.
    ///
    /// # Panics
    /// If they do not: the fixture hangs.
    pub fn advance(&mut self, steps: u64) {
        let goal = self.progress().saturating_add(steps);
        self.wait_for("progress", |f| f.progress() >= goal);
    }

    /// Parks all workers; nothing in the process changes until [`Fixture::resume`].
    ///
    /// # Panics
    /// If they do not park in time.
    pub fn pause(&mut self) {
        self.page.set(Word::Pause, 1);
        self.wait_for("all workers to park", |f| f.page.get(Word::Paused) != 0);
    }

    /// Lets the workers go on.
    ///
    /// # Panics
    /// If they do not in time.
    pub fn resume(&mut self) {
        self.page.set(Word::Pause, 0);
        self.wait_for("all workers to go on", |f| f.page.get(Word::Paused) == 0);
    }

    /// Has the fixture do step `number` with `argument`, and returns its answer.
    ///
    /// # Panics
    /// If it is not done in time.
    pub fn step(&mut self, number: u64, argument: u64) -> u64 {
        self.begin_step(number, argument);
        self.end_step()
    }

    /// Has the fixture begin step `number`, without waiting for it.
    pub fn begin_step(&mut self, number: u64, argument: u64) {
        self.page.set(Word::Done, 0);
        self.page.set(Word::Argument, argument);
        self.page.set(Word::Command, number);
    }

    /// Waits for the step begun, and returns its answer.
    ///
    /// # Panics
    /// If it is not done in time.
    pub fn end_step(&mut self) -> u64 {
        self.wait_for("a step to be done", |f| f.page.get(Word::Done) != 0);
        self.page.get(Word::Answer)
    }

    /// Waits until `condition` holds, watching that the fixture lives.
    ///
    /// # Panics
    /// If it dies or the condition does not hold in time; `what` ends "waited for ...".
    pub fn wait_for(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        let end = poll(PATIENCE, || match condition(self) {
            true => Some(None),
            false => self.ended().map(Some),
        });
        match end {
            Some(None) => (),
            Some(Some(status)) => self.fail(&format!("ended while we waited for {what}: {status}")),
            None => self.fail(&format!("hangs: waited {PATIENCE:?} in vain for {what}")),
        }
    }

    /// Panics unless the fixture lives and saw no wrong result so far.
    ///
    /// # Panics
    /// If it is dead or has errors to tell.
    pub fn assert_well(&mut self) {
        if let Some(status) = self.ended() {
            self.fail(&format!("died: {status}"));
        }
        let errors = self.page.get(Word::Errors);
        if errors != 0 {
            self.fail(&format!("saw {errors} wrong results"));
        }
    }

    /// Stops it: its own last checks must hold and its exit status be 0.
    ///
    /// # Panics
    /// If they do not, or it does not end in time.
    pub fn finish(mut self) {
        self.page.set(Word::Stop, 1);
        match poll(PATIENCE, || self.ended()) {
            Some(status) if status.success() && self.page.get(Word::Errors) == 0 => (),
            Some(status) => {
                let errors = self.page.get(Word::Errors);
                self.fail(&format!("ended with {status} and {errors} errors"));
            }
            None => self.fail("does not end"),
        }
    }

    /// What it wrote to stdout and stderr.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// Its exit status, if it has ended; a child is reaped once.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap_or(Some(ExitStatus::from_raw(-1)));
        }
        self.status
    }

    /// Ends the test with all that is known of the fixture.
    ///
    /// # Panics
    /// Always.
    pub fn fail(&self, what: &str) -> ! {
        let doing = hang::describe(self.pid());
        panic!("{} {what}\n{doing}its output:\n{}", self.name, self.output());
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // Also after its end: children that outlive it are in its group. The group's number is not
        // given to others while one of them lives.
        if let Ok(group) = i32::try_from(self.child.id())
            && (self.status.is_none() || self.page.get(Word::Stop) == 0)
        {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let killed = poll(Duration::from_secs(10), || self.ended());
        debug_assert!(killed.is_some() || std::thread::panicking(), "{} does not die", self.name);
        let _ = fs::remove_file(&self.output);
    }
}
