//! Blocks in use that no pointer leads to: leaked before the look. Told only where every block of the
//! process is known: what no walker knows could lead to any of them.

use std::collections::HashMap;

use heapattach_census::{Moment, Walker, contents, walkers};
use heapattach_injector::moment::Scene;
use heapattach_reach::{Checked, Finding, Kind, look};
use heapattach_report::{UnreachableGroup, UnreachableReport};

use super::known::{Group, Inner, Known, Picture, Written};
use super::wanted::HeapFilter;

/// Groups that are kept, the largest first; less of them are told.
const GROUPS: usize = 5000;

/// Looks for them in memory that a process, or a clone of it, keeps.
pub(super) fn find(
    written: &Written<'_>,
    moment: &Moment<'_>,
    scene: &Scene,
    walkers: &[&dyn Walker],
    (filter, heads): (&HeapFilter, Option<usize>),
) -> Result<UnreachableReport, String> {
    // What inner heaps have is looked through as a whole: their blocks are the runtime's to collect.
    let known = Known::of(written, moment, scene, walkers, Inner::Whole)?;
    if let Some(doubt) = known.doubt {
        return Err(doubt);
    }
    let seen = look(&known.blocks, &known.layout, &mut Picture::of(moment), 0);
    // Of each group the first block.
    let mut firsts: HashMap<u32, u64> = HashMap::new();
    if heads.is_some() {
        for block in seen.leaked().map(|number| known.blocks.get(number)) {
            firsts.entry(block.stack).or_insert(block.at);
        }
    }
    let head = |group: u32, size: u64| contents::head(moment, *firsts.get(&group)?, size, heads?);
    let checked = seen.conclude(&known.blocks, &mut |_| false);
    Ok(told(&checked, &known, filter, &head))
}

fn told(
    checked: &Checked,
    known: &Known,
    filter: &HeapFilter,
    head: &dyn Fn(u32, u64) -> Option<String>,
) -> UnreachableReport {
    let [direct, indirect, possible, _] = checked.findings.sums;
    let leaked = |finding: &&Finding| matches!(finding.kind, Kind::Direct | Kind::Possible);
    let row = |finding: &Finding| {
        let index = usize::try_from(finding.stack).unwrap_or(usize::MAX);
        let (class, size): Group = known.groups.get(index).copied().unwrap_or_default();
        let class = class.and_then(|class| known.names.get(usize::try_from(class.0).ok()?));
        UnreachableGroup {
            kind: finding.kind,
            class: class.cloned(),
            size,
            own: finding.own,
            held: finding.held,
            head: head(finding.stack, size),
        }
    };
    // The sums are of all; a filter chooses groups.
    let counts = |group: &UnreachableGroup| filter.counts(group.class.as_deref(), group.size);
    let all = checked.findings.all.iter().filter(leaked);
    UnreachableReport {
        direct,
        indirect,
        possible,
        groups: all.map(row).filter(counts).take(GROUPS).collect(),
        error: None,
    }
}

/// All of it: what a moment tells of this process.
pub(super) fn report(
    written: &Written<'_>,
    moment: &Moment<'_>,
    scene: &Scene,
    wanted: (&HeapFilter, Option<usize>),
) -> UnreachableReport {
    let found = find(written, moment, scene, &walkers::ALL, wanted);
    found.unwrap_or_else(|error| UnreachableReport {
        error: Some(error),
        ..UnreachableReport::default()
    })
}
