//! Reading a recording, or what a session has in memory, as a ledger.

pub(crate) mod ahead;
pub(crate) mod assembly;
pub(crate) mod budget;
pub(crate) mod context;
pub(crate) mod course;
pub(crate) mod growing;
pub(crate) mod in_memory;
pub(crate) mod part;
pub(crate) mod replay;
pub(crate) mod window;
mod written_so_far;

use std::{
    fs::File,
    io::Read,
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use heapattach_files::input;
use heapattach_ledger::{Ledger, Mark, Module, Moment};
use heapattach_profile::ticks;
use heapattach_symbols::{Known, Symbols};
use heapattach_text::printable::printable;
use serde::de::DeserializeOwned;

use crate::{
    RecordingError,
    format::{
        block::{self, Content, Place},
        coded_events,
        rows::Table,
        snapshot,
    },
    names::Code,
};

use assembly::{Parts, assemble};
use budget::Budget;
use context::{Context, millis};
use course::Places;
use part::Part;

/// No session has more moments: a caller that keeps them for [`Context::moments`] leaves out later ones.
pub const MOMENTS: usize = 1 << 20;
/// Names of functions, and addresses.
const NAMES: usize = 1 << 22;

/// A recording, opened.
#[derive(Debug)]
pub struct Recording {
    file: File,
    pub(crate) version: u32,
    pub(crate) context: Context,
    known: Vec<Known>,
    table: Table,
    marks: Vec<Mark>,
    /// Blocks with changes or with pieces of snapshots, in their order; when they begin or were
    /// made, in ticks.
    pub(crate) course: Vec<(u64, Place)>,
    damage: Option<String>,
    budget: Budget,
    /// For the progress line of a caller that waits for the file to be read.
    bytes_read: Arc<AtomicU64>,
    /// Where the first block would begin that was not read.
    end: u64,
}

impl Recording {
    /// Opens a file and reads what it says of itself.
    ///
    /// # Errors
    /// If it is none of ours, or damaged from the beginning on.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        Self::open_counting(path, &Arc::default())
    }

    /// The same; the bytes that were looked at so far are counted. Opening it looks at all of the file, and
    /// what is asked of it then looks at parts of it once more.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_counting(path: &Path, bytes_read: &Arc<AtomicU64>) -> Result<Self, RecordingError> {
        let failed =
            |what| move |source| RecordingError::File { path: path.to_owned(), what, source };
        let mut file = input::regular(path).map_err(failed("opened"))?;
        let mut title = Vec::new();
        let longest = block::title().len() as u64 + 10;
        Read::by_ref(&mut file).take(longest).read_to_end(&mut title).map_err(failed("read"))?;
        let (version, begin) = version(&title, path)?;
        Self::read(file, version, begin, bytes_read)
            .ok_or_else(|| RecordingError::Empty(path.to_owned()))
    }

    /// Of a file that this heapattach writes, or has written.
    pub(crate) fn of(file: File, bytes_read: &Arc<AtomicU64>) -> Option<Self> {
        Self::read(file, block::VERSION, block::title().len() as u64, bytes_read)
    }

    /// Of a file whose first block is there.
    fn read(file: File, version: u32, begin: u64, bytes_read: &Arc<AtomicU64>) -> Option<Self> {
        let mut recording = Self {
            file,
            version,
            context: Context::default(),
            known: Vec::new(),
            table: Table::default(),
            marks: Vec::new(),
            course: Vec::new(),
            damage: None,
            budget: Budget::default(),
            bytes_read: Arc::clone(bytes_read),
            end: begin,
        };
        let length = recording.file.metadata().ok()?.len();
        let file = recording.file.try_clone().ok()?;
        let (mut at, mut taken, mut has_heading) = (begin, begin, false);
        let mut is_excessive = false;
        let mut next = || {
            let place = block::find(&file, at)?;
            // What happened is read when it is known which part of the time is wanted.
            let content = match place.content {
                Content::Changes | Content::Snapshot => block::read_head(&file, &place),
                _ => block::read(&file, &place),
            };
            bytes_read.fetch_add(place.end().saturating_sub(at), Relaxed);
            at = place.end();
            content.map(|content| (place, content))
        };
        let read = |give: &mut dyn FnMut((Place, Vec<u8>)) -> bool| {
            while next().is_some_and(&mut *give) {}
        };
        ahead::each(read, |(place, content)| {
            is_excessive = recording.budget.take(place.content, &content).is_none();
            let is_taken = !is_excessive && recording.take(&place, &content).is_some();
            if is_taken {
                has_heading |= place.content == Content::About;
                taken = place.end();
            }
            is_taken
        });
        if is_excessive {
            recording.damage = Some(format!(
                "what follows after {taken} of {length} bytes would take more memory than any session \
                 needs to be told, and is not read"
            ));
        } else if taken < length {
            recording.damage = Some(format!(
                "the file is damaged, or was cut off, after {taken} of {length} bytes"
            ));
        }
        recording.end = taken;
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
        self.part_with_rows(part).0
    }

    /// All of it, and which of its stacks rows of the session have.
    pub fn ledger_with_rows(&self) -> (Ledger, Places) {
        self.part_with_rows(&Part::default())
    }

    fn part_with_rows(&self, part: &Part) -> (Ledger, Places) {
        let course = part.window.as_ref().map(|window| ticks(window.start)..ticks(window.end));
        let whole = self.length();
        let end = course.as_ref().map_or(whole, |course| course.end.min(whole));
        let births = part.births(end);
        let mut context = self.context.clone();
        let heading = &mut context.heading;
        let (sheet, begin, notes) = self.sheet(course.as_ref(), births.as_ref());
        heading.about.part = part.words();
        heading.about.blind.extend(notes);
        heading.about.blind.extend(births.iter().filter_map(|births| births.note(end)));
        heading.about.blind.extend(self.damage.clone());
        if course.is_some() || births.is_some() {
            heading.births.clear();
            heading.page_births.clear();
            heading.kernel.clear();
        }
        if course.is_some() {
            let range = millis(begin)..=millis(end);
            context.moments.retain(|moment| range.contains(&moment.at_ms));
            heading.about.began = heading.about.began.saturating_add(millis(begin) / 1000);
        }
        context.set_lasted(end.saturating_sub(begin));
        if context.code.locations.is_empty() {
            context.code = self.look_up();
        }
        self.place(&mut context.code.modules);
        let known: Vec<bool> = sheet.rows.all().iter().map(|row| row.is_known()).collect();
        let mut ledger = assemble(Parts { context, table: &self.table, sheet });
        let places = Places::of(&known, &self.table, &ledger);
        if part.with_course || course::is_judged(&ledger) {
            let time = begin..course.map_or(u64::MAX, |course| course.end);
            ledger.course = self.course(&places, time, end, births.as_ref());
        }
        if births.is_some() {
            if self.version < part::WITH_PAGES {
                part::without_pages(&mut ledger);
            }
            // These are of all blocks.
            ledger.moments.clear();
        }
        (ledger, places)
    }

    /// The course of time.
    pub fn moments(&self) -> &[Moment] {
        &self.context.moments
    }

    /// Moments that were kept on request.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// What is wrong with the end of the file; what is before is whole.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// The command line of the process; empty if it was left out.
    pub fn command(&self) -> &str {
        &self.context.heading.about.command
    }

    /// Whether the session came to its end.
    pub fn is_final(&self) -> bool {
        self.context.heading.is_final
    }

    /// How long it is, in ticks.
    pub(crate) fn length(&self) -> u64 {
        self.context.length(self.course.last().map_or(0, |(at, _)| *at))
    }

    /// Takes in what a block says; `None` if it is nonsense.
    fn take(&mut self, place: &Place, content: &[u8]) -> Option<()> {
        let Context { heading, code, threads, moments } = &mut self.context;
        match place.content {
            Content::About => *heading = json(content)?,
            Content::Modules => self.known = json(content)?,
            Content::Threads => *threads = json(content)?,
            Content::Rows => self.table.add(content)?,
            Content::Changes => self.course.push((coded_events::begin(content)?, *place)),
            Content::Snapshot => self.course.push((snapshot::head(content)?.0, *place)),
            Content::Moments => moments.extend(json::<Vec<Moment>>(content)?),
            Content::Marks => self.marks.extend(json::<Vec<Mark>>(content)?),
            Content::Names => {
                let more: Code = json(content)?;
                code.modules.extend(more.modules);
                code.functions.extend(more.functions);
                code.locations.extend(more.locations);
            }
        }
        let names = code.functions.len().max(code.locations.len());
        (names <= NAMES && moments.len() <= MOMENTS).then_some(())
    }

    /// Makes what was read fit to be shown.
    fn clean(&mut self) {
        self.context.clean();
        self.marks.iter_mut().for_each(|mark| mark.why = printable(&mark.why));
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
        if self.table.addresses.is_empty() {
            // For no name no file needs to be opened.
            return Code::without_names(&self.known);
        }
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
