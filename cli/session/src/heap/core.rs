//! The same of a core: a moment that a file keeps.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use heapattach_census::{CoreMemory, not_written::NotWritten};
use heapattach_injector::moment::{Area, Scene, Standing};
use heapattach_process::core_file::{Absent, CoreError, CoreFile};
use heapattach_report::{
    AbsentFileReport, CensusReport, CoreReport, LookMethod, Status, UnreachableReport,
};
use heapattach_text::{error_chain::with_causes, printable::printable, quantity};
use heapattach_verdict::reconcile::Figures;

use super::{
    HeapOptions, Walked, conclude,
    seen::{Seen, TLS, thread},
    source::Source,
    walk_memory,
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
    let unread = |_| "its memory map makes no sense".to_owned();
    let memory = CoreMemory::of(Arc::clone(core), read).map_err(unread)?;
    let threads: Vec<_> = core.threads().iter().map(Standing::of_core).map(thread).collect();
    let stacks = threads.iter().flat_map(|thread| [thread.stack, thread.pointer]).collect();
    let figures = Figures { usage: memory.usage(), stacks, page_tables: 0 };
    let regions = memory.regions().to_vec();
    let mut seen =
        Seen { regions, threads, figures, scene: None, read: Arc::default(), cold: None };
    if options.wants_scene(|| seen.resident()) {
        seen.scene = Some(Scene::of_core(core, TLS).map_err(|error| with_causes(&error))?);
    }
    let written = |area: Area| {
        let parts = memory.written(&area.range).into_iter();
        parts.map(|range| Area { range, ..area.clone() }).collect()
    };
    let mut walked =
        walk_memory(Source::Core(core), &memory, &written, &seen, options, Duration::MAX);
    walked.leave_out(core.absent(), options.not_written);
    conclude(&seen, walked, &mut report);
    report.moment.method = Some(LookMethod::Core);
    report.moment.threads = seen.threads.len() as u64;
    report.core = Some(told(path, core));
    // The process may be no more.
    (report.verdict.next, report.verdict.why) = Default::default();
    if core.absent().cut_off > 0 && report.status == Status::Done {
        report.status = Status::Incomplete;
    }
    Ok(report)
}

impl Walked {
    /// Takes back what a core does not tell.
    fn leave_out(&mut self, absent: &Absent, wants_not_written: bool) {
        self.not_written = wants_not_written.then(|| NotWritten {
            error: Some("a core does not tell which pages were written".to_owned()),
            ..NotWritten::default()
        });
        if !absent.was_writable {
            return;
        }
        let missing = quantity::bytes(absent.cut_off.saturating_add(absent.left_out));
        let error = format!("{missing} of memory are not in the core, and could lead to any block");
        if let Some(holders) = &mut self.holders {
            holders.doubt.get_or_insert_with(|| error.clone());
        }
        if let Some(unreachable) = &mut self.unreachable {
            *unreachable = UnreachableReport { error: Some(error), ..UnreachableReport::default() };
        }
    }
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
