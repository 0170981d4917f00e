//! A recording that is being written, read again and again: each time only what is new is read.
//!
//! ```text
//! open: all blocks -> sums, names of addresses
//! look: more blocks -> the same sums go on, names of addresses that are new -> Ledger
//! another file in its place (it had become too large), or a shorter one: from the beginning
//! ```
//!
//! What it tells is what [`Recording::ledger`] of the file as it is then would tell; how that came about, span by
//! span, only if it is asked for: that is read anew each time.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use heapattach_ledger::{Ledger, Mark};
use heapattach_profile::{Sheet, clock::Clock};
use heapattach_symbols::{Known, Symbols};

use super::{
    Recording,
    assembly::{Parts, assemble},
    course::Places,
    window::Decoder,
};
use crate::{
    RecordingError,
    format::{
        block::{self, Content},
        snapshot,
    },
    names::Code,
};

/// Changes that are added up at once.
const TOGETHER: usize = 2048;

/// A file that grows.
#[derive(Debug)]
pub struct Growing {
    path: PathBuf,
    with_course: bool,
    read: Option<Read>,
}

/// What was read of one file.
#[derive(Debug)]
struct Read {
    recording: Recording,
    /// Which file it is, and how long it was.
    file: [u64; 2],
    length: u64,
    sums: Sums,
    names: Names,
}

/// What happened until now, added up.
#[derive(Debug)]
struct Sums {
    sheet: Sheet,
    /// Blocks of the course that are in it.
    told: usize,
    decoder: Decoder,
}

/// Names of addresses, as far as these are known.
#[derive(Debug)]
struct Names {
    known: Vec<Known>,
    symbols: Symbols,
    addresses: usize,
    code: Code,
}

impl Growing {
    /// Not read yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), with_course: false, read: None }
    }

    /// The same, that tells how it came about, too.
    #[must_use]
    pub fn with_course(self) -> Self {
        Self { with_course: true, ..self }
    }

    /// What is known now; `None` if nothing was written since the last time.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn look(&mut self) -> Result<Option<Ledger>, RecordingError> {
        let failed =
            |source| RecordingError::File { path: self.path.clone(), what: "read", source };
        let about = fs::metadata(&self.path).map_err(failed)?;
        let is_same = |read: &Read| read.file == file(&about) && read.length <= about.len();
        let mut read = match self.read.take().filter(is_same) {
            Some(read) if read.length == about.len() => {
                self.read = Some(read);
                return Ok(None);
            }
            Some(mut read) => {
                read.more(about.len());
                read
            }
            None => Read::open(&self.path)?,
        };
        let ledger = read.ledger(self.with_course);
        self.read = Some(read);
        Ok(Some(ledger))
    }

    /// Closes the files that names of code were read from: those of addresses that come later are read from them
    /// again. For who has many of these, and seldom looks.
    pub fn close_code(&mut self) {
        if let Some(read) = &mut self.read {
            read.names.symbols = Symbols::of(&read.names.known);
        }
    }

    /// The file as it was read.
    pub fn recording(&self) -> Option<&Recording> {
        self.read.as_ref().map(|read| &read.recording)
    }

    /// Moments that were marked.
    pub fn marks(&self) -> &[Mark] {
        self.recording().map_or(&[], Recording::marks)
    }

    /// Whether the session came to its end.
    pub fn is_final(&self) -> bool {
        self.recording().is_some_and(Recording::is_final)
    }
}

impl Read {
    fn open(path: &Path) -> Result<Self, RecordingError> {
        let recording = Recording::open(path)?;
        // Another file may have taken its place meanwhile.
        let about = recording.file.metadata().map_err(|source| RecordingError::File {
            path: path.to_owned(),
            what: "read",
            source,
        })?;
        let (file, length) = (file(&about), recording.end);
        let (sums, names) = (Sums::new(&recording), Names::of(&recording));
        Ok(Self { recording, file, length, sums, names })
    }

    /// Takes in blocks that were not there the last time.
    fn more(&mut self, length: u64) {
        let recording = &mut self.recording;
        while let Some(place) = block::find(&recording.file, recording.end) {
            let content = match place.content {
                Content::Changes | Content::Snapshot => block::read_head(&recording.file, &place),
                _ => block::read(&recording.file, &place),
            };
            let Some(content) = content else { break };
            let is_taken = recording.budget.take(place.content, &content).is_some()
                && recording.take(&place, &content).is_some();
            if !is_taken {
                break;
            }
            recording.end = place.end();
        }
        // A block that is being written is whole the next time; one that stays as it is, is damaged.
        let is_stuck = recording.end < length && self.length == recording.end;
        let end = recording.end;
        recording.damage =
            is_stuck.then(|| format!("what follows after {end} of {length} bytes is not whole"));
        recording.clean();
        self.length = if is_stuck { length } else { end };
    }

