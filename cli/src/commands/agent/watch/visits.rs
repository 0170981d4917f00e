//! Looks that rules ask for from time to time, one after the other: within the same limits as sessions.

use std::time::Duration;

use heapattach_agent::{Decision, Facts, Key, Look, Machine, Mode, Scheduled, due, why_not};
use heapattach_text::quantity::time;
use serde_json::{Value, json};

use super::Agent;
use crate::{
    commands::agent::{
        counted::Counted,
        events::now,
        spool,
        usage::{Process, WINDOW},
        visit::{Visit, Visited},
    },
    exit_status::Exit,
    sessions::exit,
};

/// Less is no time for a stop, in milliseconds.
const LEAST_STOP: f64 = 1.0;
/// So many processes have figures of their allocators.
const MOST_COUNTED: usize = 1000;

impl Agent {
    /// Begins the next look that is due, if there may be one now. Answers which process is not attached to meanwhile.
    pub(super) fn visit(
        &mut self,
        all: &[Decision<'_>],
        machine: &Machine,
        has_room: bool,
    ) -> Result<Option<Key>, String> {
        let due = due(all, &self.saved.state.looked, machine.now);
        self.due.clear();
        due.iter().for_each(|one| *self.due.entry(one.look.name()).or_default() += 1);
        if let Some(visit) = &mut self.visit {
            visit.end_if_late();
            return Ok((visit.look == Look::Census).then_some(visit.key));
        }
        for one in due.iter().filter(|_| has_room) {
            let key = one.process.key;
            let state = &self.saved.state;
            let refusal =
                why_not(one.process, one.rule, &self.config, state, machine, &self.paused);
            if refusal.is_some() || !self.has_room_for(one, machine) {
                continue;
            }
            if one.look == Look::Allocator {
                self.begin_visit(one, Duration::ZERO)?;
                return Ok(None);
            }
            let stops = self.stops.iter().filter(|(_, of, _)| *of == key);
            let stopped: f64 = stops.map(|(.., ms)| ms).sum();
            let left = self.config.budget.stopped_ms_per_hour - stopped;
            if left < LEAST_STOP {
                let why = format!("stopped for {stopped:.1} ms in the last hour already");
                self.postpone(one, &why);
                continue;
            }
            match self.sessions.iter_mut().find(|session| session.key == key) {
                // A process has one heapattach in it. Its slot will be over.
                Some(session) if session.mode == Mode::Rotate => {}
                Some(session) => {
                    session.end("its census is due");
                    return Ok(Some(key));
                }
                None => {
                    // More than a day is more than anything takes.
                    let most = Duration::from_secs_f64(left.min(86_400_000.0) / 1000.0);
                    self.begin_visit(one, most)?;
                    return Ok(Some(key));
                }
            }
        }
        Ok(None)
    }

    /// What a census has made of its process looks like one that a rule fits.
    pub(super) fn leave_out_clones(&self, all: &mut Vec<Facts>, usage: &[Process]) {
        let Some(visit) = &self.visit else { return };
        let is_of_visit = |pid: i32| {
            let mut parents = usage.iter().filter(|one| one.key.pid == pid);
            pid == visit.pid() || parents.any(|one| one.parent == visit.pid())
        };
        all.retain(|one| one.key == visit.key || one.tracer == 0 || !is_of_visit(one.tracer));
    }

    /// Whether there is room for what the same look took before.
    fn has_room_for(&mut self, one: &Scheduled<'_>, machine: &Machine) -> bool {
        let Some(took) = self.took.get(&(one.process.key, one.look)).copied() else { return true };
        let whole = WINDOW.as_secs_f64() * f64::from(machine.processors.max(1));
        let share = 100.0 * took.as_secs_f64() / whole;
        let limit = self.config.budget.processors_percent;
        if share > limit {
            let why = format!(
                "the last one took {} of a processor, {share:.2} % in {}; all may take {limit} %",
                time(took),
                time(WINDOW)
            );
            self.postpone(one, &why);
        }
        self.used.processors_percent + share <= limit
    }

    /// Says once that it waits.
    fn postpone(&mut self, one: &Scheduled<'_>, why: &str) {
        let (pid, look) = (one.process.key.pid, one.look.name());
        if self.postponed.insert((one.process.key, one.look)) {
            let of = json!({ "pid": pid, "rule": one.rule.name, "look": look, "why": why });
            let told = format!("the {look} look at process {pid} waits: {why}");
            self.events.tell("look-waits", of, &told);
        }
    }

    fn begin_visit(&mut self, one: &Scheduled<'_>, most_stopped: Duration) -> Result<(), String> {
        let (key, name) = (one.process.key, one.look.name());
        self.postponed.remove(&(key, one.look));
        // Before it begins: if we are killed, it is known whom to clean up, and that it was this one's turn.
        self.saved.state.will_look(key, one.look, now());
        if one.look == Look::Census {
            self.saved.state.will_attach(one.process, &one.rule.name, now());
        }
        self.saved.write()?;
        let spool = self.config.spool();
        let begun = spool::make(&spool).and_then(|()| {
            let visit = Visit::begin(one, &self.folder, &spool, most_stopped);
            visit.map_err(|error| error.to_string())
        });
        match begun {
            Ok(visit) => self.visit = Some(visit),
            Err(why) => {
                self.saved.state.untouched(key);
                *self.counts.failed_looks.entry(name).or_default() += 1;
                let of = json!({ "pid": key.pid, "rule": one.rule.name, "look": name, "why": why });
                let told = format!("no {name} look at process {}: {why}", key.pid);
                self.events.tell("no-look", of, &told);
            }
        }
        Ok(())
    }

    /// A look that has ended: what it found is told, what it cost counted.
    pub(super) fn collect_visit(&mut self) -> Result<(), String> {
        let Some(visited) = self.visit.as_mut().and_then(Visit::ended) else { return Ok(()) };
        let Some(visit) = self.visit.take() else { return Ok(()) };
        let (key, name) = (visit.key, visit.look.name());
        self.took.insert((key, visit.look), visited.processor);
        self.usage.spend(key, visited.processor);
        if visit.look == Look::Census {
            self.note_stop(key, visited.stopped_ms);
            match exit(visited.status) {
                Some(Exit::Left) => {}
                Some(Exit::Refused | Exit::Unsupported) if visited.error.is_some() => {
                    self.saved.state.untouched(key);
                }
                _ => self.saved.state.detached(key),
            }
        }
        let pid = key.pid;
        let of = json!({
            "pid": pid, "rule": visit.rule, "look": name, "stopped_ms": visited.stopped_ms,
            "processor_ms": visited.processor.as_millis(),
        });
        if let Some(why) = &visited.error {
            *self.counts.failed_looks.entry(name).or_default() += 1;
            let told = format!("no {name} look at process {pid}: {why}");
            self.events.tell("no-look", with(of, "why", why.as_str().into()), &told);
        } else {
            *self.counts.looks.entry(name).or_default() += 1;
            self.tell_found(&visit, visited, of);
        }
        self.bar();
        self.saved.write()?;
        self.publish();
        Ok(())
    }

    fn tell_found(&mut self, visit: &Visit, visited: Visited, of: Value) {
        let (pid, name) = (visit.key.pid, &visit.name);
        let found = visited.result;
        match &visit.moment {
            Some(moment) => {
                self.counts.written += 1;
                self.tidy();
                let says = found["verdict"]["text"].as_str().unwrap_or_default();
                let told = format!(
                    "census of process {pid} ({name}): {says}; stopped for {:.1} ms; {}",
                    visited.stopped_ms,
                    moment.display()
                );
                let of = with(with(of, "path", json!(moment)), "memory", found["memory"].clone());
                self.events.tell("census", of, &told);
            }
            None => {
                let counted = Counted::of(visit.key, name, &found);
                let told = format!("allocators of process {pid} ({name}): {}", counted.told());
                self.events.tell("allocator", with(of, "allocators", counted.data()), &told);
                if self.counted.len() < MOST_COUNTED || self.counted.contains_key(&visit.key) {
                    self.counted.insert(visit.key, counted);
                }
            }
        }
    }
}

fn with(mut of: Value, name: &str, value: Value) -> Value {
    of[name] = value;
    of
}
