//! glibc: what `malloc_info` prints, of every release at hand.

use std::{collections::BTreeMap, path::Path, process::Command};

use heapattach_census::counters::{AllocatorKind, Numbers, Statistics};
use heapattach_test_folder::skip;

use crate::program::build;

use super::told::{Told, assert_equal};

/// What was printed, by names like ours.
fn printed(text: &str) -> BTreeMap<String, String> {
    let (mut all, mut prefix) = (BTreeMap::new(), String::new());
    for line in text.lines().filter(|line| line.starts_with(['<', ' '])) {
        let name: String =
            line.trim().trim_start_matches('<').chars().take_while(|c| c.is_alphabetic()).collect();
        let fields: BTreeMap<_, _> = line
            .split_whitespace()
            .filter_map(|word| word.trim_end_matches(['/', '>']).split_once('='))
            .map(|(name, value)| (name, value.trim_matches('"').trim_end_matches("\"/").to_owned()))
            .collect();
        let of = |name: &str| fields.get(name).cloned();
        let kind = of("type").unwrap_or_default();
        match name.as_str() {
            "heap" => prefix = format!("arena {}: ", of("nr").unwrap_or_default()),
            "total" | "system" | "aspace" => {
                let name = if name == "total" { kind.clone() } else { format!("{name}.{kind}") };
                for field in ["count", "size"] {
                    if let Some(value) = of(field) {
                        let is_size_alone = name.contains('.');
                        let name =
                            if is_size_alone { name.clone() } else { format!("{name}.{field}") };
                        all.insert(format!("{prefix}{name}"), value);
                    }
                }
            }
            "size" => {
                let number = |name: &str| of(name).and_then(|value| value.parse::<u64>().ok());
                let [Some(from), Some(to), Some(count), Some(total)] =
                    ["from", "to", "count", "total"].map(number)
                else {
                    continue;
                };
                // Those of fast bins are told as sums alone; others are printed with their flags.
                if to.is_multiple_of(16) {
                    continue;
                }
                let clean =
                    [("from", from & !7), ("count", count), ("total", total - count * (to & 7))];
                for (field, value) in clean {
                    all.insert(format!("{prefix}bin {} {field}", to & !7), value.to_string());
                }
            }
            _ => {}
        }
        // The sums follow the last one.
        if line.starts_with("</heap") {
            prefix.clear();
        }
    }
    // Of arenas besides the main one that is their mappings.
    all.retain(|name, _| !name.contains("aspace"));
    without_flags(&mut all);
    all
}

/// Sizes of free chunks are summed with their flag, that the chunk before is in use; that of the top is not.
fn without_flags(all: &mut BTreeMap<String, String>) {
    let number = |all: &BTreeMap<String, String>, name: &str| all[name].parse::<u64>().unwrap();
    let arenas: Vec<_> =
        all.keys().filter_map(|name| Some(name.strip_suffix("rest.size")?.to_owned())).collect();
    let mut sum = 0;
    for arena in arenas.iter().filter(|arena| !arena.is_empty()) {
        let [size, count] =
            ["rest.size", "rest.count"].map(|name| number(all, &format!("{arena}{name}")));
        let size = size - (count - 1);
        sum += size;
        all.insert(format!("{arena}rest.size"), size.to_string());
    }
    all.insert("rest.size".to_owned(), sum.to_string());
}

fn named(own: &Statistics) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut add = |prefix: &str, numbers: &Numbers| {
        for (name, number) in numbers {
            all.insert(format!("{prefix}{name}"), number.to_string());
        }
    };
    add("", &own.stats);
    for arena in &own.arenas {
        add(&format!("arena {}: ", arena.index), &arena.numbers);
        for class in &arena.bins {
            add(&format!("arena {}: bin {} ", arena.index, class.size), &class.numbers);
        }
    }
    all
}

