//! The static command in root file systems of others: it attaches from within, and finds what it must.

use std::{fs, path::PathBuf};

use heapattach_tests::{
    compile::{Source, fixture},
    release::files::Release,
    release::root_fs::RootFs,
    report::Report,
};
use serde_json::Value;

/// A program runs there, the command attaches to it, watches another from its start, and checks a third;
/// what each wrote lies in a file.
const SESSION: &str = "\
set -e
$in /heapattach --version >$root/version
$in /grows >$root/ready &
pid=$!
read -r line <$root/ready
$in /heapattach -p $pid --duration 2s --all --no-record --json >$root/attached
kill -0 $pid
kill $pid
$in /heapattach run --all --no-record --json --report /ran -- /grows 100
$in /heapattach check --json --report /checked -- /grows 100 || echo $? >$root/status";

const LEAKS: &str = "23\n";
const BLOCKS: f64 = 100.0;
const SIZE: f64 = 1000.0;

fn has_what_works_everywhere(made: Option<(RootFs, PathBuf)>, name: &str) {
    let (Some((root, program)), Some(release)) = (made, Release::found()) else { return };
    root.put(&release.command(), "heapattach");
    root.put(&program, "grows");
    root.pipe("ready");
    let output = root.run(SESSION);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}: {told}", output.status);
    assert!(root.read("version").contains("features:  debuginfod, push\n"), "{name}");

    let report = |file| -> Report { serde_json::from_str(&root.read(file)).expect("a report") };
    let attached = report("attached");
    assert_eq!(attached.target, "restored", "{name}: {told}");
    assert!(attached.calls() > 0 && is_right(&attached), "{name}: {attached:?}: {told}");
    let ran = report("ran");
    let allocated = ran.heap.allocated;
    assert!(is_right(&ran) && allocated.blocks.value >= BLOCKS, "{name}: {ran:?}: {told}");

    // The last one is still in use.
    let checked: Value = serde_json::from_str(&root.read("checked")).expect("a result");
    let leaked = &checked["check"]["sums"]["direct"];
    assert_eq!(leaked["blocks"].as_f64(), Some(BLOCKS - 1.0), "{name}: {checked}");
    assert_eq!(leaked["bytes"].as_f64(), Some((BLOCKS - 1.0) * SIZE), "{name}: {checked}");
    assert_eq!(root.read("status"), LEAKS, "{name}: {told}");
}

/// Whether the largest place is the one line that allocates, by its function.
fn is_right(report: &Report) -> bool {
    let text = fs::read_to_string(fixture("grows.c")).expect("a fixture");
    let line = 1 + text.lines().position(|line| line.contains("/* the leak */")).expect("its leak");
    let place = format!("grow (grows.c:{line})");
    report.heap.sites.first().is_some_and(|site| site.place == place)
}

#[test]
fn the_static_command_works_in_debian_11() {
    has_what_works_everywhere(RootFs::debian_11(Source::new("grows.c")), "Debian 11");
}

#[test]
fn the_static_command_works_where_only_musl_is() {
    has_what_works_everywhere(RootFs::musl(Source::new("grows.c")), "musl");
}

#[test]
fn the_static_command_works_where_only_busybox_is() {
    has_what_works_everywhere(RootFs::busybox(Source::new("grows.c")), "BusyBox");
}
