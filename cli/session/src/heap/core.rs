//! The same of a core: a moment that a file keeps.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicU64},
    time::Instant,
};

use heapattach_census::{
    Census, CoreMemory, Moment, NoMemory, Walker, not_written::NotWritten, pins, walkers, waste,
};
use heapattach_golang::Go;
use heapattach_injector::moment::{Area, Scene, Standing};
use heapattach_process::core_file::{Absent, CoreError, CoreFile};
use heapattach_report::{
    AbsentFileReport, CensusReport, CoreReport, LookMethod, Status, UnreachableReport, micros,
};
use heapattach_text::{error_chain::with_causes, printable::printable, quantity};
use heapattach_verdict::reconcile::{Figures, reconcile};

use super::{
    HeapFilter, HeapOptions, asked,
    seen::{Seen, TLS, thread},
    unreachable,
};

/// Files that are told.
const FILES: usize = 50;

/// What all memory of a process was when its core was written. The program is `exe`, if it is not where it
/// was. Meanwhile `read` tells how many bytes of the core were read.
pub fn of_core(
    path: &Path,
    exe: Option<&Path>,
    options: &HeapOptions,
    read: &Arc<AtomicU64>,
) -> CensusReport {
    let core = match CoreFile::open(path, exe) {
        Ok(core) => Arc::new(core),
        Err(error) => {
            let status = match error {
                CoreError::Machine(_) => Status::Unsupported,
                CoreError::CutOff(_) => Status::Incomplete,
                _ => Status::Failed,
            };
            let error = format!("{}: {}", path.display(), with_causes(&error));
            return CensusReport::new(0, String::new()).failed(status, error);
        }
    };
    let command = printable(core.command());
    let report = CensusReport::new(core.pid(), command);
    look(path, &core, options, read, report.clone())
        .unwrap_or_else(|error| report.failed(Status::Failed, error))
}

fn look(
    path: &Path,
    core: &Arc<CoreFile>,
    options: &HeapOptions,
    read: &Arc<AtomicU64>,
    mut report: CensusReport,
) -> Result<CensusReport, String> {
    let began = Instant::now();
    let unread = |_| "its memory map makes no sense".to_owned();
    let memory = CoreMemory::of(Arc::clone(core), read).map_err(unread)?;
    let scene = options.unreachable.then(|| Scene::of_core(core, TLS)).transpose();
    let scene = scene.map_err(|error| with_causes(&error))?;
    let threads: Vec<_> = core.threads().iter().map(Standing::of_core).map(thread).collect();
    let stacks = threads.iter().flat_map(|thread| [thread.stack, thread.pointer]).collect();
    let figures = Figures { usage: memory.usage(), stacks, page_tables: 0 };
    let regions = memory.regions().to_vec();
    let seen = Seen { regions, threads, figures, scene, read: Arc::default() };
    let moment = seen.moment(&memory);
    let mut all: Vec<&dyn Walker> = walkers::ALL.to_vec();
    // In the variables of Go programs there is much that looks like the books of musl.
    let has_musl = moment.images().iter().any(|image| image.path.contains("musl"));
    if !has_musl && Go::find(&moment).is_some() {
        all.retain(|walker| !walker.is_musl_only());
    }
    let census = Census::take(&moment, &all);
    let waste = options.waste.filter(|look| !look.if_small);
    report.waste = waste.map(|look| waste::look(&moment, &all, look.limit));
    report.pins = options.pins.then(|| pins::look(&moment, &all));
    report.asked = asked::look(&moment, &all, &census, options);
    report.not_written = options.not_written.then(|| NotWritten {
        error: Some("a core does not tell which pages were written".to_owned()),
        ..NotWritten::default()
    });
    let wanted = (&options.filter, options.show_contents);
    let unreachable =
        seen.scene.as_ref().map(|scene| leaked(core, &memory, &moment, scene, wanted));
    let parts = reconcile(&seen.moment(&NoMemory), &census, &seen.figures);
    report.mappings = seen.mappings(&census);
    report.fill(&census, parts);
    report.unreachable = unreachable;
    report.moment.method = Some(LookMethod::Core);
    report.moment.threads = seen.threads.len() as u64;
    report.moment.walk_us = micros(began.elapsed());
    report.core = Some(told(path, core));
    // The process may be no more.
    (report.verdict.next, report.verdict.why) = Default::default();
    if core.absent().cut_off > 0 && report.status == Status::Done {
        report.status = Status::Incomplete;
    }
    Ok(report)
}

fn leaked(
    core: &CoreFile,
    memory: &CoreMemory,
    moment: &Moment<'_>,
    scene: &Scene,
    wanted: (&HeapFilter, Option<usize>),
) -> UnreachableReport {
    let Absent { cut_off, left_out, was_writable, .. } = core.absent();
    if *was_writable {
        let missing = quantity::bytes(cut_off.saturating_add(*left_out));
        let error = format!("{missing} of memory are not in the core, and could lead to any block");
        return UnreachableReport { error: Some(error), ..UnreachableReport::default() };
    }
    let written = |area: Area| {
        let parts = memory.written(&area.range).into_iter();
        parts.map(|range| Area { range, ..area.clone() }).collect()
    };
    unreachable::report(&written, moment, scene, wanted)
}

fn told(path: &Path, core: &CoreFile) -> CoreReport {
    let absent = core.absent();
    let files = absent.files.iter().take(FILES).map(|file| AbsentFileReport {
        path: printable(&file.path),
        bytes: file.bytes,
        why: file.why.to_owned(),
    });
    CoreReport {
        file: printable(&path.to_string_lossy()),
        bytes: core.bytes(),
        cut_off: absent.cut_off,
        left_out: absent.left_out,
        files: files.collect(),
    }
}
