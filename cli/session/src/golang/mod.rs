//! A session of a Go program: the profile that its runtime keeps itself takes the place of the rings. Nothing
//! is traced or stopped, and nothing written but for one word where a program keeps none ([`rate`]).
//!
//! ```text
//! found (runtime's variables) -> reading, again and again -> sums by stack -> recording, ledger, report
//! ```

mod beside;
mod buckets;
mod found;
mod goroutines;
mod names;
mod on;
pub mod rate;
mod run;
mod stacks;
mod sums;

use std::{
    path::PathBuf,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use heapattach_golang::profile::Reading;
use heapattach_injector::target::Target;
use heapattach_ledger::Mark;
use heapattach_process::proc::{Process, maps};
use heapattach_profile::{Facts, Limits, Profile, clock::Clock, ticks};
use heapattach_recording::{Ended, Heading, MOMENTS, SessionWriter, Store};
use heapattach_report::{Outcome, Report, Status, TargetState};
use heapattach_symbols::Symbols;
use heapattach_text::quantity::{bytes, time};

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
pub use beside::Beside;
pub use found::{Found, any, wanted};
use goroutines::Goroutines;
use on::On;
pub use run::{follow, run};
pub(crate) use stacks::Stacks;
use sums::Sums;

/// Between two readings.
pub const PERIOD: Duration = Duration::from_millis(250);
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
    period: Duration,
) -> Report {
    let mut report = Report::new(target.process.pid(), target.process.command());
    report.target = TargetState::Untouched;
    let path = files.store.as_ref().and_then(|store| store.path.clone());
    // Ctrl-C may have come first.
    if !target.permit.is_granted() {
        return Report::interrupted();
    }
    if let Err(why) = read_on(line, target, found, (options, period), files, &mut report) {
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
    /// The table of stacks in the target grew by so much.
    Full(u64),
}

fn read_on(
    line: &mut Line,
    target: &Target,
    mut found: Found,
    (options, period): (&WatchOptions, Duration),
    files: Files,
    report: &mut Report,
) -> Result<(), String> {
    let symbols = symbols_of(&target.process)?;
    let (first, switched) = begin(target, &mut found, options)?;
    if switched.is_some() {
        report.target = TargetState::Restored;
    }
    if options.is_exact() && first.rate > 1 {
        return Err(format!(
            "{} samples one block in {} itself, and a rate that is set is never changed; need --all left out, or a \
             program that sets runtime.MemProfileRate = 1",
            found.release(),
            found.every()
        ));
    }
    let (heading, before) = heading_of(report, &found, first.rate, options, switched.is_some());
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
        period,
        read_at: Duration::ZERO,
        last: None,
    };
    if let Some(writer) = &mut watch.writer {
        writer.heading(&heading);
        writer.modules(&symbols.known());
    }
    watch.begin(&mut found, &first, switched.is_some());
    let goroutines = Goroutines::begin(&found);
    announce(line, target, &found, switched.is_some(), path.clone());
    let end = watch.follow(line, target, &mut found, options, switched.as_ref())?;
    // What came since the last look.
    if !matches!(end, End::Gone)
        && let Ok(Some(last)) = found.read_to_rest()
    {
        watch.take(&mut found, last);
    }
    conclude(report, &end);
    report.blind = BLIND.map(str::to_owned).to_vec();
    report.blind.extend(goroutines.and_then(|goroutines| goroutines.growth(&found)));
    if matches!(end, End::Gone) {
        let since = time(watch.at().saturating_sub(watch.read_at));
        report.blind.push(format!("what came in the last {since} before the program ended"));
    }
    if let Some(switched) = switched {
        switched.off(report);
    }
    let sink = Sink { path, copy, has_names, full_names: options.hooks.full_names };
    tell(watch, &found, heading, symbols, sink, report);
    Ok(())
}

/// The first reading, of a profile that is on.
fn begin(
    target: &Target,
    found: &mut Found,
    options: &WatchOptions,
) -> Result<(Reading, Option<On>), String> {
    // What a killed heapattach has switched on is off, not the program's own.
    rate::undo_orphaned(&target.process, &target.memory)?;
    let first = found.read()?;
    if first.rate != 0 {
        return Ok((first, None));
    }
    // Ctrl-C may have come first.
    if !target.permit.is_granted() {
        return Err("interrupted".to_owned());
    }
    let switched = On::switch(found, options)?;
    Ok((found.read()?, Some(switched)))
}

