//! Functions of JavaScript that allocate memory are named in a Node.js that was started without any switch, with the
//! stack that V8 sees itself at each allocation.

use std::{collections::BTreeMap, env, fs, path::PathBuf};

use heapattach_ledger::{Ledger, Metric};
use heapattach_tests::{
    compile::{Source, fixture, is_there},
    skip::skip,
    truth::whole,
};

use super::{ALL, Server, recorded};

const JAVASCRIPT: &str = "[javascript]";
/// Other releases, `:` between them.
const OTHERS: &str = "HEAPATTACH_NODES";
const CURE: &str =
    "apt-get install nodejs; other releases: npm install node@22, and its path in HEAPATTACH_NODES";

/// The Node.js that is installed, and others that are named.
pub fn nodes() -> Vec<PathBuf> {
    let others = env::var_os(OTHERS);
    let mut all: Vec<_> = others.iter().flat_map(|others| env::split_paths(others)).collect();
    if is_there("node") {
        all.insert(0, "node".into());
    }
    if all.is_empty() {
        skip("no Node.js here", CURE);
    }
    all
}

/// What sets the fields of a class bears the name of that class in some releases.
fn plain(name: &str) -> &str {
    if name.starts_with('<') && name.ends_with("_initializer>") { "Base" } else { name }
}

/// The functions of JavaScript in a stack, as the fixture writes them; what comes with Node.js is left out.
fn scripts(ledger: &Ledger, stack: u32, has_lines: bool) -> Vec<String> {
    let own = ledger.calls(stack).filter(|call| {
        let module = ledger.modules.get(call.function.module as usize);
        let file = &call.function.file;
        module.is_some_and(|module| module.path == JAVASCRIPT) && !file.starts_with("node:")
    });
    own.map(|call| {
        let name = call.function.name.replace(' ', "_");
        let name = plain(&name);
        let line = if has_lines { call.line.unwrap_or(0).to_string() } else { String::new() };
        format!("{name}:{line}")
    })
    .collect()
}

/// How many blocks and bytes the native function that buffers come from allocated, by the frames of scripts.
fn buffers(ledger: &Ledger, has_lines: bool) -> BTreeMap<Vec<String>, (u64, u64)> {
    let mut buffers: BTreeMap<Vec<String>, (u64, u64)> = BTreeMap::new();
    for row in &ledger.rows {
        let is_buffer = |name: &str| {
            name.contains("ArrayBufferAllocator") || name.starts_with("node::Buffer::")
        };
        let own = ledger.calls(row.stack).next().map(|call| call.function.name.clone());
        let is_one = own.is_some_and(|name| is_buffer(&name));
        let measure = row.measure(Metric::Allocated);
        if is_one && measure.bytes.value >= 100_000.0 {
            let known = buffers.entry(scripts(ledger, row.stack, has_lines)).or_default();
            known.0 += whole(measure.count.value);
            known.1 += whole(measure.bytes.value);
        }
    }
    buffers
}

/// How many blocks and bytes the fixture printed, by the stacks that V8 saw.
fn printed(told: &str, has_lines: bool) -> BTreeMap<Vec<String>, (u64, u64)> {
    let mut printed: BTreeMap<Vec<String>, (u64, u64)> = BTreeMap::new();
    for line in told.lines() {
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let size: u64 = words.next().and_then(|word| word.parse().ok()).expect("a size");
        let frames = words.map(|frame| {
            let (name, line) = frame.rsplit_once(':').expect("a line");
            // What a symbol is called is not in what functions share.
            let name = if name.starts_with("[Symbol") { "(anonymous)" } else { plain(name) };
            format!("{name}:{}", if has_lines { line } else { "" })
        });
        let known = printed.entry(frames.collect()).or_default();
        *known = (known.0 + 1, known.1 + size);
    }
    printed
}

/// Stacks that are cut in the ledger.
const MOST_CUT: usize = 2;

/// While the garbage collector moves what a frame leads to, the frames behind it are not told: such blocks are added to
/// those of the whole stack that lacks just them.
fn add_cut(
    expected: &BTreeMap<Vec<String>, (u64, u64)>,
    found: &mut BTreeMap<Vec<String>, (u64, u64)>,
) {
    let cut = found.keys().filter(|stack| !expected.contains_key(*stack));
    for part in cut.take(MOST_CUT).cloned().collect::<Vec<_>>() {
        let (count, bytes) = found[&part];
        let with = |stack: &Vec<String>| {
            let (own, all) = found.get(stack).copied().unwrap_or_default();
            (own + count, all + bytes)
        };
        let lacks = |(stack, sums): &(&Vec<String>, &(u64, u64))| {
            stack.starts_with(&part) && with(stack) == **sums
        };
        if let Some((stack, sums)) = expected.iter().find(lacks) {
            found.remove(&part);
            found.insert(stack.clone(), *sums);
        }
    }
}

