//! A profile that a program keeps only for the time of a session: how large its table becomes, and the end of it.

use heapattach_report::{Report, Status, TargetState};
use heapattach_text::quantity::bytes;

use super::{buckets::Buckets, found::Found, rate::Switched};
use crate::watch::options::WatchOptions;

/// By so much the table of stacks may grow that the runtime makes for us, if nothing else was said.
const MOST_BUCKETS: u64 = 64 << 20;

/// A profile that was switched on for this session.
#[derive(Debug)]
pub(super) struct On {
    switched: Switched,
    buckets: Option<Buckets>,
    limit: u64,
}

impl On {
    pub(super) fn switch(found: &mut Found, options: &WatchOptions) -> Result<Self, String> {
        let buckets = Buckets::of(found.pid());
        let switched = found.switch_on(options.interval.max(1))?;
        Ok(Self { switched, buckets, limit: options.max_memory.unwrap_or(MOST_BUCKETS) })
    }

    /// By how much its table has grown, if that is too much.
    pub(super) fn is_full(&self) -> Option<u64> {
        let grown = self.buckets.as_ref()?.grown();
        (grown > self.limit).then_some(grown)
    }

    pub(super) fn off(self, report: &mut Report) {
        if let Some(buckets) = &self.buckets {
            report.blind.push(format!(
                "what is older than the attach ({} of objects): the program kept no profile until then. It was \
                 switched on for this session; the runtime keeps the table of its stacks, {}",
                bytes(buckets.older),
                bytes(buckets.grown())
            ));
        }
        if let Err(why) = self.switched.off() {
            report.target = TargetState::Altered;
            report.left = vec![why.clone()];
            (report.error, report.status) = (Some(why), Status::Left);
        }
    }
}
