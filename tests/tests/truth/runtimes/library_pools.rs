//! Allocators of real libraries, stripped as the system has them: what takes chunks is named with what these hold,
//! what calls malloc for each block counts once, by its caller.

use std::{io::Write as _, path::Path, process::Command};

use heapattach_tests::{attached::Attached, command::Hooks, compile::Source, skip::skip};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::Program;

const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// What a session says of the fixture that keeps memory of this library; `None` if it is not here.
fn report(library: &str, package: &str) -> Option<Value> {
    let path = Path::new(LIBRARIES).join(library);
    if !path.exists() {
        skip(&format!("no {} here", path.display()), &format!("apt-get install {package}"));
        return None;
    }
    let program = Source::new("library_pools.c").build()?;
    let mut program = Program::start(Command::new(program).arg(path));
    let pid = program.0.id().to_string().parse().expect("a number");
    let attached = Attached::open(Attached::command(pid, Hooks::Auto).arg("--all"));
    let attached = attached.expect("it attaches");
    program.0.stdin.as_mut().expect("asked for").write_all(b"x").expect("it reads");
    program.says("done");
    let running = attached.into_command();
    running.signal(Signal::SIGINT);
    // Ctrl-C, and detached cleanly.
    let outcome = running.wait().expect(130);
    Some(serde_json::from_str(&outcome.stdout).expect("JSON"))
}

/// Blocks and bytes in use of a function.
fn kept(report: &Value, function: &str) -> [f64; 2] {
    let sites = report["summary"]["sites"].as_array().expect("a list");
    let is_it = |site: &&Value| site["place"].as_str().is_some_and(|at| at.starts_with(function));
    let site = sites.iter().find(is_it).unwrap_or_else(|| panic!("no {function}: {report:#}"));
    ["blocks", "bytes"].map(|unit| site["live"][unit]["value"].as_f64().expect(unit))
}

/// The bytes that are told to be chunks of a pool.
fn chunks(report: &Value, pool: &str) -> f64 {
    let told = report["summary"]["blind"].as_array().expect("a list");
    let line = told.iter().filter_map(Value::as_str).find(|line| line.starts_with(pool));
    let line = line.unwrap_or_else(|| panic!("no {pool}: {told:#?}"));
    let mut words = line[pool.len()..].trim_start_matches(':').split_whitespace();
    let number: f64 = words.next().and_then(|word| word.parse().ok()).expect("a number");
    match words.next() {
        Some("KiB") => number * 1024.0,
        Some("MiB") => number * 1024.0 * 1024.0,
        unit => panic!("{unit:?}: {line}"),
    }
}

/// They are mapped: no block of malloc.
#[test]
fn chunks_of_apr_are_named_and_its_caller_mapped_them() {
    let Some(report) = report("libapr-1.so.0", "libapr1") else { return };
    let bytes = chunks(&report, "APR's pools");
    assert!((800_000.0..1_200_000.0).contains(&bytes), "{bytes}");
    let mapped = report["summary"]["mapped_sites"].as_array().expect("a list");
    let is_it =
        |site: &&Value| site["place"].as_str().is_some_and(|at| at.starts_with("keep_apr "));
    let site = mapped.iter().find(is_it).unwrap_or_else(|| panic!("no keep_apr: {mapped:#?}"));
    assert!(site["live"].as_f64().is_some_and(|live| live >= 800_000.0), "{site}");
}

#[test]
fn chunks_of_glibs_slices_are_named_or_each_slice_counts() {
    let library = "libglib-2.0.so.0";
    let Some(report) = report(library, "libglib2.0-0") else { return };
    let [blocks, bytes] = kept(&report, "keep_glib ");
    // `libglib-2.0.so.0.7400.6` is 2.74.6.
    let path = std::fs::canonicalize(Path::new(LIBRARIES).join(library)).expect("it is there");
    let version = path.to_string_lossy().rsplit(".so.0.").next().map(str::to_owned);
    let version = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    if version.expect("a version") >= 7600 {
        assert!(blocks >= 10_000.0 && bytes >= 640_000.0, "{blocks} {bytes}");
        return;
    }
    let bytes = chunks(&report, "GLib's slices");
    assert!((640_000.0..1_000_000.0).contains(&bytes), "{bytes}");
}

#[test]
fn blocks_of_jansson_count_once_by_their_caller() {
    let Some(report) = report("libjansson.so.4", "libjansson4") else { return };
    // A string is its text and a block with its length.
    assert_eq!(kept(&report, "keep_jansson "), [200.0, 100.0 * (1001.0 + 32.0)]);
}

#[test]
fn blocks_of_talloc_count_once_by_their_caller_and_its_pools_are_named() {
    let Some(report) = report("libtalloc.so.2", "libtalloc2") else { return };
    let [blocks, bytes] = kept(&report, "keep_talloc ");
    // Each has a header.
    assert!(blocks == 100.0 && (100_000.0..120_000.0).contains(&bytes), "{blocks} {bytes}");
    let [blocks, bytes] = kept(&report, "keep_talloc_pool ");
    assert!(blocks == 1.0 && (65_536.0..66_560.0).contains(&bytes), "{blocks} {bytes}");
    let told = chunks(&report, "talloc's pools");
    assert!((65_536.0..66_560.0).contains(&told), "{told}");
}