/// The buffers of each stack are those that the fixture printed. Answers how many.
fn assert_buffers(ledger: &Ledger, told: &str) -> usize {
    let (expected, mut found) = (printed(told, true), buffers(ledger, true));
    add_cut(&expected, &mut found);
    let wrong: Vec<_> =
        expected.iter().filter(|(stack, sums)| found.get(*stack) != Some(*sums)).collect();
    let others: Vec<_> = found.keys().filter(|stack| !expected.contains_key(*stack)).collect();
    assert!(wrong.is_empty(), "{} of them are wrong: {wrong:#?}; {others:#?}", wrong.len());
    told.lines().count()
}

/// The same where V8 makes functions a part of those that call them: what is left is in the same order, and the outermost
/// function is there.
fn assert_compiled(ledger: &Ledger, told: &str) -> usize {
    let (expected, found) = (printed(told, false), buffers(ledger, false));
    let sum = |all: &BTreeMap<Vec<String>, (u64, u64)>| {
        all.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    assert_eq!(sum(&found), sum(&expected), "{found:#?}");
    let is_part = |stack: &[String], whole: &[String]| {
        let mut left = whole.iter();
        stack.iter().all(|frame| left.any(|one| one == frame)) && stack.last() == whole.last()
    };
    for stack in found.keys() {
        let is_one = expected.keys().any(|whole| is_part(stack, whole));
        assert!(is_one && stack.len() > 1, "{stack:?} is none of {expected:#?}");
    }
    println!(
        "{} of {} stacks are whole",
        found.keys().filter(|one| expected.contains_key(*one)).count(),
        found.len()
    );
    told.lines().count()
}

#[test]
fn every_block_has_the_stack_that_v8_sees() {
    for node in nodes() {
        let node = node.to_str().expect("a plain path");
        let script = fixture("javascript_frames.js");
        let (ledger, told, report) = recorded(&[node], &script, &ALL);
        let is_named =
            report.contains("Node.js with V8") && report.contains("its functions are named");
        assert!(is_named, "{report}");
        let count = assert_buffers(&ledger, &told);
        println!("{node}: {count} blocks");
        assert!(count >= 170, "{told}");
    }
}

/// Of each size that the addon allocates: the functions of JavaScript.
const ADDON: [(u64, &[&str]); 3] = [
    (150_000, &["plain:9", "(anonymous):21"]),
    (160_000, &["(anonymous):13", "called:13", "(anonymous):22"]),
    (170_000, &["(anonymous):17", "sorted:17", "(anonymous):24"]),
];

/// An addon in C has the functions that called it, and those that it called back; its own are between.
#[test]
fn what_an_addon_allocates_has_the_functions_that_called_it() {
    for node in nodes() {
        let Some(addon) = Source::new("node_addon.c").build() else { return };
        let (node, script) = (node.to_str().expect("a plain path"), fixture("javascript_addon.js"));
        let script = script.to_str().expect("a plain path");
        let (ledger, ..) = recorded(&[node, script], &addon, &ALL);
        for (size, expected) in ADDON {
            let mut count = 0;
            for row in &ledger.rows {
                let measure = row.measure(Metric::Allocated);
                let blocks = whole(measure.count.value);
                if blocks == 0 || whole(measure.bytes.value) != blocks * size {
                    continue;
                }
                count += blocks;
                assert_eq!(scripts(&ledger, row.stack, true), expected, "{node}: {size}");
                let calls: Vec<_> =
                    ledger.calls(row.stack).map(|call| &*call.function.name).collect();
                let at = |name| calls.iter().position(|call| *call == name);
                let (between, called) = (at("call_back"), at("called"));
                assert_eq!(at("keep"), Some(0), "{calls:?}");
                assert!(called.is_none() || between < called && between > Some(1), "{calls:?}");
            }
            assert!(count >= 2, "{node}: {count} of {size} bytes");
        }
    }
}

#[test]
fn functions_that_run_often_are_named_as_others_are() {
    for node in nodes() {
        let node = node.to_str().expect("a plain path");
        let (ledger, told, _) = recorded(&[node], &fixture("javascript_hot.js"), &ALL);
        let count = assert_compiled(&ledger, &told);
        println!("{node}: {count} blocks");
        assert!(count >= 60, "{told}");
    }
}

#[test]
fn functions_of_javascript_are_not_named_where_that_is_not_wanted() {
    for node in nodes().into_iter().take(1) {
        let node = node.to_str().expect("a plain path");
        let options = [&ALL[..], &["--scripts", "off"]].concat();
        let (ledger, _, report) = recorded(&[node], &fixture("node_frames.js"), &options);
        assert!(ledger.modules.iter().all(|module| module.path != JAVASCRIPT));
        assert!(report.contains("--perf-basic-prof"), "{report}");
    }
}

#[test]
fn a_server_of_node_under_load_names_the_line_that_leaks() {
    if !is_there("node") {
        return skip("no Node.js here", CURE);
    }
    let script = fixture("javascript_server.js");
    let text = fs::read_to_string(&script).expect("a fixture");
    let line = text.lines().position(|line| line.contains("// the leak")).expect("a leak") + 1;
    let server = Server::start("node", &script);
    let told = server.told_under_load("6s");
    let place = format!("open (javascript_server.js:{line})");
    assert!(told.contains(&place), "no {place}: {told}");
}
