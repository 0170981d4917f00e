//! jemalloc: Debian's, redis's, of Rust.

use std::process::Command;

use heapattach_census::walkers::Jemalloc;

use crate::program::{Program, build, library};

fn walk_with(settings: &str) {
    let Some(preload) = library("libjemalloc.so.2", "libjemalloc2") else { return };
    let Some(program) = build("cc", "heap_table.c", &[]) else { return };
    let mut command = Command::new(program);
    command.args(["4", "100000"]).env("LD_PRELOAD", preload).env("MALLOC_CONF", settings);
    let program = Program::start(&mut command);
    program.stop();
    program.walk(&Jemalloc, false).assert_exact();
}

#[test]
fn every_block_of_debians_library_is_found() {
    walk_with("");
}
