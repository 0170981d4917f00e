//! The loop of an agent: looks, decides, begins and ends sessions. Ends with everything as it was.

mod admission;
mod ended;
mod told;
mod visits;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    fs,
    os::{fd::AsFd, unix::fs::DirBuilderExt},
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

use heapattach_agent::{Config, Key, Look, OnSlot, Rotation};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};
use serde_json::json;

use super::{
    counted::Counted,
    events::Events,
    figures::{Counts, Used},
    leftovers::{self, is_there},
    read,
    routes::Routes,
    saved::Saved,
    session::Session,
    tidy::{Spooled, tidy},
    usage::Usage,
    visit::Visit,
};
use crate::{args::AgentArgs, exit_status::Exit, fork_server::ForkServer};

/// Between two looks whether sessions have ended, at the end.
const PAUSE: Duration = Duration::from_millis(10);
/// Between two looks whether one at a process has ended.
const VISIT: Duration = Duration::from_millis(200);
/// So long sessions may take to detach at the end.
const END: Duration = Duration::from_secs(60);

/// Watches until it is told to end.
pub fn run(config: Config, args: &AgentArgs) -> Result<Exit, String> {
    let signals =
        hold_signals().map_err(|error| format!("signals: {error} (targets: untouched)"))?;
    let events = Events(args.log);
    let mut saved = Saved::open(&config.state)?;
    // Before anything is done in a process; what is not right there is said at once.
    let routes = config.serve.as_ref().map(Routes::begin).transpose()?;
    leftovers::clean(&mut saved, &config.state, events)?;
    let folder = config.state.join("sessions");
    let _ = fs::remove_dir_all(&folder);
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut agent = Agent {
        events,
        saved,
        folder,
        written: modified(args),
        config,
        sessions: Vec::new(),
        server: None,
        paused: HashMap::new(),
        every: HashMap::new(),
        stops: VecDeque::new(),
        rotations: BTreeMap::new(),
        usage: Usage::default(),
        refused: HashMap::new(),
        push: Vec::new(),
        routes,
        refusals: BTreeMap::new(),
        counts: Counts::default(),
        used: Used::default(),
        spooled: Spooled::default(),
        visit: None,
        due: BTreeMap::new(),
        postponed: HashSet::new(),
        took: HashMap::new(),
        counted: BTreeMap::new(),
    };
    agent.tidy();
    let told = format!("watching by {} rules; Ctrl-C ends", agent.config.rules.len());
    events.tell("begun", json!({ "pid": std::process::id() }), &told);
    if let Some(Routes { url, .. }) = &agent.routes {
        events.tell("serving", json!({ "url": url }), &format!("serving on {url}"));
    }
    let ended = agent.watch(args, &signals);
    let exit = agent.end();
    agent.routes.take().into_iter().for_each(Routes::end);
    ended.map(|()| exit)
}

/// What an agent knows while it runs.
struct Agent {
    config: Config,
    events: Events,
    saved: Saved,
    folder: PathBuf,
    written: Option<SystemTime>,
    sessions: Vec<Session>,
    /// From the first session on.
    server: Option<ForkServer>,
    paused: HashMap<Key, u64>,
    /// Of targets with too many events: mean bytes between samples.
    every: HashMap<Key, u64>,
    /// When, whom and for how many milliseconds.
    stops: VecDeque<(u64, Key, f64)>,
    rotations: BTreeMap<String, Rotation>,
    usage: Usage,
    /// What was told of whom, so that it is told once.
    refused: HashMap<Key, &'static str>,
    /// Who takes profiles besides the spool.
    push: Vec<Box<dyn OnSlot>>,
    /// Who asks is answered there.
    routes: Option<Routes>,
    /// Of the last look: how many were not watched, and why.
    refusals: BTreeMap<&'static str, u64>,
    counts: Counts,
    used: Used,
    spooled: Spooled,
    /// The look that goes on.
    visit: Option<Visit>,
    /// How many are due, by kind.
    due: BTreeMap<&'static str, u64>,
    /// Those that were told to wait.
    postponed: HashSet<(Key, Look)>,
    /// Processor time of the last one.
    took: HashMap<(Key, Look), Duration>,
    /// What allocators counted.
    counted: BTreeMap<Key, Counted>,
}

