//! What is read of a process while it is stopped: all that its memory does not say.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, atomic::AtomicU64},
};

use heapattach_census::{Census, Live, Memory, Moment, Region, RegionKind, Thread, stats::Amount};
use heapattach_injector::{
    moment::{EarlyCopy, Exits, Finished, Scene, Standing},
    target::Stopped,
};
use heapattach_process::{
    presence::Presence,
    proc::{Process, smaps},
};
use heapattach_report::MappingReport;
use heapattach_verdict::reconcile::Figures;

use super::{Before, cold::Cold};

/// So many bytes of files and shared memory are counted page by page; more by the kernel.
const MOST_BY_PAGES: u64 = 2 << 30;
/// So much below each thread pointer is taken for thread-local variables; what lies there counts in any case.
pub(super) const TLS: u64 = 4096;
/// Mappings that are kept, the largest; less of them are told.
const MAPPINGS: usize = 5000;

/// Of one stop.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) regions: Vec<Region>,
    pub(super) threads: Vec<Thread>,
    pub(super) figures: Figures,
    /// Where pointers can lie, if that is of interest.
    pub(super) scene: Option<Scene>,
    /// How many bytes of memory were read.
    pub(super) read: Arc<AtomicU64>,
    /// Pages that were not written before, if that was watched.
    pub(super) cold: Option<Arc<Cold>>,
}

impl Seen {
    /// Reads it.
    pub(super) fn of(stop: &Stopped<'_>, wants_scene: bool) -> Result<Self, String> {
        let process = &stop.target().process;
        process.find_voice();
        let unread = |errno: nix::errno::Errno| format!("the memory map: {}", errno.desc());
        let regions = Live::regions(process).map_err(unread)?;
        let threads: Vec<Thread> = Standing::all(stop).into_iter().map(thread).collect();
        let usage = match Way::of(&regions) {
            Way::Pages => pages(process, &regions),
            Way::Smaps => of_smaps(process, &regions)?,
        };
        // A thread that uses another stack has its own, too: the variables of a thread lie at its end.
        let stacks = threads.iter().flat_map(|thread| [thread.stack, thread.pointer]).collect();
        let figures = Figures { usage, stacks, page_tables: page_tables(process) };
        let scene = || Scene::of(stop, &[], &[], &Exits::default(), TLS).map_err(unread);
        let scene = wants_scene.then(scene).transpose()?;
        Ok(Self { regions, threads, figures, scene, read: Arc::default(), cold: None })
    }

    /// The same, with what was watched before, and the bytes that are read counted there.
    pub(super) fn after(self, (cold, progress): &Before<'_>) -> Self {
        Self { read: Arc::clone(&progress.read), cold: cold.clone(), ..self }
    }

    /// What a clone has of private memory, now that the process goes on: the kernel needs long to count it.
    pub(super) fn count_private(&mut self, clone: &Process) -> Result<(), String> {
        if Way::of(&self.regions) == Way::Smaps {
            return Ok(());
        }
        let usage = of_smaps(clone, &self.regions)?;
        for ((region, own), usage) in self.regions.iter().zip(&mut self.figures.usage).zip(usage) {
            if is_cloned(region) {
                *own = usage;
            }
        }
        Ok(())
    }

    /// The same by what was copied of it, while it is stopped.
    pub(super) fn count_copied(&mut self, early: &EarlyCopy, copied: &Finished) {
        if Way::of(&self.regions) == Way::Smaps {
            return;
        }
        for (region, own) in self.regions.iter().zip(&mut self.figures.usage) {
            if !is_cloned(region) {
                continue;
            }
            let (resident, swapped) = early.amount(copied, &region.range);
            *own = Amount { resident, swapped };
        }
    }

    /// The same of the process itself, while it is stopped.
    pub(super) fn count_all(&mut self, process: &Process) -> Result<(), String> {
        self.figures.usage = of_smaps(process, &self.regions)?;
        Ok(())
    }

