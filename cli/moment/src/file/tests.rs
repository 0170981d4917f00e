//! What is written is read again, and whatever else is read ends in an error.

use std::{fs, path::Path};

use heapattach_census::stats::SizeRow;
use heapattach_reach::Amount;
use heapattach_report::{AllocatorReport, CensusReport, DoubtReport, HolderRow, HoldersReport};
use heapattach_test_folder::Folder;
use proptest::prelude::*;

use super::{HEAD, TITLE, error::MomentError, read::decode, write::encode};
use crate::{is_moment, read};

fn sample() -> CensusReport {
    let mut report = CensusReport::new(4711, "/usr/bin/app --port 80".to_owned());
    report.sizes =
        (1..3000).map(|size| SizeRow { size: size * 8, used: 3000 - size, free: size }).collect();
    let row = |before, name: &str| HolderRow {
        before,
        name: name.to_owned(),
        retained: Amount { bytes: 1 << 20, blocks: 7 },
        ..HolderRow::default()
    };
    let holders = vec![row(None, "cache"), row(Some(0), "Session")];
    report.holders = Some(HoldersReport { holders, ..HoldersReport::default() });
    let why = "the chunk at 0x7f0011223344 has size 3".to_owned();
    let doubts = vec![DoubtReport { arena: None, why }];
    report.allocators = vec![AllocatorReport { doubts, ..AllocatorReport::default() }];
    report
}

fn file(report: &CensusReport) -> Vec<u8> {
    encode(report, "0.1.0").unwrap()
}

fn again(bytes: &[u8]) -> Result<CensusReport, String> {
    decode(bytes, "a".as_ref()).map(|moment| moment.census).map_err(|error| error.to_string())
}

/// A file with this content.
fn with_content(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(content).unwrap();
    let packed = packed.finish().unwrap();
    let number = |bytes: usize| u32::try_from(bytes).unwrap().to_le_bytes();
    let head = [number(packed.len()), number(content.len())];
    let sum = crc32fast::hash(content).to_le_bytes();
    [TITLE, b"1\n", &head.concat(), &sum, &packed].concat()
}

#[test]
fn all_rows_are_read_again_and_addresses_are_not_written() {
    let report = sample();
    let bytes = file(&report);
    assert!(bytes.len() < 40_000, "{}", bytes.len());
    let read = again(&bytes).unwrap();
    assert_eq!(read.sizes, report.sizes);
    assert_eq!(read.holders.unwrap().holders[1].before, Some(0));
    assert_eq!(read.allocators[0].doubts[0].why, "the chunk at 0x... has size 3");
}

#[test]
fn a_later_version_and_other_files_are_refused_by_name() {
    let folder = Folder::new("moment");
    let path = folder.0.join("a.heapattach-moment");
    let mut bytes = file(&sample());
    fs::write(&path, &bytes).unwrap();
    assert!(is_moment(&path) && read(&path).is_ok());
    bytes[TITLE.len()] = b'2';
    fs::write(&path, &bytes).unwrap();
    let error = read(&path).unwrap_err();
    assert!(is_moment(&path) && matches!(error, MomentError::Version { .. }), "{error}");
    assert!(error.to_string().contains("of version 2, and this heapattach reads 1"), "{error}");
    fs::write(&path, "heapattach recording 5\n").unwrap();
    assert!(!is_moment(&path));
    assert!(matches!(read(&path), Err(MomentError::Alien(_))));
    assert!(matches!(read(Path::new("/nowhere")), Err(MomentError::File { .. })));
    assert!(!is_moment(&folder.0));
}

#[test]
fn what_is_not_whole_is_damaged() {
    let bytes = file(&sample());
    let start = TITLE.len() + 2;
    for end in [start, start + HEAD - 1, start + HEAD, bytes.len() - 1] {
        assert!(again(&bytes[..end]).unwrap_err().contains("is damaged"), "{end}");
    }
    let longer = [&bytes[..], b"x"].concat();
    assert!(again(&longer).unwrap_err().contains("its length"));
}

#[test]
fn numbers_that_no_process_has_and_holders_in_a_circle_are_refused() {
    let text = |before: u64, bytes: u64| {
        let mut report = sample();
        let holders = &mut report.holders.as_mut().unwrap().holders;
        holders[1].before = Some(before);
        holders[1].retained.bytes = bytes;
        serde_json::to_vec(&super::Moment { version: String::new(), census: report }).unwrap()
    };
    assert!(again(&with_content(&text(0, 1))).is_ok());
    assert!(again(&with_content(&text(1, 1))).unwrap_err().contains("no tree"));
    let large = again(&with_content(&text(0, 1 << 60))).unwrap_err();
    assert!(large.contains("more than any process has"), "{large}");
}

#[test]
fn text_that_a_terminal_would_obey_is_made_harmless() {
    let mut report = sample();
    report.command = "a\u{1b}[2J".to_owned();
    assert_eq!(again(&file(&report)).unwrap().command, "a\u{fffd}[2J");
}

#[test]
fn a_bomb_is_not_unpacked() {
    let content = vec![b' '; super::LIMIT + 1];
    assert!(again(&with_content(&content)).unwrap_err().contains("its length"));
    // The head lies about the length.
    let mut bytes = with_content(&content[..1 << 20]);
    let at = TITLE.len() + 2 + 4;
    bytes[at..at + 4].copy_from_slice(&16_u32.to_le_bytes());
    assert!(again(&bytes).unwrap_err().contains("its checksum"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = again(&bytes);
        let _ = again(&with_content(&bytes));
    }

    #[test]
    fn no_damage_makes_it_panic(at in 0_usize..4000, byte in any::<u8>()) {
        let mut bytes = file(&sample());
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = again(&bytes);
        // The same within the content.
        let moment = super::Moment { version: String::new(), census: sample() };
        let mut content = serde_json::to_vec(&moment).unwrap();
        let at = at % content.len();
        content[at] = byte;
        let _ = again(&with_content(&content));
    }
}