    fn ledger(&mut self, with_course: bool) -> Ledger {
        let Self { recording, sums, names, .. } = self;
        sums.go_on(recording);
        let mut context = recording.context.clone();
        let hole = context.heading.hole(0, u64::MAX);
        let notes = recording.roughness(hole, false, recording.course.len());
        context.heading.about.blind.extend(notes);
        context.heading.about.blind.extend(recording.damage.clone());
        context.set_lasted(recording.length());
        if context.code.locations.is_empty() {
            context.code = names.of_addresses(recording);
        }
        recording.place(&mut context.code.modules);
        let table = &recording.table;
        let mut ledger = assemble(Parts { context, table, sheet: sums.sheet.clone() });
        if with_course {
            let known: Vec<_> = sums.sheet.rows.all().iter().map(|row| row.is_known()).collect();
            ledger.course = recording.course_of(&Places::of(&known, table, &ledger));
        }
        ledger
    }
}

impl Sums {
    fn new(recording: &Recording) -> Self {
        let sheet = Sheet::new(recording.table.rows.len(), Clock::temporary());
        Self { sheet, told: 0, decoder: Decoder::of(recording.version) }
    }

    /// Adds up what is not in it yet.
    fn go_on(&mut self, recording: &Recording) {
        let course = &recording.course;
        let sums = recording.snapshot_before(course.len()).map_or(0, |at| at + 1);
        if sums > self.told {
            // Sums of a snapshot take the place of what was before.
            *self = Self::new(recording);
        }
        let threads = recording.table.rows.iter().skip(self.sheet.rows.all().len());
        self.sheet.rows.extend(threads.map(|&(_, thread)| thread));
        if self.told < sums {
            let is_sums = |content: Content| content == Content::Snapshot;
            for (_, place) in course[..sums].iter().filter(|(_, place)| is_sums(place.content)) {
                let content = block::read(&recording.file, place);
                let rows = recording.table.rows.len();
                if let Some(piece) = content.and_then(|text| snapshot::decode(&text, rows)) {
                    self.sheet.resume(piece);
                }
            }
            self.told = sums;
        }
        let mut changes = Vec::with_capacity(TOGETHER);
        for (_, place) in &course[self.told..] {
            let sheet = &mut self.sheet;
            recording.changes_of(&mut self.decoder, place, |now, change| {
                changes.push((now, *change));
                if changes.len() == TOGETHER {
                    sheet.apply_all(&changes);
                    changes.clear();
                }
                true
            });
        }
        self.sheet.apply_all(&changes);
        self.told = course.len();
    }
}

impl Names {
    fn of(recording: &Recording) -> Self {
        let known = recording.known.clone();
        let symbols = Symbols::of(&known);
        Self { known, symbols, addresses: 0, code: Code::default() }
    }

    /// The code of all addresses that are known now.
    fn of_addresses(&mut self, recording: &Recording) -> Code {
        let addresses = &recording.table.addresses;
        if self.known != recording.known {
            *self = Self::of(recording);
        }
        if addresses.is_empty() {
            return Code::without_names(&self.known);
        }
        if self.addresses != addresses.len() {
            self.code = Code::of(addresses.iter().copied(), &mut self.symbols);
            self.addresses = addresses.len();
        }
        self.code.clone()
    }
}

