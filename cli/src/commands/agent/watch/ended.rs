//! What becomes of sessions that have ended: their profiles are kept, their targets looked at.

use std::time::Instant;

use heapattach_agent::{Form, Key, Mode, SlotProfile};
use heapattach_report::Report;
use heapattach_text::quantity::bytes;
use serde_json::json;

use super::Agent;
use crate::{
    commands::agent::{events::now, leftovers::is_there, session::Session, spool},
    exit_status::Exit,
    sessions::exit,
};

/// Of less nothing is concluded, in milliseconds.
const LEAST_COUNTED: u64 = 500;
/// Larger ones see nothing any more.
const MOST_EVERY: u64 = 1 << 30;
/// At most so many stops are remembered.
const MOST_STOPS: usize = 10_000;

impl Agent {
    /// Sessions that have ended: their profiles are kept, their targets looked at.
    pub(super) fn collect(&mut self) -> Result<(), String> {
        let mut at = 0;
        while at < self.sessions.len() {
            let Some(status) = self.sessions[at].ended() else {
                at += 1;
                continue;
            };
            let session = self.sessions.swap_remove(at);
            let (key, pid) = (session.key, session.key.pid);
            self.counts.detaches += 1;
            // Before its recording goes.
            self.publish();
            let report = session.report();
            let stops = report.iter().flat_map(|report| &report.stops);
            let stopped = stops.map(|stop| stop.stopped_us / 1000.0).sum();
            self.note_stop(key, stopped);
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
                    self.counts.written += 1;
                    self.tidy();
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

    /// Tables of one session that goes on are written anew, when it is time.
    pub(super) fn refresh_tables(&mut self) {
        if !self.config.spool.has(Form::Parquet) {
            return;
        }
        let (every, percent) =
            (self.config.spool.tables_every, self.config.budget.processors_percent);
        let due = self.sessions.iter_mut().find(|session| {
            session.mode == Mode::Continuous
                && session.told.is_none()
                && session.tables.are_due(every, percent)
        });
        let Some(session) = due else { return };
        let (began, pid) = (Instant::now(), session.key.pid);
        let refreshed = spool::refresh(&self.config, session);
        session.tables.note(began);
        match refreshed {
            Ok(path) => {
                let of = json!({ "pid": pid, "rule": session.rule, "path": path });
                let told = format!("tables of process {pid} until now: {}", path.display());
                self.events.tell("tables", of, &told);
                self.tidy();
            }
            Err(why) => {
                let told = format!("no tables of process {pid}: {why}");
                self.events.tell("no-profile", json!({ "pid": pid }), &told);
            }
        }
    }

    pub(super) fn note_stop(&mut self, key: Key, stopped_ms: f64) {
        self.stops.push_back((now(), key, stopped_ms));
        while self.stops.len() > MOST_STOPS {
            self.stops.pop_front();
        }
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
    pub(super) fn bar(&mut self) {
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
}
