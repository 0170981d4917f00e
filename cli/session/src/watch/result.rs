//! The result of a session: one ledger, made of what is in memory, and from it all that is reported of
//! the heap. The recording is written to its end beside it and not read: only how the sums came about,
//! by which growth is judged, is known by the file alone.

use std::path::PathBuf;

use crate::watch::{heading::note_recording, intake::Left};
use heapattach_ledger::{Course, Ledger};
use heapattach_recording::names::Code;
use heapattach_recording::{Context, Heading, Replay, Store};
use heapattach_report::{HeapReport, Report};
use heapattach_verdict::summary::Summary;

/// Where a session is written down, and how.
#[derive(Debug)]
pub struct Written {
    /// The name of its file, if it has one.
    pub path: Option<PathBuf>,
    /// The file, to be read where growth is judged.
    pub store: Option<Store>,
    /// Whether the names of its code are in it.
    pub has_names: bool,
    /// Whether functions are shown with their whole names.
    pub full_names: bool,
}

impl Written {
    /// Writes the recording to its end, and tells what the session found. `goes_on` is asked whether
    /// the user still wants to wait for what takes long.
    pub fn finish(
        self,
        left: Left,
        mut heading: Heading,
        code: Code,
        report: &mut Report,
        goes_on: impl FnMut() -> bool,
    ) {
        let Left { ended, births, page_births, kernel, until, session_writer, threads, moments } =
            left;
        heading.is_final = true;
        (heading.births, heading.page_births, heading.kernel) = (births, page_births, kernel);
        let mut is_whole = false;
        if let Some(session_writer) = session_writer {
            heading.holes = session_writer.holes().to_vec();
            let written = session_writer.finish(&heading, self.has_names.then_some(&code));
            is_whole = written.is_ok();
            note_recording(report, self.path, written);
        }
        let (mut ledger, replay) = ended.ledger(Context { heading, code, threads, moments }, until);
        if let Some(replay) = replay {
            let store = self.store.filter(|_| is_whole);
            tell_course(replay, store, &mut ledger, report, goes_on);
        }
        if !self.full_names {
            ledger.shorten_names();
        }
        report.heap = HeapReport::of(&ledger);
        report.summary = Some(Summary::new(&ledger));
    }
}

/// Adds how the sums came about, if that can be read back; else the result says why it cannot.
fn tell_course(
    replay: Replay,
    store: Option<Store>,
    ledger: &mut Ledger,
    report: &mut Report,
    goes_on: impl FnMut() -> bool,
) {
    let course = match store {
        Some(store) => replay.course(store, goes_on),
        None => Err("the recording ends too early".to_owned()),
    };
    ledger.course = course.unwrap_or_else(|why| {
        let blind = format!("the course of memory in use, by which growth is judged: {why}");
        ledger.about.blind.push(blind.clone());
        report.blind.push(blind);
        Course::none(&why)
    });
}
