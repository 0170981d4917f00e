//! Tables read again.

use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::parquet::decoded::read;
use heapattach_ledger::sample;
use heapattach_profile::Sum;

/// The tables by their folder, with the names of columns and rows.
type Tables = BTreeMap<String, (Vec<String>, Vec<Vec<Value>>)>;

fn written(ledger: &Ledger, stacks: usize) -> Tables {
    let labels = Labels { host: "m1", service: None, stacks, metric: Metric::Live, is_slot: false };
    let mut tables = Tables::new();
    let mut part = |_: Range<Duration>| ledger.clone();
    let marks = [Mark { at_ms: 1500, why: "load \"x\"\n".to_owned() }];
    let session = Session { whole: ledger, part: &mut part, marks: &marks };
    let mut save = |path: &Path, fill: Fill<'_>| {
        let mut file = Vec::new();
        fill(&mut file)?;
        let table = path.iter().next().unwrap().to_str().unwrap().to_owned();
        tables.insert(table, read(&file));
        io::Result::Ok(())
    };
    write(session, &labels, &mut save).unwrap();
    tables
}

/// A column of numbers.
fn numbers(tables: &Tables, table: &str, column: &str) -> Vec<i64> {
    let (names, rows) = &tables[table];
    let at = names.iter().position(|name| name == column).unwrap();
    let number = |row: &Vec<Value>| match row[at] {
        Value::Number(number) => number,
        Value::Text(_) => panic!("{column} is text"),
    };
    rows.iter().map(number).collect()
}

/// The numbers of all stacks.
fn stacks(ledger: &Ledger) -> Vec<i64> {
    identity::stacks(ledger).collect()
}

#[test]
fn sums_are_those_of_the_ledger_however_many_stacks_are_told() {
    let ledger = sample::ledger();
    for stacks in [0, 1, 2, 20] {
        let tables = written(&ledger, stacks);
        for (metric, name) in
            [(Metric::Live, "live"), (Metric::Allocated, "allocated"), (Metric::Freed, "freed")]
        {
            let truth = ledger.total.measure(metric);
            let of = |unit: &str| numbers(&tables, "sums", &format!("{name}_{unit}"));
            assert_eq!(
                of("bytes").iter().sum::<i64>() as f64,
                truth.bytes.value,
                "{name} {stacks}"
            );
            assert_eq!(
                of("blocks").iter().sum::<i64>() as f64,
                truth.count.value,
                "{name} {stacks}"
            );
        }
        assert_eq!(tables["sums"].1.len(), stacks.min(3) + 1);
    }
}

#[test]
fn tables_refer_to_one_another() {
    let tables = written(&sample::ledger(), 20);
    let all = |table, column| numbers(&tables, table, column).into_iter().collect::<HashSet<_>>();
    let mut stacks = all("sums", "stack");
    assert!(stacks.remove(&0));
    assert_eq!(stacks, all("stacks", "stack"));
    assert_eq!(all("stacks", "frame"), all("frames", "frame"));
    assert!(all("frames", "module").is_subset(&all("modules", "module")));
    assert_eq!(all("sums", "session"), all("session", "session"));
    assert_eq!(all("marks", "session"), all("session", "session"));
    assert!(all("stacks", "depth").contains(&-1), "malloc");
}

#[test]
fn numbers_of_code_do_not_depend_on_where_it_lies_in_memory() {
    let (here, mut there) = (sample::ledger(), sample::ledger());
    for module in &mut there.modules {
        (module.start, module.end, module.bias) = (module.start + 4096, module.end + 4096, 4096);
    }
    there.locations.iter_mut().for_each(|location| location.address += 4096);
    there.locations.reverse();
    assert_ne!(stacks(&here), stacks(&there), "other locations, other stacks");
    there.locations.reverse();
    assert_eq!(stacks(&here), stacks(&there));
    there.modules[0].build_id = "ff".to_owned();
    assert_ne!(stacks(&here), stacks(&there));
}

#[test]
fn what_found_no_place_among_the_rows_is_with_the_others_and_within_their_interval() {
    let mut ledger = sample::ledger();
    ledger.total.add(Metric::Live, &Sum::exact(100, 3));
    let tables = written(&ledger, 20);
    let others = numbers(&tables, "sums", "stack").iter().position(|stack| *stack == 0);
    let of_others = |column| numbers(&tables, "sums", column)[others.unwrap()];
    assert_eq!(of_others("live_bytes"), 300);
    assert_eq!(of_others("live_bytes_low"), 0);
    assert!(of_others("live_bytes_high") >= 300);
}

