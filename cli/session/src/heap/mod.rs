//! `heapattach heap`: a moment of a process, and what all its memory is then.
//!
//! ```text
//! stop: threads, map, resident bytes -> clone -> go on
//! clone -> walkers, sums -> parts -> report; the clone ends, what it was made with is unmapped
//! ```
//!
//! It runs in the tracing process. No hook is put in. Where there can be no clone the walk is made in the stop
//! if it is expected to be short enough, else nothing is done.

mod asked;
pub mod both_ends;
mod cold;
mod core;
mod early;
mod go;
mod go_holders;
mod go_stacks;
mod holders;
mod known;
mod labels;
mod likely;
mod progress;
mod roots;
mod seen;
mod sites;
mod source;
mod suspects;
mod traits;
mod typed;
mod unreachable;
mod wanted;

pub use asked::ArenaWanted;
pub use wanted::{HeapFilter, Sizes, WhoHolds};

use std::{
    os::unix::net::UnixStream,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use heapattach_census::{
    Census, Live, Memory, NoMemory, Walker,
    not_written::{self, NotWritten},
    pins::{self, Pins},
    types::ClassRow,
    walkers,
    waste::{self, Waste},
};
use heapattach_injector::{
    attach::AttachError,
    moment::{self, Area, KeepError, unseen_writes},
    target::{StopError, Stopped, Target},
};
use heapattach_process::{presence::Presence, proc::Process};
use heapattach_report::{
    AskedReport, CensusReport, ColdReport, HoldersReport, LookMethod, SitesReport, Status,
    TypedReport, UnreachableReport, micros,
};
use heapattach_text::{error_chain::with_causes, quantity};
use heapattach_verdict::reconcile::reconcile;

use crate::{
    check::{
        options::Snapshot,
        snapshot_choice::{self, Load, Means},
    },
    fork,
    recorded::RecordedBlocks,
};
use cold::Cold;
pub use core::of_core;
use go::Go;
use known::Written;
use progress::Progress;
pub use progress::follow;
use seen::Seen;
use source::Source;

/// What a walk in a stop costs, in nanoseconds a KiB of the resident set, and in any case.
const WALK_COST: u64 = 400;
/// Of the same when holders are looked for, so many times as much.
const HOLDERS_COST: u32 = 4;
/// A process of more bytes in memory is not small.
const SMALL: u64 = 512 << 20;
/// So many bytes that no root leads to are much.
const MUCH: u64 = 1 << 20;
/// The same of waste.
const WASTE_COST: u32 = 3;
/// What the objects of a Go program cost besides.
const GRAPH_COST: u64 = 4000;
const STOPPED: Duration = Duration::from_millis(2);

/// What is wanted.
#[derive(Clone, Debug)]
pub struct HeapOptions {
    /// How the moment is kept.
    pub snapshot: Snapshot,
    /// How long the process may be stopped, as far as that is foreseen.
    pub max_pause: Duration,
    /// Whether blocks that no pointer leads to are looked for.
    pub unreachable: bool,
    /// Whether the holders of blocks are looked for.
    pub holders: WithHolders,
    /// Which blocks count then, and among those that are unreachable.
    pub filter: HeapFilter,
    /// Whose paths are told.
    pub who_holds: Option<WhoHolds>,
    /// So many of what holds the objects of a Go program are kept, the largest.
    pub go_holders: usize,
    /// Of a program of Go, whose objects tell paths themselves: whether holders, and types by debug data, are wanted
    /// all the same, if paths are.
    pub for_paths: Option<(WithHolders, bool)>,
    /// Whether blocks that do not say their class are named by debug data and by what holds them; not in a stop.
    pub typed: bool,
    /// How the bytes of blocks are looked at for what may be waste, if they are.
    pub waste: Option<LookForWaste>,
    /// Whether it is told which blocks keep memory that is mostly free.
    pub pins: bool,
    /// Which arena is told by itself.
    pub arena: Option<ArenaWanted>,
    /// Whether blocks are told whose pages were never written.
    pub not_written: bool,
    /// For how long it is watched what is written before the moment, if it is.
    pub cold: Option<Duration>,
    /// So many bytes of blocks are told, if contents are asked for.
    pub show_contents: Option<usize>,
    /// Blocks of a session that are looked for, once they are written down.
    pub recorded: Option<RecordedBlocks>,
}

/// How waste is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookForWaste {
    /// For how long at most.
    pub limit: Duration,
    /// Whether only in a process that is small, and by a clone.
    pub if_small: bool,
}

