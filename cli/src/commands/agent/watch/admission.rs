//! A look at the processes of the machine: which are watched from now on, which no longer.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use heapattach_agent::{Action, Cost, Facts, Key, Mode, Refusal, Rule, decide, for_sessions, over};
use nix::unistd::{SysconfVar, sysconf};
use serde_json::json;

use super::Agent;
use crate::{
    commands::agent::{
        events::now,
        figures::Used,
        look::{Seen, look},
        session::Session,
        share,
        usage::{self, WINDOW},
    },
    fork_server::ForkServer,
};

/// So many sessions are begun at one look: an attach costs more than watching.
const ATTACHES: usize = 4;
/// Stops of the last hour count.
const HOUR: u64 = 3600;

impl Agent {
    pub(super) fn look(&mut self) -> Result<(), String> {
        self.bar();
        self.saved.write()?;
        let Seen { machine, mut processes, usage } = look(&self.config);
        self.leave_out_clones(&mut processes, &usage);
        let there: HashSet<Key> = processes.iter().map(|one| one.key).collect();
        self.paused.retain(|key, until| there.contains(key) && *until > machine.now);
        self.every.retain(|key, _| there.contains(key));
        self.refused.retain(|key, _| there.contains(key));
        self.postponed.retain(|(key, _)| there.contains(key));
        self.took.retain(|(key, _), _| there.contains(key));
        self.counted.retain(|key, _| there.contains(key));
        self.stops.retain(|(at, key, _)| there.contains(key) && at + HOUR > machine.now);
        let has_room = self.budget(&usage, machine.processors);
        for session in &mut self.sessions {
            let rule = self.config.rules.iter().find(|rule| rule.name == session.rule);
            let slot = rule.map_or(Duration::ZERO, |rule| rule.slot);
            if session.mode == Mode::Rotate && session.began.elapsed() >= slot {
                session.end("its slot is over");
            }
        }
        self.refresh_tables();
        // One that is about to end keeps its place, so that the next begins when it has ended.
        let watched: HashSet<Key> = self.sessions.iter().map(|session| session.key).collect();
        let mut rotations = std::mem::take(&mut self.rotations);
        let config = self.config.clone();
        let state = self.saved.state.clone();
        let all =
            decide(&config, &state, &machine, &processes, &watched, &self.paused, &mut rotations);
        self.rotations = rotations;
        let visited = self.visit(&all, &machine, has_room)?;
        let mut attaches = 0;
        self.refusals.clear();
        for one in all {
            match one.action {
                Action::Watch if watched.contains(&one.process.key) => {}
                // After that: a process has one heapattach in it.
                Action::Watch if visited == Some(one.process.key) => {}
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
        let server = ForkServer::of(&mut self.server);
        match server.and_then(|server| Session::begin(one, rule, every, &self.folder, server)) {
            Ok(session) => {
                let of = json!({ "pid": one.key.pid, "rule": rule.name, "every": every });
                let told = format!(
                    "attaching to process {} ({}), rule {}",
                    one.key.pid, one.name, rule.name
                );
                self.events.tell("attach", of, &told);
                self.sessions.push(session);
                self.counts.attaches += 1;
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
        *self.refusals.entry(why.name()).or_default() += 1;
        if self.refused.insert(one.key, why.name()) != Some(why.name()) {
            let of = json!({ "pid": one.key.pid, "rule": rule.name, "reason": why.name() });
            let told = format!("process {} is not watched: {}", one.key.pid, why.told());
            self.events.tell("refused", of, &told);
        }
    }

    /// Detaches from what costs too much, then says so. Answers whether there is room for more.
    fn budget(&mut self, usage: &[usage::Process], processors: u32) -> bool {
        let sessions = self.sessions.iter().map(|one| (one.pid(), one.key)).collect();
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100).unsigned_abs();
        let visit = self.visit.as_ref().map(|visit| (visit.pid(), visit.key));
        let (mut costs, own): (HashMap<Key, Cost>, Cost) =
            self.usage.add(usage, &sessions, visit, ticks, &share::read);
        for (_, key, stopped) in &self.stops {
            costs.entry(*key).or_default().stopped_ms += stopped;
        }
        for (key, why) in over(&self.config.budget, &costs, own, WINDOW, processors) {
            let until = now() + self.config.budget.pause.as_secs();
            let was_paused = self.paused.insert(key, until).is_some();
            let mut is_ended = false;
            for session in self.sessions.iter_mut().filter(|one| one.key == key) {
                is_ended |= session.told.is_none();
                session.end(&why.told());
            }
            for visit in self.visit.iter_mut().filter(|one| one.key == key) {
                is_ended |= visit.told.is_none();
                visit.end(&why.told());
            }
            if is_ended || !was_paused {
                *self.counts.excesses.entry(why.name()).or_default() += 1;
                let of = json!({ "pid": key.pid, "limit": why.name() });
                let what = if is_ended { "detached from" } else { "left alone" };
                let told = format!("process {} is {what}: {}", key.pid, why.told());
                self.events.tell("budget", of, &told);
            }
        }
        let spent: Duration =
            costs.values().map(|cost| cost.processor).sum::<Duration>() + own.processor;
        let whole = WINDOW.as_secs_f64() * f64::from(processors.max(1));
        self.used = Used {
            processors_percent: 100.0 * spent.as_secs_f64() / whole,
            memory: costs.values().fold(own.memory, |sum, cost| sum.saturating_add(cost.memory)),
            stopped_ms: costs.values().map(|cost| cost.stopped_ms).fold(0.0, f64::max),
        };
        self.used.processors_percent < for_sessions(&self.config.budget)
    }
}
