//! The recording itself, as it is written: a viewer elsewhere keeps a copy that grows.
//!
//! ```text
//! GET /recording?file=ID&from=N  ->  X-Heapattach-File: ID, X-Heapattach-From: N, bytes from N on
//! ```
//!
//! Where another file has taken its place, bytes come from its beginning on, with its own ID.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
};

use heapattach_recording::Recording;

use super::unknown;
use crate::{
    answer::{Answer, Status, kind},
    http::Request,
    target::Target,
};

/// Header lines that say which file it is, and where its bytes are from.
pub const FILE: &str = "X-Heapattach-File";
pub const FROM: &str = "X-Heapattach-From";
/// Bytes of one answer.
const MOST: u64 = 4 << 20;

/// A piece of it.
pub fn of(target: &Target, request: &Request, show_args: bool) -> Answer {
    match (has_args(target), show_args) {
        (Err(why), _) => return unknown(&why),
        (Ok(true), false) => {
            let why = "the arguments of the process are in its recording: needs --show-args";
            return Answer::no(Status::Forbidden, why);
        }
        (Ok(_), _) => {}
    }
    let from = match request.query.number("from") {
        Ok(from) => from.unwrap_or(0),
        Err(text) => return Answer::no(Status::BadRequest, format!("`{text}` is not a number")),
    };
    let piece = piece(target, request.query.get("file").unwrap_or_default(), from);
    match piece {
        Err(error) => unknown(&error.to_string()),
        Ok((id, from, bytes)) => {
            Answer::ok(kind::BYTES, bytes).with(FILE, id).with(FROM, from.to_string())
        }
    }
}

fn piece(target: &Target, known: &str, from: u64) -> std::io::Result<(String, u64, Vec<u8>)> {
    let mut file = File::open(target.path())?;
    let about = file.metadata()?;
    let id = format!("{}-{}", about.dev(), about.ino());
    let from = if known == id && from <= about.len() { from } else { 0 };
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok((id, from, bytes))
}

/// Whether the command line in the file has more than the name of the program.
fn has_args(target: &Target) -> Result<bool, String> {
    // What it says of that does not change: it is looked at once.
    target.whether_has_args(|path| {
        let recording = Recording::open(path).map_err(|error| error.to_string())?;
        Ok(recording.command().contains(' '))
    })
}