/// Which file it is.
fn file(about: &Metadata) -> [u64; 2] {
    [about.dev(), about.ino()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Part,
        sample::{Session, second, ten_seconds},
    };
    use heapattach_ledger::Metric;
    use heapattach_test_folder::Folder;

    fn told(ledger: &Ledger) -> String {
        let rows: Vec<_> = ledger
            .rows
            .iter()
            .map(|row| (row.stack, row.thread, Metric::ALL.map(|m| row.measure(m)), row.mapped))
            .collect();
        let total = Metric::ALL.map(|metric| ledger.total.measure(metric));
        let names: Vec<_> = ledger.functions.iter().map(|function| &function.name).collect();
        let moments = &ledger.moments;
        format!("{rows:?}\n{total:?}\n{:?}\n{names:?}\n{moments:?}", ledger.about.lasted_ms)
    }

    /// However a file grows, what is told is what is told of the file as it is.
    fn assert_same_as_whole(bytes: &[u8], step: usize) {
        let folder = Folder::new(&format!("growing-{step}-{}", bytes.len()));
        let path = folder.0.join("a");
        let mut growing = Growing::new(&path);
        let mut ends: Vec<usize> = (block::title().len()..bytes.len()).step_by(step).collect();
        ends.push(bytes.len());
        let mut looks = 0;
        for end in ends {
            // Not with another file in its place.
            let whole = fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
            let from = usize::try_from(whole.metadata().unwrap().len()).unwrap();
            std::io::Write::write_all(&mut &whole, &bytes[from..end]).unwrap();
            let Ok(Some(ledger)) = growing.look() else { continue };
            growing.close_code();
            assert_eq!(told(&ledger), told(&Recording::open(&path).unwrap().ledger(None)), "{end}");
            looks += 1;
        }
        assert!(looks > 1 && growing.is_final() && growing.look().unwrap().is_none());
        assert!(growing.recording().unwrap().damage().is_none());
    }

    #[test]
    fn a_file_that_grows_is_told_as_one_that_is_whole() {
        let folder = Folder::new("growing");
        let path = folder.0.join("a");
        ten_seconds(&path);
        let bytes = fs::read(&path).unwrap();
        for step in [7, 97, 1000] {
            assert_same_as_whole(&bytes, step);
        }
    }

    #[test]
    fn how_it_came_about_is_told_as_of_a_file_that_is_whole() {
        let folder = Folder::new("growing-course");
        let (path, other) = (folder.0.join("a"), folder.0.join("b"));
        ten_seconds(&other);
        let bytes = fs::read(&other).unwrap();
        let mut growing = Growing::new(&path).with_course();
        for end in [bytes.len() / 2, bytes.len()] {
            fs::write(&path, &bytes[..end]).unwrap();
            let course = growing.look().unwrap().unwrap().course;
            let part = Part { with_course: true, ..Part::default() };
            let whole = Recording::open(&path).unwrap().part(&part).course;
            let [course, whole] = [course, whole].map(|mut course| {
                // They are in no order.
                course.cells.sort_by_cached_key(|cell| format!("{cell:?}"));
                format!("{course:?}")
            });
            assert_eq!(course, whole);
        }
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_is_read_from_its_beginning() {
        let folder = Folder::new("growing-anew");
        let path = folder.0.join("a");
        // So small that sums take the place of what happened, again and again.
        let mut session = Session::new(&path, 4000);
        let mut growing = Growing::new(&path);
        let mut files = std::collections::BTreeSet::new();
        for number in 0..400_u64 {
            session.now = number * second();
            for block in 0..30 {
                session.allocate(0, number * 30 + block, 100 + number * block % 977);
            }
            session.keep_up();
            if let Ok(Some(ledger)) = growing.look() {
                let whole = Recording::open(&path).unwrap();
                // The writer has its own thread: it may have written more by now.
                if whole.end == growing.recording().unwrap().end {
                    assert_eq!(told(&ledger), told(&whole.ledger(None)));
                }
                files.insert(growing.read.as_ref().unwrap().file);
            }
        }
        session.finish();
        let last = growing.look().unwrap();
        let whole = Recording::open(&path).unwrap().ledger(None);
        assert!(last.is_some_and(|last| told(&last) == told(&whole)) && growing.is_final());
        assert!(files.len() > 1, "{files:?}");
    }

    #[test]
    fn whatever_bytes_a_file_has_it_is_told_or_refused() {
        let folder = Folder::new("growing-hostile");
        let (path, other) = (folder.0.join("a"), folder.0.join("b"));
        ten_seconds(&other);
        let bytes = fs::read(&other).unwrap();
        let mut random = 7_usize;
        for _ in 0..300 {
            let mut hostile = bytes.clone();
            for _ in 0..3 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (random >> 20) % hostile.len();
                hostile[at] ^= 1 << (random >> 61);
            }
            let mut growing = Growing::new(&path);
            for end in [hostile.len() / 3, hostile.len() / 2, hostile.len(), hostile.len() / 4] {
                fs::write(&path, &hostile[..end]).unwrap();
                if let Ok(Some(ledger)) = growing.look() {
                    assert!(ledger.is_sound());
                }
            }
        }
    }

    #[test]
    fn damage_in_the_middle_is_told_when_it_stays() {
        let folder = Folder::new("growing-damaged");
        let (path, other) = (folder.0.join("a"), folder.0.join("b"));
        ten_seconds(&other);
        let mut bytes = fs::read(&other).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let mut growing = Growing::new(&path);
        let first = growing.look().unwrap().expect("it is new");
        let second = growing.look().unwrap().expect("it is longer than what was read");
        assert_eq!(first.rows.len(), second.rows.len());
        assert!(second.about.blind.iter().any(|note| note.contains("is not whole")));
        assert!(growing.look().unwrap().is_none(), "and no more work is done for it");
    }
}
