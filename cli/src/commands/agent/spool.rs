//! Profiles in a folder, bounded by bytes and age.

use std::{fs, os::unix::fs::DirBuilderExt, path::PathBuf, time::SystemTime};

use heapattach_agent::{Config, Kept, Mode, SlotProfile, excess};
use heapattach_export::{Format, write, write_slot};
use heapattach_files::output_file::{Readers, write_with};
use heapattach_ledger::Metric;
use heapattach_recording::Recording;
use heapattach_text::quantity::bytes;
use heapattach_verdict::current;

use super::{events::now, session::Session};

/// Files that are ours.
const END: &str = ".pb.gz";

/// Writes the profile of a session that has ended; with what is to be told of it.
pub fn put(config: &Config, session: &Session) -> Result<(SlotProfile, String), String> {
    let folder = config.spool();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let recording = Recording::open(&session.recording).map_err(|error| error.to_string())?;
    let ledger = recording.ledger(None);
    let until = now();
    let path =
        folder.join(format!("{}-{}-{}-{until}{END}", session.rule, session.key.pid, session.at));
    write_with(&path, Readers::Owner, |out| match session.mode {
        Mode::Rotate => write_slot(&ledger, out),
        Mode::Continuous => write(&ledger, Format::Pprof, Metric::Live, out),
    })?;
    let words = |metric| {
        let found = ledger.total.measure(metric).bytes;
        format!("{} (95 % CI {}-{})", size(found.value), size(found.low), size(found.high))
    };
    let unseen = current::unseen(&ledger.moments, ledger.about.every);
    let unseen = unseen.map_or_else(|| "unknown".to_owned(), |unseen| size(unseen.value));
    let told = format!(
        "of process {}: allocated {}, of that survived {}; unseen {unseen}, most of it older than the attach",
        session.key.pid,
        words(Metric::Allocated),
        words(Metric::Live),
    );
    let profile = SlotProfile {
        key: session.key,
        name: session.name.clone(),
        rule: session.rule.clone(),
        time: (session.at, until),
        path,
    };
    tidy(config);
    Ok((profile, told))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn size(value: f64) -> String {
    bytes(value.max(0.0) as u64)
}

/// Removes what is too much or too old.
pub fn tidy(config: &Config) {
    let files: Vec<Kept> = fs::read_dir(config.spool())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| kept(&e))
        .collect();
    let oldest = now().saturating_sub(config.spool.max_age.as_secs());
    for path in excess(files, config.spool.max_size, oldest) {
        let _ = fs::remove_file::<PathBuf>(path);
    }
}

fn kept(entry: &fs::DirEntry) -> Option<Kept> {
    let about = entry.metadata().ok()?;
    let is_ours = about.is_file() && entry.file_name().to_str()?.ends_with(END);
    let at = about.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    is_ours.then(|| Kept { path: entry.path(), bytes: about.len(), at })
}
