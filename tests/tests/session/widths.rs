//! What a check and `doctor` tell on a terminal of 80 and of 200 columns: the same, each as wide as its terminal.
//!
//! Where a change is intended, `HEAPATTACH_GOLDEN=write cargo test --test session widths` writes what is told now.

use std::{fs, os::fd::AsRawFd};

use heapattach_test_folder::Folder;
use heapattach_tests::{
    command::Heapattach,
    compile::{Source, folder},
    deadline::{PATIENCE, wait_until},
    fixture::Launch,
    pty::Pty,
};

const WIDTHS: [u16; 2] = [80, 200];
/// Columns of a label.
const LABEL: usize = 10;
/// What is measured has another unit each time.
const UNITS: [&str; 7] = ["us", "ms", "s", "B", "KiB", "MiB", "GiB"];

/// What is shown on a terminal of so many columns, a line each.
fn shown(words: &[&str], program: &[String], columns: u16, code: i32) -> Vec<String> {
    let mut pty = Pty::of_columns(columns);
    let slave = pty.slave();
    let path = fs::read_link(format!("/proc/self/fd/{}", slave.as_raw_fd())).expect("its name");
    let mut command = Heapattach::new(words).stdout(path);
    for word in program {
        command = command.arg(word);
    }
    let mut running = command.env("NO_COLOR", "1").terminal(slave).start();
    // A terminal has room for some lines only: it is read while they are written.
    wait_until("an end", PATIENCE, || {
        pty.seen();
        !running.is_running()
    });
    running.wait().expect(code);
    pty.lines()
}

fn is_labelled(line: &str) -> bool {
    let label = line.get(..LABEL).unwrap_or_default();
    label.ends_with(' ') && label.bytes().all(|c| c == b' ' || c.is_ascii_alphanumeric())
}

/// Lines that were broken are one again, and what was measured is a mark.
fn joined(lines: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in lines.iter().map(|line| line.trim_end()) {
        let rest = line.strip_prefix(&" ".repeat(LABEL)).filter(|rest| !rest.starts_with(' '));
        match (all.last_mut(), rest) {
            (Some(last), Some(rest)) if is_labelled(last) => *last += &format!(" {rest}"),
            _ => all.push(line.to_owned()),
        }
    }
    all.iter().map(|line| masked(line)).collect()
}

fn masked(line: &str) -> String {
    // What was checked is named as sanitizers do.
    let named = line.strip_prefix("==").and_then(|line| line.split_once("=="));
    if let Some((_, rest)) = named.filter(|(pid, _)| pid.parse::<u32>().is_ok()) {
        return format!("==PID=={rest}");
    }
    let mut told: Vec<&str> = Vec::new();
    let is_number = |word: &str| {
        let word = word.trim_start_matches(['(', '~', '=']);
        word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains(':')
    };
    for word in line.split(' ') {
        let is_unit = UNITS.contains(&word.trim_end_matches([',', ';', ')', '.']));
        match told.last() {
            Some(&"#") if is_unit || is_number(word) => {}
            _ if is_number(word) => told.push("#"),
            _ => told.push(word),
        }
    }
    told.join(" ")
}

fn assert_narrow(lines: &[String], columns: u16, is_whole: impl Fn(&str) -> bool) {
    for line in lines.iter().filter(|line| !is_whole(line)) {
        assert!(line.trim_end().chars().count() <= usize::from(columns), "{columns}: {line}");
    }
}

/// Compares with what is kept, or keeps it.
fn compare(name: &str, lines: &[String]) {
    let path = folder().join("golden/live").join(name);
    let text = lines.join("\n") + "\n";
    if std::env::var_os("HEAPATTACH_GOLDEN").is_some_and(|value| value == "write") {
        return fs::write(path, text).expect("a file of ours");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, text, "{}", path.display());
}

#[test]
fn a_check_is_as_wide_as_the_terminal_but_for_lines_that_programs_read() {
    let Some(program) = Source::new("several_leaks.c").build() else { return };
    // A long path would be shortened where the terminal is narrow.
    let (short, built) = (Folder::new("widths"), program);
    let program = short.0.join("leaks");
    fs::copy(built, &program).expect("a copy of our own file");
    let program = [program.to_str().expect("a path of ours").to_owned()];
    let words = ["check", "--github=off", "--max-pause", "60s", "--"];
    let told = WIDTHS.map(|columns| {
        let lines = shown(&words, &program, columns, 23);
        assert_narrow(&lines, columns, |line| !is_labelled(line));
        assert!(lines.iter().any(|line| is_labelled(line)), "{lines:#?}");
        let lines = joined(&lines);
        let folder = folder().display().to_string();
        let own = |line: &String| line.replace(&program[0], "PROGRAM").replace(&folder, "FIXTURES");
        lines.iter().map(own).collect::<Vec<_>>()
    });
    assert_eq!(told[0], told[1]);
    compare("check.txt", &told[0]);
}

#[test]
fn doctor_is_as_wide_as_the_terminal() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let fixture = launch.start();
    let pid = fixture.pid().to_string();
    let told = WIDTHS.map(|columns| {
        let lines = shown(&["doctor", "-p", &pid], &[], columns, 0);
        assert_narrow(&lines, columns, |_| false);
        joined(&lines)
    });
    assert_eq!(told[0], told[1]);
    let labels: Vec<_> =
        told[0].iter().filter_map(|line| line.get(..LABEL)).map(str::trim).collect();
    let first: Vec<_> = labels.iter().filter(|label| **label != "entry").collect();
    assert!(labels.contains(&"entry"), "{told:#?}");
    for label in ["KERNEL", "PTRACE", "PROCESS", "STOPS", "COST", "NOT SEEN"] {
        assert_eq!(first.iter().filter(|found| ***found == label).count(), 1, "{label}: {told:#?}");
    }
    fixture.finish();
}