impl Agent {
    fn watch(&mut self, args: &AgentArgs, signals: &SignalFd) -> Result<(), String> {
        let mut next = Instant::now();
        loop {
            let own = PollFd::new(signals.as_fd(), PollFlags::POLLIN);
            // One that has ended would always have news.
            let server = self.server.as_ref().filter(|server| !server.is_gone());
            let ends = server.map(|server| PollFd::new(server.as_fd(), PollFlags::POLLIN));
            let mut fds: Vec<_> = [Some(own), ends].into_iter().flatten().collect();
            let left = next.saturating_duration_since(Instant::now());
            // The end of a look wakes no descriptor.
            let left = if self.visit.is_some() { left.min(VISIT) } else { left };
            // Not a moment too early: that would be another round.
            let millis = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
            let _ = poll(&mut fds, PollTimeout::try_from(millis).unwrap_or(PollTimeout::ZERO));
            self.server.as_ref().map(ForkServer::hear);
            while let Ok(Some(signal)) = signals.read_signal() {
                match signal.ssi_signo {
                    number if number == Signal::SIGHUP as u32 => self.reload(args),
                    _ => return Ok(()),
                }
            }
            self.collect()?;
            self.collect_visit()?;
            if Instant::now() >= next {
                if modified(args) != self.written {
                    self.reload(args);
                }
                self.look()?;
                self.publish();
                next = Instant::now() + self.config.interval;
            }
        }
    }

    /// A new file counts if it is right, or the old one goes on.
    fn reload(&mut self, args: &AgentArgs) {
        self.written = modified(args);
        match read(&args.config) {
            Ok(new) if new.state != self.config.state => {
                let told =
                    "the new file has another `state`, which needs a new agent; the old one counts";
                self.events.tell("not-reloaded", json!({}), told);
            }
            Ok(new) if new.serve != self.config.serve => {
                let told =
                    "the new file has another [serve], which needs a new agent; the old one counts";
                self.events.tell("not-reloaded", json!({}), told);
            }
            Ok(new) => {
                let rules = &new.rules;
                for session in &mut self.sessions {
                    let old = self.config.rules.iter().find(|rule| rule.name == session.rule);
                    if !rules.iter().any(|rule| Some(rule) == old) {
                        session.end("its rule has changed");
                    }
                }
                self.config = new;
                self.refused.clear();
                self.events.tell("reloaded", json!({}), "the file was read again");
            }
            Err(why) => {
                let told = format!("{why}; the old file counts");
                self.events.tell("not-reloaded", json!({}), &told);
            }
        }
    }

    /// Everything is as it was, then it is said how that went.
    fn end(&mut self) -> Exit {
        self.sessions.iter_mut().for_each(|session| session.end("the agent ends"));
        let until = Instant::now() + END;
        self.visit.iter_mut().for_each(|visit| visit.end("the agent ends"));
        while !(self.sessions.is_empty() && self.visit.is_none()) && Instant::now() < until {
            let _ = self.collect();
            let _ = self.collect_visit();
            sleep(PAUSE);
        }
        let rest = self.sessions.iter().map(|session| session.key.pid);
        for pid in rest.chain(self.visit.iter().map(|visit| visit.key.pid)) {
            // It detaches when this process is gone, if it can.
            let told = format!(
                "the session of process {pid} has not ended: clean up with heapattach detach -p {pid}"
            );
            self.events.tell("not-ended", json!({ "pid": pid }), &told);
        }
        let _ = self.saved.write();
        let left = self
            .saved
            .state
            .attached
            .iter()
            .filter(|one| !one.is_over && is_there(one.key()))
            .count();
        if left > 0 || !self.sessions.is_empty() || self.visit.is_some() {
            Exit::Left
        } else {
            Exit::Done
        }
    }
}

impl Agent {
    fn tidy(&mut self) {
        let (spooled, removed) = tidy(&self.config);
        self.spooled = spooled;
        self.counts.removed += removed;
    }
}

fn modified(args: &AgentArgs) -> Option<SystemTime> {
    fs::metadata(&args.config).and_then(|about| about.modified()).ok()
}

/// What ends us, and what has the file read again.
fn hold_signals() -> nix::Result<SignalFd> {
    let mut signals = SigSet::empty();
    let all = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    all.into_iter().for_each(|one| signals.add(one));
    signals.thread_block()?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}
