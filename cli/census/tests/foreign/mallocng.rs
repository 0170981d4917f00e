//! mallocng: musl's library, static programs of C and of Rust.

use std::{path::Path, process::Command};

use heapattach_census::walkers::Mallocng;
use heapattach_test_folder::skip;

use crate::program::{Program, build};

const STATIC: [&str; 4] = [
    "-static",
    "-DDIRECT=__real_",
    "-DWRAPPED",
    "-Wl,--wrap=malloc,--wrap=free,--wrap=realloc,--wrap=aligned_alloc,--wrap=malloc_usable_size",
];

fn start(flags: &[&str], arguments: &[&str]) -> Option<Program> {
    let program = build("musl-gcc", "heap_table.c", flags)?;
    Some(Program::start(Command::new(program).args(arguments)))
}

#[test]
fn every_block_of_static_programs_is_found_stripped_or_not() {
    for flags in [&STATIC[..], &[&STATIC[..], &["-s"]].concat()] {
        for arguments in [["4", "60000"], ["9", "20000"], ["1", "300"]] {
            let Some(program) = start(flags, &arguments) else { return };
            program.stop();
            program.walk(&Mallocng, false).assert_exact();
        }
    }
}

#[test]
fn every_block_of_a_program_with_musls_library_is_found() {
    if !Path::new("/lib/ld-musl-x86_64.so.1").exists() {
        return skip("no loader of musl here", "apt-get install musl");
    }
    let Some(program) = start(&["-DMUSL"], &["4", "60000"]) else { return };
    program.stop();
    program.walk(&Mallocng, false).assert_exact();
}

#[test]
fn every_block_of_a_static_program_of_rust_is_found() {
    let target = "x86_64-unknown-linux-musl";
    let print = ["--print", "target-libdir", "--target", target];
    let folder = Command::new("rustc").args(print).output().unwrap().stdout;
    if !Path::new(String::from_utf8_lossy(&folder).trim()).is_dir() {
        // No registry of packages has it.
        eprintln!("SKIPPED: no Rust for {target}; rustup target add {target}");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/heaps/heap_system.rs");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("heap_system");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition=2024", "-O", "-Cstrip=symbols", "--target", target, "-o"]);
    assert!(rustc.arg(&program).arg(root).status().unwrap().success());
    let program = Program::start(Command::new(program).args(["4", "40000"]));
    program.stop();
    let found = program.walk(&Mallocng, false);
    // std's own blocks are not all of this allocator's functions: what the C library has for threads.
    assert!(found.missing.is_empty() && found.wrong.is_empty(), "{:x?}", found.missing);
    assert!(found.extra.len() < 8 && found.walk.is_exact(), "{:x?}", found.extra);
}

#[test]
fn under_load_at_most_one_block_of_a_thread_is_in_flight() {
    let Some(program) = start(&STATIC, &["4", "20000", "churn"]) else { return };
    let mut inexact = 0;
    for _ in 0..30 {
        program.stop();
        let found = program.walk(&Mallocng, false);
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
    let Some(program) = start(&STATIC, &["2", "3000"]) else { return };
    program.stop();
    program.assert_bounded(&Mallocng);
}