    /// The moment, with memory that is kept somewhere.
    pub(super) fn moment<'m>(&self, memory: &'m dyn Memory) -> Moment<'m> {
        Moment::new(memory, self.regions.clone(), self.threads.clone())
    }

    /// Bytes in memory.
    pub(super) fn resident(&self) -> u64 {
        self.figures.usage.iter().map(|usage| usage.resident).sum()
    }

    /// Whether anything is in swap.
    pub(super) fn has_swap(&self) -> bool {
        self.figures.usage.iter().any(|usage| usage.swapped > 0)
    }

    /// The mappings of most bytes in memory.
    pub(super) fn mappings(&self, census: &Census) -> Vec<MappingReport> {
        let rows = self.regions.iter().zip(&self.figures.usage).zip(&census.owned);
        let mut rows: Vec<MappingReport> = rows
            .filter(|((_, usage), _)| usage.resident + usage.swapped > 0)
            .map(|((region, usage), owned)| MappingReport {
                name: name(region),
                permissions: permissions(region),
                size: region.bytes(),
                resident: usage.resident,
                swapped: usage.swapped,
                allocators: owned.resident,
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.resident + row.swapped));
        rows.truncate(MAPPINGS);
        rows
    }
}

/// How files and shared memory are counted in a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By their pages: a clone does not have these.
    Pages,
    /// There is so much of it that the kernel's own count is faster.
    Smaps,
}

impl Way {
    fn of(regions: &[Region]) -> Self {
        let bytes: u64 = regions.iter().filter(|one| !is_cloned(one)).map(Region::bytes).sum();
        if bytes <= MOST_BY_PAGES { Self::Pages } else { Self::Smaps }
    }
}

/// Whether a clone has the same of it in memory: private memory, and no file. Stacks are such memory.
fn is_cloned(region: &Region) -> bool {
    let kind = match region.kind {
        RegionKind::Anonymous | RegionKind::Break | RegionKind::Stack => true,
        RegionKind::Kernel | RegionKind::File => false,
    };
    kind && !region.shared
}

/// Of files and shared memory: what is in memory by the map of pages.
fn pages(process: &Process, regions: &[Region]) -> Vec<Amount> {
    let presence = Presence::of(process);
    let bytes = |parts: Vec<Range<u64>>| parts.iter().map(|part| part.end - part.start).sum();
    // Of the kernel's own pages none are the process's but those of code.
    let is_kernels =
        |region: &Region| region.kind == RegionKind::Kernel && region.label != "[vdso]";
    let of = |region: &Region| match is_cloned(region) || is_kernels(region) && !region.shared {
        true => Amount::default(),
        false => Amount {
            resident: bytes(presence.touched(&region.range)),
            swapped: bytes(presence.swapped(&region.range)),
        },
    };
    regions.iter().map(of).collect()
}

/// The kernel's own count.
fn of_smaps(process: &Process, regions: &[Region]) -> Result<Vec<Amount>, String> {
    let text = process.read("smaps");
    let text = text.map_err(|errno| format!("the kernel's counts: {}", errno.desc()))?;
    let usage: HashMap<u64, Amount> = smaps::parse(&text)
        .into_iter()
        .map(|one| (one.start, Amount { resident: one.resident, swapped: one.swapped }))
        .collect();
    let of = |region: &Region| usage.get(&region.range.start).copied().unwrap_or_default();
    Ok(regions.iter().map(of).collect())
}

pub(super) fn thread(standing: Standing) -> Thread {
    let Standing { tid, pointer, stack, code, call, words, .. } = standing;
    let call = call.and_then(|call| u64::try_from(call).ok());
    Thread { tid, pointer, stack, code, call, registers: words.to_vec() }
}

fn name(region: &Region) -> String {
    match region.label.as_str() {
        "" => "[anonymous]".to_owned(),
        label => label.escape_debug().to_string(),
    }
}

fn permissions(region: &Region) -> String {
    let bits = [(region.readable, 'r'), (region.writable, 'w'), (region.executable, 'x')];
    let bits = bits.into_iter().map(|(is_set, letter)| if is_set { letter } else { '-' });
    bits.chain([if region.shared { 's' } else { 'p' }]).collect()
}

/// What the kernel needs to find its pages.
fn page_tables(process: &Process) -> u64 {
    let text = process.read("status").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find_map(|line| line.strip_prefix("VmPTE:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}
