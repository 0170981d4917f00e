//! `allocator --profile`: what jemalloc's own profiler sampled before the attach is told as any profile is, beside what
//! the program kept.

use std::collections::BTreeMap;

use heapattach_test_folder::Folder;
use heapattach_tests::command::{Heapattach, Outcome};
use serde_json::Value;

use crate::{allocating::Allocating, remedies::trim::preloaded};

const DONE: i32 = 0;
const FAILED: i32 = 1;
const REFUSED: i32 = 3;
/// What the program keeps: 2 threads, one block of a hundred, of 1000 bytes, which jemalloc has as 1024.
const KEPT: f64 = 2.0 * 600.0;
const SIZE: f64 = 1024.0;

fn program(settings: &str, blocks: &str) -> Option<Allocating> {
    let library = preloaded("libjemalloc.so.2")?;
    let environment = [("LD_PRELOAD", library.as_str()), ("MALLOC_CONF", settings)];
    Allocating::of("fragmented.c", &["2", blocks, "rest"], &environment)
}

fn profile(program: &Allocating, folder: &Folder) -> Outcome {
    let (pid, file) = (program.pid().to_string(), folder.0.join("own.heapattach"));
    let words = ["allocator", "-p", &pid, "--profile", file.to_str().expect("a name"), "--json"];
    Heapattach::new(words).run()
}

