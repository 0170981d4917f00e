//! A program with a gigabyte of variables, most of which were never touched: to look at its heap reads none of these, and is
//! over soon.

use std::fs;

use heapattach_tests::{
    command::Heapattach,
    fixture::{Fixture, Launch},
    trace::Before,
};

const DONE: i32 = 0;
/// The kernel makes a page of tables for each two megabytes that are read, also where nothing is.
const MOST_TABLES: u64 = 16 << 10;

fn tables(fixture: &Fixture) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", fixture.pid())).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPTE:")).expect("VmPTE");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("KiB") << 10
}

#[test]
fn variables_that_were_never_touched_are_not_read_in_a_process_that_goes_on() {
    let Some(launch) = Launch::new("large_tables.c") else { return };
    let mut fixture = launch.start();
    let before = Before::of(&mut fixture);
    let then = tables(&fixture);
    let pid = fixture.pid().to_string();
    for how in ["fork", "early"] {
        let check = ["check", "-p", &pid, "--duration", "100ms", "--snapshot", how];
        for words in [&["heap", "-p", &pid, "--snapshot", how][..], &check] {
            let outcome = Heapattach::new(words).run().expect(DONE);
            println!("{words:?}: {} bytes of tables more", tables(&fixture) - then);
            assert!(tables(&fixture) < then + MOST_TABLES, "{words:?}: {}", outcome.stdout);
        }
    }
    before.assert_equal(&mut fixture, "after four looks");
    fixture.finish();
}
