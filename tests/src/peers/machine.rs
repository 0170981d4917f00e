//! The machine of a run, and the versions of all tools.

use std::{collections::BTreeMap, fs, process::Command};

use super::kit::{Kit, run};
use crate::command::binary;

/// What the machine says of itself, and each tool of its version.
pub(super) fn describe(kit: &Kit) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut say = |name: &str, value: String| facts.insert(name.to_owned(), value);
    say("kernel", first_line(&mut command("uname", &["-sr"])));
    say("C library", first_line(&mut command("getconf", &["GNU_LIBC_VERSION"])));
    say("processor", processor());
    say("memory", memory());
    say("load at start", fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().into());
    say("heapattach", first_line(Command::new(binary()).arg("--version")));
    for (name, argument) in [
        ("redis-server", "--version"),
        ("nginx", "-v"),
        ("wrk", "-v"),
        ("sqlite3", "--version"),
        ("gcc", "--version"),
        ("g++", "--version"),
        ("clang", "--version"),
        ("rustc", "--version"),
        ("heaptrack", "--version"),
        ("gdb", "--version"),
        ("valgrind", "--version"),
        ("bpftrace", "--version"),
    ] {
        say(name, first_line(&mut command(name, &[argument])));
    }
    let python = kit.memray.clone().unwrap_or_else(|_| "python3".into());
    say("python3", first_line(Command::new(&python).arg("--version")));
    let memray = kit
        .memray
        .as_ref()
        .map(|python| first_line(Command::new(python).args(["-m", "memray", "--version"])));
    say("memray", memray.unwrap_or_else(Clone::clone));
    say(
        "jemalloc",
        kit.jemalloc.as_ref().map_or_else(Clone::clone, |_| {
            "5.3.0, of the crate tikv-jemalloc-sys, with profiling".to_owned()
        }),
    );
    say(
        "gperftools",
        kit.tcmalloc.as_ref().map_or_else(Clone::clone, |library| {
            let real = fs::canonicalize(library).unwrap_or_else(|_| library.clone());
            let package = command("dpkg-query", &["-W", "-f=${Version}", "libgoogle-perftools4"]);
            format!("{}, {}", first_line(&mut { package }), real.display())
        }),
    );
    facts
}

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command =
        Command::new(crate::real::installed(program).unwrap_or_else(|| program.into()));
    command.args(arguments);
    command
}

/// Some tell their version where complaints go, some with a status that is none.
fn first_line(command: &mut Command) -> String {
    let Ok(output) = command.output() else { return "missing".to_owned() };
    let texts = [output.stdout, output.stderr];
    let mut texts = texts.iter().map(|text| String::from_utf8_lossy(text));
    let text = texts.find(|text| !text.trim().is_empty()).unwrap_or_default();
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("unknown").to_owned()
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let number = run(&mut Command::new("nproc")).unwrap_or_default();
    format!("{} of {}", number.trim(), name.map_or("unknown", |(_, name)| name))
}

fn memory() -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    text.lines()
        .next()
        .and_then(|line| line.split_once(':'))
        .map_or("unknown", |(_, v)| v)
        .trim()
        .into()
}

/// Bytes that can be had without hurting other processes.
pub(super) fn available_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
