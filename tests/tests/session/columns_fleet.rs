//! A small fleet that never was: the guide's queries answer the same whichever way its tables lie in files.

use std::{fs, path::Path};

use heapattach_export::columns::{
    Fill,
    fleet::{Fleet, Layout, Pattern},
};
use heapattach_ledger::Memory;
use heapattach_recording::{Part, Recording};
use heapattach_tests::{Folder, oracle::columnar::python};
use serde_json::Value;

use crate::columns::{queries, record};

/// Machines, and processes of each.
const SIZE: [u32; 2] = [3, 4];
/// A day.
const DAY_MS: i64 = 1_795_651_200_000;
const DAY: &str = "2026-11-26";
/// Intervals of a day, and rows of one: 20 stacks at most, and the others.
const INTERVALS: u64 = 288;
const ROWS: u64 = 21;

fn pattern(path: &str) -> Pattern {
    let recording = Recording::open(Path::new(path)).expect("a recording");
    let whole = recording.ledger(None).of(Memory::All);
    let part = |window| {
        let part = Part { window: Some(window), ..Part::default() };
        recording.part(&part).of(Memory::All)
    };
    Pattern::of(&whole, part)
}

fn write(fleet: &Fleet, pattern: &Pattern, folder: &Path) {
    let mut save = |path: &Path, fill: Fill<'_>| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("below the folder"))?;
        fill(&mut fs::File::create(path)?)
    };
    (0..fleet.services())
        .for_each(|service| fleet.write(service, pattern, &mut save).expect("a folder of ours"));
}

/// The answers to queries, by one process: it takes most of a second to begin.
const ALL: &str = "
import duckdb, json, sys
duckdb.sql('set enable_progress_bar = false')
answers = [duckdb.execute(query).fetchall() for query in json.loads(sys.argv[1])]
print(json.dumps(answers, default=str))";

fn answers(queries: &[String]) -> Option<Vec<Value>> {
    let told = python("duckdb", ALL, &serde_json::json!(queries).to_string())?;
    Some(told.as_array().expect("a list").clone())
}

/// The merge of the guide, of every table and service; what it writes to is made.
fn merges(from: &str, to: &str) -> Vec<String> {
    let [copy] = &queries(from, "    copy ")[..] else { panic!("one of the guide") };
    let mut all = Vec::new();
    for table in ["sums", "ends", "stacks", "frames", "modules", "marks", "session"] {
        let is_code = ["stacks", "frames", "modules"].contains(&table);
        let rows = if is_code { "(select distinct * from" } else { "(from" };
        for service in fs::read_dir(format!("{from}/{table}")).expect("a folder of ours") {
            let service = service.expect("a folder").file_name();
            let service = service.to_str().expect("a name").replace("service=", "");
            let place = format!("{to}/{table}/service={service}/day={DAY}");
            fs::create_dir_all(place).expect("a folder of ours");
            let copy = copy.replace("(from", rows).replace("MERGED", to).replace("TABLE", table);
            all.push(copy.replace("SERVICE", &service).replace("DAY", DAY));
        }
    }
    all
}

#[test]
fn tables_of_a_fleet_answer_the_same_in_files_of_sessions_and_merged() {
    let folder = Folder::new("columns-fleet");
    let Some(recording) = record(&folder, "a.heapattach", "kfw") else { return };
    let pattern = pattern(&recording);
    let [machines, processes] = SIZE;
    let place = |name: &str| folder.0.join(name).display().to_string();
    let [own, merged, by_duckdb] = ["own", "merged", "by-duckdb"].map(place);
    for (layout, out) in [(Layout::Sessions, &own), (Layout::Merged, &merged)] {
        let fleet = Fleet { machines, processes, day_ms: DAY_MS, layout };
        write(&fleet, &pattern, Path::new(out));
    }
    let counts = |out: &str| {
        let counts =
            "count(*), count(distinct session), count(distinct start), count(distinct host)";
        format!("select {counts} from read_parquet('{out}/sums/**')")
    };
    let questions = |out: &str| [vec![counts(out)], queries(out, "    with ")].concat();
    let mut all = merges(&own, &by_duckdb);
    let of_merge = all.len();
    [&own, &merged, &by_duckdb].into_iter().for_each(|out| all.extend(questions(out)));
    let Some(told) = answers(&all) else { return };
    let told: Vec<_> = told[of_merge..].chunks(questions(&own).len()).collect();
    let count = |at: usize| told[0][0][0][at].as_u64().expect("a number");
    let sessions = u64::from(machines * processes);
    assert!((1..=sessions * INTERVALS * ROWS).contains(&count(0)), "{}", told[0][0]);
    assert_eq!([count(1), count(2), count(3)], [sessions, INTERVALS, machines.into()]);
    assert!(told[0].iter().all(|rows| rows.as_array().is_some_and(|rows| !rows.is_empty())));
    assert_eq!(told[0][1], told[0][2], "growth by ends, and by sums");
    assert_eq!(told[0], told[1], "as they are and merged");
    assert_eq!(told[0], told[2], "as they are and merged by the guide");
}
