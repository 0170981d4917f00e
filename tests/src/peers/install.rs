//! Getting the peers that are missing: from the distribution, and memray from Python's index.

use std::{fs, path::Path, process::Command};

use nix::unistd::geteuid;

use super::kit::{library, python_folder, run};
use crate::real::installed;

/// Programs, and the packages of Debian that have them.
const PACKAGES: [(&str, &str); 16] = [
    ("heaptrack", "heaptrack"),
    ("gdb", "gdb"),
    ("valgrind", "valgrind"),
    ("google-pprof", "google-perftools"),
    ("bpftrace", "bpftrace"),
    ("wrk", "wrk"),
    ("redis-server", "redis-server"),
    ("redis-benchmark", "redis-tools"),
    ("nginx", "nginx-light"),
    ("sqlite3", "sqlite3"),
    ("python3", "python3"),
    ("clang", "clang"),
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("jeprof", "libjemalloc-dev"),
    ("zstd", "zstd"),
];
/// Keeps a package from starting its service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs what is missing and can be had; what cannot becomes a row later, so it is only said.
pub(super) fn missing() {
    let is_missing = |(program, _): &&(&str, &str)| installed(program).is_none();
    let mut packages: Vec<&str> = PACKAGES.iter().filter(is_missing).map(|one| one.1).collect();
    if library("libtcmalloc.so.4", "").is_err() {
        packages.push("libgoogle-perftools4");
    }
    let has_memray = python_folder().join("bin/memray").is_file();
    // What makes environments is a package of its own, without a program.
    if !has_memray && run(Command::new("python3").args(["-c", "import ensurepip"])).is_err() {
        packages.push("python3-venv");
    }
    if !packages.is_empty() && geteuid().is_root() {
        // Old lists may still do.
        let _ = run(Command::new("apt-get").args(["update", "-q"]));
    }
    packages.iter().for_each(|package| debian(package));
    if !has_memray {
        say("memray", memray());
    }
}

fn debian(package: &str) {
    if !geteuid().is_root() || installed("apt-get").is_none() {
        return say(package, Err("only root can install it here".to_owned()));
    }
    // Servers are started by the measurements themselves.
    let is_ours = !Path::new(POLICY).exists();
    if is_ours && fs::write(POLICY, "#!/bin/sh\nexit 101\n").is_ok() {
        let _ = run(Command::new("chmod").args(["+x", POLICY]));
    }
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["install", "-q", "-y", "--no-install-recommends", package]);
    say(package, run(&mut command).map(|_| ()));
    if is_ours {
        let _ = fs::remove_file(POLICY);
    }
}

/// Into an environment of its own below the build's folder.
fn memray() -> Result<(), String> {
    let folder = python_folder();
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    run(Command::new(folder.join("bin/pip")).args(["install", "-q", "memray"])).map(|_| ())
}

fn say(what: &str, result: Result<(), String>) {
    match result {
        Ok(()) => eprintln!("installed {what}"),
        Err(why) => eprintln!("cannot install {what}: {}", why.trim()),
    }
}
