//! Recordings that must not grow.

use std::fs;

use crate::Recording;
use crate::format::block::Content;
use crate::sample::{Session, blocks, second, window};
use heapattach_ledger::{Mark, Metric, Moment};
use heapattach_test_folder::Folder;

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
        session.session_writer.moment(Moment { at_ms, ..Moment::default() });
        session.session_writer.mark(Mark { at_ms, why: "it is time".to_owned() });
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

/// Fills the file until what happened has to make room.
fn fill(session: &mut Session) {
    for number in 0..60_000 {
        session.now = number / 10;
        session.allocate(0, number, number.wrapping_mul(6_364_136_223_846_793_005) >> 52);
        session.keep_up();
    }
}

#[test]
fn names_that_another_user_took_first_do_not_keep_it_from_making_room() {
    let folder = Folder::new("taken");
    let path = folder.0.join("a");
    fs::create_dir(folder.0.join("a.new")).unwrap();
    let mut session = Session::new(&path, 1 << 15);
    fill(&mut session);
    session.finish();
    assert!(fs::metadata(&path).unwrap().len() < 3 << 15);
    let recording = Recording::open(&path).unwrap();
    assert_eq!(blocks(&recording.ledger(None), Metric::Allocated), 60_000.0);
}

#[test]
fn a_recording_that_cannot_make_room_says_where_it_ends() {
    let folder = Folder::new("gone");
    let below = folder.0.join("below");
    fs::create_dir(&below).unwrap();
    let mut session = Session::new(&below.join("a"), 1 << 15);
    fs::remove_dir_all(&below).unwrap();
    fill(&mut session);
    let cut = session.conclude().unwrap_err();
    assert!(cut.bytes > 1 << 15 && cut.after.is_some(), "{cut:?}");
    assert!(cut.to_string().contains("replaces it"), "{cut}");
}
