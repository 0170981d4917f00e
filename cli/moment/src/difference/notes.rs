//! What makes a comparison doubtful.

use heapattach_report::CensusReport;
use heapattach_text::quantity::counted;

/// A process that began so much earlier or later is another one, in milliseconds: clocks are set.
const SAME_START: u64 = 10_000;

pub(super) fn of(all: &[&CensusReport], names: &[&str]) -> Vec<String> {
    let mut notes = Vec::new();
    let named: Vec<_> = all.iter().zip(names).collect();
    for pair in named.windows(2) {
        let [(one, name), (next, after)] = pair else { continue };
        let (program, other) = (program(&one.command), program(&next.command));
        if program != other && !program.is_empty() && !other.is_empty() {
            notes.push(format!("{name} and {after} are of different programs: {program}, {other}"));
        } else if one.pid != next.pid {
            let pids = (one.pid, next.pid);
            notes.push(format!(
                "{name} and {after} are of two processes: {} and {}",
                pids.0, pids.1
            ));
        } else if start(one).zip(start(next)).is_some_and(|(a, b)| a.abs_diff(b) > SAME_START) {
            notes.push(format!(
                "process {} of {after} is not that of {name}: it began later",
                one.pid
            ));
        }
        let times = one.moment.taken_ms.zip(next.moment.taken_ms);
        if times.is_some_and(|(first, second)| first > second) {
            notes.push(format!("{name} was taken after {after}"));
        }
        if one.core.is_some() != next.core.is_some() {
            notes.push(format!(
                "one of {name} and {after} is of a core file, which does not tell what was resident"
            ));
        }
    }
    for (one, name) in named {
        if let Some(waste) = one.waste.as_ref().filter(|waste| waste.left_out.blocks > 0) {
            let blocks = counted(waste.left_out.blocks, "block");
            notes.push(format!("{name}: {blocks} were not looked at for waste"));
        }
        let inexact = one.allocators.iter().filter(|allocator| !allocator.is_exact);
        notes.extend(
            inexact.map(|allocator| {
                format!("{name}: what is told of {} is not exact", allocator.name)
            }),
        );
    }
    notes
}

fn start(one: &CensusReport) -> Option<u64> {
    one.moment.taken_ms?.checked_sub(one.moment.up_ms?)
}

/// The name of the file.
fn program(command: &str) -> &str {
    let first = command.split_whitespace().next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or_default()
}