/// Whether the holders of blocks are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithHolders {
    /// They are not.
    No,
    /// If the process is small enough that it takes no long time, and by a clone.
    IfSmall,
    /// They are.
    Yes,
}

impl HeapOptions {
    /// Whether where pointers can lie is of interest, in so many bytes of memory that does not change.
    fn wants_scene(&self, resident: impl FnOnce() -> u64) -> bool {
        self.unreachable
            || match self.holders {
                WithHolders::No => false,
                WithHolders::IfSmall => self.snapshot != Snapshot::Stop && resident() <= SMALL,
                WithHolders::Yes => true,
            }
    }
}

/// Bytes in memory of a process, or more than there are.
fn resident(process: &Process) -> u64 {
    let text = process.read("statm").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.map_or(u64::MAX, |pages| pages.saturating_mul(4096))
}

/// What was found in the memory of a moment.
struct Walked {
    census: Census,
    unreachable: Option<UnreachableReport>,
    holders: Option<HoldersReport>,
    waste: Option<Waste>,
    pins: Option<Pins>,
    not_written: Option<NotWritten>,
    cold: Option<ColdReport>,
    asked: AskedReport,
    sites: Option<SitesReport>,
    /// How much has a type, and the classes that debug data tells.
    typed: Option<(TypedReport, Vec<ClassRow>)>,
    /// A Go program's objects.
    go: Option<go::Told>,
    took: Duration,
}

/// Takes the moment and tells the command.
pub fn attach(line: UnixStream, target: &Target, options: &HeapOptions) {
    fork::leave_session();
    let report = progress::telling(&line, |progress| take_telling(target, options, progress));
    heapattach_process::fault::summary();
    progress::conclude(&line, report);
}

/// What all memory of a process is.
pub fn take(target: &Target, options: &HeapOptions) -> CensusReport {
    take_telling(target, options, &Progress::default())
}

/// The same; meanwhile it is told how far it is.
fn take_telling(target: &Target, options: &HeapOptions, progress: &Progress) -> CensusReport {
    let mut report = CensusReport::new(target.process.pid(), target.process.command());
    let cold = options.cold.map(|time| Cold::after(target, time, progress)).transpose();
    let cold = match cold {
        Ok(cold) => cold.map(Arc::new),
        Err((status, error)) => return report.failed(status, error),
    };
    report.moment.stopped_us = cold.as_ref().map_or(0.0, |cold| cold.stopped_us);
    take_after(target, options, (cold, progress), report)
}

/// The moment, after it was watched what is written, or was not.
fn take_after(
    target: &Target,
    options: &HeapOptions,
    before: Before<'_>,
    mut report: CensusReport,
) -> CensusReport {
    let whole = |time: Duration| u64::try_from(time.as_millis()).ok();
    report.moment.taken_ms = SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(whole);
    report.moment.up_ms = target.process.running_for().and_then(whole);
    let result = match options.snapshot {
        Snapshot::Stop => in_a_stop(target, options, &before, &mut report),
        Snapshot::Early => early::take(target, options, &before, &mut report),
        Snapshot::Auto => best(target, options, &before, &mut report),
        Snapshot::Copy | Snapshot::Fork => by_a_clone(target, options, &before, &mut report),
    };
    match result {
        Ok(()) => report,
        Err((status, error)) => report.failed(status, error),
    }
}

type Failed = (Status, String);

/// What was watched before the moment, and who is told how far it is.
type Before<'p> = (Option<Arc<Cold>>, &'p Progress);

