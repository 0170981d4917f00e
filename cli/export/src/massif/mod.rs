//! For `ms_print` and massif-visualizer: memory over time, with what it was made of at the peak and at
//! the end.
//!
//! Trees go from the function that caused an allocation to its callers, as massif has them: allocators
//! are its "heap allocation functions". What is below a hundredth of all is told as a sum.

mod tree;

use std::io::{self, BufWriter, Write};

use super::{harmless, notes};
use heapattach_ledger::{Ledger, Metric};
use tree::Tree;

/// Snapshots besides those with trees; massif itself has at most 100.
const SNAPSHOTS: usize = 98;
const LINE: &str = "#-----------";

/// What was in use at one time.
struct Snapshot<'a> {
    time: u64,
    bytes: u64,
    tree: Option<Tree<'a>>,
    is_peak: bool,
}

/// Writes all of it.
pub fn write(ledger: &Ledger, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let about = &ledger.about;
    writeln!(out, "desc: {}", harmless::line(&notes::all(about).join("; ")))?;
    writeln!(out, "cmd: {}", harmless::line(&about.command))?;
    writeln!(out, "time_unit: ms")?;
    for (number, snapshot) in snapshots(ledger).iter().enumerate() {
        let Snapshot { time, bytes, tree, is_peak } = snapshot;
        let kind = match (tree, is_peak) {
            (None, _) => "empty",
            (Some(_), true) => "peak",
            (Some(_), false) => "detailed",
        };
        writeln!(
            out,
            "{LINE}\nsnapshot={number}\n{LINE}\ntime={time}\nmem_heap_B={bytes}\n\
             mem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree={kind}"
        )?;
        if let Some(tree) = tree {
            tree.write(&mut out)?;
        }
    }
    out.flush()
}

/// By time: the moments that are known, the peak and the end.
fn snapshots(ledger: &Ledger) -> Vec<Snapshot<'_>> {
    let detailed = |metric: Metric, time, is_peak| {
        let tree = Tree::new(ledger, metric);
        Snapshot { time, bytes: tree.bytes(), tree: Some(tree), is_peak }
    };
    let moments = &ledger.moments;
    let last = moments.last().map_or(0, |moment| moment.at_ms).max(ledger.about.lasted_ms);
    let highest = moments.iter().max_by(|a, b| a.live.total_cmp(&b.live));
    let peak = detailed(Metric::Peak, highest.map_or(last, |moment| moment.at_ms), true);
    let mut all: Vec<_> = thinned(moments.len())
        .map(|at| Snapshot {
            time: moments[at].at_ms,
            // None is higher than the peak, which is exact in the order of events.
            bytes: whole(moments[at].live).min(peak.bytes),
            tree: None,
            is_peak: false,
        })
        .filter(|snapshot| snapshot.time != peak.time && snapshot.time < last)
        .collect();
    if all.first().is_none_or(|first| first.time > 0) && peak.time > 0 {
        all.insert(0, Snapshot { time: 0, bytes: 0, tree: None, is_peak: false });
    }
    let at = all.partition_point(|snapshot| snapshot.time < peak.time);
    all.insert(at, peak);
    all.push(detailed(Metric::Live, last, false));
    all
}

/// At most so many of them, evenly spread, by number.
fn thinned(count: usize) -> impl Iterator<Item = usize> {
    let step = count.div_ceil(SNAPSHOTS).max(1);
    (0..count).step_by(step)
}

/// Of a number of bytes; what is none, or below nothing, is 0.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(bytes: f64) -> u64 {
    // The cast stays within its bounds by itself.
    bytes.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    fn file(ledger: &Ledger) -> String {
        let mut file = Vec::new();
        write(ledger, &mut file).unwrap();
        String::from_utf8(file).unwrap()
    }

    #[test]
    fn the_peak_and_the_end_have_trees_from_the_cause_outwards() {
        let file = file(&sample::ledger());
        assert_eq!(file.matches("heap_tree=peak").count(), 1, "{file}");
        assert_eq!(file.matches("heap_tree=detailed").count(), 1, "{file}");
        let end = "mem_heap_B=104960\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=detailed\n\
                   n2: 104960 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n \
                   n1: 64000 0x";
        assert!(file.contains(end), "{file}");
        assert!(file.contains(": make_node (list.c:12)\n  n1: 64000 0x"), "{file}");
        assert!(file.contains("\ncmd: list --long\ntime_unit: ms\n"), "{file}");
    }

    #[test]
    fn what_is_little_is_told_as_a_sum_behind_what_is_listed() {
        let mut ledger = sample::ledger();
        ledger.rows[1].set(Metric::Live, &heapattach_profile::Sum::exact(64, 1));
        let file = file(&ledger);
        assert!(
            file.contains("\n n0: 64 in 1 place, below massif's threshold (1.00%)\n"),
            "{file}"
        );
    }

    #[test]
    fn times_ascend_and_nothing_is_higher_than_the_peak() {
        let mut ledger = sample::ledger();
        ledger.moments = (0..1000_u64)
            .map(|at| heapattach_ledger::Moment {
                at_ms: at * 10,
                live: if at == 500 { 1e12 } else { at as f64 },
                ..heapattach_ledger::Moment::default()
            })
            .collect();
        let snapshots = snapshots(&ledger);
        assert!(snapshots.len() <= SNAPSHOTS + 3, "{}", snapshots.len());
        assert!(snapshots.is_sorted_by_key(|snapshot| snapshot.time));
        let peak = snapshots.iter().find(|snapshot| snapshot.is_peak).unwrap();
        assert_eq!(peak.time, 5000);
        assert!(
            snapshots
                .iter()
                .all(|snapshot| snapshot.bytes <= peak.bytes || snapshot.tree.is_some())
        );
    }

    #[test]
    fn a_name_stays_on_its_line() {
        let mut ledger = sample::ledger();
        ledger.functions[1].name = "evil\n#-----------\nsnapshot=99".to_owned();
        ledger.about.command = "a\nsnapshot=7".to_owned();
        let file = file(&ledger);
        let snapshots = file.lines().filter(|line| line.starts_with("snapshot=")).count();
        assert_eq!(snapshots, super::snapshots(&ledger).len(), "{file}");
    }
}
