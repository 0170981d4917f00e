//! How large the table of stacks is that the runtime makes while its profile is on: it stays in the target.

use heapattach_census::{Live, Moment, counters::Statistics};
use heapattach_process::proc::Process;

use crate::allocator::go::Go;

/// The table.
#[derive(Debug)]
pub struct Buckets {
    process: Process,
    live: Live,
    go: Go,
    before: u64,
    /// Bytes of objects that were there before.
    pub older: u64,
}

impl Buckets {
    /// As it is now; `None` where the runtime's figures are not known.
    pub fn of(pid: i32) -> Option<Self> {
        let process = Process::open(pid).ok()?;
        let live = Live::open(&process).ok()?.without_swap();
        let moment = Moment::new(&live, Live::regions(&process).ok()?, Vec::new());
        let go = Go::find(&moment, &process)?;
        let now = go.read(&moment)?;
        let (before, older) = (bytes(&now)?, now.total("HeapAlloc"));
        Some(Self { process, live, go, before, older })
    }

    /// By how much it has grown; 0 if that cannot be told.
    pub fn grown(&self) -> u64 {
        let Ok(regions) = Live::regions(&self.process) else { return 0 };
        let moment = Moment::new(&self.live, regions, Vec::new());
        let now = self.go.read(&moment).as_ref().and_then(bytes);
        now.unwrap_or(self.before).saturating_sub(self.before)
    }
}

fn bytes(now: &Statistics) -> Option<u64> {
    now.stats.get("BuckHashSys").copied()
}
