//! mimalloc: Debian's 2.0, 2 and 3 from sources, and the one that Rust has.

use std::process::Command;

use heapattach_census::walkers::Mimalloc;

use crate::program::{Program, build, built_allocator, library, rust};

fn assert_exact(mut command: Command) {
    let program = Program::start(&mut command);
    program.stop();
    // An aligned block begins within one of the pages' blocks.
    program.walk(&Mimalloc, true).assert_exact();
}

#[test]
fn every_block_of_debians_library_is_found() {
    let Some(preload) = library("libmimalloc.so.2", "libmimalloc2.0") else { return };
    let Some(program) = build("cc", "heap_table.c", &[]) else { return };
    for arguments in [["4", "100000"], ["9", "20000"], ["1", "300"]] {
        let mut command = Command::new(&program);
        command.args(arguments).env("LD_PRELOAD", &preload);
        assert_exact(command);
    }
}

#[test]
fn every_block_of_rusts_is_found() {
    let Some(program) = rust("heap-mimalloc") else { return };
    let mut command = Command::new(&program);
    command.args(["4", "50000"]);
    assert_exact(command);
}

fn assert_release_is_exact(release: &str) {
    let Some(object) = built_allocator(&format!("libmimalloc-{release}.o")) else { return };
    let object = object.to_str().unwrap();
    let flags = ["-DDIRECT=mi_", "-Wl,--allow-multiple-definition", object, "-s"];
    let Some(program) = build("cc", "heap_table.c", &flags) else { return };
    let mut command = Command::new(program);
    command.args(["5", "60000"]);
    assert_exact(command);
}

#[test]
fn every_block_of_other_releases_is_found() {
    ["2.1.2", "2.1.7", "2.3.2", "3.3.2"].into_iter().for_each(assert_release_is_exact);
    let Some(preload) = built_allocator("libmimalloc-3.4.3.so") else { return };
    let Some(program) = build("cc", "heap_table.c", &[]) else { return };
    let mut command = Command::new(program);
    command.args(["5", "60000"]).env("LD_PRELOAD", preload);
    assert_exact(command);
}

#[test]
#[ignore = "no registry has them: fixtures/heaps/allocators.sh mimalloc-2.4.1 FOLDER, mimalloc-3.4.3 FOLDER"]
fn every_block_of_releases_that_no_registry_has_is_found() {
    ["2.4.1", "3.4.3"].into_iter().for_each(assert_release_is_exact);
}

#[test]
fn under_load_at_most_one_block_of_a_thread_is_in_flight() {
    let Some(preload) = library("libmimalloc.so.2", "libmimalloc2.0") else { return };
    let Some(program) = build("cc", "heap_table.c", &[]) else { return };
    let mut command = Command::new(program);
    command.args(["4", "30000", "churn"]).env("LD_PRELOAD", preload);
    let program = Program::start(&mut command);
    let mut inexact = 0;
    for _ in 0..30 {
        program.stop();
        let found = program.walk(&Mimalloc, true);
        if found.walk.is_exact() {
            assert!(found.missing.len() <= 4 && found.extra.len() <= 4, "{:x?}", found.extra);
        }
        inexact += u32::from(!found.walk.is_exact());
        program.go_on();
    }
    eprintln!("{inexact} of 30 stops in the middle of a change");
}

#[test]
fn a_walk_over_changed_books_ends() {
    let Some(preload) = library("libmimalloc.so.2", "libmimalloc2.0") else { return };
    let Some(program) = build("cc", "heap_table.c", &[]) else { return };
    let mut command = Command::new(program);
    command.args(["2", "3000"]).env("LD_PRELOAD", preload);
    let program = Program::start(&mut command);
    program.stop();
    program.assert_bounded(&Mimalloc);
}
