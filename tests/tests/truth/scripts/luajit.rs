//! Functions of Lua that LuaJIT interprets are named, with the stack that it sees itself at each allocation; of code
//! that it has compiled nothing is told that is not so.

use std::path::Path;

use heapattach_ledger::{Ledger, Metric};
use heapattach_tests::{
    compile::{Source, fixture},
    skip::skip,
    truth::whole,
};

use super::{ALL, assert_stacks, recorded, scripts};

const LUA: &str = "[lua]";
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libluajit-5.1.so.2";
/// Stacks of the fixture that are different ones.
const STACKS: usize = 86;

/// Sizes of the blocks of each place, and the functions of the script in its stack.
const PLACES: [(u64, &[&str]); 3] = [
    (101_000, &["function_<luajit_kept.lua:7>:7", LOOP, "main_chunk:24"]),
    (300_000, &["function_<luajit_kept.lua:9>:9", LOOP, "main_chunk:25"]),
    (
        102_000,
        &["function_<luajit_kept.lua:20>:20", "function_<luajit_kept.lua:17>:20", "main_chunk:26"],
    ),
];
const LOOP: &str = "function_<luajit_kept.lua:11>:13";
/// Blocks of the first two places.
const EACH: u64 = 200;

/// The program that runs scripts, if LuaJIT is here; what is behind has it compile.
fn host() -> Option<String> {
    if !Path::new(LIBRARY).exists() {
        skip("no LuaJIT here", "apt-get install libluajit-5.1-2");
        return None;
    }
    let program = Source::new("luajit_host.c").build()?;
    Some(program.to_str().expect("a plain path").to_owned())
}

#[test]
fn every_block_has_the_stack_that_luajit_sees() {
    let Some(host) = host() else { return };
    let (ledger, told, report) = recorded(&[&host], &fixture("lua_frames.lua"), &ALL);
    assert_stacks(&ledger, &told, LUA, STACKS);
    let is_named = report.contains("LuaJIT 2.1") && report.contains("its functions are named");
    assert!(is_named, "{report}");
}

/// What C calls back is between the functions, and the machine itself is not told.
#[test]
fn functions_in_c_stay_between_those_of_luajit() {
    let Some(host) = host() else { return };
    let (ledger, ..) = recorded(&[&host], &fixture("luajit_kept.lua"), &ALL);
    let (size, _) = PLACES[2];
    let stack = blocks(&ledger, size).next().expect("a block of what sorts").0;
    let calls: Vec<_> = ledger.calls(stack).map(|call| call.function.name.clone()).collect();
    let at = |name: &str| calls.iter().position(|call| call == name);
    let (keep, compares) = (at("keep"), at("function <luajit_kept.lua:20>"));
    let sorts = at("function <luajit_kept.lua:17>");
    assert!(keep.is_some() && keep < compares && compares < sorts, "{calls:?}");
    assert!(sorts > compares.map(|at| at + 1) && sorts < at("main chunk"), "{calls:?}");
    assert!(sorts < at("lua_pcall"), "{calls:?}");
}

/// Loops that are compiled, calls of C from them, and from C back to Lua: a block that tells any function of the script
/// has the very stack that the script says.
#[test]
fn of_compiled_code_nothing_wrong_is_told() {
    let Some(host) = host() else { return };
    for is_compiled in [false, true] {
        let script = fixture("luajit_kept.lua");
        let script = script.to_str().expect("a plain path");
        // Whatever comes behind the script has it compiled.
        let (command, last) =
            if is_compiled { (vec![&*host, script], "compiled") } else { (vec![&*host], script) };
        let (ledger, ..) = recorded(&command, Path::new(last), &ALL);
        for (size, expected) in PLACES {
            let (mut named, mut all) = (0, 0);
            for (stack, count) in blocks(&ledger, size) {
                let told = scripts(&ledger, stack, LUA);
                assert!(told.is_empty() || told == expected, "{size}: {told:?}");
                (named, all) = (named + if told.is_empty() { 0 } else { count }, all + count);
            }
            eprintln!("{size} bytes, compiled {is_compiled}: {named} of {all}");
            assert!(all >= EACH && named > 0 && (is_compiled || named == all), "{size}: {named}");
        }
    }
}

/// Stacks of blocks of a size, and how many these are.
fn blocks(ledger: &Ledger, size: u64) -> impl Iterator<Item = (u32, u64)> {
    ledger.rows.iter().filter_map(move |row| {
        let measure = row.measure(Metric::Allocated);
        let (count, bytes) = (whole(measure.count.value), whole(measure.bytes.value));
        (count != 0 && bytes == count * size).then_some((row.stack, count))
    })
}