#[test]
fn an_empty_ledger_has_tables_and_hostile_times_end() {
    let tables = written(&Ledger::default(), 20);
    assert_eq!(tables.len(), 7);
    let mut ledger = sample::ledger();
    (ledger.about.began, ledger.about.lasted_ms) = (u64::MAX, u64::MAX);
    assert_eq!(written(&ledger, 1).len(), 7);
}

#[test]
fn every_interval_is_asked_for_until_its_end_and_of_itself_and_days_have_files_of_their_own() {
    let mut ledger = sample::ledger();
    // Ten minutes before midnight, UTC, for twenty.
    (ledger.about.began, ledger.about.lasted_ms) = (1_700_006_400 - 600, 1_200_000);
    let (mut windows, mut files) = (Vec::new(), Vec::new());
    let mut part = |window: Range<Duration>| {
        windows.push((window.start.as_secs(), window.end.as_secs()));
        ledger.clone()
    };
    let labels =
        Labels { host: "", service: Some("s"), stacks: 1, metric: Metric::Live, is_slot: false };
    let session = Session { whole: &ledger, part: &mut part, marks: &[] };
    let mut save = |path: &Path, fill: Fill<'_>| {
        let mut file = Vec::new();
        fill(&mut file)?;
        files.push((path.display().to_string(), read(&file).1.len()));
        io::Result::Ok(())
    };
    write(session, &labels, &mut save).unwrap();
    let end = u64::from(u32::MAX);
    let of = [(0, 300), (0, 600), (300, 600), (0, 900), (600, 900), (0, end), (900, end)];
    assert_eq!(windows, of);
    let sums: Vec<_> = files.iter().filter(|(path, _)| path.starts_with("sums/")).collect();
    assert!(sums[0].0.starts_with("sums/service=s/day=2023-11-14/"), "{files:?}");
    assert!(sums[1].0.starts_with("sums/service=s/day=2023-11-15/"), "{files:?}");
    assert_eq!(sums.iter().map(|(_, rows)| *rows).collect::<Vec<_>>(), [4, 4]);
    let tables = written(&ledger, 1);
    let ends = ["first_start", "last_start"].map(|column| numbers(&tables, "session", column));
    let starts = numbers(&tables, "sums", "start");
    assert_eq!(ends[0], [1_700_005_800_000]);
    assert_eq!(ends[1], [1_700_006_700_000]);
    assert!(starts.contains(&ends[1][0]) && ends.iter().all(|end| end.len() == 1));
}

#[test]
fn both_ends_are_what_was_in_use_in_the_first_and_in_the_last_interval() {
    let mut ledger = sample::ledger();
    // Of one day: its tables are one file each.
    (ledger.about.began, ledger.about.lasted_ms) = (1_700_001_000, 1_200_000);
    let tables = written(&ledger, 1);
    let starts = numbers(&tables, "sums", "start");
    for column in ["first", "last"] {
        let mut told = numbers(&tables, "ends", &format!("{column}_bytes"));
        let of = numbers(&tables, "session", &format!("{column}_start"))[0];
        let live = numbers(&tables, "sums", "live_bytes").into_iter().zip(&starts);
        let mut then: Vec<_> =
            live.filter(|(_, start)| **start == of).map(|(live, _)| live).collect();
        told.sort_unstable();
        then.sort_unstable();
        assert!(!told.is_empty(), "{column}");
        assert_eq!(told, then, "{column}");
    }
}

#[test]
fn a_slot_is_told_to_be_one_and_has_no_ends() {
    let ledger = sample::ledger();
    let mut labels =
        Labels { host: "", service: None, stacks: 2, metric: Metric::Live, is_slot: true };
    let of = |labels: &Labels<'_>| {
        let mut tables = Tables::new();
        let session = Session { whole: &ledger, part: &mut |_| ledger.clone(), marks: &[] };
        let mut save = |path: &Path, fill: Fill<'_>| {
            let mut file = Vec::new();
            fill(&mut file)?;
            let table = path.iter().next().unwrap().to_str().unwrap().to_owned();
            tables.insert(table, read(&file));
            io::Result::Ok(())
        };
        write(session, labels, &mut save).unwrap();
        (numbers(&tables, "session", "is_slot"), tables["ends"].1.len(), tables["sums"].1.len())
    };
    assert_eq!(of(&labels), (vec![1], 0, 3));
    labels.is_slot = false;
    assert_eq!(of(&labels), (vec![0], 3, 3));
}

#[test]
fn sessions_of_a_process_in_the_same_second_have_different_numbers() {
    let number = |up_ms: u64| {
        let mut ledger = sample::ledger();
        ledger.about.up_ms = up_ms;
        numbers(&written(&ledger, 1), "session", "session")[0]
    };
    assert_eq!(number(5200), number(5200));
    assert_ne!(number(5200), number(5900));
}
