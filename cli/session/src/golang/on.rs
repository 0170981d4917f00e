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
    /// Until it was switched off again.
    switched: Option<Switched>,
    /// Why that could not be done.
    left: Option<String>,
    buckets: Option<Buckets>,
    limit: u64,
}

impl On {
    pub(super) fn switch(found: &mut Found, options: &WatchOptions) -> Result<Self, String> {
        let buckets = Buckets::of(found.pid());
        let switched = found.switch_on(options.interval.max(1))?;
        Ok(Self {
            switched: Some(switched),
            left: None,
            buckets,
            limit: options.max_memory.unwrap_or(MOST_BUCKETS),
        })
    }

    /// By how much its table has grown, if that is too much.
    pub(super) fn is_full(&self) -> Option<u64> {
        let grown = self.buckets.as_ref()?.grown();
        (grown > self.limit).then_some(grown)
    }

    /// Switches it off, once.
    pub(super) fn stop(&mut self) {
        if let Some(switched) = self.switched.take() {
            self.left = switched.off().err();
        }
    }

    pub(super) fn off(mut self, report: &mut Report) {
        self.stop();
        if let Some(buckets) = &self.buckets {
            report.blind.push(format!(
                "what is older than the attach ({} of objects): the program kept no profile until then. It was \
                 switched on for this session; the runtime keeps the table of its stacks, {}",
                bytes(buckets.older),
                bytes(buckets.grown())
            ));
        }
        if let Some(why) = self.left {
            report.target = TargetState::Altered;
            report.left = vec![why.clone()];
            (report.error, report.status) = (Some(why), Status::Left);
        }
    }
}
