//! Profiles in a folder, bounded by bytes and age.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use heapattach_agent::{Config, Kept, Mode, SlotProfile, excess};
use heapattach_export::{Format, write, write_slot};
use heapattach_files::output_file::{Readers, write_with};
use heapattach_ledger::Metric;
use heapattach_recording::Recording;
use heapattach_text::quantity::bytes;
use heapattach_verdict::current;

use super::{events::now, session::Session};

/// Files that are ours.
const ENDS: [&str; 2] = [".pb.gz", ".heapattach-moment"];

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
    let ledger = recording.ledger(None);
    let until = now();
    let path =
        folder.join(format!("{}-{}-{}-{until}.pb.gz", session.rule, session.key.pid, session.at));
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
    Ok((profile, told))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn size(value: f64) -> String {
    bytes(value.max(0.0) as u64)
}

/// What is in the spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spooled {
    /// So many files,
    pub files: u64,
    /// of so many bytes.
    pub bytes: u64,
}

/// Removes what is too much or too old; with what stays, and how many files that were.
pub fn tidy(config: &Config) -> (Spooled, u64) {
    let files: Vec<Kept> = fs::read_dir(config.spool())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| kept(&e))
        .collect();
    let mut left =
        Spooled { files: files.len() as u64, bytes: files.iter().map(|file| file.bytes).sum() };
    let mut removed = 0;
    let oldest = now().saturating_sub(config.spool.max_age.as_secs());
    let sizes: HashMap<PathBuf, u64> =
        files.iter().map(|file| (file.path.clone(), file.bytes)).collect();
    for path in excess(files, config.spool.max_size, oldest) {
        if fs::remove_file(&path).is_ok() {
            removed += 1;
            left.files -= 1;
            left.bytes -= sizes.get(&path).copied().unwrap_or(0);
        }
    }
    (left, removed)
}

fn kept(entry: &fs::DirEntry) -> Option<Kept> {
    let about = entry.metadata().ok()?;
    let is_ours = {
        let name = entry.file_name();
        let name = name.to_str()?;
        about.is_file() && ENDS.iter().any(|end| name.ends_with(end))
    };
    let at = about.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    is_ours.then(|| Kept { path: entry.path(), bytes: about.len(), at })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_go_as_profiles_do_and_other_files_stay() {
        let folder = heapattach_test_folder::Folder::new("spool");
        let put = |name: &str, age: u64| {
            let file = fs::File::create(folder.0.join(name)).unwrap();
            file.set_len(100).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        };
        put("a-7-1.heapattach-moment", 300);
        put("a-7-2-3.pb.gz", 200);
        put("a-7-4.heapattach-moment", 100);
        put("notes.txt", 9000);
        let config = |limit: &str| {
            let folder = folder.0.display();
            let text = format!(
                "version = 1\n[spool]\nfolder = '{folder}'\n{limit}\n[[rule]]\nname = 'a'\nuser = 'x'\n"
            );
            Config::parse(&text).unwrap()
        };
        let is_there = |name: &str| folder.0.join(name).exists();
        let left = tidy(&config("max-size = '200'"));
        assert_eq!(left, (Spooled { files: 2, bytes: 200 }, 1));
        assert!(!is_there("a-7-1.heapattach-moment") && is_there("a-7-2-3.pb.gz"));
        let left = tidy(&config("max-age = '150s'"));
        assert_eq!(left, (Spooled { files: 1, bytes: 100 }, 1));
        assert!(is_there("a-7-4.heapattach-moment") && is_there("notes.txt"));
    }
}
