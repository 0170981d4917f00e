//! jemalloc: Debian's, redis's, of Rust.

use std::process::Command;

use heapattach_census::walkers::Jemalloc;

use crate::program::{Program, build, built_allocator, library, rust};

/// As Debian has it, with these settings.
fn debians(settings: &str, arguments: &[&str]) -> Option<Command> {
    let preload = library("libjemalloc.so.2", "libjemalloc2")?;
    let mut command = Command::new(build("cc", "heap_table.c", &[])?);
    command.args(arguments).env("LD_PRELOAD", preload).env("MALLOC_CONF", settings);
    Some(command)
}

fn assert_exact(command: Option<Command>) {
    let Some(mut command) = command else { return };
    let program = Program::start(&mut command);
    program.stop();
    program.walk(&Jemalloc, false).assert_exact();
}

#[test]
fn every_block_of_debians_library_is_found() {
    assert_exact(debians("", &["4", "100000"]));
}

#[test]
fn every_block_is_found_whatever_the_settings_are() {
    let settings = [
        "narenas:1",
        "tcache:false",
        "tcache_max:65536,lg_tcache_nslots_mul:2",
        "dirty_decay_ms:0",
        "muzzy_decay_ms:10000,background_thread:true",
        "cache_oblivious:false",
        "slab_sizes:1-2048:4,bin_shards:1-512:4",
        "percpu_arena:percpu",
        "retain:false,metadata_thp:always,thp:always",
    ];
    for settings in settings {
        eprintln!("{settings}");
        assert_exact(debians(settings, &["5", "30000"]));
    }
}

#[test]
fn blocks_that_its_own_profiler_has_are_announced() {
    let Some(mut command) = debians("prof:true,lg_prof_sample:14", &["5", "30000"]) else { return };
    let program = Program::start(&mut command);
    program.stop();
    let found = program.walk(&Jemalloc, false);
    assert!(found.missing.is_empty() && found.wrong.is_empty(), "{:x?}", found.missing);
    assert!(!found.extra.is_empty() && !found.walk.is_exact(), "{:x?}", found.extra);
    let failed: Vec<_> = found.walk.checks.iter().filter(|check| !check.holds()).collect();
    assert!(failed.iter().all(|check| check.what.contains("itself")), "{failed:?}");
    let bytes: u64 = found.extra.iter().map(|block| block.size).sum();
    assert_eq!(bytes, failed.iter().map(|check| check.told - check.found).sum());
}

#[test]
fn every_block_of_rusts_is_found_stripped_or_not() {
    let Some(program) = rust("heap-jemalloc") else { return };
    let mut command = Command::new(&program);
    command.args(["4", "50000"]);
    assert_exact(Some(command));
    let stripped = program.with_extension("stripped");
    let strip = Command::new("strip").arg("-o").arg(&stripped).arg(&program).status();
    assert!(strip.unwrap().success());
    let mut command = Command::new(stripped);
    command.args(["4", "50000"]);
    assert_exact(Some(command));
}

#[test]
fn every_block_of_the_build_within_redis_is_found() {
    let Some(archive) = built_allocator("libjemalloc-redis.a") else { return };
    let archive = archive.to_str().unwrap();
    let program = build("cc", "heap_table.c", &["-DDIRECT=je_", archive, "-lm", "-s"]);
    assert_exact(program.map(Command::new));
}

#[test]
fn every_block_of_5_3_1_is_found() {
    let Some(preload) = built_allocator("libjemalloc-5.3.1.so") else { return };
    for settings in ["", "experimental_disable_large_size_classes:true", "tcache_max:32768"] {
        let Some(program) = build("cc", "heap_table.c", &[]) else { return };
        let mut command = Command::new(program);
        command.args(["4", "60000"]).env("LD_PRELOAD", &preload).env("MALLOC_CONF", settings);
        assert_exact(Some(command));
    }
}

#[test]
fn under_load_at_most_one_block_of_a_thread_is_in_flight() {
    let Some(mut command) = debians("", &["4", "30000", "churn"]) else { return };
    let program = Program::start(&mut command);
    let mut inexact = 0;
    for _ in 0..30 {
        program.stop();
        let found = program.walk(&Jemalloc, false);
        assert!(found.missing.is_empty(), "{:x?}", found.missing);
        match found.walk.is_exact() {
            true => assert!(found.extra.len() <= 4, "{:x?}", found.extra),
            // A call of the allocator moves some blocks at once between a slab and a cache.
            false => assert!(found.extra.len() <= 4 * 200, "{:x?}", found.extra),
        }
        inexact += u32::from(!found.walk.is_exact());
        program.go_on();
    }
    eprintln!("{inexact} of 30 stops in the middle of a change");
}