/// By a clone; where that would stop the process for too long, its memory is copied while it runs.
fn best(
    target: &Target,
    options: &HeapOptions,
    before: &Before<'_>,
    report: &mut CensusReport,
) -> Result<(), Failed> {
    let load = Load::of(&target.process);
    let means = Means { clone: true, not_early: unseen_writes(&target.process) };
    report.moment.why = snapshot_choice::early_instead(&load, options.max_pause, &means);
    if report.moment.why.is_none() {
        return by_a_clone(target, options, before, report);
    }
    match early::take(target, options, before, report) {
        Err((Status::Refused | Status::Failed, not_early)) => {
            report.moment.why = None;
            let not_early = not_early.replace(" (target: untouched)", "");
            by_a_clone(target, options, before, report)
                .map_err(|(status, error)| (status, format!("{not_early}; {error}")))
        }
        taken => taken,
    }
}

/// The usual way.
fn by_a_clone(
    target: &Target,
    options: &HeapOptions,
    before: &Before<'_>,
    report: &mut CensusReport,
) -> Result<(), Failed> {
    let load = Load::of(&target.process);
    let means = Means { clone: true, not_early: None };
    snapshot_choice::choose(Snapshot::Fork, &load, options.max_pause, &means)
        .map_err(|error| (Status::Refused, format!("{error} (target: untouched)")))?;
    let instead = |_: &Stopped<'_>, seen: &mut Result<Seen, String>| match seen {
        Ok(seen) => {
            seen.count_all(&target.process).and_then(|()| walk_in_stop(target, seen, options))
        }
        Err(error) => Err(error.clone()),
    };
    let see = |stop: &Stopped<'_>| {
        Seen::of(stop, options.wants_scene(|| resident(&target.process)))
            .map(|seen| seen.after(before))
    };
    let taken = moment::keep(target, see, instead).map_err(failed)?;
    let mut seen = taken.seen.map_err(|error| (Status::Failed, error))?;
    report.moment.stopped_us += micros(taken.stopped);
    report.moment.threads = seen.threads.len() as u64;
    match taken.kept {
        Ok(keeping) => {
            report.moment.method = Some(LookMethod::Fork);
            let walked = walk_clone(keeping.pid(), &mut seen, options, report);
            match keeping.finish() {
                Ok(again) => report.moment.stopped_us += micros(again),
                Err(left) => {
                    let what = left.what.join("; ");
                    return Err((Status::Left, format!("{} (target: {what})", left.error)));
                }
            }
            walked.map_err(|error| (Status::Failed, error))
        }
        Err((why, walked)) => {
            report.moment.method = Some(LookMethod::Stop);
            report.moment.why = Some(with_causes(&why));
            let walked = walked.map_err(|error| (Status::Refused, error))?;
            conclude(&seen, walked, report);
            Ok(())
        }
    }
}

/// Without a change of anything.
fn in_a_stop(
    target: &Target,
    options: &HeapOptions,
    before: &Before<'_>,
    report: &mut CensusReport,
) -> Result<(), Failed> {
    let look = |stop: &Stopped<'_>| {
        let mut seen =
            Seen::of(stop, options.wants_scene(|| resident(&target.process)))?.after(before);
        seen.count_all(&target.process)?;
        let walked = walk_in_stop(target, &seen, options)?;
        Ok((seen, walked))
    };
    let (looked, stopped) = moment::stop(target, look).map_err(|error| failed(error.into()))?;
    report.moment.method = Some(LookMethod::Stop);
    report.moment.stopped_us += micros(stopped);
    let (seen, walked) = looked.map_err(|error: String| (Status::Refused, error))?;
    report.moment.threads = seen.threads.len() as u64;
    conclude(&seen, walked, report);
    Ok(())
}

