//! Whole recordings: what is written is read, in all and in parts, and damage costs no more than
//! what is behind it.

use std::{fs, path::Path, time::Duration};

use heapattach_abi::ring::OWN_RINGS;
use heapattach_injector::{
    addr::RemoteAddr,
    event::{Event, Origin, StackId, What},
    stacks::{Stack, StackEnd},
};

use super::{Heading, Mark, Recording, RecordingError, Scribe, StackSource, Tape, block, create};
use crate::{
    ledger::{About, Function, Ledger, Line, Location, Metric, Module, Moment, Thread},
    naming::Code,
    profile::{Limits, Profile, Tick, ticks},
    symbols::folder::Folder,
};

/// A second, in ticks.
fn second() -> u64 {
    ticks(Duration::from_secs(1))
}

/// Some stacks with two addresses each.
struct Known(Vec<Stack>);

impl Known {
    fn new(count: u64) -> Self {
        let stack = |number: u64| Stack {
            frames: vec![RemoteAddr::new(0x1000 + number * 16), RemoteAddr::new(0x9000)],
            end: StackEnd::Outermost,
            native: None,
        };
        Self((1..=count).map(stack).collect())
    }

    fn code(&self) -> Code {
        let function = |number: usize| Function {
            name: format!("function {number}\u{1b}[2J"),
            is_named: true,
            ..Function::default()
        };
        let location = |(number, address): (u32, u64)| Location {
            address,
            offset: address,
            lines: vec![Line { function: number, line: None }],
            ..Location::default()
        };
        let inner = self.0.iter().map(|stack| stack.frames[0].get());
        let module = Module { path: "/bin/program".to_owned(), ..Module::default() };
        Code {
            modules: vec![module, Module::default()],
            functions: (0..=self.0.len()).map(function).collect(),
            locations: (0..).zip(inner.chain([0x9000])).map(location).collect(),
        }
    }
}

impl StackSource for Known {
    fn stack(&self, id: StackId) -> Option<&Stack> {
        self.0.get((id.0 as usize).checked_sub(1)?)
    }
}

/// A session that is written down, and what comes to be known beside.
struct Session {
    profile: Profile,
    scribe: Scribe,
    stacks: Known,
    stamp: u64,
    now: u64,
}

impl Session {
    fn new(path: &Path, limit: u64) -> Self {
        let tape = Tape::start(create(path).unwrap(), Some(path.to_owned()), limit).unwrap();
        let scribe = Scribe::new(tape, true);
        let about = About { pid: 7, every: 1, ..About::default() };
        scribe.heading(&Heading { about, ..Heading::default() });
        scribe.threads(&[Thread::default(), Thread { tid: 9, name: "worker".to_owned() }]);
        let mut profile = Profile::new(Limits::default(), 4);
        let mut writers = [0; OWN_RINGS];
        writers[5] = 1;
        profile.set_writers(&writers);
        Self { profile, scribe, stacks: Known::new(3), stamp: 0, now: 0 }
    }

    fn event(&mut self, ring: u8, what: What) {
        self.scribe.set_now(self.now);
        let origin = Origin { ring, continues: false };
        let event = Event { stamp: self.stamp, origin, what };
        self.profile.apply(&[event], Tick::of(self.now), &mut self.scribe);
        self.stamp += 1;
    }

    fn allocate(&mut self, ring: u8, at: u64, size: u64) {
        let stack = StackId(u32::try_from(at % 3).unwrap() + 1);
        let at = RemoteAddr::new(at * 16);
        self.event(ring, What::Allocated { at, size, stack, interval: 1 });
    }

    fn free(&mut self, at: u64) {
        self.event(0, What::Freed { at: RemoteAddr::new(at * 16), block: None });
    }

    fn keep_up(&mut self) {
        self.scribe.keep_up(self.now, &mut self.profile, &self.stacks);
    }

    fn finish(mut self) {
        self.scribe.snapshot(self.now, &mut self.profile, &self.stacks);
        let about = About { pid: 7, every: 1, outcome: "detached".to_owned(), ..About::default() };
        let about = About { lasted_ms: self.now * 1000 / second(), ..about };
        let heading = Heading { about, is_final: true, ..Heading::default() };
        self.scribe.finish(&heading, Some(&self.stacks.code())).unwrap();
    }
}

/// Ten seconds; in each four blocks come, and one of the second before goes.
fn ten_seconds(path: &Path) {
    let mut session = Session::new(path, 1 << 30);
    for number in 0..10 {
        session.now = number * second() + 3;
        for block in 0..4 {
            session.allocate(if block == 0 { 5 } else { 0 }, number * 10 + block, 100 + number);
        }
        if number > 0 {
            session.free((number - 1) * 10);
        }
        session.scribe.moment(Moment { at_ms: number * 1000, ..Moment::default() });
        session.scribe.mark(&Mark { at_ms: number * 1000, why: format!("second {number}") });
        session.keep_up();
    }
    session.now = 10 * second();
    session.finish();
}