fn parsed(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

/// Bytes and blocks in use of the place that keeps them, each with its interval.
fn kept(report: &Value) -> [[f64; 3]; 2] {
    let sites = report["summary"]["sites"].as_array().expect("sites");
    let is_it = |site: &&Value| {
        site["place"].as_str().is_some_and(|at| at.starts_with("work (fragmented.c:"))
    };
    // The table of pointers is another line of the same function.
    let line = |site: &&Value| {
        let bytes = site["live"]["bytes"]["value"].as_f64().expect("a number");
        let blocks = site["live"]["blocks"]["value"].as_f64().expect("a number");
        bytes / blocks < 2.0 * SIZE
    };
    let site =
        sites.iter().filter(is_it).find(line).unwrap_or_else(|| panic!("no such site: {sites:#?}"));
    assert_eq!(site["keeping"]["is_unknown"], true, "{site}");
    ["bytes", "blocks"].map(|what| {
        ["value", "low", "high"].map(|end| site["live"][what][end].as_f64().expect("a number"))
    })
}

#[test]
fn every_block_is_told_where_jemalloc_samples_every_block() {
    let Some(mut program) = program("prof:true,lg_prof_sample:0", "60000") else { return };
    let folder = Folder::new("own-profile");
    let report = parsed(&profile(&program, &folder).expect(DONE));
    let [bytes, blocks] = kept(&report);
    assert_eq!((bytes, blocks), ([KEPT * SIZE; 3], [KEPT; 3]));
    // It is there now; what to type is told, and is there to be typed.
    let again = profile(&program, &folder).expect(FAILED).stderr;
    assert!(
        again.contains("is there already; give another name") && !again.contains("--force"),
        "{again}"
    );
    let verdict = report["summary"]["verdict"]["text"].as_str().expect("a sentence").to_owned();
    assert!(verdict.contains("what was freed is not known"), "{verdict}");
    assert!(!verdict.contains("never freed"), "{verdict}");
    let next = report["summary"]["next"][0]["command"].as_str().map(str::to_owned);
    assert_eq!(next, Some(format!("heapattach -p {} --duration 60s", program.pid())));
    // The recording goes where all do.
    let file = folder.0.join("own.heapattach");
    let shown =
        Heapattach::new(["report", file.to_str().expect("a name")]).run().expect(DONE).stdout;
    assert!(shown.contains("work (fragmented.c:") && shown.contains("unknown"), "{shown}");
    assert!(
        shown.contains("the profiler of jemalloc 5.") && !shown.contains("0 blocks freed"),
        "{shown}"
    );
    let pprof = folder.0.join("own.pb.gz");
    let words = ["report", file.to_str().expect("a name"), "--format", "pprof", "-o"];
    Heapattach::new(words).arg(pprof.to_str().expect("a name")).run().expect(DONE);
    assert!(std::fs::metadata(pprof).is_ok_and(|file| file.len() > 100));
    assert!(program.is_well());
}

#[test]
fn what_is_sampled_stands_for_all_with_its_interval() {
    // One block of 64 KiB: a 2.4 MB heap is told by some 40 samples.
    let Some(mut program) = program("prof:true,lg_prof_sample:14", "120000") else { return };
    let folder = Folder::new("own-profile");
    let report = parsed(&profile(&program, &folder).expect(DONE));
    let [bytes, blocks] = kept(&report);
    // A 95 % CI does not have the truth each time; twice as wide it does.
    for ([value, low, high], truth) in [(bytes, 2.0 * KEPT * SIZE), (blocks, 2.0 * KEPT)] {
        let wide = value - 2.0 * (value - low)..value + 2.0 * (high - value);
        assert!(
            low < value && value < high && wide.contains(&truth),
            "{value} ({low} to {high}), {truth}"
        );
    }
    assert!(program.is_well());
}

#[test]
fn a_profiler_that_is_off_is_refused_by_name() {
    let Some(mut program) = program("prof:false", "1000") else { return };
    let folder = Folder::new("own-profile");
    let outcome = profile(&program, &folder).expect(REFUSED);
    assert!(
        outcome.stderr.contains("opt.prof:false") && outcome.stderr.contains("untouched"),
        "{outcome:?}"
    );
    assert!(!folder.0.join("own.heapattach").exists());
    assert!(program.is_well());
    let Some(mut program) = Allocating::of("fragmented.c", &["1", "1000", "rest"], &[]) else {
        return;
    };
    let outcome = profile(&program, &folder).expect(REFUSED);
    assert!(outcome.stderr.contains("no jemalloc"), "{outcome:?}");
    assert!(program.is_well());
}

/// Blocks and bytes in use by stack, as lines of a profile tell them, in their own way.
fn by_stack(
    text: &str,
    sums: impl Fn(&str) -> Option<(u64, u64)>,
) -> BTreeMap<Vec<u64>, (u64, u64)> {
    let mut all = BTreeMap::new();
    let mut stack: Option<Vec<u64>> = None;
    let addresses = |text: &str| -> Vec<u64> {
        let words = text.split_whitespace().filter_map(|word| word.strip_prefix("0x"));
        words.filter_map(|digits| u64::from_str_radix(digits, 16).ok()).collect()
    };
    for line in text.lines() {
        if line.starts_with("MAPPED_LIBRARIES") {
            break;
        }
        // jemalloc has the sums of all threads below the stack; else they are before it.
        let (before, at) = line.split_once('@').unwrap_or((line, ""));
        if !at.trim_start().is_empty() {
            stack = Some(addresses(at)).filter(|stack| !stack.is_empty());
        }
        if let (Some(stack), Some((blocks, bytes))) = (&stack, sums(before))
            && blocks > 0
        {
            let own: &mut (u64, u64) = all.entry(stack.clone()).or_default();
            *own = (own.0 + blocks, own.1 + bytes);
        }
    }
    all
}

/// `12: 345 [...`
fn amounts(text: &str) -> Option<(u64, u64)> {
    let (blocks, rest) = text.trim().split_once(": ")?;
    Some((blocks.parse().ok()?, rest.split_whitespace().next()?.parse().ok()?))
}

#[test]
fn sums_by_stack_are_those_of_the_profilers_own_dump() {
    let folder = Folder::new("own-dump");
    let prefix = folder.0.join("dump");
    let settings = format!(
        "prof:true,lg_prof_sample:0,prof_final:true,prof_unbias:false,prof_prefix:{}",
        prefix.to_str().expect("a name")
    );
    let Some(program) = program(&settings, "30000") else { return };
    profile(&program, &folder).expect(DONE);
    let file = folder.0.join("own.heapattach");
    let words = ["report", file.to_str().expect("a name"), "--format", "heapprofile", "-o", "-"];
    let ours = Heapattach::new(words).run().expect(DONE).stdout;
    let ours = by_stack(&ours, amounts);
    assert!(program.end().success());
    let dump = std::fs::read_dir(&folder.0).expect("a folder").filter_map(Result::ok);
    let dump = dump
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|end| end == "heap"));
    let dump = std::fs::read_to_string(dump.expect("a dump at its end")).expect("text");
    let theirs = by_stack(&dump, |line| amounts(line.trim().strip_prefix("t*:")?));
    assert!(theirs.len() >= 4, "{dump}");
    let sum = |all: &BTreeMap<Vec<u64>, (u64, u64)>| {
        all.values().fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
    };
    println!("{} stacks, {:?} told, {:?} dumped", ours.len(), sum(&ours), sum(&theirs));
    assert_eq!(ours, theirs);
}
