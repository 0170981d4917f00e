//! The loop of an agent: looks, decides, begins and ends sessions. Ends with everything as it was.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    fs,
    os::{fd::AsFd, unix::fs::DirBuilderExt},
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

use heapattach_agent::{
    Action, Config, Cost, Facts, Key, Mode, OnSlot, Refusal, Rotation, Rule, SlotProfile, decide,
    over,
};
use heapattach_report::Report;
use heapattach_text::quantity::bytes;
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::{SysconfVar, sysconf},
};
use serde_json::json;

use super::{
    events::{Events, now},
    leftovers::{self, is_there},
    look::{Seen, look},
    read,
    saved::Saved,
    session::Session,
    spool,
    usage::{Usage, WINDOW},
};
use crate::{args::AgentArgs, exit_status::Exit, sessions::exit};

/// Between two looks whether sessions have ended.
const PAUSE: Duration = Duration::from_millis(100);
/// So long sessions may take to detach at the end.
const END: Duration = Duration::from_secs(60);
/// So many sessions are begun at one look: an attach costs more than watching.
const ATTACHES: usize = 4;
/// Stops of the last hour count.
const HOUR: u64 = 3600;
/// Of less nothing is concluded, in milliseconds.
const LEAST_COUNTED: u64 = 500;
/// Larger ones see nothing any more.
const MOST_EVERY: u64 = 1 << 30;
/// At most so many stops are remembered.
const MOST_STOPS: usize = 10_000;

/// Watches until it is told to end.
pub fn run(config: Config, args: &AgentArgs) -> Result<Exit, String> {
    let signals =
        hold_signals().map_err(|error| format!("signals: {error} (targets: untouched)"))?;
    let events = Events(args.log);
    let mut saved = Saved::open(&config.state)?;
    leftovers::clean(&mut saved, events)?;
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
        paused: HashMap::new(),
        every: HashMap::new(),
        stops: VecDeque::new(),
        rotations: BTreeMap::new(),
        usage: Usage::default(),
        refused: HashMap::new(),
        push: Vec::new(),
    };
    let told = format!("watching by {} rules; Ctrl-C ends", agent.config.rules.len());
    events.tell("begun", json!({ "pid": std::process::id() }), &told);
    let ended = agent.watch(args, &signals);
    let exit = agent.end();
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
}

