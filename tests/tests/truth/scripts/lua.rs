//! Functions of Lua that allocate memory are named, with the stack that Lua sees itself at each allocation.

use std::path::Path;

use heapattach_ledger::Metric;
use heapattach_tests::{
    compile::{Source, fixture, is_there},
    skip::skip,
    truth::whole,
};

use super::{ALL, assert_stacks, below, recorded, scripts};

const LUA: &str = "[lua]";
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/liblua5.4.so.0";

/// What is there of each version, what it calls itself, and how many stacks the fixture has in it.
const VERSIONS: [(&str, &str, usize); 4] = [
    ("lua5.1", "Lua 5.1.5", 87),
    ("lua5.2", "Lua 5.2.4", 94),
    ("lua5.3", "Lua 5.3.6", 94),
    ("lua5.4", "Lua 5.4.4", 96),
];

/// Those that are there; without any a test is skipped.
fn versions() -> impl Iterator<Item = (&'static str, &'static str, usize)> {
    let is_here = |(program, ..): &(&str, &str, usize)| is_there(program);
    if !VERSIONS.iter().any(is_here) {
        skip("no Lua here", "apt-get install lua5.1 lua5.2 lua5.3 lua5.4");
    }
    VERSIONS.into_iter().filter(is_here)
}

#[test]
fn every_block_has_the_stack_that_lua_sees() {
    for (program, name, stacks) in versions() {
        let (ledger, told, report) = recorded(&[program], &fixture("lua_frames.lua"), &ALL);
        assert_stacks(&ledger, &told, LUA, stacks);
        let is_named = report.contains(name) && report.contains("its functions are named");
        assert!(is_named, "{report}");
        // Its cause is the function, not what the library does for it.
        let causes = ledger.rows.iter().filter_map(|row| {
            let bytes = whole(row.measure(Metric::Allocated).bytes.value);
            ledger.cause(row.stack).filter(|_| bytes >= 100_000)
        });
        let own =
            causes.filter(|call| call.function.name == "function <lua_frames.lua:25>").count();
        assert!(own >= stacks, "{program}: {own}");
    }
}

/// From Lua through C to Lua: what C calls back is between the functions, and the loop itself is not told.
#[test]
fn functions_in_c_stay_between_those_of_lua() {
    for (program, ..) in versions() {
        let (ledger, ..) = recorded(&[program], &fixture("lua_frames.lua"), &ALL);
        let hold = "function <lua_frames.lua:25>";
        let sorted = below(&ledger, LUA, "function_<lua_frames.lua:25>").find_map(|row| {
            let calls = || ledger.calls(row.stack).map(|call| call.function.name.clone());
            let is_own = calls().any(|name| name == "function <lua_frames.lua:76>");
            is_own.then(|| (row.stack, calls().collect::<Vec<_>>()))
        });
        let (stack, calls) = sorted.expect("a block of what sorts");
        let at = |name: &str| calls.iter().position(|call| call == name);
        let between =
            ledger.calls(stack).position(|call| call.function.name.starts_with("lua_call"));
        let outer = scripts(&ledger, stack, LUA);
        assert!(outer.last().is_some_and(|last| last.starts_with("main_chunk")), "{outer:?}");
        assert!(at(hold) < between && between.is_some(), "{program} {calls:?}");
        assert!(between < at("main chunk"), "{program} {calls:?}");
    }
}

/// Threads have states of their own, and a function in C that a script calls allocates itself.
#[test]
fn what_functions_in_c_allocate_has_the_stack_of_their_thread() {
    if !Path::new(LIBRARY).exists() {
        return skip("no library of Lua 5.4 here", "apt-get install liblua5.4-0");
    }
    let Some(program) = Source::new("lua_host.c").build() else { return };
    let program = program.to_str().expect("a plain path");
    let (ledger, ..) = recorded(&[program], Path::new("none"), &ALL);
    let expected = ["function_<host:1>:1", "function_<host:2>:3", "main_chunk:6"];
    let mut found = [(0, 0); 2];
    for row in &ledger.rows {
        let (count, bytes) = {
            let measure = row.measure(Metric::Allocated);
            (whole(measure.count.value), whole(measure.bytes.value))
        };
        let which = [101_000, 102_000].iter().position(|size| bytes == count * size);
        let Some(which) = which.filter(|_| count != 0) else { continue };
        assert_eq!(scripts(&ledger, row.stack, LUA), expected);
        let calls: Vec<_> = ledger.calls(row.stack).map(|call| &*call.function.name).collect();
        assert!(calls.contains(&"hold"), "{calls:?}");
        found[which] = (count, bytes);
    }
    assert_eq!(found, [(20, 20 * 101_000), (20, 20 * 102_000)]);
}

/// Of a stack that is cut it is not known whether Lua runs in it: the same few frames allocate for Lua, and for what
/// sets it up.
#[test]
fn stacks_that_are_cut_have_the_functions_of_lua_too() {
    for (program, ..) in versions() {
        let options = [&ALL[..], &["--max-depth", "2"]].concat();
        let (ledger, told, _) = recorded(&[program], &fixture("lua_frames.lua"), &options);
        let sizes = told.lines().filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
        let expected: u64 = sizes.sum();
        let rows = below(&ledger, LUA, "function_<lua_frames.lua:25>");
        let named: u64 = rows.map(|row| whole(row.measure(Metric::Allocated).bytes.value)).sum();
        println!("{program}: {named} bytes are named, {expected} were told");
        assert!(expected > 0 && named >= expected, "{program}: {named} of {expected}");
    }
}

#[test]
fn functions_of_lua_are_not_named_where_that_is_not_wanted() {
    for (program, ..) in versions().take(1) {
        let options = [&ALL[..], &["--scripts", "off"]].concat();
        let (ledger, ..) = recorded(&[program], &fixture("lua_frames.lua"), &options);
        assert!(ledger.rows.iter().all(|row| scripts(&ledger, row.stack, LUA).is_empty()));
    }
}