/// What is told of a session, and for how long the process had run when that begins.
fn heading_of(
    report: &Report,
    found: &Found,
    rate: u64,
    options: &WatchOptions,
    is_switched: bool,
) -> (Heading, Duration) {
    let command = if options.record.redact { String::new() } else { report.command.clone() };
    let process = found.process();
    let mut heading = heading(command, &options.hooks.hide_frames, (report.pid, rate), process);
    // The runtime has counted from the beginning on, unless it was switched on just now.
    heading.about.from_start = !is_switched;
    found.release().clone_into(&mut heading.about.counted_by);
    let before = match is_switched {
        false => Duration::from_millis(heading.about.up_ms),
        true => Duration::ZERO,
    };
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    heading.about.began = began.saturating_sub(before).as_secs();
    if !is_switched {
        heading.about.up_ms = 0;
    }
    (heading, before)
}

/// Where a result goes.
struct Sink {
    path: Option<PathBuf>,
    copy: Option<Store>,
    has_names: bool,
    full_names: bool,
}

/// What was read becomes the report.
fn tell(
    watch: Watch,
    found: &Found,
    mut heading: Heading,
    mut symbols: Symbols,
    sink: Sink,
    report: &mut Report,
) {
    let Watch { mut profile, sums, mut writer, moments, clock, before, last, .. } = watch;
    profile.know(Facts { every: found.rate(), asked: None });
    let counted = before + clock.elapsed();
    let until = ticks(counted);
    if let Some(writer) = &mut writer {
        writer.snapshot(until, &mut profile, &sums.stacks);
    }
    let ended = Ended::of(profile.into_sheet(), &sums.stacks);
    let addresses: Vec<u64> = ended.addresses().to_vec();
    symbols.fetch_returns(addresses.iter().copied(), &mut |_| true);
    let code = names::look_up(&mut symbols, addresses, found);
    report.missing_symbols = if found.names_all(&code) { Vec::new() } else { symbols.missing() };
    heading.about.every = found.rate();
    heading.about.types = last.map(|last| found.types(&last)).unwrap_or_default();
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
    let Sink { path, copy, has_names, full_names } = sink;
    let written = Written { path, store: copy, has_names, full_names };
    written.finish(left, heading, code, report, || true);
}

/// The modules of a process, to name their code.
pub(crate) fn symbols_of(process: &Process) -> Result<Symbols, String> {
    let mut symbols = Symbols::new();
    symbols.ask_servers();
    let text = process.read("maps").map_err(|error| error.desc().to_owned())?;
    if let Ok(maps) = maps::parse(&text) {
        symbols.note_if(process, &maps, || true);
    }
    Ok(symbols)
}

fn announce(
    line: &mut Line,
    target: &Target,
    found: &Found,
    is_switched: bool,
    recording: Option<PathBuf>,
) {
    let touched = match is_switched {
        false => "it is not touched",
        true => "it was off, and is on until the end of this session",
    };
    line.send(&Message::Reading {
        pid: target.process.pid(),
        command: target.process.command(),
        what: format!(
            "the memory profile of {} itself, one sample in {}; {touched}",
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
        End::Full(grown) => {
            let why = format!("the runtime's table of stacks has grown by {}", bytes(*grown));
            (Outcome::Detached, Some(why), Status::Done)
        }
    };
    (report.outcome, report.why) = (outcome, why);
    // What could not be put back is what counts.
    if report.status == Status::Done {
        report.status = status;
    }
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
    /// Between two readings.
    period: Duration,
    /// When it was read last.
    read_at: Duration,
    /// What was read then; none where a part of it is not told.
    last: Option<Reading>,
}

impl Watch {
    fn at(&self) -> Duration {
        self.before + self.clock.elapsed()
    }

    /// Takes in the first reading, unless the profile was switched on just then.
    fn begin(&mut self, found: &mut Found, first: &Reading, is_switched: bool) {
        match is_switched {
            true => self.sums.pass_over(first, found),
            false => self.take(found, first.clone()),
        }
    }

    fn take(&mut self, found: &mut Found, reading: Reading) {
        self.read_at = self.at();
        self.sums.take(&reading, found, &mut self.profile);
        self.last = (!self.sums.passed_over).then_some(reading);
    }

    fn follow(
        &mut self,
        line: &mut Line,
        target: &Target,
        found: &mut Found,
        options: &WatchOptions,
        on: Option<&On>,
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
                if let Some(grown) = on.and_then(On::is_full) {
                    return Ok(End::Full(grown));
                }
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
            let next = now + self.period;
            let next = deadline.map_or(next, |deadline| deadline.min(next));
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
                Ok(Some(reading)) => self.take(found, reading),
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
