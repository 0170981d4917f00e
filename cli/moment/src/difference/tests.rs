//! What grew is told first, what cannot be compared is named.

use heapattach_census::{
    stats::SizeRow,
    types::{ClassRow, Language},
};
use heapattach_reach::{Amount, RootKind};
use heapattach_report::{CensusReport, HolderRow, HoldersReport};
use heapattach_verdict::{
    moments::Steadiness,
    reconcile::{Part, PartKind},
};

use super::*;

#[test]
fn what_several_roots_hold_is_told_by_kind() {
    let with_several = |bytes| {
        let mut one = moment(10, 100);
        let retained = Amount { bytes, blocks: 1 };
        let row = |before, name: &str| HolderRow {
            before,
            name: name.to_owned(),
            retained,
            ..HolderRow::default()
        };
        if let Some(found) = &mut one.census.holders {
            let rows = [row(None, "several roots"), row(Some(1), "dict"), row(Some(2), "list")];
            found.holders.extend(rows);
        }
        one
    };
    let told = of(vec![with_several(100), with_several(300)]).holders;
    let names: Vec<&str> = told.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["several roots > dict"]);
}

/// A program with so many sessions, at this second.
fn moment(sessions: u64, second: u64) -> Moment {
    let mut census = CensusReport::new(4711, "/usr/bin/app --port 80".to_owned());
    census.moment.taken_ms = Some(second * 1000);
    census.moment.up_ms = Some(second * 1000 - 5000);
    let live = sessions * 200;
    census.memory.parts = vec![Part { part: PartKind::Live, resident: live, swapped: 0 }];
    census.memory.total.resident = live + 4096;
    census.sizes = vec![SizeRow { size: 200, used: sessions, free: 0 }];
    let class = |name: &str, blocks| ClassRow {
        name: name.to_owned(),
        language: Language::Cpp,
        blocks,
        bytes: blocks * 200,
        certainty: heapattach_census::types::Certainty::Certain,
    };
    census.classes = vec![class("Session", sessions), class("Fixed", 7)];
    let retained = Amount { bytes: live, blocks: sessions };
    let root = Some(RootKind::Globals);
    let row = HolderRow { root, name: "cache".to_owned(), retained, ..HolderRow::default() };
    census.holders = Some(HoldersReport { holders: vec![row], ..HoldersReport::default() });
    Moment { version: String::new(), census }
}

fn of(moments: Vec<Moment>) -> Difference {
    let names = ["A", "B", "C"].map(str::to_owned);
    Difference::of(&names.into_iter().zip(moments).collect::<Vec<_>>())
}

#[test]
fn two_sentences_tell_what_grew_over_which_time_and_what_it_is() {
    let told = of(vec![moment(1000, 100), moment(11_000, 220)]);
    let [first, second] = &told.verdict;
    let expected = "Resident memory grew by 1.9 MiB in 120.0 s (976.6 KiB a minute), from 199.3 KiB to 2.1 MiB: \
                    live blocks +1.9 MiB";
    assert_eq!(first.replace("2 min", "120.0 s"), expected);
    let expected = "Grew most: class Session (C++) +1.9 MiB in +10 000 blocks; size 200 B +1.9 MiB in +10 000 \
                    blocks; kept by cache (globals) +1.9 MiB in +10 000 blocks";
    assert_eq!(second, expected);
    assert_eq!(told.types.rows.len(), 1, "what has not changed is not told");
    assert_eq!(told.types.rows[0].change, Change { bytes: 2_000_000, blocks: Some(10_000) });
    assert_eq!(told.notes, [""; 0]);
    assert!(told.unreachable.unknown.as_ref().is_some_and(|why| why.starts_with("A: ")));
}

#[test]
fn of_three_what_grew_in_every_step_is_told_first() {
    let told = of(vec![moment(1000, 100), moment(900, 110), moment(2000, 120)]);
    assert_eq!(told.types.rows[0].growth, Steadiness::SomeSteps);
    assert_eq!(told.types.rows[0].bytes, [200_000, 180_000, 400_000]);
    let told = of(vec![moment(1000, 100), moment(1100, 110), moment(2000, 120)]);
    assert_eq!(told.types.rows[0].growth, Steadiness::EveryStep);
}

#[test]
fn other_processes_and_programs_are_named() {
    let mut other = moment(10, 200);
    other.census.pid = 4712;
    assert!(of(vec![moment(10, 100), other.clone()]).notes[0].contains("4711 and 4712"));
    other.census.command = "/opt/other".to_owned();
    let note = &of(vec![moment(10, 100), other]).notes[0];
    assert_eq!(note, "A and B are of different programs: app, other");
    let mut later = moment(10, 100);
    later.census.moment.up_ms = Some(1);
    let notes = of(vec![moment(10, 200), later]).notes;
    assert!(notes[0].contains("it began later") && notes[1].contains("taken after"), "{notes:?}");
}
