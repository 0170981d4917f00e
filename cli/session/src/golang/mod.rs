//! A session of a Go program: the profile that its runtime keeps itself takes the place of the rings. Nothing
//! is traced, stopped or written.
//!
//! ```text
//! found (runtime's variables) -> reading, again and again -> sums by stack -> recording, ledger, report
//! ```

mod found;
mod names;
mod stacks;
mod sums;

use std::{
    path::PathBuf,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use heapattach_injector::target::Target;
use heapattach_ledger::Mark;
use heapattach_process::proc::maps;
use heapattach_profile::{Facts, Limits, Profile, clock::Clock, ticks};
use heapattach_recording::{Ended, MOMENTS, SessionWriter};
use heapattach_report::{Outcome, Report, Status, TargetState};
use heapattach_symbols::Symbols;

use crate::{
    client::{
        channel::{Heard, Line},
        message::Message,
    },
    watch::{
        files::Files,
        heading::{fill, heading, session_writer},
        intake::Left,
        memory_course::with_memory,
        options::WatchOptions,
        result::Written,
    },
};
pub use found::{Found, wanted};
use sums::Sums;

/// Between two readings.
const PERIOD: Duration = Duration::from_millis(250);
/// Between two moments, at least.
const MOMENT: Duration = Duration::from_secs(1);

/// What Go's own profile cannot tell.
const BLIND: [&str; 2] = [
    "ages and lifetimes of blocks, threads and addresses: Go's own profile does not have them",
    "memory that is not of Go's heap: of C code, of mappings that the program made itself",
];

/// Reads until it is over, and reports.
pub fn observe(
    line: &mut Line,
    target: &Target,
    found: Found,
    options: &WatchOptions,
    files: Files,
) -> Report {
    let mut report = Report::new(target.process.pid(), target.process.command());
    report.target = TargetState::Untouched;
    let path = files.store.as_ref().and_then(|store| store.path.clone());
    // Ctrl-C may have come first.
    if !target.permit.is_granted() {
        return Report::interrupted();
    }
    if let Err(why) = read_on(line, target, found, options, files, &mut report) {
        report.error = Some(why);
        report.status = Status::Unsupported;
        report.outcome = Outcome::Refused;
        // Nothing was recorded.
        let _ = path.map(std::fs::remove_file);
    }
    report
}

/// Why it ended.
enum End {
    Over,
    Asked,
    Gone,
}

fn read_on(
    line: &mut Line,
    target: &Target,
    mut found: Found,
    options: &WatchOptions,
    files: Files,
    report: &mut Report,
) -> Result<(), String> {
    let process = &target.process;
    let mut symbols = Symbols::new();
    symbols.ask_servers();
    let text = process.read("maps").map_err(|error| error.desc().to_owned())?;
    if let Ok(maps) = maps::parse(&text) {
        symbols.note_if(process, &maps, || true);
    }
    let first = found.read()?;
    if first.rate == 0 {
        return Err(found.switched_off());
    }
    if options.is_exact() && first.rate > 1 {
        return Err(format!(
            "{} samples one block in {} itself, and a rate that is set is never changed; need --all left out, or a \
             program that sets runtime.MemProfileRate = 1",
            found.release(),
            found.every()
        ));
    }
    let command = if options.record.redact { String::new() } else { report.command.clone() };
    let mut heading =
        heading(command, &options.hooks.hide_frames, (report.pid, first.rate), process);
    // The runtime has counted from the beginning on.
    heading.about.from_start = true;
    found.release().clone_into(&mut heading.about.counted_by);
    let before = Duration::from_millis(heading.about.up_ms);
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    heading.about.began = began.saturating_sub(before).as_secs();
    heading.about.up_ms = 0;
    let path = files.store.as_ref().and_then(|store| store.path.clone());
    let copy = files.store.as_ref().filter(|_| options.flow).and_then(|store| store.share().ok());
    let writer = files.store.map(|store| session_writer(store, options)).transpose();
    let writer = writer.map_err(|error| format!("the recording cannot be begun: {error}"))?;
    let has_names = options.record.names || path.is_none();
    let clock = Clock::start();
    let mut watch = Watch {
        profile: Profile::new(Limits::default(), Clock::temporary()),
        sums: Sums::default(),
        writer,
        moments: Vec::new(),
        clock,
        before,
    };
    if let Some(writer) = &mut watch.writer {
        writer.heading(&heading);
        writer.modules(&symbols.known());
    }
    watch.take(&mut found, &first);
    announce(line, target, &found, path.clone());
    let end = watch.follow(line, target, &mut found, options)?;
    let Watch { mut profile, sums, mut writer, moments, .. } = watch;
    profile.know(Facts { every: first.rate, asked: None });
    let counted = before + clock.elapsed();
    let until = ticks(counted);
    if let Some(writer) = &mut writer {
        writer.snapshot(until, &mut profile, &sums.stacks);
    }
    let ended = Ended::of(profile.into_sheet(), &sums.stacks);
    let addresses: Vec<u64> = ended.addresses().to_vec();
    symbols.fetch_returns(addresses.iter().copied(), &mut |_| true);
    let code = names::look_up(&mut symbols, addresses, &found);
    report.missing_symbols = if found.names_all(&code) { Vec::new() } else { symbols.missing() };
    heading.about.every = first.rate;
    report.blind = BLIND.map(str::to_owned).to_vec();
    conclude(report, &end);
    report.counted_ms = millis(clock.elapsed());
    fill(&mut heading.about, report, counted);
    let left = Left {
        ended,
        births: Vec::new(),
        page_births: Vec::new(),
        kernel: Vec::new(),
        until,
        session_writer: writer,
        threads: Vec::new(),
        moments,
    };
    let full_names = options.hooks.full_names;
    let written = Written { path, store: copy, has_names, full_names };
    written.finish(left, heading, code, report, || true);
    Ok(())
}

fn announce(line: &mut Line, target: &Target, found: &Found, recording: Option<PathBuf>) {
    line.send(&Message::Reading {
        pid: target.process.pid(),
        command: target.process.command(),
        what: format!(
            "the memory profile of {} itself, one sample in {}",
            found.release(),
            found.every()
        ),
        recording,
    });
}

fn conclude(report: &mut Report, end: &End) {
    let (outcome, why, status) = match end {
        End::Over => (Outcome::Detached, None, Status::Done),
        End::Asked => (Outcome::Detached, Some("interrupted".to_owned()), Status::Interrupted),
        End::Gone => (Outcome::Exited, Some("the target ended".to_owned()), Status::TargetDied),
    };
    (report.outcome, report.why, report.status) = (outcome, why, status);
}

/// What is made of readings.
struct Watch {
    profile: Profile,
    sums: Sums,
    writer: Option<SessionWriter>,
    moments: Vec<heapattach_ledger::Moment>,
    clock: Clock,
    /// For how long the process had run.
    before: Duration,
}

impl Watch {
    fn at(&self) -> Duration {
        self.before + self.clock.elapsed()
    }

    fn take(&mut self, found: &mut Found, reading: &heapattach_golang::profile::Reading) {
        self.sums.take(reading, found, &mut self.profile);
    }

    fn follow(
        &mut self,
        line: &mut Line,
        target: &Target,
        found: &mut Found,
        options: &WatchOptions,
    ) -> Result<End, String> {
        let began = Instant::now();
        let deadline = options.duration.map(|duration| began + duration);
        let (mut next_moment, mut next_mark) =
            (began, options.record.mark_every.map(|time| began + time));
        loop {
            let now = Instant::now();
            if now >= next_moment {
                self.note_moment(target);
                next_moment = now + MOMENT;
            }
            if let Some((next, period)) = next_mark.as_mut().zip(options.record.mark_every)
                && now >= *next
            {
                *next = now + period;
                self.mark(line, "it is time".to_owned());
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(End::Over);
            }
            let next = deadline.map_or(now + PERIOD, |deadline| deadline.min(now + PERIOD));
            let pause = next.saturating_duration_since(now);
            let (heard, has_ended) = line.listen_for_end(target, None, pause);
            match heard {
                None => {}
                Some(Heard::Mark) => self.mark(line, "by SIGUSR1".to_owned()),
                Some(Heard::Detach | Heard::Gone) => return Ok(End::Asked),
                Some(Heard::Over) => return Ok(End::Over),
            }
            if has_ended {
                return Ok(End::Gone);
            }
            // A profile that does not come to rest is read the next time.
            match found.try_read() {
                Ok(Some(reading)) => self.take(found, &reading),
                Ok(None) => {}
                Err(_) => return Ok(End::Gone),
            }
            if let Some(writer) = &mut self.writer {
                let now = ticks(self.before + self.clock.elapsed());
                writer.keep_up(now, &mut self.profile, &self.sums.stacks);
            }
            let (calls, bytes) = self.sums.seen;
            line.send(&Message::Progress { calls, bytes });
        }
    }

    fn note_moment(&mut self, target: &Target) {
        let sheet = self.profile.sheet();
        let flow = |flow| sheet.heap().measure(flow);
        let allocated = flow(heapattach_profile::Flow::Allocated);
        let moment = heapattach_ledger::Moment {
            at_ms: millis(self.at()),
            live: flow(heapattach_profile::Flow::Live).bytes.value,
            allocated: allocated.bytes.value,
            blocks: allocated.count.value,
            own_mapped: Some(0),
            ..heapattach_ledger::Moment::default()
        };
        let moment = with_memory(&target.process, moment);
        if let Some(writer) = &mut self.writer {
            writer.moment(moment.clone());
        }
        if self.moments.len() < MOMENTS {
            self.moments.push(moment);
        }
    }

    fn mark(&mut self, line: &mut Line, why: String) {
        let mark = Mark { at_ms: millis(self.at()), why };
        let now = ticks(self.at());
        if let Some(writer) = &mut self.writer {
            writer.mark(mark.clone());
            writer.settle_mark(now, &mut self.profile, &self.sums.stacks);
        }
        line.send(&Message::Marked(mark));
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
