//! A program with a call path of its own for each of very many blocks: all are counted, and what
//! heapattach keeps of each is small.

use std::{fs, path::PathBuf};

use heapattach_tests::{command::Heapattach, compile::Source, recorded::Recorded};
use serde_json::Value;

const PATHS: u64 = 1 << 16;
const MILLION: u64 = 1 << 20;
/// What both processes of a session may take for each, and besides.
const MOST_MEMORY: u64 = PATHS * (4 << 10) + (256 << 20);
const MOST_MEMORY_OF_MILLION: u64 = MILLION * (2 << 10) + (256 << 20);
/// How much more processor time each of very many may take than each of many.
const MOST_TIMES: u64 = 4;

/// What a session of a program with so many call paths has found and taken: blocks that were counted,
/// memory, and microseconds of processor time.
fn session(file: &Recorded, words: &[&str]) -> Option<(f64, u64, u64)> {
    let program = Source::new("many_paths.c").build()?;
    let report: PathBuf = Recorded::new().0.clone();
    let run = Heapattach::new(["run", "--all", "--on-full=wait", "-o"]).arg(&file.0);
    let run = run.arg(format!("--json={}", report.display())).arg("--").arg(&program);
    words.iter().fold(run, |run, word| run.arg(*word)).run().expect(0);
    let text = fs::read_to_string(&report).expect("a report");
    let _ = fs::remove_file(&report);
    let told: Value = serde_json::from_str(&text).expect("JSON");
    let blocks = told["heap"]["allocated"]["blocks"]["value"].as_f64().unwrap_or_default();
    let number = |name: &str| told["expense"][name].as_u64().expect("a number");
    Some((blocks, number("memory"), number("cpu_us")))
}

#[test]
fn each_of_many_call_paths_is_counted_and_takes_little_memory() {
    let file = Recorded::new();
    let Some((blocks, memory, _)) = session(&file, &[&PATHS.to_string()]) else { return };
    #[allow(clippy::cast_precision_loss)]
    let expected = PATHS as f64;
    assert!(blocks >= expected, "{blocks} blocks");
    assert!(memory < MOST_MEMORY, "{memory} bytes of memory");
    println!("{PATHS} call paths: {} MiB of memory", memory >> 20);
    for format in ["pprof", "collapsed"] {
        let words = ["report", file.0.to_str().expect("a path of ours"), "--format", format];
        Heapattach::new(words).arg("-o").arg("/dev/null").run().expect(0);
    }
}

/// Not extrapolated: as many as there is room for in the target, and a little more.
#[test]
fn a_million_call_paths_take_memory_and_time_in_proportion() {
    let file = Recorded::new();
    let (few, many) = (PATHS.to_string(), MILLION.to_string());
    let Some((_, _, time_of_few)) = session(&file, &[&few, "wide"]) else { return };
    let file = Recorded::new();
    let Some((blocks, memory, time)) = session(&file, &[&many, "wide"]) else { return };
    println!(
        "{MILLION} call paths: {} MiB of memory, {} ms of processor time; of {PATHS}: {} ms",
        memory >> 20,
        time / 1000,
        time_of_few / 1000
    );
    #[allow(clippy::cast_precision_loss)]
    let expected = MILLION as f64;
    assert!(blocks >= expected, "{blocks} blocks");
    assert!(memory < MOST_MEMORY_OF_MILLION, "{memory} bytes of memory");
    assert!(time <= time_of_few * MOST_TIMES * (MILLION / PATHS), "{time} us, {time_of_few} us");
}
