//! jemalloc: Debian's, redis's, of Rust.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    process::{Command, Stdio},
    time::Instant,
};

use heapattach_census::{Answer, walkers::Jemalloc};
use heapattach_test_folder::{Folder, skip};

use crate::program::{
    DEADLINE, Program, Running, build, built_allocator, library, rust, stop, walk,
};

/// As Debian has it, with these settings.
fn debians(settings: &str, arguments: &[&str]) -> Option<Command> {
    let preload = library("libjemalloc.so.2", "libjemalloc2")?;
    let mut command = Command::new(build("cc", "heap_table.c", &[])?);
    command.args(arguments).env("LD_PRELOAD", preload).env("MALLOC_CONF", settings);
    Some(command)
}

fn assert_exact(command: Option<Command>) {
    let Some(mut command) = command else { return };
    // A background thread may be in the middle of returning pages, which the walk says: another look then.
    for _ in 0..5 {
        let program = Program::start(&mut command);
        program.stop();
        let found = program.walk(&Jemalloc, false);
        let has_wrong = !found.missing.is_empty() || !found.extra.is_empty();
        if has_wrong || found.walk.is_exact() {
            return found.assert_exact();
        }
        eprintln!("{:?}", found.walk.trust);
    }
    panic!("no walk in five was exact");
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
    assert_eq!(bytes, failed.iter().map(|check| check.told - check.found).sum::<u64>());
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
    let settings = ["", "disable_large_size_classes:true", "hpa:true", "cache_oblivious:false"];
    for settings in settings {
        let Some(program) = build("cc", "heap_table.c", &[]) else { return };
        let mut command = Command::new(program);
        command.args(["4", "60000"]).env("LD_PRELOAD", &preload).env("MALLOC_CONF", settings);
        assert_exact(Some(command));
    }
}

#[test]
fn the_books_of_a_real_server_agree() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        return skip("no redis-server here", "apt-get install redis-server");
    }
    let folder = Folder::new("redis");
    let socket = folder.0.join("socket");
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket).stdout(Stdio::null());
    let server = Running(command.current_dir(&folder.0).spawn().unwrap());
    let until = Instant::now() + DEADLINE;
    let mut client = loop {
        match UnixStream::connect(&socket) {
            Ok(client) => break client,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    };
    let sets = (0..20_000).map(|n| format!("SET key:{n} {}\r\n", "v".repeat(n % 900)));
    client.write_all(format!("{}ECHO done\r\n", sets.collect::<String>()).as_bytes()).unwrap();
    let mut answers = BufReader::new(client);
    let mut line = String::new();
    while !line.ends_with("done\r\n") {
        assert!(answers.read_line(&mut line).unwrap() > 0);
    }
    let pid = server.0.id().cast_signed();
    stop(pid);
    let mut blocks = Vec::new();
    let Answer::Walked(walk) = walk(pid, &Jemalloc, &mut blocks) else { panic!("no jemalloc") };
    assert!(walk.is_exact(), "{:#?}", walk.trust);
    let used = walk.bytes().used_blocks;
    eprintln!("{used} blocks of {}", walk.layout);
    // A key, its value and their entry.
    assert!(used > 40_000, "{used}");
}

#[test]
fn under_load_at_most_one_block_of_a_thread_is_in_flight() {
    let Some(mut command) = debians("", &["4", "30000", "churn"]) else { return };
    let program = Program::start(&mut command);
    let mut inexact = 0;
    for _ in 0..30 {
        program.stop();
        let found = program.walk(&Jemalloc, false);
        // A call of the allocator moves some blocks at once between a slab and a cache: that is announced. Those
        // that it gives back are still in its cache when another thread can have them already.
        let is_announced = !found.walk.is_exact() || found.walk.in_flight > 0;
        let (most, lost) = if is_announced { (4 * 200, 4 * 200) } else { (4, 0) };
        assert!(found.missing.len() <= lost, "{:x?}", found.missing);
        assert!(found.extra.len() <= most, "{:x?}", found.extra);
        inexact += u32::from(!found.walk.is_exact());
        program.go_on();
    }
    eprintln!("{inexact} of 30 stops in the middle of a change");
}

#[test]
fn a_walk_over_changed_books_ends() {
    let Some(mut command) = debians("narenas:2", &["2", "3000"]) else { return };
    let program = Program::start(&mut command);
    program.stop();
    program.assert_bounded(&Jemalloc);
}
