//! `heapattach check --retained-by`: who holds what is large and reachable, by name.

use std::{fs, path::Path, process::Command};

use heapattach_tests::{check, compile::Source};
use serde_json::Value;

const SIGNAL: [&str; 4] = ["--at", "signal:USR2", "--max-pause", "5s"];

/// What allocated a block, what kind of root holds it, and in which words that is told.
const HELD: [(&str, &str, &str); 4] = [
    ("by_list", "globals", "cache"),
    ("by_variable", "globals", "settings+16"),
    ("by_frame", "stacks", "keep ("),
    ("by_thread", "tls", "a thread-local variable of thread "),
];

fn ways(result: &check::Result) -> Vec<&Value> {
    let sites = result.check()["retained"].as_array().expect("it was asked for");
    sites.iter().filter_map(|site| site["ways"].as_array()?.first()).collect()
}

fn place(step: &Value) -> &str {
    step["place"].as_str().unwrap_or_default()
}

#[test]
fn a_variable_a_frame_and_a_thread_are_named_as_holders() {
    let Some(program) = Source::new("retained.c").build() else { return };
    for snapshot in ["stop", "copy", "fork"] {
        let options = [&SIGNAL[..], &["--snapshot", snapshot, "--retained-by", "top"]].concat();
        let result = check::run(&program, &[], &[], &options);
        assert_eq!(result.code, Some(0), "{}", result.talk);
        let ways = ways(&result);
        for (site, root, words) in HELD {
            let is_its = |way: &&&Value| {
                let last = way["steps"].as_array().and_then(|steps| steps.last());
                last.is_some_and(|step| place(step).contains(site))
            };
            let way = ways.iter().find(is_its).unwrap_or_else(|| panic!("{site}: {ways:?}"));
            assert_eq!(way["root"], root, "{site}, {snapshot}: {way}");
            let told = holder(&way["holder"]);
            assert!(told.contains(words), "{site}, {snapshot}: {told} for {words}");
            if root != "globals" {
                assert!(told.contains("(keeper)"), "{site}, {snapshot}: {told}");
            }
        }
    }
}

/// In the words of the text.
fn holder(holder: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let (variable, frame, local) = (&holder["variable"], &holder["frame"], &holder["thread_local"]);
    if variable.is_object() {
        return match variable["offset"].as_u64() {
            Some(0) => text(&variable["name"]),
            offset => format!("{}+{}", text(&variable["name"]), offset.unwrap_or(0)),
        };
    }
    if frame.is_object() {
        return format!("{} in {}", text(&frame["function"]), text(&frame["thread"]));
    }
    format!("a thread-local variable of {}", text(&local["thread"]))
}

#[test]
fn the_way_leads_from_block_to_block() {
    let Some(program) = Source::new("retained.c").build() else { return };
    let options = [&SIGNAL[..], &["--retained-by", "by_list"]].concat();
    let result = check::run(&program, &[], &[], &options);
    let [way] = ways(&result)[..] else { panic!("one site was asked for: {}", result.report) };
    let steps = way["steps"].as_array().expect("a list");
    let told: Vec<(bool, u64, Option<u64>)> = steps
        .iter()
        .zip(["main", "chain", "by_list"])
        .map(|(step, name)| {
            let blocks = step["blocks"].as_u64().unwrap_or(0);
            (place(step).contains(name), blocks, step["offset"].as_u64())
        })
        .collect();
    // The table's third word leads to the list, the second one of its last node to the block.
    assert_eq!(told, [(true, 1, Some(16)), (true, 5, Some(8)), (true, 1, None)], "{steps:?}");
}

/// What mapped or allocated it, its bytes, and who holds it: from the root on.
const MAPPED: [(&str, u64, &[&str]); 6] = [
    ("by_variable", 1 << 20, &["settings+8"]),
    ("by_frame", 2 << 20, &["keep ("]),
    ("by_block", 3 << 20, &["in_block", "holding_block ("]),
    ("by_mapping", 4 << 20, &["in_mapping", "map ("]),
    ("holding_mapping", 5 << 20, &["in_mapping"]),
    ("block_by_mapping", 100_000, &["in_mapping", "map ("]),
];

#[test]
fn a_mapping_is_held_and_holds_as_a_block_does() {
    let Some(program) = Source::new("retained_mappings.c").build() else { return };
    for snapshot in ["stop", "copy", "fork"] {
        for (site, bytes, holders) in MAPPED {
            let what = format!("{site}, {snapshot}");
            let options = [&SIGNAL[..], &["--snapshot", snapshot, "--retained-by", site]].concat();
            let result = check::run(&program, &[], &[], &options);
            assert_eq!(result.code, Some(0), "{what}: {}", result.talk);
            let sites = result.check()["retained"].as_array();
            let sites = sites.unwrap_or_else(|| panic!("{what}: {:#}", result.report));
            let [told] = &sites[..] else { panic!("{what}: {sites:#?}") };
            let is_mapped = site != "block_by_mapping";
            assert_eq!(told["mapped"].as_bool().unwrap_or_default(), is_mapped, "{what}: {told:#}");
            assert_eq!(told["all"]["bytes"], bytes, "{what}: {told:#}");
            let way = &told["ways"][0];
            let words = holder(&way["holder"]);
            assert!(words.contains(holders[0]), "{what}: {words}");
            let steps = way["steps"].as_array().expect("a list");
            assert_eq!(steps.len(), holders.len(), "{what}: {steps:#?}");
            for (step, name) in steps.iter().zip(&holders[1..]) {
                assert!(place(step).contains(name), "{what}: {step:#} for {name}");
                assert_eq!(step["mapped"].as_bool().unwrap_or_default(), *name == "map (");
            }
        }
    }
}

#[test]
fn pprof_gets_the_way_as_frames() {
    let Some(program) = Source::new("retained.c").build() else { return };
    let file = std::env::temp_dir().join(format!("heapattach-retained-{}", std::process::id()));
    let name = file.to_str().expect("a plain path");
    let options = [&SIGNAL[..], &["--retained-by", "top", "--retained-pprof", name]].concat();
    let result = check::run(&program, &[], &[], &options);
    assert_eq!(result.code, Some(0), "{}", result.talk);
    let profile = unpacked(&file);
    let _ = fs::remove_file(&file);
    for text in ["retained_space", "globals: cache", "globals: settings+16", "chain ("] {
        assert!(profile.contains(text), "{text}");
    }
}

fn unpacked(path: &Path) -> String {
    let told = Command::new("gzip").arg("-dc").arg(path).output().expect("gzip is everywhere");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    String::from_utf8_lossy(&told.stdout).into_owned()
}
