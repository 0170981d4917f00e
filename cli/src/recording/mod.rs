//! Sessions on disk.
//!
//! ```text
//! recorder -> changes  -> scribe -> tape -> file: title, blocks
//!             (profile)     |                       |
//!          rows, snapshots, names, words         Recording -> sheet -> Ledger
//! ```
//!
//! # The file
//!
//! A line that names the format and its version, then blocks (`block`): kind, lengths, checksum,
//! compressed content. Blocks are only ever appended, at least every second, so that whatever ends
//! us leaves a file that is whole up to then; a reader takes the longest part that is. Once
//! `--max-size` is reached a new file with a snapshot in the place of what happened until then
//! takes the place of the old one.
//!
//! Numbers of events and sums are packed (`changes`, `snapshot`, `rows`), all else is JSON. Where
//! the disk takes nothing for a while, events of that time are left out and the heading says when;
//! nobody waits longer than `tape::Patience`. Memory
//! of the target is never part of it, nor are the addresses of its blocks; its command line is,
//! unless it was to be left out.
//!
//! # The promise
//!
//! A heapattach reads the recordings of every earlier one. New fields in JSON do not change the
//! version in the first line: who does not know them passes over them. Any other change does, and
//! whoever meets a later version than his own says so instead of guessing. Version 2 has the changes
//! coded by a model that learns (`model`); `version1` reads those of version 1. Version 3 has blocks
//! of changes as they are besides (`plain`).

mod ahead;
mod assembly;
mod block;
mod changes;
mod coder;
mod compaction;
mod course;
mod disk;
mod error;
mod heading;
#[cfg(all(test, target_arch = "x86_64"))]
mod instructions;
mod model;
mod numbers;
mod part;
mod place;
mod plain;
mod recent;
mod rows;
mod scribe;
mod shelf;
mod snapshot;
#[cfg(test)]
mod speed;
mod tape;
#[cfg(test)]
pub mod tests;
mod version1;
mod window;
mod wire;
mod writer;

use std::{fs::File, io::Read, ops::Range, path::Path, time::Duration};

pub use error::RecordingError;
pub use heading::{Heading, Mark};
pub use part::Part;
pub use place::{Store, create, create_beside, create_for};
pub use scribe::{Scribe, StackSource};
pub use tape::{Haste, Patience, Tape};

use serde::de::DeserializeOwned;

use crate::{
    ledger::{Ledger, Module, Moment, Thread},
    naming::Code,
    profile::{micros, ticks},
    symbols::{Known, Symbols, printable::printable},
};
use assembly::{Parts, assemble};
use block::{Content, Place};
use rows::Table;

/// Threads and moments beyond this are left out.
const THREADS: usize = 1 << 16;
const MOMENTS: usize = 1 << 20;
/// Names of functions, and addresses.
const NAMES: usize = 1 << 22;

/// A recording, opened.
#[derive(Debug)]
pub struct Recording {
    file: File,
    version: u32,
    heading: Heading,
    known: Vec<Known>,
    threads: Vec<Thread>,
    table: Table,
    moments: Vec<Moment>,
    marks: Vec<Mark>,
    code: Code,
    /// Blocks with changes or with pieces of snapshots, in their order; when they begin or were
    /// made, in ticks.
    course: Vec<(u64, Place)>,
    damage: Option<String>,
}

