//! The stops of a session, as they are told at its end.

use crate::trace::stopped::{StopCost, Stopped};

/// Why a session stopped the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// To put the hooks in.
    Attach,
    /// A new module came, or a slot was bound meanwhile.
    Module,
    /// To give everything back.
    Detach,
}

/// One stop of the target.
#[derive(Clone, Copy, Debug)]
pub struct StopRecord {
    /// What for.
    pub reason: StopReason,
    /// What it cost.
    pub cost: StopCost,
}

impl StopRecord {
    /// Lets the target run on, and notes what the stop cost.
    pub(crate) fn end(reason: StopReason, stop: Stopped<'_>) -> Self {
        Self { reason, cost: stop.finish() }
    }
}