fn assert_all_equal(mut command: Command, release: &str, settings: &str) {
    command.args(["4", "60000"]).env("GLIBC_TUNABLES", settings);
    let told = Told::start(&mut command);
    let own = told.read(AllocatorKind::Glibc);
    // Links of fast bins tell releases from each other, if there are any.
    let has_links = own.total("fast.count") > 0 || release.contains("later");
    assert_eq!(own.version, if has_links { release } else { "2.27 to 2.42" });
    assert!(own.unknown.is_empty(), "{:?}", own.unknown);
    let own = named(&own);
    assert_equal(&printed(&told.text), &own, 60);
    assert_ne!(own["mmap.count"], "0", "{settings}");
}

const SETTINGS: [&str; 4] = [
    "",
    "glibc.malloc.arena_max=1",
    "glibc.malloc.tcache_count=0",
    "glibc.malloc.mmap_threshold=4096:glibc.malloc.trim_threshold=65536",
];

#[test]
fn the_systems_own_release_prints_what_is_read() {
    for settings in SETTINGS {
        let Some(program) = build("cc", "own_numbers.c", &[]) else { return };
        assert_all_equal(Command::new(program), "2.32 to 2.42", settings);
    }
}

#[test]
fn settings_are_those_that_were_given() {
    let Some(program) = build("cc", "own_numbers.c", &[]) else { return };
    let given = "glibc.malloc.arena_max=3:glibc.malloc.top_pad=8192:glibc.malloc.mmap_threshold=65536:\
                 glibc.malloc.tcache_count=9:glibc.malloc.mmap_max=77:glibc.malloc.trim_threshold=300000";
    let mut command = Command::new(program);
    let told = Told::start(command.args(["2", "20000"]).env("GLIBC_TUNABLES", given));
    let own = told.read(AllocatorKind::Glibc);
    for part in given.split(':') {
        let (name, value) = part.trim_start_matches("glibc.malloc.").split_once('=').unwrap();
        let read = own.opt.get(name).map(|value| value.told());
        assert_eq!(read.as_deref(), Some(value), "{name}");
    }
}

/// A program of another release's library.
fn other(folder: &str, flags: &[&str]) -> Option<Command> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(folder);
    let Ok(root) = root.canonicalize() else {
        skip(&format!("no target/{folder}"), "unpack the packages there (see .ci/run)");
        return None;
    };
    let root = root.to_str().unwrap();
    let own = if folder.contains("debian-11") { "lib" } else { "usr/lib" };
    let library = format!("{root}/{own}/x86_64-linux-gnu");
    let mut all: Vec<String> = flags.iter().map(|flag| flag.replace("ROOT", root)).collect();
    all.push(format!("-Wl,--dynamic-linker={library}/ld-linux-x86-64.so.2"));
    all.push(format!("-Wl,-rpath,{library}"));
    let flags: Vec<_> = all.iter().map(String::as_str).collect();
    Some(Command::new(build("cc", "own_numbers.c", &flags)?))
}

#[test]
fn other_releases_print_what_is_read() {
    const OLD: [&str; 8] = [
        "--sysroot=ROOT",
        "-BROOT/usr/lib/x86_64-linux-gnu",
        "-nodefaultlibs",
        "ROOT/lib/x86_64-linux-gnu/libpthread.so.0",
        "ROOT/lib/x86_64-linux-gnu/libdl.so.2",
        "ROOT/lib/x86_64-linux-gnu/libc.so.6",
        "ROOT/usr/lib/x86_64-linux-gnu/libc_nonshared.a",
        "-Wl,--rpath-link=ROOT/lib/x86_64-linux-gnu",
    ];
    let releases = [
        ("debian-11", &OLD[..], "2.27 to 2.31"),
        ("libc/trixie", &[], "2.32 to 2.42"),
        ("libc/sid", &[], "2.43 or later"),
    ];
    for (folder, flags, release) in releases {
        for settings in SETTINGS {
            eprintln!("{folder} {settings}");
            let Some(command) = other(folder, flags) else { break };
            assert_all_equal(command, release, settings);
        }
    }
}
