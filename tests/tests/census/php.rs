//! What PHP's own allocator has, beside what PHP counts itself, and PHP objects by their class.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use heapattach_tests::{command::Heapattach, compile::is_there, skip::skip};
use serde_json::Value;

/// PHP's own requests between what it said and what it waits with: buffers of its input.
pub const BETWEEN: u64 = 64 << 10;

/// A script that waits, and what it says that it has.
struct Script {
    child: Child,
    truth: Value,
}

impl Script {
    /// With these settings of the environment; none if there is no PHP.
    fn start(environment: &[(&str, &str)]) -> Option<Self> {
        if !is_there("php") {
            skip("no php here", "apt-get install php-cli");
            return None;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/census/objects.php");
        let mut child = Command::new("php")
            .arg("-n")
            .arg(script)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("php");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let truth = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Some(Self { child, truth })
    }

    fn look(&self) -> Value {
        let pid = self.child.id().to_string();
        let outcome = Heapattach::new(["heap", "-p", &pid, "--json"]).run().expect(0);
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // It waits for the end of its input.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

pub fn allocator<'d>(document: &'d Value, name: &str) -> Option<&'d Value> {
    document["allocators"].as_array()?.iter().find(|one| one["name"] == name)
}

#[test]
fn php_counts_what_is_told_of_its_heap() {
    let Some(script) = Script::start(&[]) else { return };
    let document = script.look();
    let zend = allocator(&document, "zend").expect("its heap");
    assert_eq!((&zend["is_exact"], &zend["doubts"]), (&true.into(), &Value::Array(Vec::new())));
    let number = |value: &Value| value.as_u64().expect("a number");
    let (arena, truth) = (&zend["arenas"][0], &script.truth);
    assert_eq!(arena["system"], truth["real"]);
    let (used, told) = (number(&arena["used"]), number(&truth["used"]));
    assert!(used.abs_diff(told) <= BETWEEN, "{used} found, {told} told by PHP");
    let parts = ["used", "free", "cached", "top", "books"].map(|part| number(&arena[part]));
    assert_eq!(parts.iter().sum::<u64>(), number(&truth["real"]), "{parts:?}");
    let classes = document["classes"].as_array().expect("classes");
    for (name, wanted) in truth["own"].as_object().expect("own classes") {
        let row = classes.iter().find(|row| row["name"] == name.as_str());
        let row = row.unwrap_or_else(|| panic!("{name} in {classes:?}"));
        assert_eq!((&row["blocks"], &row["language"]), (wanted, &"php".into()), "{name}");
    }
    // Its objects begin with a part of the extension's.
    assert!(classes.iter().all(|row| row["name"] != "Shop\\Cart"), "{classes:?}");
}

#[test]
fn without_its_own_allocator_each_block_is_one_of_the_c_library() {
    let Some(script) = Script::start(&[("USE_ZEND_ALLOC", "0")]) else { return };
    let document = script.look();
    assert!(allocator(&document, "zend").is_none());
    let arenas = allocator(&document, "glibc").expect("malloc")["arenas"].as_array().cloned();
    let used = arenas.iter().flatten().filter_map(|arena| arena["used"].as_u64()).sum::<u64>();
    assert!(used > 5 << 20, "{used}");
}
