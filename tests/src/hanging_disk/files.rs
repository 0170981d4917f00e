//! The files of a hanging disk: in one folder, in memory.

use std::collections::BTreeMap;

use super::wire::{self, Attributes, Head, LONGEST, Request, u32_at, u64_at};

/// The number of the folder.
const FOLDER: u64 = 1;
/// Kinds of files.
const IS_FOLDER: u32 = 0o040_755;
const IS_FILE: u32 = 0o100_000;
/// What is to change.
const MODE: u32 = 1 << 0;
const LENGTH: u32 = 1 << 3;
/// No file is longer.
const LIMIT: u64 = 1 << 28;

/// The files, by number.
#[derive(Debug, Default)]
pub struct Files {
    names: BTreeMap<String, u64>,
    files: BTreeMap<u64, File>,
}

#[derive(Clone, Debug, Default)]
struct File {
    mode: u32,
    bytes: Vec<u8>,
}

impl Files {
    /// Adds a file; its number.
    pub fn add(&mut self, name: &str, mode: u32, bytes: Vec<u8>) -> u64 {
        let number = FOLDER + 1 + self.files.len() as u64;
        self.files.insert(number, File { mode: mode & 0o7777 | IS_FILE, bytes });
        self.names.insert(name.to_owned(), number);
        number
    }

    /// The number of a file.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.names.get(name).copied()
    }

    /// What is in a file.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        Some(&self.files.get(&self.number(name)?)?.bytes)
    }

    /// The answer to a request, or the number of an error.
    pub fn answer(&mut self, head: Head, body: &[u8]) -> Result<Vec<u8>, i32> {
        let malformed = || libc::EINVAL;
        let number = |at| u64_at(body, at).ok_or_else(malformed);
        let half = |at| u32_at(body, at).ok_or_else(malformed);
        let name = |text: &[u8]| wire::names(text).into_iter().next().ok_or_else(malformed);
        match head.request {
            Request::Init => Ok(wire::init()),
            Request::Lookup => {
                let number = self.number(&name(body)?).ok_or(libc::ENOENT)?;
                Ok(self.attributes(number)?.entry())
            }
            Request::GetAttributes => Ok(self.attributes(head.node)?.told()),
            Request::SetAttributes => {
                let (valid, length, mode) = (half(0)?, number(16)?, half(68)?);
                let file = self.files.get_mut(&head.node).ok_or(libc::EACCES)?;
                if valid & LENGTH != 0 {
                    file.bytes.resize(index(length)?, 0);
                }
                if valid & MODE != 0 {
                    file.mode = mode & 0o7777 | IS_FILE;
                }
                Ok(self.attributes(head.node)?.told())
            }
            Request::Unlink => {
                self.names.remove(&name(body)?).map(|_| Vec::new()).ok_or(libc::ENOENT)
            }
            Request::Rename => self.rename(&wire::names(body.get(8..).unwrap_or_default())),
            Request::Rename2 => self.rename(&wire::names(body.get(16..).unwrap_or_default())),
            Request::Open => Ok(wire::opened()),
            Request::Create => {
                let mode = half(4)?;
                let number = self.add(&name(body.get(16..).unwrap_or_default())?, mode, Vec::new());
                Ok([self.attributes(number)?.entry(), wire::opened()].concat())
            }
            Request::Read => {
                let file = self.files.get(&head.node).ok_or(libc::EISDIR)?;
                let from = index(number(8)?)?.min(file.bytes.len());
                let length = half(16)?.min(LONGEST) as usize;
                let to = (from + length).min(file.bytes.len());
                Ok(file.bytes[from..to].to_vec())
            }
            Request::Write => {
                let (from, length) = (index(number(8)?)?, half(16)?);
                let bytes = body.get(40..).and_then(|all| all.get(..length as usize));
                let bytes = bytes.ok_or_else(malformed)?;
                let file = self.files.get_mut(&head.node).ok_or(libc::EISDIR)?;
                let end = from + bytes.len();
                file.bytes.resize(file.bytes.len().max(end), 0);
                file.bytes[from..end].copy_from_slice(bytes);
                Ok(wire::written(length))
            }
            Request::Statistics => Ok(wire::statistics()),
            Request::Done => Ok(Vec::new()),
            Request::Unanswered | Request::Unknown => Err(libc::ENOSYS),
        }
    }

    fn rename(&mut self, names: &[String]) -> Result<Vec<u8>, i32> {
        let [old, new] = names else { return Err(libc::EINVAL) };
        let number = self.names.remove(old).ok_or(libc::ENOENT)?;
        self.names.insert(new.clone(), number);
        Ok(Vec::new())
    }

    fn attributes(&self, node: u64) -> Result<Attributes, i32> {
        if node == FOLDER {
            return Ok(Attributes { node, mode: IS_FOLDER, length: 0 });
        }
        let file = self.files.get(&node).ok_or(libc::ENOENT)?;
        Ok(Attributes { node, mode: file.mode, length: file.bytes.len() as u64 })
    }
}

fn index(number: u64) -> Result<usize, i32> {
    usize::try_from(number).ok().filter(|_| number <= LIMIT).ok_or(libc::EFBIG)
}
