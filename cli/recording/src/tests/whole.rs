//! What is written is read.

use std::fs;

use crate::sample::{blocks, ten_seconds, ten_seconds_in_hurry, window};
use crate::{Recording, RecordingError};
use heapattach_ledger::{EndReason, Metric, Thread};
use heapattach_test_folder::Folder;

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
    assert_eq!(ledger.about.ends[&EndReason::Outermost], 40);
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
    let folder = Recording::open(&folder.0).unwrap_err().to_string();
    assert!(folder.contains("cannot be opened"), "{folder}");
    let missing = Recording::open(&path.with_file_name("no")).unwrap_err().to_string();
    assert!(missing.contains("cannot be opened"), "{missing}");
}

/// `ten_seconds`, as it was written before what happens was coded by a model.
#[test]
fn a_recording_of_an_earlier_version_says_the_same() {
    let folder = Folder::new("version");
    let (path, now) = (folder.0.join("a"), folder.0.join("b"));
    fs::write(&path, include_bytes!("../samples/version1.heapattach")).unwrap();
    ten_seconds(&now);
    let (old, new) = (Recording::open(&path).unwrap(), Recording::open(&now).unwrap());
    assert_eq!((old.version, new.version), (1, 5));
    for window in [None, window(0, 1), window(4, 7), window(9, 10)] {
        let (old, new) = (old.ledger(window.clone()), new.ledger(window.clone()));
        for metric in Metric::ALL {
            assert_eq!(blocks(&old, metric), blocks(&new, metric), "{metric:?} {window:?}");
        }
    }
}

/// Version 2 had no blocks but those that a model codes, and these are coded as ever.
#[test]
fn a_recording_of_version_2_says_the_same() {
    let folder = Folder::new("version-2");
    let (path, now) = (folder.0.join("a"), folder.0.join("b"));
    ten_seconds(&now);
    let mut bytes = fs::read(&now).unwrap();
    let version = bytes.iter().position(|byte| *byte == b'\n').unwrap() - 1;
    bytes[version] = b'2';
    fs::write(&path, bytes).unwrap();
    let (old, new) = (Recording::open(&path).unwrap(), Recording::open(&now).unwrap());
    assert_eq!((old.version, old.damage(), new.version), (2, None, 5));
    for metric in Metric::ALL {
        assert_eq!(blocks(&old.ledger(None), metric), blocks(&new.ledger(None), metric));
    }
}

#[test]
fn what_was_written_in_a_hurry_says_the_same() {
    let folder = Folder::new("hurry");
    let (path, hurried) = (folder.0.join("a"), folder.0.join("b"));
    ten_seconds(&path);
    ten_seconds_in_hurry(&hurried, |second| second % 3 == 1);
    assert!(fs::read(&path).unwrap() != fs::read(&hurried).unwrap(), "some of it is plain");
    let (slow, fast) = (Recording::open(&path).unwrap(), Recording::open(&hurried).unwrap());
    assert_eq!((slow.damage(), fast.damage()), (None, None));
    for window in [None, window(0, 1), window(3, 5), window(9, 10)] {
        let (slow, fast) = (slow.ledger(window.clone()), fast.ledger(window.clone()));
        for metric in Metric::ALL {
            assert_eq!(blocks(&slow, metric), blocks(&fast, metric), "{metric:?} {window:?}");
        }
    }
}
