//! Tables of a session that has just ended, in the place of its recording.

use std::{
    fs,
    path::{Path, PathBuf},
};

use heapattach_tests::{
    Folder,
    command::Heapattach,
    compile::Source,
    deadline::{PATIENCE, wait_until},
    fixture::Launch,
    oracle::columnar::{CHDB, DUCKDB, python},
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// What the report for programs has in all of it: bytes in use and allocated, and blocks.
fn truth(report: &Path) -> Value {
    let text = fs::read_to_string(report).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert!(report["recording"].is_null(), "{}", report["recording"]);
    let whole = |value: &Value| {
        let value = value.as_f64().or_else(|| value["value"].as_f64()).expect("a number");
        format!("{value:.0}").parse::<i64>().expect("a whole number")
    };
    let of = |metric: &str| {
        let told = &report["heap"][metric];
        [whole(&told["bytes"]), whole(&told["blocks"])]
    };
    json!([[of("live")[0], of("live")[1], of("allocated")[0], of("allocated")[1]]])
}

fn sums(out: &str) -> String {
    let columns = "sum(live_bytes)::bigint, sum(live_blocks)::bigint, sum(allocated_bytes)::bigint, \
        sum(allocated_blocks)::bigint";
    // What is in use at the end is in the last interval, if a test meets the border of two.
    format!("select {columns} from read_parquet('{out}/sums/**')")
}

/// The files of a folder and those below it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_program_that_was_run_leaves_tables_with_the_sums_of_its_report_and_no_recording() {
    let folder = Folder::new("columns-run");
    let Some(program) = Source::new("several_leaks.c").build() else { return };
    let at = |name: &str| folder.0.join(name).display().to_string();
    let (out, report) = (at("a.parquet"), folder.0.join("report.json"));
    let words = ["run", "--all", "--no-mmap", "--service", "shop", "-o", &out];
    let run = Heapattach::new(words).arg(format!("--json={}", report.display())).arg("--");
    let told = run.arg(&program).arg("kf").run().expect(0).stderr;
    assert!(told.contains("written to ") && told.contains("read_parquet("), "{told}");
    assert!(!folder.0.join("a.heapattach").exists());
    let tables = files(Path::new(&out));
    assert_eq!(tables.len(), 7, "{tables:?}");
    assert!(tables.iter().all(|path| path.to_string_lossy().contains("/service=shop/")));
    let Some(rows) = python("duckdb", DUCKDB, &sums(&out)) else { return };
    assert_eq!(rows, truth(&report));
    let query = format!("select distinct host from read_parquet('{out}/session/**')");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    assert_eq!(python("duckdb", DUCKDB, &query), Some(json!([[host.trim()]])));
    let query = format!(
        "select sum(live_bytes), sum(live_blocks), sum(allocated_bytes), sum(allocated_blocks) \
         from file('{out}/sums/**/*.parquet', Parquet)"
    );
    if let Some(rows) = python("chdb", CHDB, &query) {
        assert_eq!(rows, truth(&report));
    }
}

#[test]
fn a_process_that_was_attached_to_has_its_tables_in_the_folder_of_others() {
    let Some(launch) = Launch::new("holds.c") else { return };
    let mut fixture = launch.start();
    let folder = Folder::new("columns-attach");
    let out = folder.0.join("out").display().to_string();
    let pid = fixture.pid().to_string();
    for turn in 1..=2 {
        let report = folder.0.join(format!("{turn}.json"));
        let words = ["-p", &pid, "--all", "--redact", "--format", "parquet", "-o", &out];
        let session = Heapattach::new(words).arg(format!("--json={}", report.display())).start();
        wait_until("the attach", PATIENCE, || session.talk().contains("attached to"));
        fixture.step(1, 10 * turn);
        session.signal(Signal::SIGINT);
        session.wait();
        assert!(!Path::new(&format!("{out}.heapattach")).exists());
        let query = format!(
            "select sum(allocated_bytes)::bigint, count(distinct session), min(service) \
             from read_parquet('{out}/sums/**', hive_partitioning = true)"
        );
        let Some(rows) = python("duckdb", DUCKDB, &query) else { return };
        let sum: u64 = (1..=turn).map(|turn| 40_000 * turn).sum();
        // A command line that is left out has a first word all the same.
        let program = fs::read_link(format!("/proc/{pid}/exe")).expect("a process of ours");
        let name = program.file_name().expect("a name").to_string_lossy();
        assert_eq!(rows, json!([[sum, turn, name]]));
    }
    fixture.finish();
}

#[test]
fn where_tables_cannot_be_written_that_is_told_and_the_recording_stays() {
    let folder = Folder::new("columns-no-room");
    let Some(program) = Source::new("several_leaks.c").build() else { return };
    let at = |name: &str| folder.0.join(name).display().to_string();
    fs::create_dir(at("a.parquet")).expect("a folder of ours");
    fs::write(at("a.parquet/ends"), "in the way").expect("a file of ours");
    let run = |out: &str, more: &[&str]| {
        let file = at(out);
        let words = [&["run", "--all", "-o", file.as_str()], more, &["--"]].concat();
        Heapattach::new(words).arg(&program).arg("k").run()
    };
    let told = run("a.parquet", &[]);
    assert_ne!(told.code(), Some(0));
    let recording = at("a.heapattach");
    assert!(
        told.stderr.contains("no tables: ") && told.stderr.contains(&recording),
        "{}",
        told.stderr
    );
    Heapattach::new(["report", &recording]).run().expect(0);
    // Nothing that is half written is left to be read.
    let left = files(Path::new(&at("a.parquet")));
    assert!(left.iter().all(|path| !path.to_string_lossy().contains("unfinished")), "{left:?}");
    // What is known before is told before.
    fs::write(at("b.parquet"), "a file").expect("a file of ours");
    let told = run("b.parquet", &[]).stderr;
    assert!(told.contains("b.parquet is not a folder"), "{told}");
    let told = run("c.heapattach", &["--service", "shop"]).stderr;
    assert!(told.contains("need --format parquet"), "{told}");
}
