//! Tables in the spool of an agent: of sessions that go on, of slots, and whole whatever ends the agent.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use heapattach_tests::{
    deadline::{PATIENCE, wait_until},
    oracle::columnar::{DUCKDB, python},
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::agent::{Place, cycles, events, wait_for_attach};

const BOTH: &str = "[spool]\nformats = ['pprof', 'parquet']\ntables-every = '1s'";
/// What a file of Parquet begins and ends with.
const MAGIC: &[u8] = b"PAR1";

/// The tables of an agent's spool.
fn tables(place: &Place) -> PathBuf {
    place.folder.0.join("state/spool/tables")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn rows(place: &Place, columns: &str, table: &str) -> Option<Value> {
    let folder = tables(place);
    let query = format!(
        "select {columns} from read_parquet('{}/{table}/*/*/*.parquet', hive_partitioning = true)",
        folder.display()
    );
    python("duckdb", DUCKDB, &query)
}

#[test]
fn a_session_that_goes_on_has_its_tables_and_they_are_replaced() {
    let Some(place) = Place::new() else { return };
    place.write_with(BOTH, "service = 'shop'");
    let mut fixture = place.fixture();
    let running = place.start();
    wait_for_attach(&place, fixture.pid());
    let count = || events(&running.talk(), "tables").len();
    for turn in 1..=2 {
        fixture.step(1, 10);
        // What was read of the first may have been written before the step.
        let before = count();
        wait_until("tables that have the step", PATIENCE, || count() >= before + 2);
        let Some(told) = rows(&place, "sum(last_bytes)::bigint, min(service)", "ends") else {
            break;
        };
        assert_eq!(told, json!([[40_000 * turn, "shop"]]));
    }
    running.signal(Signal::SIGTERM);
    let talk = running.wait().expect(0).stderr;
    assert!(events(&talk, "no-profile").is_empty(), "{talk}");
    // Those of one session, and nothing that is not whole.
    let left = files(&place.folder.0.join("state/spool"));
    let sessions = rows(&place, "count(*), sum(is_slot)::bigint", "session");
    assert!(sessions.is_none_or(|told| told == json!([[1, 0]])), "{left:?}");
    assert!(left.iter().all(|path| !path.to_string_lossy().contains("unfinished")), "{left:?}");
    assert_eq!(events(&talk, "profile").len(), 1);
    fixture.finish();
}

#[test]
fn slots_are_told_to_be_slots_and_nothing_of_them_to_be_in_use() {
    let Some(place) = Place::new() else { return };
    place.write_with("[spool]\nformats = ['parquet']", "mode = 'rotate'\nslot = '2s'");
    let mut fixture = place.fixture();
    let running = place.start();
    wait_for_attach(&place, fixture.pid());
    wait_until("a slot", PATIENCE, || {
        fixture.step(1, 1);
        !events(&running.talk(), "profile").is_empty()
    });
    running.signal(Signal::SIGTERM);
    let talk = running.wait().expect(0).stderr;
    assert!(place.spool().iter().all(|path| path.ends_with("tables")), "{:?}", place.spool());
    let Some(told) = rows(&place, "min(is_slot), max(is_slot), min(unseen_bytes) > 0", "session")
    else {
        return;
    };
    assert_eq!(told, json!([[1, 1, true]]), "{talk}");
    assert_eq!(rows(&place, "count(*)", "ends"), Some(json!([[0]])));
    let columns = "sum(allocated_bytes) > 0, sum(allocated_bytes) = sum(survived_bytes), \
        sum(allocated_bytes) = 4000 * sum(allocated_blocks)";
    assert_eq!(rows(&place, columns, "sums"), Some(json!([[true, true, true]])));
    fixture.finish();
}

/// Looks at all files of the tables, again and again: how often one was not whole.
fn watch(folder: &Path, is_over: &AtomicBool, seen: &AtomicU64) -> Vec<PathBuf> {
    let mut broken = Vec::new();
    while !is_over.load(Relaxed) {
        for path in files(folder) {
            let is_table = path.extension().is_some_and(|end| end == "parquet");
            // One may have gone meanwhile.
            let Some(bytes) = fs::read(&path).ok().filter(|_| is_table) else { continue };
            seen.fetch_add(1, Relaxed);
            if !(bytes.len() > 12 && bytes.starts_with(MAGIC) && bytes.ends_with(MAGIC)) {
                broken.push(path);
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    broken
}

#[test]
fn killed_at_any_moment_it_leaves_no_half_file_to_a_reader() {
    let Some(place) = Place::new() else { return };
    place.write_with(BOTH, "");
    let mut fixture = place.fixture();
    let (folder, is_over, seen) = (tables(&place), AtomicBool::new(false), AtomicU64::new(0));
    let broken = thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&folder, &is_over, &seen));
        for cycle in 0..cycles() {
            let running = place.start();
            wait_for_attach(&place, fixture.pid());
            fixture.step(1, 1);
            wait_until("tables", PATIENCE, || {
                events(&running.talk(), "tables").len() > cycle as usize % 2
            });
            running.signal(Signal::SIGKILL);
            assert_eq!(running.wait().signal(), Some(9));
        }
        is_over.store(true, Relaxed);
        watching.join().expect("it does not panic")
    });
    assert!(broken.is_empty() && seen.load(Relaxed) > 0, "{broken:?}");
    // Whatever was being written then goes when the next one begins.
    let running = place.start();
    wait_until("an agent", 4 * PATIENCE, || !events(&running.talk(), "begun").is_empty());
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    let left = files(&place.folder.0.join("state/spool"));
    assert!(left.iter().all(|path| !path.to_string_lossy().contains("unfinished")), "{left:?}");
    if let Some(told) = rows(&place, "count(*) > 0", "session") {
        assert_eq!(told, json!([[true]]));
    }
    fixture.finish();
}