fn blocks(ledger: &Ledger, metric: Metric) -> f64 {
    let rows = ledger.rows.iter().map(|row| row.measure(metric).count.value);
    let sum: f64 = rows.sum();
    assert_eq!(sum, ledger.total.measure(metric).count.value, "rows are all there is");
    sum
}

fn window(from: u64, to: u64) -> Option<std::ops::Range<Duration>> {
    Some(Duration::from_secs(from)..Duration::from_secs(to))
}

#[test]
fn what_was_written_is_read() {
    let folder = Folder::new("recorded");
    let path = folder.0.join("a");
    ten_seconds(&path);
    let recording = Recording::open(&path).unwrap();
    assert!(recording.is_final() && recording.damage().is_none());
    assert_eq!((recording.moments().len(), recording.marks().len()), (10, 10));
    let ledger = recording.ledger(None);
    assert!(ledger.is_sound());
    assert_eq!((ledger.about.pid, ledger.about.lasted_ms), (7, 10_000));
    let counts = Metric::ALL.map(|metric| blocks(&ledger, metric));
    assert_eq!(counts, [31.0, 40.0, 9.0, 32.0, 0.0]);
    assert_eq!(ledger.threads[1], Thread { tid: 9, name: "worker".to_owned() });
    let workers = ledger.rows.iter().filter(|row| row.thread == 1);
    assert_eq!(workers.map(|row| row.measure(Metric::Live).count.value).sum::<f64>(), 1.0);
    let name = &ledger.cause(0).unwrap().function.name;
    assert!(name.starts_with("function ") && !name.contains('\u{1b}'), "{name:?}");
    assert_eq!(ledger.about.ends["outermost"], 40);
}

#[test]
fn a_part_of_the_time_is_a_session_of_its_own() {
    let folder = Folder::new("window");
    let path = folder.0.join("a");
    ten_seconds(&path);
    let recording = Recording::open(&path).unwrap();
    // From the fourth second to the end of the sixth: a block goes that came before.
    let ledger = recording.ledger(window(4, 7));
    let counts = Metric::ALL.map(|metric| blocks(&ledger, metric));
    assert_eq!(counts, [10.0, 12.0, 2.0, 11.0, 0.0]);
    assert_eq!((ledger.about.lasted_ms, ledger.moments.len()), (3000, 4));
    for (from, to, live, allocated) in [(0, 1, 4.0, 4.0), (0, 99, 31.0, 40.0), (9, 10, 4.0, 4.0)] {
        let ledger = recording.ledger(window(from, to));
        assert_eq!(blocks(&ledger, Metric::Live), live, "{from} to {to}");
        assert_eq!(blocks(&ledger, Metric::Allocated), allocated, "{from} to {to}");
    }
    let nothing = recording.ledger(window(20, 30));
    assert!(nothing.rows.is_empty() && nothing.is_sound());
}

/// The same from what happened, without the last snapshot, as after a SIGKILL.
#[test]
fn without_its_end_a_recording_says_the_same_of_what_is_there() {
    let folder = Folder::new("without-end");
    let path = folder.0.join("a");
    ten_seconds(&path);
    let whole = Recording::open(&path).unwrap();
    let first = whole.course.iter().find(|(_, place)| place.content == super::Content::Snapshot);
    let bytes = fs::read(&path).unwrap();
    let part = folder.0.join("part");
    fs::write(&part, &bytes[..usize::try_from(first.unwrap().1.at).unwrap()]).unwrap();
    let cut = Recording::open(&part).unwrap();
    assert!(!cut.is_final() && cut.damage().is_none());
    let (cut, whole) = (cut.ledger(None), whole.ledger(None));
    for metric in Metric::ALL {
        assert_eq!(cut.total.measure(metric), whole.total.measure(metric), "{metric:?}");
        assert_eq!(blocks(&cut, metric), blocks(&whole, metric), "{metric:?}");
    }
}

#[test]
fn a_recording_cut_anywhere_is_what_came_before() {
    let folder = Folder::new("cut");
    let (path, part) = (folder.0.join("a"), folder.0.join("part"));
    ten_seconds(&path);
    let bytes = fs::read(&path).unwrap();
    let mut best = 0.0;
    let mut opened = 0;
    for length in 0..=bytes.len() {
        fs::write(&part, &bytes[..length]).unwrap();
        match Recording::open(&part) {
            Ok(recording) => {
                opened += 1;
                let allocated = blocks(&recording.ledger(None), Metric::Allocated);
                assert!(allocated >= best, "{length} bytes say less than fewer");
                best = allocated;
            }
            Err(error) => assert!(opened == 0, "{length} bytes: {error}"),
        }
    }
    assert_eq!(best, 40.0);
}

