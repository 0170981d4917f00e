//! Damage costs no more than what is behind it.

use std::fs;

use crate::Recording;
use crate::format::block::{self, Content, Effort};
use crate::sample::{blocks, ten_seconds, window};
use heapattach_ledger::Metric;
use heapattach_test_folder::Folder;

/// The same from what happened, without the last snapshot, as after a SIGKILL.
#[test]
fn without_its_end_a_recording_says_the_same_of_what_is_there() {
    let folder = Folder::new("without-end");
    let path = folder.0.join("a");
    ten_seconds(&path);
    let whole = Recording::open(&path).unwrap();
    let first = whole.course.iter().find(|(_, place)| place.content == Content::Snapshot);
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

/// A writer that can compute a checksum can write anything.
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