fn walk_in_stop(target: &Target, seen: &Seen, options: &HeapOptions) -> Result<Walked, String> {
    let walking = Duration::from_nanos((seen.resident() >> 10).saturating_mul(WALK_COST));
    let walking = match options.holders {
        WithHolders::No | WithHolders::IfSmall => walking,
        WithHolders::Yes => walking.saturating_mul(HOLDERS_COST),
    };
    let waste = options.waste.filter(|waste| !waste.if_small);
    let walking = match waste.is_some() || options.arena.is_some() {
        false => walking,
        true => walking.saturating_mul(WASTE_COST),
    };
    let expected = STOPPED + walking;
    if expected > options.max_pause {
        return Err(format!(
            "a walk is expected to stop the process for {}; --max-pause is {}; need a clone, or a longer \
             --max-pause (target: untouched)",
            quantity::time(expected),
            quantity::time(options.max_pause)
        ));
    }
    let holders = match options.holders {
        WithHolders::No | WithHolders::IfSmall => WithHolders::No,
        WithHolders::Yes => WithHolders::Yes,
    };
    // What was foreseen may be wrong: it ends in time all the same.
    let shorter =
        |look: LookForWaste| LookForWaste { limit: look.limit.min(options.max_pause), ..look };
    let waste = waste.map(shorter);
    let mut options = HeapOptions { holders, waste, ..options.clone() };
    if let Some(wanted) = &mut options.arena {
        wanted.limit = wanted.limit.min(options.max_pause);
    }
    walk((&target.process, target.process.pid()), seen, &options, options.max_pause)
}

fn walk_clone(
    pid: i32,
    seen: &mut Seen,
    options: &HeapOptions,
    report: &mut CensusReport,
) -> Result<(), String> {
    let process = Process::open(pid).map_err(|errno| format!("the clone: {}", errno.desc()))?;
    seen.count_private(&process)?;
    let walked = walk((&process, report.pid), seen, options, Duration::MAX)?;
    conclude(seen, walked, report);
    Ok(())
}

/// What takes longer than `most` is left out, as far as that is foreseen.
fn walk(
    (process, pid): (&Process, i32),
    seen: &Seen,
    options: &HeapOptions,
    most: Duration,
) -> Result<Walked, String> {
    let live = Live::open(process)
        .map_err(|errno| format!("its memory cannot be read: {}", errno.desc()))?;
    let live = if seen.has_swap() { live } else { live.without_swap() };
    let live = live.counting(&seen.read);
    let presence = Presence::of(process);
    let written = |area: Area| area.written(&presence);
    let source = Source::Process(process, pid);
    Ok(walk_memory(source, &live, &written, seen, options, most))
}

