//! The command that measures heapattach beside its peers: a little of it, and what it writes.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use heapattach_tests::{
    Folder,
    command::binary,
    compile::is_there,
    peers::{Outcome, Row},
    skip::skip,
};

fn peers(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peers"));
    command.env("HEAPATTACH_UNDER_TEST", binary()).args(words);
    command.output().expect("the command runs")
}

fn outcome(folder: &Path) -> Outcome {
    Outcome::read(&folder.join("peers.json")).expect("it was written")
}

fn of_tool<'a>(outcome: &'a Outcome, part: &str, tool: &str, figure: &str) -> Option<&'a Row> {
    let is_it = |row: &&Row| row.part == part && row.tool == tool && row.figure == figure;
    outcome.rows.iter().find(is_it)
}

#[test]
fn a_quick_run_measures_us_and_says_of_every_peer_what_became_of_it() {
    if !is_there("cc") {
        return skip("no C compiler", "apt-get install gcc");
    }
    let folder = Folder::new("peers");
    let out = folder.0.to_str().expect("a plain path");
    let parts = ["--only", "race,truth,pauses,checks"];
    let few = ["--work", "malloc loop,10,000 blocks of 48"];
    let run = peers(&[&["--quick", "--rounds", "3", "--out", out][..], &parts, &few].concat());
    let talk = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{talk}");
    let outcome = outcome(&folder.0);
    for tool in ["heapattach", "heapattach --all"] {
        let row = of_tool(&outcome, "race", tool, "slow-down").unwrap_or_else(|| panic!("{talk}"));
        assert!(row.spread.number == 3 && row.spread.median > 0.5, "{row:?}");
        let error = of_tool(&outcome, "truth", tool, "error").unwrap_or_else(|| panic!("{talk}"));
        // What records every block knows; a sample of this program is tens of percent off at most.
        let most = if tool == "heapattach" { 80.0 } else { 0.0 };
        assert!(error.spread.median <= most, "{error:?}");
    }
    // One that is not there is told to be missing, in the data and in the table.
    let markdown = fs::read_to_string(folder.0.join("peers.md")).expect("it was written");
    for tool in ["heaptrack", "jemalloc, sampled", "tcmalloc, sampled"] {
        let is_measured = of_tool(&outcome, "race", tool, "slow-down").is_some();
        let has_failed = outcome.failures.iter().any(|one| one.part == "race" && one.tool == tool);
        assert!(is_measured != has_failed, "{tool}: {talk}");
        assert!(markdown.contains(&format!("| {tool} |")), "{tool}: {markdown}");
    }
    let fork = of_tool(&outcome, "pauses", "check --snapshot fork", "pause");
    assert!(fork.is_some_and(|row| row.spread.median > 0.0), "{talk}");
    let found = of_tool(&outcome, "checks", "heapattach check", "lost bytes found");
    assert!(found.is_some_and(|row| row.spread.median > 90.0), "{talk}");
    let chart = fs::read_to_string(folder.0.join("slow-down-malloc.svg")).expect("it was drawn");
    assert!(chart.starts_with("<svg") && chart.contains("heapattach --all"), "{chart}");
    let samples = fs::read_to_string(folder.0.join("samples.jsonl")).expect("it was written");
    let values = outcome.rows.iter().map(|row| row.spread.number).sum::<usize>();
    assert_eq!(samples.lines().count(), values);
    agrees_with_itself_only(&folder.0);
}

/// A run agrees with itself, and not with one that was twice as slow.
fn agrees_with_itself_only(folder: &Path) {
    let file = folder.join("peers.json");
    let path = file.to_str().expect("a plain path");
    let same = peers(&["--read", path, "--compare", path]);
    assert!(same.status.success(), "{same:?}");
    let mut slower = outcome(folder);
    for row in &mut slower.rows {
        let spread = &mut row.spread;
        for value in [&mut spread.low, &mut spread.median, &mut spread.high, &mut spread.max] {
            *value *= 100.0;
        }
    }
    let other = folder.join("slower.json");
    fs::write(&other, serde_json::to_string(&slower).expect("plain data")).expect("it is ours");
    let apart = peers(&["--read", other.to_str().expect("a plain path"), "--compare", path]);
    assert_eq!(apart.status.code(), Some(1), "{apart:?}");
    assert!(String::from_utf8_lossy(&apart.stdout).contains("differ by more than noise"));
}
