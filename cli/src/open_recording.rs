//! Recordings on their way to the user: read, narrowed down, and written where the user wants them.

use std::{
    fs,
    io::{self, BufWriter, ErrorKind, IsTerminal, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use heapattach_verdict::subject::Subject;

use crate::{
    args::{FileFormat, LookArgs},
    exit_status::Exit,
    next_command,
    output::complain,
    source_files,
    terminal::progress::{of_reading, of_writing},
};
use heapattach_files::output_file::{self, Readers};
use heapattach_ledger::Ledger;
use heapattach_recording::{Part, Recording, RecordingError};
use heapattach_text::error_chain::with_causes;
use heapattach_text::quantity;

/// What is a file and what is a moment in `FILE@TIME`.
const AT: char = '@';

/// A ledger out of a file, of all the time or of a part; with its course, if that is wanted.
///
/// # Errors
/// If the file is not a recording.
pub fn read(
    path: &Path,
    window: Option<Range<Duration>>,
    look: &LookArgs,
    with_course: bool,
) -> Result<Ledger, RecordingError> {
    let bytes_read = Arc::default();
    // It is looked through once, and what happened is added up then.
    let all = fs::metadata(path).map_or(0, |file| file.len().saturating_mul(2));
    let bar = of_reading(&format!("reading {}", path.display()), &bytes_read, all);
    let recording =
        Recording::open_counting(path, &bytes_read).inspect_err(|_| bar.finish_and_clear())?;
    bar.set_message("adding up, and looking for names");
    let part = Part { window, ages: look.age.clone(), with_course };
    let mut ledger = look.filter().part_of(recording.part(&part));
    if !look.full_names {
        ledger.shorten_names();
    }
    bar.finish_and_clear();
    if let Some(damage) = recording.damage() {
        complain(&format!("{}: {damage}; what is before is whole", path.display()));
    }
    Ok(ledger)
}

/// The part of the time between two moments; `None` is all of it.
pub fn window(since: Option<Duration>, until: Option<Duration>) -> Option<Range<Duration>> {
    // Longer than any session.
    let end = Duration::from_secs(u64::from(u32::MAX));
    (since.is_some() || until.is_some()).then(|| since.unwrap_or_default()..until.unwrap_or(end))
}

/// `FILE@TIME`: a file, and a moment. A file whose name looks like that is a file.
pub fn moment(text: &str) -> (PathBuf, Option<Duration>) {
    let whole = PathBuf::from(text);
    let split = text.rsplit_once(AT).filter(|_| !whole.exists());
    let parts = split.and_then(|(path, at)| Some((path, quantity::parse_duration(at).ok()?)));
    parts.map_or((whole, None), |(path, at)| (path.into(), Some(at)))
}

/// Says why a recording cannot be read.
pub fn refuse(error: &RecordingError) -> Exit {
    complain(&with_causes(error));
    Exit::Failed
}

/// Writes a subject for another program; a page has lines of source if `has_source`.
pub fn write_file(
    subject: &Subject<'_>,
    format: FileFormat,
    name: &Path,
    look: &LookArgs,
    has_source: bool,
) -> Exit {
    let write = |name: Option<&Path>, out: &mut dyn Write| match format {
        FileFormat::Html if has_source && subject.base.is_none() => {
            let began = subject.now.about.began;
            let mut read = |file: &str| source_files::read(file, began);
            heapattach_export::html::write_with_source(subject.now, &mut read, out)
        }
        FileFormat::Html => heapattach_export::html::write(subject.now, subject.base, out),
        // These are a folder: `tables` writes them.
        FileFormat::Parquet => Err(ErrorKind::Unsupported.into()),
        FileFormat::Export(format) => match (subject.base, name) {
            (None, None) => heapattach_export::write(subject.now, format, look.metric(), out),
            (None, Some(name)) => {
                heapattach_export::write_named(subject.now, format, look.metric(), name, out)
            }
            (Some(base), _) => {
                heapattach_export::write_difference(subject.now, base, format, look.metric(), out)
            }
        },
    };
    let is_terminal = io::stdout().is_terminal();
    let target = match &look.output {
        Some(path) if path.as_os_str() == "-" => None,
        Some(path) => Some(path.clone()),
        None => is_terminal.then(|| named_after(name, format)),
    };
    let Some(path) = target else { return write_to_stdout(|out| write(None, out)) };
    let exit = save(&path, |out| write(Some(&path), out));
    if exit == Exit::Done {
        complain(&next_command::written(&path, format));
    }
    exit
}

/// Prints text where the user wants it.
pub fn write_text(text: &str, look: &LookArgs) -> Exit {
    match look.output.as_deref().filter(|path| path.as_os_str() != "-") {
        None => write_to_stdout(|out| out.write_all(text.as_bytes())),
        Some(path) => save(path, |out| out.write_all(text.as_bytes())),
    }
}

/// In the current folder: the recording may lie where nothing can be written.
fn named_after(name: &Path, format: FileFormat) -> PathBuf {
    let stem = name.file_stem().unwrap_or("heap".as_ref());
    let mut file = stem.to_owned();
    file.push(".");
    file.push(format.extension());
    file.into()
}

fn write_to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Exit {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Exit::Done,
        // A reader that has seen enough is not an error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => {
            complain(&format!("standard output cannot be written: {error}"));
            Exit::Failed
        }
    }
}

/// Names and arguments of a program are for the owner of the file alone.
fn save(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Exit {
    let bar = of_writing(&format!("writing {}", path.display()));
    let written =
        output_file::write_with(path, Readers::Owner, |out| write(&mut bar.wrap_write(out)));
    bar.finish_and_clear();
    match written {
        Ok(()) => Exit::Done,
        Err(error) => {
            complain(&error);
            Exit::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_test_folder::Folder;

    #[test]
    fn a_moment_follows_the_last_at_sign() {
        let told = |text| moment(text);
        assert_eq!(told("a.b@10s"), ("a.b".into(), Some(Duration::from_secs(10))));
        assert_eq!(told("me@home@1m"), ("me@home".into(), Some(Duration::from_secs(60))));
        assert_eq!(told("me@home"), ("me@home".into(), None));
    }

    #[test]
    fn a_file_that_looks_like_a_moment_is_a_file() {
        let folder = Folder::new("moment");
        let path = folder.0.join("a@5s");
        std::fs::write(&path, "").unwrap();
        assert_eq!(moment(path.to_str().unwrap()), (path, None));
    }

    #[test]
    fn a_file_is_named_after_the_recording_and_lies_here() {
        let named = named_after(Path::new("/var/x/redis.7.heapattach"), FileFormat::Html);
        assert_eq!(named, Path::new("redis.7.html"));
    }

    #[test]
    fn a_window_is_all_of_the_time_unless_asked_for() {
        let second = Duration::from_secs(1);
        assert_eq!(window(None, None), None);
        assert_eq!(window(None, Some(second)), Some(Duration::ZERO..second));
        assert!(window(Some(second), None).is_some_and(|w| w.start == second && w.end > w.start));
    }
}