impl Agent {
    fn watch(&mut self, args: &AgentArgs, signals: &SignalFd) -> Result<(), String> {
        let mut next = Instant::now();
        loop {
            let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut fds, PollTimeout::try_from(PAUSE).unwrap_or(PollTimeout::ZERO));
            match signals.read_signal() {
                Ok(Some(signal)) if signal.ssi_signo == Signal::SIGHUP as u32 => self.reload(args),
                Ok(Some(_)) => return Ok(()),
                _ => {}
            }
            self.collect()?;
            if Instant::now() >= next {
                if modified(args) != self.written {
                    self.reload(args);
                }
                self.look()?;
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

    /// Sessions that have ended: their profiles are kept, their targets looked at.
    fn collect(&mut self) -> Result<(), String> {
        let mut at = 0;
        while at < self.sessions.len() {
            let Some(status) = self.sessions[at].ended() else {
                at += 1;
                continue;
            };
            let session = self.sessions.swap_remove(at);
            let (key, pid) = (session.key, session.key.pid);
            let report = session.report();
            let stops = report.iter().flat_map(|report| &report.stops);
            let stopped = stops.map(|stop| stop.stopped_us / 1000.0).sum();
            self.stops.push_back((now(), key, stopped));
            while self.stops.len() > MOST_STOPS {
                self.stops.pop_front();
            }
            self.thin_out(&session, report.as_ref());
            if matches!(exit(status), Some(Exit::Refused | Exit::Unsupported)) {
                self.saved.state.untouched(key);
            }
            let is_clean = exit(status).is_none_or(|exit| exit != Exit::Left);
            if is_clean {
                self.saved.state.detached(key);
            }
            let why = session.told.clone().unwrap_or_else(|| {
                let error = report.as_ref().and_then(|report| report.error.clone());
                error
                    .or_else(|| report.and_then(|r| r.why))
                    .unwrap_or_else(|| "it ended".to_owned())
            });
            let of = json!({
                "pid": pid, "rule": session.rule, "why": why, "stopped_ms": stopped, "clean": is_clean,
            });
            self.events.tell("detached", of, &format!("detached from process {pid}: {why}"));
            if exit(status).is_some() {
                // What did not work once will not work at the next look either.
                self.paused.insert(key, now() + self.config.budget.pause.as_secs());
            }
            match spool::put(&self.config, &session) {
                Ok((profile, told)) => {
                    self.ready(&profile, &told);
                    session.remove();
                }
                Err(_) if session.told.is_none() => session.remove(),
                Err(why) => {
                    let told = format!("no profile of process {pid}: {why}");
                    self.events.tell("no-profile", json!({ "pid": pid }), &told);
                    session.remove();
                }
            }
            self.bar();
            self.saved.write()?;
        }
        Ok(())
    }

    /// One with too many events has fewer of them in its next session.
    fn thin_out(&mut self, session: &Session, report: Option<&Report>) {
        let Some(report) = report.filter(|report| report.counted_ms >= LEAST_COUNTED) else {
            return;
        };
        let (key, limit) = (session.key, self.config.budget.events_per_second);
        #[allow(clippy::cast_precision_loss)]
        let events = report.heap.records as f64 * 1000.0 / report.counted_ms as f64;
        if events <= limit {
            return;
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let times = ((events / limit).ceil().min(1e6) as u64).next_power_of_two();
        let every = session.every.saturating_mul(times).min(MOST_EVERY);
        self.every.insert(key, every);
        let of = json!({ "pid": key.pid, "events_per_second": events, "every": every });
        let told = format!(
            "process {} had {events:.0} events a second, may have {limit:.0}: its next session has --every {}",
            key.pid,
            bytes(every)
        );
        self.events.tell("every", of, &told);
    }

    fn ready(&mut self, profile: &SlotProfile, told: &str) {
        let of = json!({ "pid": profile.key.pid, "rule": profile.rule, "path": profile.path });
        self.events.tell("profile", of, &format!("{}: {told}", profile.path.display()));
        self.push.iter_mut().for_each(|taker| taker.ready(profile));
    }

    /// Targets that ended soon.
    fn bar(&mut self) {
        for one in self.saved.state.look(is_there, now()) {
            let of = json!({ "pid": one.pid, "rule": one.rule, "executable": one.executable });
            let told = format!(
                "process {} ended {} s after an attach: {} is barred for rule `{}` until \
                 `heapattach agent --config FILE --allow {}`",
                one.pid, one.after, one.executable, one.rule, one.rule
            );
            self.events.tell("barred", of, &told);
        }
    }

    fn look(&mut self) -> Result<(), String> {
        self.bar();
        self.saved.write()?;
        let Seen { machine, processes, usage } = look(&self.config);
        let there: HashSet<Key> = processes.iter().map(|one| one.key).collect();
        self.paused.retain(|key, until| there.contains(key) && *until > machine.now);
        self.every.retain(|key, _| there.contains(key));
        self.refused.retain(|key, _| there.contains(key));
        self.stops.retain(|(at, key, _)| there.contains(key) && at + HOUR > machine.now);
        let has_room = self.budget(&usage, machine.processors);
        for session in &mut self.sessions {
            let rule = self.config.rules.iter().find(|rule| rule.name == session.rule);
            let slot = rule.map_or(Duration::ZERO, |rule| rule.slot);
            if session.mode == Mode::Rotate && session.began.elapsed() >= slot {
                session.end("its slot is over");
            }
        }
        // One that is about to end keeps its place, so that the next begins when it has ended.
        let watched: HashSet<Key> = self.sessions.iter().map(|session| session.key).collect();
        let mut rotations = std::mem::take(&mut self.rotations);
        let config = self.config.clone();
        let state = self.saved.state.clone();
        let all =
            decide(&config, &state, &machine, &processes, &watched, &self.paused, &mut rotations);
        self.rotations = rotations;
        let mut attaches = 0;
        for one in all {
            match one.action {
                Action::Watch if watched.contains(&one.process.key) => {}
                Action::Watch if has_room && attaches < ATTACHES => {
                    attaches += 1;
                    self.begin(one.process, one.rule)?;
                }
                Action::Watch | Action::Wait => {}
                Action::Refuse(why) => self.refuse(one.process, one.rule, &why),
            }
        }
        Ok(())
    }

    fn begin(&mut self, one: &Facts, rule: &Rule) -> Result<(), String> {
        // Before the attach: if we are killed, it is known whom to clean up.
        self.saved.state.will_attach(one, &rule.name, now());
        self.saved.write()?;
        self.refused.remove(&one.key);
        let every = self.every.get(&one.key).copied().unwrap_or(rule.every);
        match Session::begin(one, rule, every, &self.folder) {
            Ok(session) => {
                let of = json!({ "pid": one.key.pid, "rule": rule.name, "every": every });
                let told = format!(
                    "attaching to process {} ({}), rule {}",
                    one.key.pid, one.name, rule.name
                );
                self.events.tell("attach", of, &told);
                self.sessions.push(session);
            }
            Err(error) => {
                self.saved.state.detached(one.key);
                self.paused.insert(one.key, now() + self.config.budget.pause.as_secs());
                let told = format!("no session can be started: {error}");
                self.events.tell("no-session", json!({ "pid": one.key.pid }), &told);
            }
        }
        Ok(())
    }

    fn refuse(&mut self, one: &Facts, rule: &Rule, why: &Refusal) {
        if self.refused.insert(one.key, why.name()) != Some(why.name()) {
            let of = json!({ "pid": one.key.pid, "rule": rule.name, "reason": why.name() });
            let told = format!("process {} is not watched: {}", one.key.pid, why.told());
            self.events.tell("refused", of, &told);
        }
    }

    /// Detaches from what costs too much, then says so. Answers whether there is room for more.
    fn budget(&mut self, usage: &[super::usage::Process], processors: u32) -> bool {
        let sessions = self.sessions.iter().map(|one| (one.pid(), one.key)).collect();
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100).unsigned_abs();
        let (mut costs, own): (HashMap<Key, Cost>, Cost) = self.usage.add(usage, &sessions, ticks);
        for (_, key, stopped) in &self.stops {
            costs.entry(*key).or_default().stopped_ms += stopped;
        }
        for (key, why) in over(&self.config.budget, &costs, own, WINDOW, processors) {
            self.paused.insert(key, now() + self.config.budget.pause.as_secs());
            for session in
                self.sessions.iter_mut().filter(|one| one.key == key && one.told.is_none())
            {
                session.end(&why.told());
                let of = json!({ "pid": key.pid, "limit": why.name() });
                let told = format!("process {} is detached from: {}", key.pid, why.told());
                self.events.tell("budget", of, &told);
            }
        }
        let spent: Duration =
            costs.values().map(|cost| cost.processor).sum::<Duration>() + own.processor;
        let whole = WINDOW.as_secs_f64() * f64::from(processors.max(1));
        100.0 * spent.as_secs_f64() < self.config.budget.processors_percent * whole
    }

    /// Everything is as it was, then it is said how that went.
    fn end(&mut self) -> Exit {
        self.sessions.iter_mut().for_each(|session| session.end("the agent ends"));
        let until = Instant::now() + END;
        while !self.sessions.is_empty() && Instant::now() < until {
            let _ = self.collect();
            sleep(PAUSE / 10);
        }
        for session in &self.sessions {
            // It detaches when this process is gone, if it can.
            let pid = session.key.pid;
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
        if left > 0 || !self.sessions.is_empty() { Exit::Left } else { Exit::Done }
    }
}

fn modified(args: &AgentArgs) -> Option<SystemTime> {
    fs::metadata(&args.config).and_then(|about| about.modified()).ok()
}

/// What ends us, and what has the file read again.
fn hold_signals() -> nix::Result<SignalFd> {
    let mut signals = SigSet::empty();
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|one| signals.add(one));
    signals.thread_block()?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}
