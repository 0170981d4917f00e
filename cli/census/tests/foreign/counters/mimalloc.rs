//! mimalloc: what `mi_stats_print_out` prints, and its options; of every release at hand.

use std::{collections::BTreeMap, process::Command};

use heapattach_census::counters::{AllocatorKind, Statistics};

use crate::program::{build, built_allocator, library};

use super::told::Told;

/// The numbers of a line, and how far each may be off: they are cut.
fn printed(line: &str) -> Vec<(f64, f64)> {
    let mut numbers = Vec::new();
    for word in line.split_whitespace() {
        let unit = match word {
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            _ => 0,
        };
        if let Ok(number) = word.parse::<f64>() {
            let exact = if word.contains('.') { 0.11 } else { 0.0 };
            numbers.push((number, exact));
        } else if unit > 0
            && let Some((number, off)) = numbers.last_mut()
        {
            *number *= f64::from(1 << unit);
            // A tenth of a KiB is 102 bytes there.
            *off = *off * f64::from(1 << unit) + number.abs() / 200.0;
        } else {
            break;
        }
    }
    numbers
}

fn assert_printed(told: &Told, own: &Statistics) {
    let lines: Vec<_> = told.text.lines().map(str::trim).collect();
    let head = lines.iter().find(|line| line.contains("peak") && line.contains("total"));
    let columns: Vec<_> = head.unwrap_or(&"").split_whitespace().collect();
    let first = columns.iter().position(|word| *word == "peak").unwrap();
    let mut compared = 0;
    for (line, name) in [
        ("reserved", "reserved"),
        ("committed", "committed"),
        ("touched", "page_committed"),
        ("threads", "threads"),
    ] {
        let rows = lines.iter().filter_map(|row| row.split_once(':'));
        let mut rows = rows.filter(|(name, _)| name.trim() == line).map(|(_, numbers)| numbers);
        let Some(line) = rows.next_back() else { continue };
        let numbers = printed(line);
        for (column, (number, off)) in columns[first..].iter().zip(numbers) {
            let Some(read) = own.stats.get(format!("{name}.{column}").as_str()) else { continue };
            let read = read.cast_signed() as f64;
            assert!((number - read).abs() <= off, "{name}.{column}: {number}, {read}; {line}");
            compared += 1;
        }
    }
    assert!(compared >= 6, "{compared} alone of {lines:#?}");
}

fn assert_equal(mut command: Command, release: &str) {
    command.env("MIMALLOC_PURGE_DELAY", "7").env("MIMALLOC_RESET_DELAY", "7");
    let told = Told::start(command.args(["4", "60000"]));
    let own = told.read(AllocatorKind::Mimalloc);
    assert!(own.unknown.is_empty(), "{:?}", own.unknown);
    assert!(own.version.contains(release), "{}", own.version);
    assert_printed(&told, &own);
    let delay =
        ["purge_delay", "reset_delay", "decommit_delay"].iter().find_map(|name| own.opt.get(*name));
    assert_eq!(delay.and_then(|value| value.number()), Some(7), "{:?}", own.opt);
    let mut values: BTreeMap<usize, &str> = BTreeMap::new();
    for (name, value) in &told.lines {
        if let Some(number) = name.strip_prefix("option.") {
            values.insert(number.parse().unwrap(), value);
        }
    }
    let read: Vec<_> = own.opt.values().map(|value| value.told()).collect();
    let missing: Vec<_> =
        values.values().filter(|value| !read.iter().any(|own| own == *value)).collect();
    assert!(values.len() == 20 && missing.is_empty(), "{missing:?} of {:?}", own.opt);
    let total = |name: &str| own.total(name);
    assert!(total("used") > 1 << 20 && total("used") <= total("pages"), "{:?}", own.stats);
    assert!(total("blocks") > 10_000, "{:?}", own.stats);
}

#[test]
fn debians_library_prints_what_is_read() {
    let Some(library) = library("libmimalloc.so.2", "libmimalloc2.0") else { return };
    let Some(program) = build("cc", "own_numbers.c", &[]) else { return };
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library);
    assert_equal(command, "2.0.9");
}

/// A release that was built, by its file's name, and a release of those that it is told to be one of.
fn assert_release_prints(version: &str, release: &str) {
    let Some(object) = built_allocator(&format!("libmimalloc-{version}.o")) else { return };
    let flags = ["-DPREFIX=mi_", "-DMIMALLOC", object.to_str().unwrap(), "-rdynamic"];
    let Some(program) = build("cc", "own_numbers.c", &flags) else { return };
    eprintln!("{version}");
    assert_equal(Command::new(program), release);
}

#[test]
fn other_releases_print_what_is_read() {
    for (version, release) in
        [("2.1.2", "2.1.2"), ("2.1.7", "2.1.8"), ("2.3.2", "2.4"), ("3.3.2", "3.3")]
    {
        assert_release_prints(version, release);
    }
}

#[test]
#[ignore = "no registry has them: fixtures/heaps/allocators.sh mimalloc-2.4.1 FOLDER, mimalloc-3.4.3 FOLDER"]
fn releases_that_no_registry_has_print_what_is_read() {
    assert_release_prints("2.4.1", "2.4");
    assert_release_prints("3.4.3", "3.4");
}