#[test]
fn a_recording_with_any_byte_changed_is_what_came_before() {
    let folder = Folder::new("flip");
    let (path, wrong) = (folder.0.join("a"), folder.0.join("wrong"));
    ten_seconds(&path);
    let mut bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let by = 1 << (at % 8);
        bytes[at] ^= by;
        fs::write(&wrong, &bytes).unwrap();
        match Recording::open(&wrong) {
            Ok(recording) => {
                let ledger = recording.ledger(None);
                assert!(recording.damage().is_some() && ledger.is_sound(), "byte {at}");
                assert!(blocks(&ledger, Metric::Allocated) <= 40.0, "byte {at}");
                assert!(ledger.about.blind.iter().any(|what| what.contains("damaged")));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        bytes[at] ^= by;
    }
}

#[test]
fn other_files_are_called_what_they_are() {
    let folder = Folder::new("alien");
    let path = folder.0.join("a");
    let open = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Recording::open(&path).unwrap_err()
    };
    assert!(matches!(open(b""), RecordingError::Alien(_)));
    assert!(matches!(open(b"\x7fELF and so on"), RecordingError::Alien(_)));
    assert!(matches!(open(b"heapattach recording 1\n"), RecordingError::Empty(_)));
    let later = open(b"heapattach recording 27\n").to_string();
    assert!(later.contains("version 27"), "{later}");
    assert!(matches!(Recording::open(&folder.0), Err(RecordingError::Alien(_))));
    let missing = Recording::open(&folder.0.join("no")).unwrap_err().to_string();
    assert!(missing.contains("cannot be opened"), "{missing}");
}

#[test]
fn a_recording_that_grows_too_large_keeps_its_sums() {
    let folder = Folder::new("large");
    let path = folder.0.join("a");
    let mut session = Session::new(&path, 1 << 16);
    let (mut random, mut held) = (1_u64, 0);
    for number in 0..200_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        session.now = number / 10;
        let block = random >> 48;
        if random >> 40 & 1 == 0 {
            session.free(block);
        } else {
            session.free(block);
            session.allocate(0, block, random >> 20 & 0xfff);
            held += 1;
        }
        session.keep_up();
    }
    session.finish();
    let length = fs::metadata(&path).unwrap().len();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(blocks(&recording.ledger(None), Metric::Allocated), f64::from(held));
    assert!(length < 3 << 16, "{length} bytes");
    // Of a time whose events had to go there are the sums up to a snapshot, and it is said.
    let early = recording.ledger(window(0, 1));
    assert!(early.about.blind.iter().any(|what| what.contains("make room")), "{:?}", early.about);
    assert!(blocks(&early, Metric::Allocated) <= f64::from(held));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing is left beside it");
}

/// Whoever can compute a checksum can write anything.
#[test]
fn nonsense_in_blocks_that_are_whole_is_survived() {
    let folder = Folder::new("nonsense");
    let (path, wrong) = (folder.0.join("a"), folder.0.join("wrong"));
    ten_seconds(&path);
    let file = fs::File::open(&path).unwrap();
    let begin = block::title().len() as u64;
    let next = |place: &block::Place| block::find(&file, place.end());
    let places: Vec<_> = std::iter::successors(block::find(&file, begin), next).collect();
    let contents: Vec<_> = places.iter().map(|place| block::read(&file, place).unwrap()).collect();
    let mut random = 7_u64;
    let mut draw = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        usize::try_from(random >> 33).unwrap() % below.max(1)
    };
    let mut readable = 0;
    for _ in 0..1500 {
        let (victim, mut changed) = (draw(places.len()), contents.clone());
        for _ in 0..1 + draw(3) {
            let content = &mut changed[victim];
            let (at, what) = (draw(content.len()), draw(256));
            match draw(3) {
                0 => content.truncate(at),
                1 => content.insert(at, what.to_le_bytes()[0]),
                _ if content.is_empty() => {}
                _ => content[at] = what.to_le_bytes()[0],
            }
        }
        let blocks = places.iter().zip(&changed);
        let blocks = blocks.flat_map(|(place, text)| block::encode(place.content, text).unwrap());
        fs::write(&wrong, block::title().into_iter().chain(blocks).collect::<Vec<_>>()).unwrap();
        let Ok(recording) = Recording::open(&wrong) else { continue };
        readable += 1;
        for window in [None, window(3, 8)] {
            assert!(recording.ledger(window).is_sound());
        }
    }
    assert!(readable > 1000, "{readable}");
}
