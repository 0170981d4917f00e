//! `--apply purge`: free pages of jemalloc, which the kernel takes back.
//!
//! It runs in the tracing process. With all threads stopped the heap is walked; only if every check holds and no
//! thread is in the middle of a change are the pages given up of dirty extents, and those of slabs on which all
//! regions are free: memory of which the allocator's own books say that what is in it is not needed. Anything else is a refusal, and the target untouched.

use std::{ops::Range, time::Duration};

use heapattach_census::{Live, Moment, Thread, walkers};
use heapattach_injector::{
    moment::{self, PurgeError, Standing},
    target::{Stopped, Target},
};
use heapattach_process::proc::Process;
use heapattach_report::{AppliedReport, Status, TargetState, micros};
use heapattach_text::{error_chain::with_causes, quantity};

use super::{facts, no_effect};

/// What a walk in a stop costs, in nanoseconds a KiB of the resident set, and in any case.
const WALK_COST: u64 = 400;
const STOPPED: Duration = Duration::from_millis(2);
/// How often a thread may be in the middle of a change.
const ATTEMPTS: u32 = 20;

/// Applies it.
pub fn apply(target: &Target, most: Duration) -> AppliedReport {
    let mut report = AppliedReport { remedy: "purge".to_owned(), ..AppliedReport::default() };
    report.before = facts::resident(&target.process);
    let expected = STOPPED + Duration::from_nanos((report.before >> 10).saturating_mul(WALK_COST));
    if expected > most {
        let (expected, most) = (quantity::time(expected), quantity::time(most));
        let why = format!(
            "a walk is expected to stop the process for {expected}; --max-pause is {most}; need a longer \
             --max-pause (target: {})",
            TargetState::Untouched
        );
        return report.failed(Status::Refused, why);
    }
    for attempt in 1..=ATTEMPTS {
        let mut foretold = 0;
        let done = moment::purge(target, most, |stop| {
            let (ranges, bytes) = free_pages(stop)?;
            foretold = bytes;
            Ok(ranges)
        });
        let purged = match done {
            Ok(purged) => purged,
            Err(left) => {
                let what = left.what.join("; ");
                return report.failed(Status::Left, format!("{} (target: {what})", left.error));
            }
        };
        report.stopped_us += micros(purged.stopped);
        report.attempts = u64::from(attempt);
        report.ranges += purged.ranges;
        report.bytes += purged.bytes;
        report.left = purged.left;
        report.foretold = Some(foretold);
        match purged.error {
            None => break,
            Some(PurgeError::Refused(_)) if attempt < ATTEMPTS => {}
            Some(error) => {
                report.after = facts::resident(&target.process);
                let refused = purged.ranges == 0;
                let status = if refused { Status::Refused } else { Status::Failed };
                let state = match refused {
                    true => TargetState::Untouched.to_string(),
                    false => format!("{}; these pages are purged", TargetState::Restored),
                };
                return report.failed(status, format!("{} (target: {state})", with_causes(&error)));
            }
        }
    }
    report.after = facts::resident(&target.process);
    if report.foretold > Some(0) && report.after >= report.before {
        return report.failed(Status::Failed, no_effect());
    }
    report
}

/// Free ranges, the largest first, since there may not be time for all; and their bytes.
fn free_pages(stop: &Stopped<'_>) -> Result<(Vec<Range<u64>>, u64), String> {
    let process: &Process = &stop.target().process;
    let unread = |errno: nix::errno::Errno| format!("its memory cannot be read: {}", errno.desc());
    let live = Live::open(process).map_err(unread)?.without_swap();
    let threads = Standing::all(stop).into_iter().map(|own| Thread {
        tid: own.tid,
        pointer: own.pointer,
        stack: own.stack,
        code: own.code,
        ..Thread::default()
    });
    let moment = Moment::new(&live, Live::regions(process).map_err(unread)?, threads.collect());
    let mut ranges = walkers::free_pages(&moment)?;
    let bytes = ranges.iter().map(|part| part.end - part.start).fold(0, u64::saturating_add);
    if bytes == 0 {
        return Err("no free page of jemalloc is in memory: nothing to win".to_owned());
    }
    ranges.sort_by_key(|range| std::cmp::Reverse(range.end - range.start));
    Ok((ranges, bytes))
}
