//! Disks that hang.

use std::{
    fs, io,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use super::in_memory::told;
use crate::format::disk::Disk;
use crate::sample::{Session, blocks, second, window};
use crate::{Patience, Recording, WriteQueue, create};
use heapattach_ledger::{Loss, Metric};
use heapattach_test_folder::Folder;

/// A disk that takes nothing while it is locked: a thread that writes to it hangs.
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
        session.session_writer.flush(session.now, &session.profile, &session.stacks);
    }
    session.keep_up();
}

#[test]
fn a_disk_that_hangs_for_a_while_costs_what_happens_meanwhile_and_it_is_said() {
    let folder = Folder::new("frozen");
    let (path, ice) = (folder.0.join("a"), Arc::new(Mutex::new(())));
    let disk = Frozen(ice.clone(), create(&path).unwrap());
    let write_queue = WriteQueue::start(disk, Some(path.clone()), 1 << 30, IMPATIENT).unwrap();
    let mut session = Session::on(write_queue);
    busy_second(&mut session);
    let frozen = ice.lock().unwrap();
    let began = Instant::now();
    (0..3).for_each(|_| busy_second(&mut session));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    drop(frozen);
    while !session.session_writer.keeps_up() {
        session.keep_up();
        std::thread::sleep(Duration::from_millis(1));
    }
    (0..3).for_each(|_| busy_second(&mut session));
    let (in_memory, _) = session.finish_in_memory(Vec::new());
    let recording = Recording::open(&path).unwrap();
    let whole = recording.ledger(None);
    assert_eq!(told(&in_memory), told(&whole));
    assert_eq!(blocks(&whole, Metric::Allocated), 700.0);
    assert!(whole.about.blind.iter().any(|what| what.contains("accepted nothing")), "{whole:?}");
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
    let write_queue = WriteQueue::start(disk, Some(path), 1 << 30, IMPATIENT).unwrap();
    let mut session = Session::on(write_queue);
    (0..3).for_each(|_| busy_second(&mut session));
    let error = session.conclude().unwrap_err();
    assert_eq!(error.error.kind(), io::ErrorKind::TimedOut, "{error}");
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
        Session::on(WriteQueue::start(disk, Some(path.clone()), 1 << 30, patience).unwrap());
    let haste = session.session_writer.haste();
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
    session.session_writer.lost(Loss { blocks: 7, ..Loss::default() });
    busy_second(&mut session);
    let loss = || Some(Recording::open(&path).ok()?.context.heading.about.loss.blocks);
    while loss() != Some(7) {
        std::thread::sleep(Duration::from_millis(1));
    }
    session.finish();
}
