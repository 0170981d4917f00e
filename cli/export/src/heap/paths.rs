//! Blocks in use by the path of their holders, as far as that is known, and the rest by why it is not.

use heapattach_reach::{Amount, Kind};
use heapattach_report::{CensusReport, HolderRow, HoldersReport, UnreachableReport};
use heapattach_text::quantity::bytes;

use super::steps;

/// Takes a path, its innermost step first, and the blocks right there.
pub(super) type Take<'t> = dyn FnMut(&[String], Amount) + 't;

/// Tells each path.
pub(super) fn each(report: &CensusReport, take: &mut Take<'_>) -> Result<(), String> {
    let mut take = |path: &[String], amount: Amount| {
        if amount != Amount::default() {
            take(path, amount);
        }
    };
    let found = match &report.holders {
        None => return Err("what holds the blocks was not looked for".to_owned()),
        Some(HoldersReport { error: Some(error), .. }) => {
            return Err(format!("what holds the blocks is not known: {error}"));
        }
        Some(found) => found,
    };
    let mut told = Amount::default();
    for row in found.holders.iter().filter(|row| row.own.blocks > 0) {
        let before = |one: &&HolderRow| found.holders.get(usize::try_from(one.before?).ok()?);
        // Each comes after the one that it goes on from; what does not is damaged.
        let path = steps(row, before).into_iter();
        let name = |row: &HolderRow| match row.root {
            Some(root) => format!("{} ({})", row.name, root.words().0),
            None => row.name.clone(),
        };
        told = told.and(row.own);
        take(&path.map(name).collect::<Vec<_>>(), row.own);
    }
    take(&["(smaller holders)".to_owned()], less(found.reached, told));
    let mut unreached = less(found.blocks, found.reached);
    if let Some(found) = report.unreachable.as_ref().filter(|found| found.error.is_none()) {
        for (path, amount) in leaked(found) {
            // The two looks differ in what they call a block: no more than there is.
            if amount.bytes <= unreached.bytes && amount.blocks <= unreached.blocks {
                unreached = less(unreached, amount);
                take(&path, amount);
            }
        }
    }
    take(&["(no root leads to them)".to_owned()], unreached);
    Ok(())
}

fn leaked(found: &UnreachableReport) -> impl Iterator<Item = (Vec<String>, Amount)> {
    found.groups.iter().flat_map(|group| {
        let root = match group.kind {
            Kind::Possible => "(possibly leaked: only pointers to their inside are left)",
            _ => "(leaked: no pointer leads to them)",
        };
        let size = || format!("blocks of {}", bytes(group.size));
        let name = group.class.clone().unwrap_or_else(size);
        let below = vec!["(only these lead to them)".to_owned(), name.clone(), root.to_owned()];
        [(vec![name, root.to_owned()], group.own), (below, group.held)]
    })
}

fn less(all: Amount, part: Amount) -> Amount {
    Amount {
        bytes: all.bytes.saturating_sub(part.bytes),
        blocks: all.blocks.saturating_sub(part.blocks),
    }
}
