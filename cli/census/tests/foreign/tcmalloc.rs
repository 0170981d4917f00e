//! tcmalloc of gperftools, as Debian has it.

use std::process::Command;

use heapattach_census::walkers::Tcmalloc;

use crate::program::{Found, Program, build, library};

const PACKAGE: &str = "libtcmalloc-minimal4 libgoogle-perftools4";

fn start(name: &str, arguments: &[&str]) -> Option<Program> {
    let preload = library(name, PACKAGE)?;
    let mut command = Command::new(build("cc", "heap_table.c", &[])?);
    command.args(arguments).env("LD_PRELOAD", preload);
    Some(Program::start(&mut command))
}

/// But for what the library has itself from before the program could keep its table: objects that its
/// constructors make by its own operators, and a block whose size it did not know yet.
fn assert_exact(mut found: Found) {
    found.wrong.retain(|(_, size)| *size != 0);
    let own = found.libraries();
    eprintln!("of the library's constructors: {:x?}", found.extra.drain(..own));
    found.assert_exact();
}

#[test]
fn every_block_of_debians_library_is_found() {
    for arguments in [["4", "100000"], ["9", "20000"], ["1", "300"]] {
        let Some(program) = start("libtcmalloc_minimal.so.4", &arguments) else { return };
        program.stop();
        assert_exact(program.walk(&Tcmalloc, false));
    }
}

#[test]
fn every_block_of_the_library_with_a_profiler_is_found() {
    let Some(program) = start("libtcmalloc_and_profiler.so.4", &["4", "50000"]) else { return };
    program.stop();
    assert_exact(program.walk(&Tcmalloc, false));
}

#[test]
fn under_load_at_most_one_block_of_a_thread_is_in_flight() {
    let arguments = ["4", "30000", "churn"];
    let Some(program) = start("libtcmalloc_minimal.so.4", &arguments) else { return };
    let mut inexact = 0;
    for _ in 0..30 {
        program.stop();
        let found = program.walk(&Tcmalloc, false);
        if found.walk.is_exact() {
            let (missing, extra) = (found.missing.len(), found.extra.len() - found.libraries());
            let most = if found.walk.in_flight > 0 { 4 * 200 } else { 4 };
            assert!(missing <= 4 && extra <= most, "{:x?}", found.extra);
        }
        if !found.walk.is_exact() {
            eprintln!("{:?} {} {}", found.walk.trust, found.missing.len(), found.extra.len());
        }
        inexact += u32::from(!found.walk.is_exact());
        program.go_on();
    }
    eprintln!("{inexact} of 30 stops in the middle of a change");
}

#[test]
fn a_walk_over_changed_books_ends() {
    let Some(program) = start("libtcmalloc_minimal.so.4", &["2", "3000"]) else { return };
    program.stop();
    program.assert_bounded(&Tcmalloc);
}
