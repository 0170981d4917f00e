//! The profile of a Go program that calls C: read beside the hooks of the session, and told as a report of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use heapattach_injector::target::Target;
use heapattach_profile::{Limits, Profile, clock::Clock};
use heapattach_report::{Outcome, Report, TargetState};

use super::{
    BLIND, Found, MOMENT, PERIOD, Sink, Watch, begin, found, heading_of, on::On, sums::Sums,
    symbols_of, tell,
};
use crate::watch::options::WatchOptions;

/// One that is being read.
pub struct Beside {
    is_over: Arc<AtomicBool>,
    reader: JoinHandle<Read>,
}

/// What was read.
struct Read {
    found: Found,
    watch: Watch,
    on: Option<On>,
    /// It was ended before the session: the table of stacks had become too large.
    is_full: bool,
}

/// Why nothing is read of the Go in a process: it has none, or cannot be read.
pub type NoReading = Option<String>;

impl Beside {
    /// Begins to read.
    ///
    /// # Errors
    /// When there is no Go, or what stands in the way.
    pub fn begin(target: &Target, options: &WatchOptions) -> Result<Self, NoReading> {
        let mut found = found::beside(target).ok_or(None)?.map_err(Some)?;
        let (first, on) = begin(target, &mut found, options).map_err(Some)?;
        let watch = Watch {
            period: PERIOD,
            read_at: std::time::Duration::ZERO,
            last: None,
            profile: Profile::new(Limits::default(), Clock::temporary()),
            sums: Sums::default(),
            writer: None,
            moments: Vec::new(),
            clock: Clock::start(),
            before: std::time::Duration::ZERO,
        };
        let mut read = Read { found, watch, on, is_full: false };
        let is_switched = read.on.is_some();
        read.watch.begin(&mut read.found, &first, is_switched);
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let reader = thread::Builder::new().name("heap of Go".to_owned());
        let reader =
            reader.spawn(move || read_on(read, &until)).map_err(|error| Some(error.to_string()))?;
        Ok(Self { is_over, reader })
    }

    /// The session is over: what the runtime counted, and the profile is off if it was.
    pub fn finish(self, options: &WatchOptions) -> Option<Report> {
        self.is_over.store(true, Relaxed);
        self.reader.thread().unpark();
        let Read { found, mut watch, on, is_full } = self.reader.join().ok()?;
        let process = found.process();
        let is_alive = process.is_alive();
        let mut report = Report::new(process.pid(), process.command());
        report.heap_of = Some(found.release().to_owned());
        report.outcome = if is_alive { Outcome::Detached } else { Outcome::Exited };
        report.target = if on.is_some() { TargetState::Restored } else { TargetState::Untouched };
        report.blind = BLIND.map(str::to_owned).to_vec();
        let (heading, before) = heading_of(&report, &found, found.rate(), options, on.is_some());
        watch.before = before;
        // Before names are read, which can take long.
        if let Some(on) = on {
            on.off(&mut report);
        }
        if is_full {
            report
                .blind
                .push("what came after the table of stacks had become too large".to_owned());
        }
        let symbols = symbols_of(process).unwrap_or_default();
        let full_names = options.hooks.full_names;
        let sink = Sink { path: None, copy: None, has_names: true, full_names };
        tell(watch, &found, heading, symbols, sink, &mut report);
        Some(report)
    }
}

fn read_on(mut read: Read, is_over: &AtomicBool) -> Read {
    let mut next = Instant::now() + MOMENT;
    while !is_over.load(Relaxed) {
        thread::park_timeout(PERIOD);
        match read.found.try_read() {
            Ok(Some(reading)) => read.watch.take(&mut read.found, reading),
            Ok(None) => {}
            Err(_) => return read,
        }
        if Instant::now() >= next {
            next += MOMENT;
            if let Some(on) = read.on.as_mut().filter(|on| on.is_full().is_some()) {
                // Its table must not grow on until the session ends.
                on.stop();
                read.is_full = true;
                return read;
            }
        }
    }
    // What came since the last look.
    if let Ok(Some(last)) = read.found.read_to_rest() {
        read.watch.take(&mut read.found, last);
    }
    read
}
