//! What is read of a process while it is stopped: all that its memory does not say.

use std::collections::HashMap;

use heapattach_census::{Census, Live, Memory, Moment, Region, Thread, stats::Amount};
use heapattach_injector::{moment::Standing, target::Stopped};
use heapattach_process::proc::{Process, smaps};
use heapattach_report::MappingReport;
use heapattach_verdict::reconcile::Figures;

/// Mappings that are told.
const MAPPINGS: usize = 50;

/// Of one stop.
#[derive(Debug)]
pub(super) struct Seen {
    regions: Vec<Region>,
    pub(super) threads: Vec<Thread>,
    pub(super) figures: Figures,
}

impl Seen {
    /// Reads it.
    pub(super) fn of(stop: &Stopped<'_>) -> Result<Self, String> {
        let process = &stop.target().process;
        process.find_voice();
        let unread = |errno: nix::errno::Errno| format!("the memory map: {}", errno.desc());
        let regions = Live::regions(process).map_err(unread)?;
        let threads: Vec<Thread> = Standing::all(stop).into_iter().map(thread).collect();
        let usage = smaps::parse(&process.read("smaps").map_err(unread)?);
        let usage: HashMap<u64, Amount> = usage
            .into_iter()
            .map(|one| (one.start, Amount { resident: one.resident, swapped: one.swapped }))
            .collect();
        let of = |region: &Region| usage.get(&region.range.start).copied().unwrap_or_default();
        let usage = regions.iter().map(of).collect();
        // A thread that uses another stack has its own, too: the variables of a thread lie at its end.
        let stacks = threads.iter().flat_map(|thread| [thread.stack, thread.pointer]).collect();
        let figures = Figures { usage, stacks, page_tables: page_tables(process) };
        Ok(Self { regions, threads, figures })
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

fn thread(standing: Standing) -> Thread {
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
