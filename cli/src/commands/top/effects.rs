//! What keys do besides changing what is shown: to files, to sessions, to this process.

use std::path::{Path, PathBuf};

use heapattach_files::{
    input,
    output_file::{self, Readers},
};
use heapattach_ledger::Metric;
use heapattach_top::{Format, Wish};

use super::{Top, screen::Screen};
use crate::source_files;

/// A file of source is not larger.
const SOURCE: u64 = 2 << 20;

/// Does it; whether that ends everything.
pub fn fulfil(top: &mut Top<'_>, screen: &mut Screen, wish: Wish) -> bool {
    match wish {
        Wish::End => return true,
        Wish::Suspend => return screen.suspend().is_err(),
        Wish::Detach(target) => {
            top.model.pid_of(target).into_iter().for_each(|pid| top.sessions.end_one(pid));
            top.model.say("detaching");
        }
        Wish::Mark(target) => {
            top.model.pid_of(target).into_iter().for_each(|pid| top.sessions.mark(pid));
            top.model.say("this moment is marked in the recording");
        }
        Wish::Write(target, format) => {
            let said = write(top, target, format).unwrap_or_else(|why| why);
            top.model.say(said);
        }
        Wish::Read(file) => {
            let text = read(&file);
            top.model.take_source(file, text.as_deref());
        }
        Wish::Attach(pid) => attach(top, pid),
    }
    false
}

fn attach(top: &mut Top<'_>, pid: i32) {
    match top.sessions.add(pid) {
        Ok(()) => {
            let last = top.sessions.all().len() - 1;
            top.follow_session(last);
        }
        Err(why) => top.model.say(why),
    }
}

/// Writes what is known now into the current folder; answers what is to be said.
fn write(top: &Top<'_>, target: usize, format: Format) -> Result<String, String> {
    let (subject, ledger) = top.model.known(target).ok_or("nothing is known yet")?;
    let end = match format {
        Format::Pprof => "pb.gz",
        Format::Html => "html",
    };
    let name: String = subject
        .name
        .chars()
        .filter(|sign| sign.is_ascii_alphanumeric() || "-_.".contains(*sign))
        .collect();
    let path = free(&format!("{name}.{}", subject.pid), end);
    let written = output_file::write_with(&path, Readers::Owner, |out| match format {
        Format::Pprof => {
            heapattach_export::write(ledger, heapattach_export::Format::Pprof, Metric::Live, out)
        }
        Format::Html => {
            let mut read = |file: &str| source_files::read(file, ledger.about.began);
            heapattach_export::html::write_with_source(ledger, &mut read, out)
        }
    });
    written.map_err(|error| error.to_string())?;
    Ok(match format {
        Format::Pprof => format!("written: {0}; go tool pprof -http=: {0}", path.display()),
        Format::Html => format!("written: {}", path.display()),
    })
}

/// A name that no file has.
fn free(name: &str, end: &str) -> PathBuf {
    let numbered = |number: u32| PathBuf::from(format!("{name}.{number}.{end}"));
    let plain = PathBuf::from(format!("{name}.{end}"));
    if !plain.exists() {
        return plain;
    }
    (2..1000).map(numbered).find(|path| !path.exists()).unwrap_or(plain)
}

/// The name comes from the program that is looked at: only regular files are read, none that is large.
fn read(file: &str) -> Option<String> {
    let path = Path::new(file);
    path.is_absolute().then(|| input::text(path, SOURCE).ok()).flatten()
}
