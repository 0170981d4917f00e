//! Functions of Perl that allocate memory are named, with the stack that Perl sees itself at each allocation.

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

const PERL: &str = "[perl]";

/// Whether there is a Perl that can be read; a test without one is skipped.
fn has_perl() -> bool {
    let script = "print \"$]$Config{usethreads}\"";
    let told = || Command::new("perl").args(["-MConfig", "-e", script]).output();
    let is_known = is_there("perl") && told().is_ok_and(|told| told.stdout == b"5.036000define");
    if !is_known {
        skip("no Perl 5.36 with threads here", "apt-get install perl");
    }
    is_known
}

#[test]
fn every_block_has_the_stack_that_perl_sees() {
    if !has_perl() {
        return;
    }
    let (ledger, told, report) = recorded(&["perl"], &fixture("perl_frames.pl"), &ALL);
    assert_stacks(&ledger, &told, PERL, 54);
    assert!(
        report.contains("Perl 5.36.0") && report.contains("its functions are named"),
        "{report}"
    );
    // Its cause is the function, not what the interpreter does for it.
    let causes = ledger.rows.iter().filter_map(|row| {
        let bytes = whole(row.measure(Metric::Allocated).bytes.value);
        ledger.cause(row.stack).filter(|_| bytes >= 100_000)
    });
    let own = causes.filter(|call| call.function.name == "main::hold").count();
    assert!(own >= 54, "{own}");
    // From Perl through C to Perl: a library that freezes objects is where it was called.
    let frozen = below(&ledger, PERL, "main::hold").find_map(|row| {
        let calls: Vec<_> =
            ledger.calls(row.stack).map(|call| call.function.name.clone()).collect();
        calls.iter().any(|name| name == "Cache::STORABLE_freeze").then_some((row.stack, calls))
    });
    let (stack, frozen) = frozen.expect("a block of what was frozen");
    let library = ledger.calls(stack).position(|call| {
        let module = ledger.modules.get(call.function.module as usize);
        module.is_some_and(|module| module.path.ends_with("/Storable.so"))
    });
    let at = |name: &str| frozen.iter().position(|call| call == name);
    assert!(library.is_some(), "{frozen:?}");
    assert!(
        at("Cache::STORABLE_freeze") < library && library < at("Storable::freeze"),
        "{frozen:?}"
    );
}

#[test]
fn functions_of_perl_are_not_named_where_that_is_not_wanted() {
    if !has_perl() {
        return;
    }
    let options = [&ALL[..], &["--scripts", "off"]].concat();
    let (ledger, ..) = recorded(&["perl"], &fixture("perl_frames.pl"), &options);
    assert!(ledger.rows.iter().all(|row| scripts(&ledger, row.stack, PERL).is_empty()));
}

#[test]
fn frames_that_are_nonsense_do_no_harm() {
    if !has_perl() {
        return;
    }
    let ledger = recorded_nonsense("perl", "perl_nonsense.pl");
    assert_spoiled(&ledger, PERL, "main::spoiled", 24 * 15_000);
    assert_sound(&ledger, PERL, &["main::hold:21", "main::sound:47", "main::work:53", "(main):61"]);
}

#[test]
fn a_server_of_perl_under_load_names_the_line_that_leaks() {
    if !has_perl() {
        return;
    }
    let script = fixture("perl_server.pl");
    let text = fs::read_to_string(&script).expect("a fixture");
    let line = text.lines().position(|line| line.contains("# the leak")).expect("a leak") + 1;
    let server = Server::start("perl", &script);
    let told = server.told_under_load("4s");
    let place = format!("Sessions::open (perl_server.pl:{line})");
    assert!(told.contains(&place), "no {place}: {told}");
}
