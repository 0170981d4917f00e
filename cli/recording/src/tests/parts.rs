//! Parts of the time, and blocks of an age.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::format::block::Content;
use crate::sample::{Session, blocks, second, ten_seconds, window};
use crate::{Part, Recording};
use heapattach_ledger::Metric;
use heapattach_profile as profile;
use heapattach_test_folder::Folder;

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
    // Four a second, just after it begins; the first of each is freed a second later.
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

fn has_snapshot(path: &Path) -> bool {
    let recording = Recording::open(path).unwrap();
    recording.course.iter().any(|(_, place)| place.content == Content::Snapshot)
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
    session.keep_up();
    let deadline = Instant::now() + Duration::from_secs(60);
    // It may have made room already.
    while !session.session_writer.is_full() && !has_snapshot(&path) {
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
