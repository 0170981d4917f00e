//! Profiles in a folder: each file is there whole or not at all, whatever ends the agent.
//!
//! ```text
//! SPOOL/RULE-PID-FROM-UNTIL.pb.gz
//! SPOOL/RULE-PID-TIME.heapattach-moment
//! SPOOL/tables/TABLE/service=NAME/day=YYYY-MM-DD/SESSION.parquet
//! SPOOL/.PID-NUMBER.unfinished          being written; for no reader
//! ```

use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use heapattach_agent::{Config, Form, Mode, SlotProfile};
use heapattach_export::{Format, columns::Labels, write, write_slot};
use heapattach_files::{output_file::Readers, whole_file};
use heapattach_ledger::{Ledger, Memory, Metric};
use heapattach_recording::Recording;
use heapattach_text::quantity::bytes;
use heapattach_verdict::current;

use super::{events::now, session::Session};
use crate::tables;

/// The folder of tables in that of the spool.
pub const TABLES: &str = "tables";

/// Makes its folder, if it is not there.
pub fn make(folder: &Path) -> Result<(), String> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| format!("{}: {error}", folder.display()))
}

/// Writes the profile of a session that has ended; with what is to be told of it.
pub fn put(config: &Config, session: &Session) -> Result<(SlotProfile, String), String> {
    let folder = config.spool();
    make(&folder)?;
    let recording = Recording::open(&session.recording).map_err(|error| error.to_string())?;
    let (ledger, until) = (recording.ledger(None), now());
    let mut written = None;
    if config.spool.has(Form::Pprof) {
        let name = format!("{}-{}-{}-{until}.pb.gz", session.rule, session.key.pid, session.at);
        let path = folder.join(name);
        whole_file::write(&path, &folder, Readers::Owner, |out| match session.mode {
            Mode::Rotate => write_slot(&ledger, out),
            Mode::Continuous => write(&ledger, Format::Pprof, Metric::Live, out),
        })?;
        written = Some(path);
    }
    if config.spool.has(Form::Parquet) {
        let tables = put_tables(&recording, session, &folder)?;
        written.get_or_insert(tables);
    }
    let profile = SlotProfile {
        key: session.key,
        name: session.name.clone(),
        rule: session.rule.clone(),
        time: (session.at, until),
        path: written.unwrap_or(folder),
    };
    Ok((profile, told(session, &ledger)))
}

/// Writes the tables of a session that goes on, in the place of those that were written before.
pub fn refresh(config: &Config, session: &Session) -> Result<PathBuf, String> {
    let folder = config.spool();
    make(&folder)?;
    let recording = Recording::open(&session.recording).map_err(|error| error.to_string())?;
    put_tables(&recording, session, &folder)
}

fn put_tables(recording: &Recording, session: &Session, folder: &Path) -> Result<PathBuf, String> {
    let folder = folder.join(TABLES);
    make(&folder)?;
    let labels = Labels {
        host: &tables::this_machine(),
        service: Some(&session.service),
        stacks: tables::STACKS,
        metric: Metric::Live,
        is_slot: session.mode == Mode::Rotate,
    };
    tables::put(recording, &|ledger: Ledger| ledger.of(Memory::All), &labels, &folder)?;
    Ok(folder)
}

fn told(session: &Session, ledger: &Ledger) -> String {
    let words = |metric| {
        let found = ledger.total.measure(metric).bytes;
        format!("{} (95 % CI {}-{})", size(found.value), size(found.low), size(found.high))
    };
    let unseen = current::unseen(&ledger.moments, ledger.about.every);
    let unseen = unseen.map_or_else(|| "unknown".to_owned(), |unseen| size(unseen.value));
    format!(
        "of process {}: allocated {}, of that survived {}; unseen {unseen}, most of it older than the attach",
        session.key.pid,
        words(Metric::Allocated),
        words(Metric::Live),
    )
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn size(value: f64) -> String {
    bytes(value.max(0.0) as u64)
}
