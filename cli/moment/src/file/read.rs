//! Reads a moment. Whatever the file has, it takes bounded memory and time.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use flate2::read::DeflateDecoder;
use heapattach_files::input;
use heapattach_report::{CensusReport, Status};
use heapattach_text::printable::printable;
use serde_json::Value;

use super::{HEAD, LIMIT, Moment, TITLE, VERSION, error::MomentError, limits};

/// Digits of a version.
const DIGITS: usize = 8;

/// Whether a file says that it is one. What cannot be read is none.
pub fn is_moment(path: &Path) -> bool {
    let mut title = vec![0; TITLE.len()];
    let read = input::regular(path).and_then(|mut file: File| file.read_exact(&mut title));
    read.is_ok() && title == TITLE
}

/// Reads a file.
///
/// # Errors
/// Why it is none, or is not whole.
pub fn read(path: &Path) -> Result<Moment, MomentError> {
    let failed = |source| MomentError::File { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let most = (LIMIT + TITLE.len() + DIGITS + HEAD) as u64;
    let file = input::regular(path).map_err(failed)?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(failed(io::Error::other("it is larger than a moment file can be")));
    }
    decode(&bytes, path)
}

/// The same of what a file has; `path` is for messages.
///
/// # Errors
/// As [`read`].
pub fn decode(bytes: &[u8], path: &Path) -> Result<Moment, MomentError> {
    let alien = || MomentError::Alien(path.to_owned());
    let damaged = |why: &str| MomentError::Damaged { path: path.to_owned(), why: why.to_owned() };
    let rest = bytes.strip_prefix(TITLE).ok_or_else(alien)?;
    let end = rest.iter().take(DIGITS).position(|&byte| byte == b'\n').ok_or_else(alien)?;
    let version = str::from_utf8(&rest[..end]).map_err(|_| alien())?;
    if version.parse() != Ok(VERSION) {
        let (path, version) = (path.to_owned(), printable(version));
        return Err(MomentError::Version { path, version, known: VERSION });
    }
    let (head, packed) =
        rest[end + 1..].split_at_checked(HEAD).ok_or_else(|| damaged("cut off"))?;
    let (numbers, _) = head.as_chunks::<4>();
    let numbers: Vec<u32> = numbers.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let &[stored, length, sum] = &numbers[..] else { return Err(damaged("cut off")) };
    let (stored, length) = (stored as usize, length as usize);
    if packed.len() != stored || length > LIMIT {
        return Err(damaged("its length is not what it says"));
    }
    let mut content = Vec::new();
    let mut unpacked = DeflateDecoder::new(packed).take(length as u64 + 1);
    unpacked.read_to_end(&mut content).map_err(|_| damaged("it cannot be unpacked"))?;
    if content.len() != length || crc32fast::hash(&content) != sum {
        return Err(damaged("its checksum is not what it says"));
    }
    limits::check(&content).map_err(|why| damaged(&why))?;
    let unclear = |error: serde_json::Error| damaged(&error.to_string());
    let mut document: Value = serde_json::from_slice(&content).map_err(unclear)?;
    drop(content);
    clean(&mut document);
    let moment: Moment = serde_json::from_value(document).map_err(unclear)?;
    if !is_tree(&moment.census) {
        return Err(damaged("its holders are no tree"));
    }
    // Nothing else is written.
    match moment.census.status {
        Status::Done | Status::Unsupported | Status::Incomplete => Ok(moment),
        _ => Err(damaged("it is of a look that failed")),
    }
}

/// Makes all text in it fit for a terminal.
fn clean(value: &mut Value) {
    match value {
        Value::String(text) => *text = printable(text),
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(fields) => fields.values_mut().for_each(clean),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Each holder comes after the one that it goes on from: who follows that comes to an end.
fn is_tree(census: &CensusReport) -> bool {
    let holders = census.holders.iter().flat_map(|found| &found.holders).map(|row| row.before);
    let go = census.go.iter().flat_map(|go| &go.holders).map(|row| row.before);
    let is_before = |(index, before): (u64, Option<u64>)| before.is_none_or(|one| one < index);
    (0..).zip(holders).all(is_before) && (0..).zip(go).all(is_before)
}