/// The same of memory that is kept anywhere; `written` tells its parts that are not all zero.
fn walk_memory(
    source: Source<'_>,
    memory: &dyn Memory,
    written: &Written<'_>,
    seen: &Seen,
    options: &HeapOptions,
    most: Duration,
) -> Walked {
    let began = Instant::now();
    let moment = seen.moment(memory);
    let go = Go::find(&moment, source);
    let mut all: Vec<&dyn Walker> = walkers::ALL.to_vec();
    if let Some(Ok(Go { runtime: Ok(runtime), .. })) = &go {
        // In the variables of Go programs there is much that looks like the books of musl.
        let has_musl = moment.images().iter().any(|image| image.path.contains("musl"));
        all.retain(|walker| has_musl || !walker.is_musl_only());
        all.push(runtime);
    }
    let is_told = matches!(&go, Some(Ok(Go { runtime: Ok(_), .. })));
    let of_paths = options.for_paths.filter(|_| is_told).map(|(holders, typed)| HeapOptions {
        holders,
        typed,
        ..options.clone()
    });
    let options = of_paths.as_ref().unwrap_or(options);
    let census = Census::take(&moment, &all);
    let is_small = seen.resident() <= SMALL;
    let waste = options.waste.filter(|look| !look.if_small || is_small);
    let waste = waste.map(|look| waste::look(&moment, &all, look.limit));
    let pins = options.pins.then(|| pins::look(&moment, &all));
    let counts = |class: Option<&str>, size: u64| options.filter.counts(class, size);
    let not_written = options.not_written.then(|| not_written::look(&moment, &all, &counts));
    let asked = asked::look(&moment, &all, &census, options);
    let recorded = options.recorded.as_ref().and_then(RecordedBlocks::read);
    // It takes long, but a clone can wait.
    let with_types = options.typed && most == Duration::MAX;
    let typed = with_types.then(|| typed::report(source, &moment, &all));
    let (typed, known) = typed.map_or((None, None), |(typed, known)| (Some(typed), known));
    let blocks = known.as_ref().map(|(known, _)| known);
    let of_cold = |cold: &Arc<Cold>| cold.report(blocks, (&moment, &all), &options.filter);
    let cold = seen.cold.as_ref().map(of_cold);
    let of_session = |recorded| {
        let sites = sites::report(&moment, &all, (&recorded, seen.cold.as_deref()));
        let likely = known.as_ref().map(|(known, _)| likely::report(&moment, known, &recorded));
        SitesReport { likely, ..sites }
    };
    let sites = recorded.map(of_session);
    let graph = Duration::from_nanos((seen.resident() >> 10).saturating_mul(GRAPH_COST));
    let graph = if options.holders == WithHolders::Yes { graph * 2 } else { graph };
    let mut go = go.map(|go| match go {
        Ok(go) if graph > most => go.refused(
            "its objects take longer to tell than --max-pause; need a clone of the process",
        ),
        Ok(go) => go.report(options),
        Err(heap) => go::Told { heap, ..go::Told::default() },
    });
    let scene = seen.scene.as_ref();
    let filter = &options.filter;
    let with_unreachable = scene.filter(|_| options.unreachable);
    let told = (filter, options.show_contents);
    let unreachable =
        with_unreachable.map(|scene| unreachable::report(written, &moment, scene, told));
    // What holds the objects of a Go program is told by its own graph.
    let is_go = go.as_ref().is_some_and(|told| told.heap.error.is_none());
    let with_holders = scene.filter(|_| options.holders != WithHolders::No && !is_go);
    let wanted = options.who_holds.as_ref();
    // The first screen does not wait for debug data.
    let wants_types = options.holders == WithHolders::Yes || options.typed;
    let with_types = wants_types && most == Duration::MAX;
    let blocks = (known, with_types);
    let look = |scene| holders::report(source, written, (&moment, scene), filter, wanted, blocks);
    let holders = with_holders.map(look);
    // What nothing leads to belongs on the first screen, too, where it is much.
    let is_much = |found: &HoldersReport| {
        let left = found.blocks.bytes.saturating_sub(found.reached.bytes);
        left > found.blocks.bytes / 10 || left >= MUCH
    };
    let unreachable = match (unreachable, scene, &holders) {
        (None, Some(scene), Some(found)) if found.error.is_none() && is_much(found) => {
            Some(unreachable::report(written, &moment, scene, told))
        }
        (unreachable, ..) => unreachable,
    };
    let holders = holders.or_else(|| go.as_mut()?.holders.take());
    let took = began.elapsed();
    Walked {
        census,
        unreachable,
        holders,
        waste,
        pins,
        not_written,
        cold,
        asked,
        sites,
        typed,
        go,
        took,
    }
}

fn conclude(seen: &Seen, walked: Walked, report: &mut CensusReport) {
    let Walked { census, unreachable, holders, waste, pins, not_written, .. } = walked;
    let Walked { cold, asked, sites, typed, go, took, .. } = walked;
    let parts = reconcile(&seen.moment(&NoMemory), &census, &seen.figures);
    report.mappings = seen.mappings(&census);
    report.fill(&census, parts);
    report.unreachable = unreachable;
    (report.holders, report.waste, report.pins) = (holders, waste, pins);
    (report.not_written, report.asked, report.sites) = (not_written, asked, sites);
    report.cold = cold;
    if let Some((typed, classes)) = typed {
        report.typed = Some(typed);
        report.add_classes(classes);
    }
    if let Some(go::Told { heap, classes, .. }) = go {
        report.go = Some(heap);
        report.add_classes(classes);
    }
    report.moment.walk_us = micros(took);
}

fn failed(error: KeepError) -> Failed {
    let status = match &error {
        KeepError::Stop(StopError::Gone) => Status::TargetDied,
        KeepError::Stop(StopError::Unwanted) => Status::Interrupted,
        KeepError::Stop(_) => Status::Refused,
        KeepError::Leftovers(error) if matches!(**error, AttachError::Refused(_)) => {
            Status::Refused
        }
        KeepError::Leftovers(_) => {
            let told =
                format!("{} (target: as an earlier heapattach left it)", with_causes(&error));
            return (Status::Left, told);
        }
        KeepError::Lock(_) | KeepError::Maps | KeepError::Install(_) | KeepError::Clone(_) => {
            Status::Failed
        }
    };
    (status, format!("{} (target: untouched)", with_causes(&error)))
}