impl Recording {
    /// Opens a file and reads what it says of itself.
    ///
    /// # Errors
    /// If it is none of ours, or damaged from the beginning on.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let failed =
            |what| move |source| RecordingError::File { path: path.to_owned(), what, source };
        let mut file = File::open(path).map_err(failed("opened"))?;
        if !file.metadata().map_err(failed("opened"))?.is_file() {
            return Err(RecordingError::Alien(path.to_owned()));
        }
        let mut title = Vec::new();
        let longest = block::title().len() as u64 + 10;
        Read::by_ref(&mut file).take(longest).read_to_end(&mut title).map_err(failed("read"))?;
        let (version, begin) = version(&title, path)?;
        Self::read(file, version, begin).ok_or_else(|| RecordingError::Empty(path.to_owned()))
    }

    /// Of a file that this heapattach writes, or has written.
    pub fn of(file: File) -> Option<Self> {
        Self::read(file, block::VERSION, block::title().len() as u64)
    }

    /// Of a file whose first block is there.
    fn read(file: File, version: u32, begin: u64) -> Option<Self> {
        let mut recording = Self {
            file,
            version,
            heading: Heading::default(),
            known: Vec::new(),
            threads: Vec::new(),
            table: Table::default(),
            moments: Vec::new(),
            marks: Vec::new(),
            code: Code::default(),
            course: Vec::new(),
            damage: None,
        };
        let length = recording.file.metadata().ok()?.len();
        let file = recording.file.try_clone().ok()?;
        let (mut at, mut taken, mut has_heading) = (begin, begin, false);
        let mut next = || {
            let place = block::find(&file, at)?;
            // What happened is read when it is known which part of the time is wanted.
            let content = match place.content {
                Content::Changes | Content::Snapshot => block::read_head(&file, &place),
                _ => block::read(&file, &place),
            };
            at = place.end();
            content.map(|content| (place, content))
        };
        let read = |give: &mut dyn FnMut((Place, Vec<u8>)) -> bool| {
            while next().is_some_and(&mut *give) {}
        };
        ahead::each(read, |(place, content)| {
            let is_taken = recording.take(&place, &content).is_some();
            if is_taken {
                has_heading |= place.content == Content::About;
                taken = place.end();
            }
            is_taken
        });
        if taken < length {
            recording.damage = Some(format!(
                "the file is damaged, or was cut off, after {taken} of {length} bytes"
            ));
        }
        recording.clean();
        has_heading.then_some(recording)
    }

    /// What was found, in all or in a part of the time: as if the session had been no longer.
    ///
    /// Where what happened had to make room for snapshots, a part that begins then begins with the
    /// session, and ends at a snapshot; the ledger's `blind` says so.
    pub fn ledger(&self, window: Option<Range<Duration>>) -> Ledger {
        self.part(&Part { window, ..Part::default() })
    }

    /// The same of a part that may be one of ages, too.
    pub fn part(&self, part: &Part) -> Ledger {
        let course = part.window.as_ref().map(|window| ticks(window.start)..ticks(window.end));
        let whole = self.length();
        let end = course.as_ref().map_or(whole, |course| course.end.min(whole));
        let births = part.births(end);
        let mut heading = self.heading.clone();
        let (sheet, begin, notes) = self.sheet(course.as_ref(), births.as_ref());
        heading.about.part = part.words();
        heading.about.blind.extend(notes);
        heading.about.blind.extend(births.iter().filter_map(|births| births.note(end)));
        heading.about.blind.extend(self.damage.clone());
        let millis = |ticks: u64| micros(ticks) / 1000;
        let mut moments = self.moments.clone();
        if course.is_some() {
            let range = millis(begin)..=millis(end);
            moments.retain(|moment| range.contains(&moment.at_ms));
            heading.about.began = heading.about.began.saturating_add(millis(begin) / 1000);
        }
        heading.about.lasted_ms = millis(end.saturating_sub(begin));
        let code = if self.code.locations.is_empty() { self.look_up() } else { self.code.clone() };
        let mut code = code;
        self.place(&mut code.modules);
        let (table, threads) = (&self.table, &self.threads[..]);
        let known: Vec<bool> = sheet.rows.all().iter().map(|row| row.is_known()).collect();
        let mut ledger = assemble(Parts { heading, code, table, threads, sheet, moments });
        // Growth is judged by the course of all of it.
        let counts = ledger.about.part.is_empty()
            && ledger.moments.iter().any(|moment| moment.flow.is_some());
        if part.with_course || counts {
            let time = begin..course.map_or(u64::MAX, |course| course.end);
            ledger.course = self.course(&known, &ledger, time, end, births.as_ref());
        }
        if births.is_some() {
            part::without_pages(&mut ledger);
        }
        ledger
    }

    /// The course of time.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// Moments that somebody wanted to be kept.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// What is wrong with the end of the file; what is before is whole.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Whether the session came to its end.
    pub fn is_final(&self) -> bool {
        self.heading.is_final
    }

    /// How long it is, in ticks.
    fn length(&self) -> u64 {
        let told = Duration::from_millis(self.heading.about.lasted_ms);
        let moment = self.moments.last().map_or(0, |moment| moment.at_ms);
        let last = self.course.last().map_or(0, |(at, _)| *at);
        ticks(told).max(ticks(Duration::from_millis(moment))).max(last)
    }

    /// Takes in what a block says; `None` if it is nonsense.
    fn take(&mut self, place: &Place, content: &[u8]) -> Option<()> {
        match place.content {
            Content::About => self.heading = json(content)?,
            Content::Modules => self.known = json(content)?,
            Content::Threads => self.threads = json(content)?,
            Content::Rows => self.table.add(content)?,
            Content::Changes => self.course.push((changes::begin(content)?, *place)),
            Content::Snapshot => self.course.push((snapshot::head(content)?.0, *place)),
            Content::Moments => self.moments.extend(json::<Vec<Moment>>(content)?),
            Content::Marks => self.marks.extend(json::<Vec<Mark>>(content)?),
            Content::Names => {
                let more: Code = json(content)?;
                self.code.modules.extend(more.modules);
                self.code.functions.extend(more.functions);
                self.code.locations.extend(more.locations);
            }
        }
        let names = self.code.functions.len().max(self.code.locations.len());
        (names <= NAMES && self.moments.len() <= MOMENTS).then_some(())
    }

    /// Makes what was read fit to be shown.
    fn clean(&mut self) {
        self.heading.clean();
        self.threads.truncate(THREADS);
        self.threads.iter_mut().for_each(|thread| thread.name = printable(&thread.name));
        self.marks.iter_mut().for_each(|mark| mark.why = printable(&mark.why));
        self.code.clean();
        if !self.code.is_sound() {
            self.code = Code::default();
        }
    }

    /// Tells modules where in their files they begin, which names of old do not.
    fn place(&self, modules: &mut [Module]) {
        for (module, known) in modules.iter_mut().zip(&self.known) {
            let first = known.pieces.first().filter(|first| first.start == module.start);
            module.file_offset = module.file_offset.or(first.map(|first| first.file_offset));
        }
    }

    /// Names from the files on this machine.
    fn look_up(&self) -> Code {
        let mut symbols = Symbols::of(&self.known);
        Code::of(self.table.addresses.iter().copied(), &mut symbols)
    }
}

fn json<T: DeserializeOwned>(content: &[u8]) -> Option<T> {
    serde_json::from_slice(content).ok()
}

/// The version of a file with this first line, and where blocks begin in it.
fn version(title: &[u8], path: &Path) -> Result<(u32, u64), RecordingError> {
    let alien = || RecordingError::Alien(path.to_owned());
    let rest = title.strip_prefix(block::TITLE).ok_or_else(alien)?;
    let end = rest.iter().position(|&byte| byte == b'\n').ok_or_else(alien)?;
    let is_told = |version: &u32| rest[..end] == *version.to_string().as_bytes();
    if let Some(version) = (block::OLDEST..=block::VERSION).find(is_told) {
        return Ok((version, (block::TITLE.len() + end + 1) as u64));
    }
    let version = printable(&String::from_utf8_lossy(&rest[..end]));
    Err(RecordingError::Version { path: path.to_owned(), version, known: block::VERSION })
}
