//! What scripts that tell of themselves did, recorded: each line that they print is a block and the stack that
//! the interpreter sees itself.

mod cost;
mod java;
mod javascript;
mod lua;
mod lua_servers;
mod luajit;
mod perl;
mod php;
mod releases;
mod ruby;
mod server;
mod share;

use std::{collections::BTreeMap, path::Path, time::Duration};

use heapattach_ledger::{Ledger, Metric, Row};
use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    compile::fixture,
    fixture::Launch,
    recorded::Recorded,
    truth::whole,
};

pub use server::Server;

/// Steps of a program that spoils its own frames.
const WORK: u64 = 1;
const NONSENSE: u64 = 2;

/// What fixtures tell of is larger.
const LEAST_BLOCK: u64 = 50_000;

/// Everything is recorded.
pub const ALL: [&str; 3] = ["--all", "--on-full", "wait"];

/// What a script did, recorded, what it printed, and the report.
pub fn recorded(command: &[&str], script: &Path, options: &[&str]) -> (Ledger, String, String) {
    let file = Recorded::new();
    let mut run = Heapattach::new(["run", "-o"]).arg(&file.0);
    run = options.iter().fold(run, |run, option| run.arg(*option));
    run = command.iter().fold(run.arg("--"), |run, word| run.arg(*word));
    let run = run.arg(script).env("USE_ZEND_ALLOC", "0").limit(Duration::from_secs(120));
    let outcome = run.run().expect(0);
    (file.ledger(), outcome.stdout, outcome.stderr)
}

/// The frames of scripts in a stack, as the fixtures write them.
pub fn scripts(ledger: &Ledger, stack: u32, language: &str) -> Vec<String> {
    let own = ledger.calls(stack).filter(|call| {
        let module = ledger.modules.get(call.function.module as usize);
        module.is_some_and(|module| module.path == language)
    });
    // The block of a sort is none of Perl's own frames.
    let own = own.filter(|call| call.function.name != "(sort)");
    let told = own.map(|call| format!("{}:{}", call.function.name, call.line.unwrap_or(0)));
    told.map(|frame| frame.replace(' ', "_")).collect()
}

/// Each line of the fixture is the stack of a block of that size. At least so many stacks are different ones.
pub fn assert_stacks(ledger: &Ledger, told: &str, language: &str, least: usize) {
    let mut expected: BTreeMap<Vec<&str>, (u64, u64)> = BTreeMap::new();
    for line in told.lines() {
        let mut words = line.split(' ');
        let size: u64 = words.next().and_then(|word| word.parse().ok()).expect("a size");
        // A generator that passes on what another one yields is not among the engine's own frames.
        let stack = words.filter(|word| !word.starts_with("delegated:")).collect();
        let (count, bytes) = expected.entry(stack).or_default();
        (*count, *bytes) = (*count + 1, *bytes + size);
    }
    assert!(expected.len() >= least, "{} stacks: {told}", expected.len());
    // Threads have rows of their own.
    let mut all: BTreeMap<u32, u64> = BTreeMap::new();
    for row in &ledger.rows {
        let allocated = whole(row.measure(Metric::Allocated).bytes.value);
        *all.entry(row.stack).or_default() += allocated;
    }
    let is_part = |stack: &Vec<&str>| stack.iter().any(|frame| frame.starts_with("rescue_in_"));
    let tells_parts = language != "[ruby]" || expected.keys().any(is_part);
    // Two statements on one line are two stacks that look the same.
    let mut told: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for (&stack, &bytes) in all.iter().filter(|(_, bytes)| **bytes >= LEAST_BLOCK) {
        let frames = scripts(ledger, stack, language);
        let frames = if tells_parts { frames } else { as_ruby_3_4(&frames) };
        *told.entry(frames).or_default() += bytes;
    }
    for (stack, (count, bytes)) in expected {
        let owned: Vec<String> = stack.iter().map(|&frame| frame.to_owned()).collect();
        let found = told.get(&owned).copied().unwrap_or(0);
        let like = told.iter().filter(|(_, all)| (bytes..bytes + 8 * count).contains(*all));
        let like: Vec<_> = like.map(|(stack, _)| stack).collect();
        assert!(
            (bytes..bytes + 8 * count).contains(&found),
            "{bytes} {stack:?}: {found}, {like:?}"
        );
    }
}

/// The same stack as Ruby 3.4 tells it: a function only once if it rescues or ensures something itself, and the code
/// of an `eval` by the function that it is in.
fn as_ruby_3_4(frames: &[String]) -> Vec<String> {
    let mut told = Vec::new();
    let mut rest = frames.iter();
    while let Some(frame) = rest.next() {
        let part = ["rescue_in_", "ensure_in_"].iter().find_map(|kind| frame.strip_prefix(kind));
        let outer = rest.as_slice().first().and_then(|outer| outer.rsplit_once(':'));
        if part.is_some() {
            rest.next();
        }
        told.push(match (part, frame.strip_prefix("<compiled>"), outer) {
            (Some(part), ..) => part.to_owned(),
            (None, Some(line), Some((function, _))) => format!("{function}{line}"),
            _ => frame.clone(),
        });
    }
    told
}

/// Rows whose innermost function of a script is this one, as the fixtures write it.
pub fn below<'a>(
    ledger: &'a Ledger,
    language: &'a str,
    function: &'a str,
) -> impl Iterator<Item = &'a Row> {
    ledger.rows.iter().filter(move |row| {
        let innermost = scripts(ledger, row.stack, language).into_iter().next();
        innermost
            .is_some_and(|frame| frame.rsplit_once(':').is_some_and(|(name, _)| name == function))
    })
}

/// What a program did that allocated while its own frames were nonsense, and then while they were not.
pub fn recorded_nonsense(program: &str, script: &str) -> Ledger {
    let mut fixture = Launch::program(Path::new(program)).arg(fixture(script)).start();
    let file = Recorded::new();
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("-o").arg(&file.0);
    let command = ALL.iter().fold(command, |command, option| command.arg(*option));
    let attached = Attached::start(command, &mut fixture);
    fixture.step(NONSENSE, 0);
    fixture.step(WORK, 0);
    attached.end();
    fixture.finish();
    file.ledger()
}

/// What was allocated while frames were nonsense is of the function that is whole; what led to it costs frames.
pub fn assert_spoiled(ledger: &Ledger, language: &str, function: &str, least: u64) {
    let bytes = |row: &Row| whole(row.measure(Metric::Allocated).bytes.value);
    let spoiled: Vec<u64> = below(ledger, language, function).map(bytes).collect();
    println!("{spoiled:?}");
    assert!(spoiled.iter().sum::<u64>() >= least && spoiled.len() >= 2, "{spoiled:?}");
}

/// Ten blocks of 16,000 bytes have this stack, and no other one.
pub fn assert_sound(ledger: &Ledger, language: &str, stack: &[&str]) {
    let bytes = |row: &Row| whole(row.measure(Metric::Allocated).bytes.value);
    let (innermost, _) = stack[0].rsplit_once(':').expect("a line");
    let mut rows = below(ledger, language, innermost).filter(|row| bytes(row) >= 10 * 16_000);
    let row = rows.next().expect("all of it has one stack");
    assert_eq!(scripts(ledger, row.stack, language), stack);
}
