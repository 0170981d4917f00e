//! jemalloc: every name of `mallctl` that is read, in every build at hand.

use std::{collections::BTreeMap, process::Command};

use heapattach_census::counters::{AllocatorKind, Class, Numbers, Statistics, Value};

use crate::program::{build, built_allocator, library, rust, rust_archive};

use super::told::{Told, assert_equal};

/// By the names of mallctl.
fn named(own: &Statistics) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    all.insert("version".to_owned(), format!("\"{}\"", own.version));
    for (name, value) in &own.opt {
        let value = match value {
            Value::Flag(flag) => u64::from(*flag).to_string(),
            Value::Number(number) => number.cast_unsigned().to_string(),
            Value::Text(text) => format!("\"{text}\""),
        };
        all.insert(format!("opt.{name}"), value);
    }
    for thread in own.arenas.iter().flat_map(|arena| &arena.threads) {
        all.insert(format!("thread.{}.allocated", thread.tid), thread.allocated.to_string());
        all.insert(format!("thread.{}.deallocated", thread.tid), thread.deallocated.to_string());
    }
    let mut add = |prefix: &str, numbers: &Numbers| {
        for (name, number) in numbers {
            all.insert(format!("{prefix}.{name}"), number.to_string());
        }
    };
    add("stats", &own.stats);
    for arena in &own.arenas {
        let prefix = format!("stats.arenas.{}", arena.index);
        add(&prefix, &arena.numbers);
        let settings = arena.settings.iter().map(|(name, number)| (*name, number.cast_unsigned()));
        add(&prefix, &settings.collect());
        let mut classes = |kind: &str, classes: &[Class]| {
            for class in classes {
                let prefix = format!("{prefix}.{kind}.{}", class.size);
                add(&prefix, &class.numbers);
                add(&format!("{prefix}.mutex"), &class.mutex);
            }
        };
        classes("bins", &arena.bins);
        classes("lextents", &arena.lextents);
        for (lock, numbers) in &arena.mutexes {
            add(&format!("{prefix}.mutexes.{lock}"), numbers);
        }
    }
    all
}

/// Which the program starts.
const THREADS: usize = 5;

fn assert_all_equal(mut command: Command, release: &str, variable: &str) {
    let told = Told::start(command.args([&THREADS.to_string(), "60000"]));
    let own = told.read(AllocatorKind::Jemalloc);
    assert!(own.version.starts_with(release), "{}", own.version);
    assert!(own.unknown.is_empty(), "{:?}", own.unknown);
    assert_eq!(own.variable, variable);
    let mut lines = told.lines.clone();
    let threads = lines.keys().filter(|name| name.starts_with("thread.")).count();
    assert_eq!(threads, 2 * THREADS, "each tells what it allocated, and freed");
    // Threads without caches are in no list, and those of 5.2.1 have no sign of where they count.
    if release == "5.2.1" || own.opt["tcache"] == Value::Flag(false) {
        lines.retain(|name, _| !name.starts_with("thread."));
        assert!(own.arenas.iter().all(|arena| arena.threads.is_empty()), "{own:#?}");
    }
    assert_equal(&lines, &named(&own), 800);
    let total = |name: &str| own.total(name);
    assert!(total("allocated") > 1 << 20 && total("allocated") <= total("active"), "{own:#?}");
}

fn preloaded(library: &std::path::Path, settings: &str) -> Option<Command> {
    let mut command = Command::new(build("cc", "own_numbers.c", &[])?);
    command.env("LD_PRELOAD", library).env("MALLOC_CONF", settings);
    Some(command)
}

#[test]
fn debians_library_counts_what_is_read() {
    let settings = [
        "",
        "narenas:1",
        "tcache:false",
        "dirty_decay_ms:0",
        "muzzy_decay_ms:10000,background_thread:true",
        "bin_shards:1-512:4",
        "percpu_arena:percpu",
        "retain:false,metadata_thp:always",
        "tcache_max:65536",
    ];
    let Some(library) = library("libjemalloc.so.2", "libjemalloc2") else { return };
    for settings in settings {
        eprintln!("{settings}");
        let Some(command) = preloaded(&library, settings) else { return };
        assert_all_equal(command, "5.3.0", "MALLOC_CONF");
    }
}

#[test]
fn releases_5_2_1_and_5_3_1_count_what_is_read() {
    for release in ["5.2.1", "5.3.1"] {
        let Some(library) = built_allocator(&format!("libjemalloc-{release}.so")) else { return };
        for settings in ["", "narenas:2,muzzy_decay_ms:10000", "bin_shards:1-256:2"] {
            eprintln!("{release} {settings}");
            let Some(command) = preloaded(&library, settings) else { return };
            assert_all_equal(command, release, "MALLOC_CONF");
        }
    }
}

#[test]
fn the_build_within_redis_counts_what_is_read() {
    let Some(archive) = built_allocator("libjemalloc-redis.a") else { return };
    let archive = archive.to_str().unwrap();
    let program = build("cc", "own_numbers.c", &["-DPREFIX=je_", archive, "-lm", "-s"]);
    if let Some(program) = program {
        assert_all_equal(Command::new(program), "5.3.0", "JE_MALLOC_CONF");
    }
}

/// What Rust programs with tikv-jemallocator have, as a program of C that is linked to the same archive tells it.
#[test]
fn the_build_within_rust_programs_counts_what_is_read() {
    if rust("heap-jemalloc").is_none() {
        return;
    }
    let archive = rust_archive("tikv-jemalloc-sys", "libjemalloc.a").expect("cargo has built it");
    let archive = archive.to_str().unwrap();
    let program = build("cc", "own_numbers.c", &["-DPREFIX=_rjem_", archive, "-lm", "-s"]);
    let Some(program) = program else { return };
    let told = Told::start(Command::new(program).args([&THREADS.to_string(), "60000"]));
    let own = told.read(AllocatorKind::Jemalloc);
    assert!(own.version.starts_with("5.3.0"), "{}", own.version);
    assert_eq!(own.variable, "_RJEM_MALLOC_CONF");
    // It is built without statistics, unless a program wants them: settings and pages are told.
    assert_eq!(own.unknown, ["calls, blocks and locks: this build keeps no statistics"]);
    // Without them no arena lists caches, by which threads are found.
    let mut lines = told.lines.clone();
    lines.retain(|name, _| !name.starts_with("thread."));
    assert_equal(&lines, &named(&own), 20);
}
