//! Whole recordings: what is written is read, in all and in parts, and damage costs no more than
//! what is behind it.

use std::{
    fs, io,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use heapattach_abi::ring::OWN_RINGS;
use heapattach_injector::{
    addr::RemoteAddr,
    event::{Event, Origin, StackId, What},
    stacks::{Stack, StackEnd},
};

use super::{
    Heading, Mark, Part, Patience, Recording, RecordingError, Scribe, StackSource, Tape,
    block::{self, Content, Effort},
    create,
    disk::Disk,
};
use crate::{
    clock::Clock,
    ledger::{About, Function, Ledger, Line, Location, Loss, Metric, Module, Moment, Thread},
    naming::Code,
    profile::{self, Limits, Profile, Tick, ticks},
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

fn tape(disk: impl Disk + 'static, path: &Path, limit: u64) -> Tape {
    Tape::start(disk, Some(path.to_owned()), limit, Patience::default()).unwrap()
}

/// A session that is written down, and what comes to be known beside.
struct Session {
    profile: Profile,
    scribe: Scribe,
    stacks: Known,
    stamp: u64,
    now: u64,
    every: u64,
}

impl Session {
    fn new(path: &Path, limit: u64) -> Self {
        Self::on(tape(create(path).unwrap(), path, limit))
    }

    fn on(tape: Tape) -> Self {
        let mut scribe = Scribe::new(tape, true);
        let about = About { pid: 7, every: 1, ..About::default() };
        scribe.heading(&Heading { about, ..Heading::default() });
        scribe.threads(&[Thread::default(), Thread { tid: 9, name: "worker".to_owned() }]);
        let mut profile = Profile::new(Limits::default(), Clock::temporary());
        let mut writers = [0; OWN_RINGS];
        writers[5] = 1;
        profile.set_writers(&writers);
        Self { profile, scribe, stacks: Known::new(3), stamp: 0, now: 0, every: 1 }
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

    fn finish(self) {
        self.conclude().unwrap();
    }

    fn conclude(mut self) -> io::Result<u64> {
        self.scribe.snapshot(self.now, &mut self.profile, &self.stacks);
        let outcome = "detached".to_owned();
        let about = About { pid: 7, every: self.every, outcome, ..About::default() };
        let about = About { lasted_ms: self.now * 1000 / second(), ..about };
        let heading = Heading { about, is_final: true, ..Heading::default() };
        self.scribe.finish(&heading, Some(&self.stacks.code()))
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
        session.scribe.mark(Mark { at_ms: number * 1000, why: format!("second {number}") });
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

/// `ten_seconds`, as it was written before what happens was coded by a model.
#[test]
fn a_recording_of_an_earlier_version_says_the_same() {
    let folder = Folder::new("version");
    let (path, now) = (folder.0.join("a"), folder.0.join("b"));
    fs::write(&path, include_bytes!("samples/version1.heapattach")).unwrap();
    ten_seconds(&now);
    let (old, new) = (Recording::open(&path).unwrap(), Recording::open(&now).unwrap());
    assert_eq!((old.version, new.version), (1, 2));
    for window in [None, window(0, 1), window(4, 7), window(9, 10)] {
        let (old, new) = (old.ledger(window.clone()), new.ledger(window.clone()));
        for metric in Metric::ALL {
            assert_eq!(blocks(&old, metric), blocks(&new, metric), "{metric:?} {window:?}");
        }
    }
}

/// A disk that takes nothing while it is locked: who writes to it hangs.
#[derive(Debug)]
struct Frozen(Arc<Mutex<()>>, fs::File);

impl Disk for Frozen {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let _thawed = self.0.lock().unwrap();
        self.1.write(bytes, at)
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.1.read(bytes, at)
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.1.cut(length)
    }
}

const IMPATIENT: Patience =
    Patience { block: Duration::from_millis(50), end: Duration::from_millis(100) };

/// A second with as many blocks as are passed on a second.
fn busy_second(session: &mut Session) {
    for _ in 0..100 {
        session.now += second() / 100;
        session.allocate(0, session.now, 100);
        session.scribe.flush(session.now, &session.profile, &session.stacks);
    }
    session.keep_up();
}

#[test]
fn a_disk_that_hangs_for_a_while_costs_what_happens_meanwhile_and_it_is_said() {
    let folder = Folder::new("frozen");
    let (path, ice) = (folder.0.join("a"), Arc::new(Mutex::new(())));
    let disk = Frozen(ice.clone(), create(&path).unwrap());
    let tape = Tape::start(disk, Some(path.clone()), 1 << 30, IMPATIENT).unwrap();
    let mut session = Session::on(tape);
    busy_second(&mut session);
    let frozen = ice.lock().unwrap();
    let began = Instant::now();
    (0..3).for_each(|_| busy_second(&mut session));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    drop(frozen);
    while !session.scribe.keeps_up() {
        session.keep_up();
        std::thread::sleep(Duration::from_millis(1));
    }
    (0..3).for_each(|_| busy_second(&mut session));
    session.finish();
    let recording = Recording::open(&path).unwrap();
    let whole = recording.ledger(None);
    assert_eq!(blocks(&whole, Metric::Allocated), 700.0);
    assert!(whole.about.blind.iter().any(|what| what.contains("took nothing")), "{whole:?}");
    let after = recording.ledger(window(5, 6));
    assert_eq!(blocks(&after, Metric::Allocated), 100.0, "after it every event is known again");
    assert!(after.about.blind.is_empty(), "{:?}", after.about.blind);
}

#[test]
fn a_disk_that_hangs_for_ever_is_given_up() {
    let folder = Folder::new("given-up");
    let (path, ice) = (folder.0.join("a"), Arc::new(Mutex::new(())));
    let disk = Frozen(ice.clone(), create(&path).unwrap());
    let frozen = ice.lock().unwrap();
    let tape = Tape::start(disk, Some(path), 1 << 30, IMPATIENT).unwrap();
    let mut session = Session::on(tape);
    (0..3).for_each(|_| busy_second(&mut session));
    let error = session.conclude().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    drop(frozen);
}

/// As the end of a session in whose memory the records are.
#[test]
fn who_is_in_a_hurry_does_not_wait_for_the_disk_at_all() {
    let folder = Folder::new("hurry");
    let (path, ice) = (folder.0.join("a"), Arc::new(Mutex::new(())));
    let disk = Frozen(ice.clone(), create(&path).unwrap());
    let frozen = ice.lock().unwrap();
    let patience = Patience { block: Duration::from_secs(3600), end: Duration::from_secs(3600) };
    let mut session =
        Session::on(Tape::start(disk, Some(path.clone()), 1 << 30, patience).unwrap());
    let haste = session.scribe.haste();
    let thread = std::thread::spawn(move || {
        (0..3).for_each(|_| busy_second(&mut session));
        session
    });
    std::thread::sleep(Duration::from_millis(20));
    assert!(!thread.is_finished(), "it waits for the disk");
    haste.set(true);
    let session = thread.join().unwrap();
    drop(frozen);
    session.finish();
    assert_eq!(blocks(&Recording::open(&path).unwrap().ledger(None), Metric::Allocated), 300.0);
}

#[test]
fn what_is_lost_is_in_the_file_before_its_end() {
    let folder = Folder::new("loss");
    let path = folder.0.join("a");
    let mut session = Session::new(&path, 1 << 30);
    busy_second(&mut session);
    session.scribe.lost(Loss { blocks: 7, ..Loss::default() });
    busy_second(&mut session);
    let loss = || Some(Recording::open(&path).ok()?.heading.about.loss.blocks);
    while loss() != Some(7) {
        std::thread::sleep(Duration::from_millis(1));
    }
    session.finish();
}

#[test]
fn a_session_of_days_stays_as_small_as_it_may_be_and_says_how_rough_it_is() {
    const LIMIT: u64 = 1 << 16;
    let folder = Folder::new("days");
    let path = folder.0.join("a");
    let mut session = Session::new(&path, LIMIT);
    let (mut random, mut held) = (1_u64, 0);
    // Three days; a moment and a mark each minute, what happens fills the file every few hours.
    for minute in 0..3 * 24 * 60 {
        session.now = minute * 60 * second();
        for _ in 0..40 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            session.allocate(0, random >> 40, random >> 20 & 0xffff);
            held += 1;
        }
        let at_ms = minute * 60_000;
        session.scribe.moment(Moment { at_ms, ..Moment::default() });
        session.scribe.mark(Mark { at_ms, why: "it is time".to_owned() });
        session.keep_up();
        assert!(fs::metadata(&path).unwrap().len() < 4 * LIMIT, "minute {minute}");
    }
    session.finish();
    assert!(fs::metadata(&path).unwrap().len() < 3 * LIMIT);
    let recording = Recording::open(&path).unwrap();
    assert_eq!(blocks(&recording.ledger(None), Metric::Allocated), f64::from(held));
    let snapshots = recording.course.iter().filter(|(_, p)| p.content == Content::Snapshot).count();
    assert!((4..=80).contains(&snapshots), "{snapshots} snapshots");
    let (moments, marks) = (recording.moments().len(), recording.marks().len());
    assert!((1000..4000).contains(&moments) && (1000..4000).contains(&marks), "{moments} {marks}");
    let first_day = recording.ledger(window(0, 24 * 3600));
    let said = first_day.about.blind.iter().find(|what| what.contains("apart there"));
    assert!(said.is_some(), "{:?}", first_day.about.blind);
    let share = blocks(&first_day, Metric::Allocated) / f64::from(held);
    assert!((0.1..0.34).contains(&share), "a third of the time, or somewhat less: {share}");
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
        let blocks = blocks
            .flat_map(|(place, text)| block::encode(place.content, text, Effort::Usual).unwrap());
        fs::write(&wrong, block::title().into_iter().chain(blocks).collect::<Vec<_>>()).unwrap();
        let Ok(recording) = Recording::open(&wrong) else { continue };
        readable += 1;
        for window in [None, window(3, 8)] {
            assert!(recording.ledger(window).is_sound());
        }
    }
    assert!(readable > 1000, "{readable}");
}

/// A minute in which blocks of many sizes come and go, most of them soon; `interval` is that of
/// sampling.
pub fn waves(path: &Path, interval: u64) {
    let mut session = Session::new(path, 1 << 30);
    let mut random = 5_u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (random >> 33) % below
    };
    let mut held: Vec<u64> = Vec::new();
    for step in 0..6000_u64 {
        session.now = step * second() / 100 + draw(20);
        let at = 100 + step;
        let what = What::Allocated {
            at: RemoteAddr::new(at * 16),
            size: 1 << draw(14),
            stack: StackId(u32::try_from(draw(3)).unwrap() + 1),
            interval,
        };
        session.event(if draw(4) == 0 { 5 } else { 0 }, what);
        held.push(at);
        while held.len() > 1 && draw(10) < 6 {
            let victim = if draw(3) == 0 { draw(held.len() as u64) } else { held.len() as u64 - 1 };
            session.free(held.swap_remove(usize::try_from(victim).unwrap()));
        }
        if step % 100 == 0 {
            let at_ms = step * 10;
            let live = session.profile.sheet().heap().bytes(crate::profile::Flow::Live);
            session.scribe.moment(Moment { at_ms, live, ..Moment::default() });
            session.keep_up();
        }
    }
    session.now = 60 * second();
    session.every = interval;
    session.finish();
}

#[test]
fn blocks_of_an_age_are_those_of_their_births() {
    let folder = Folder::new("ages");
    let path = folder.0.join("a");
    ten_seconds(&path);
    let recording = Recording::open(&path).unwrap();
    let seconds = Duration::from_secs;
    let told = |ages: std::ops::Range<Duration>, window| {
        let ledger = recording.part(&Part { ages: Some(ages), window, ..Part::default() });
        assert!(ledger.is_sound() && ledger.moments.is_empty());
        [Metric::Live, Metric::Allocated].map(|metric| blocks(&ledger, metric))
    };
    // Four a second, just after it begins; the first of each is given back a second later.
    assert_eq!(told(seconds(0)..Duration::MAX, None), [31.0, 40.0]);
    assert_eq!(told(seconds(0)..seconds(3), None), [10.0, 12.0]);
    assert_eq!(told(seconds(3)..Duration::MAX, None), [21.0, 28.0]);
    assert_eq!(told(seconds(3)..seconds(5), None), [6.0, 8.0]);
    // At the end of the fourth second the third one's has not gone yet.
    assert_eq!(told(seconds(0)..seconds(2), window(0, 4)), [7.0, 8.0]);
    assert_eq!(told(seconds(2)..Duration::MAX, window(0, 4)), [6.0, 8.0]);
    assert_eq!(told(seconds(0)..seconds(2), window(3, 4)), [4.0, 4.0]);
    assert_eq!(told(seconds(11)..Duration::MAX, None), [0.0, 0.0]);
}

#[test]
fn ages_reach_back_to_where_only_sums_are_left() {
    let folder = Folder::new("ages-of-sums");
    let path = folder.0.join("a");
    let mut session = Session::new(&path, 1 << 16);
    let mut random = 1_u64;
    let mut steps = |session: &mut Session, number: u64, a_tick: u64| {
        let begin = session.now;
        for step in 0..number {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            session.now = begin + step / a_tick;
            let block = random >> 48;
            session.free(block);
            session.allocate(0, block, random >> 20 & 0xfff);
            session.keep_up();
        }
    };
    // All of this is written at once, and takes more room than there is.
    steps(&mut session, 80_000, 100);
    session.now = 2 * second();
    session.scribe.mark(Mark { at_ms: 2000, why: "all is written".to_owned() });
    session.keep_up();
    let deadline = Instant::now() + Duration::from_secs(60);
    while Recording::open(&path).map_or(0, |recording| recording.marks().len()) == 0 {
        assert!(Instant::now() < deadline, "nothing is written");
        std::thread::sleep(Duration::from_millis(5));
    }
    session.keep_up();
    steps(&mut session, 3000, 10);
    session.finish();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.logged_from(), Some(2 * second()));
    let of = |ages: std::ops::Range<Duration>| {
        let ledger = recording.part(&Part { ages: Some(ages), ..Part::default() });
        let is_said = ledger.about.blind.iter().any(|what| what.contains("make room"));
        (blocks(&ledger, Metric::Live), is_said)
    };
    let held = blocks(&recording.ledger(None), Metric::Live);
    let since = Duration::from_micros(profile::micros(recording.length() - 2 * second()));
    let (younger, older) = (of(Duration::ZERO..since / 2), of(since / 2..Duration::MAX));
    assert_eq!((younger.0 + older.0, younger.1, older.1), (held, false, false));
    assert!(younger.0 > 0.0 && older.0 > 0.0, "{younger:?} {older:?}");
    // Which of the first blocks came before the others is not known any more.
    let (all, is_said) = of(since + Duration::from_millis(1999)..Duration::MAX);
    assert!(is_said && all > 0.0 && all < held, "{all} of {held}");
}
