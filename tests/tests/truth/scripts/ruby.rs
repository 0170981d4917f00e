//! Functions of Ruby that allocate memory are named, with the stack that Ruby sees itself at each allocation.

use std::{fs, process::Command};

use heapattach_ledger::Metric;
use heapattach_tests::{
    compile::{fixture, is_there},
    skip::skip,
    truth::whole,
};

use super::{
    ALL, Server, assert_sound, assert_spoiled, assert_stacks, below, recorded, recorded_nonsense,
    scripts,
};

const RUBY: &str = "[ruby]";
/// Its gems come by a hundred thousand blocks, and every one is recorded.
const WITHOUT_GEMS: [&str; 2] = ["ruby", "--disable-gems"];

/// Whether there is a Ruby that can be read; a test without one is skipped.
fn has_ruby() -> bool {
    let told = || Command::new("ruby").args(["-e", "print RUBY_VERSION"]).output();
    let is_known = is_there("ruby") && told().is_ok_and(|told| told.stdout.starts_with(b"3.1."));
    if !is_known {
        skip("no Ruby 3.1 here", "apt-get install ruby");
    }
    is_known
}

#[test]
fn every_block_has_the_stack_that_ruby_sees() {
    if !has_ruby() {
        return;
    }
    let (ledger, told, report) = recorded(&WITHOUT_GEMS, &fixture("ruby_frames.rb"), &ALL);
    assert_stacks(&ledger, &told, RUBY, 70);
    let blocks = told.lines().count();
    println!("{blocks} blocks");
    assert!(report.contains("Ruby 3.1.") && report.contains("its functions are named"), "{report}");
    // Its cause is the method, not what the machine does for it.
    let causes = ledger.rows.iter().filter_map(|row| {
        let bytes = whole(row.measure(Metric::Allocated).bytes.value);
        ledger.cause(row.stack).filter(|_| bytes >= 100_000)
    });
    let own = causes.filter(|call| call.function.name == "hold").count();
    assert!(own >= 70, "{own}");
    // From Ruby through C to Ruby: qsort is where it was called.
    let compared = below(&ledger, RUBY, "hold").find_map(|row| {
        let calls: Vec<_> =
            ledger.calls(row.stack).map(|call| call.function.name.clone()).collect();
        calls.iter().any(|name| name == "call").then_some(calls)
    });
    let compared = compared.expect("a block of what qsort called");
    let at = |name: &str| compared.iter().position(|call| call.contains(name));
    assert!(at("call") < at("qsort") && at("qsort") < at("native"), "{compared:?}");
}

#[test]
fn functions_of_ruby_are_not_named_where_that_is_not_wanted() {
    if !has_ruby() {
        return;
    }
    let options = [&ALL[..], &["--scripts", "off"]].concat();
    let (ledger, ..) = recorded(&WITHOUT_GEMS, &fixture("ruby_frames.rb"), &options);
    assert!(ledger.rows.iter().all(|row| scripts(&ledger, row.stack, RUBY).is_empty()));
}

#[test]
fn frames_that_are_nonsense_do_no_harm() {
    if !has_ruby() {
        return;
    }
    let ledger = recorded_nonsense("ruby", "ruby_nonsense.rb");
    assert_spoiled(&ledger, RUBY, "block_in_spoiled", 24 * 15_000);
    assert_sound(&ledger, RUBY, &["block_in_sound:49", "sound:49", "work:53", "<main>:60"]);
}

#[test]
fn a_server_of_ruby_under_load_names_the_line_that_leaks() {
    if !has_ruby() {
        return;
    }
    let script = fixture("ruby_server.rb");
    let text = fs::read_to_string(&script).expect("a fixture");
    let line = text.lines().position(|line| line.contains("# the leak")).expect("a leak") + 1;
    let server = Server::start("ruby", &script);
    let told = server.told_under_load("4s");
    let place = format!("(ruby_server.rb:{line})");
    assert!(told.contains(&place), "no {place}: {told}");
}
