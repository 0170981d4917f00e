//! The hooks switch themselves off when their deadline has not been set forward for a while: should
//! this process die, the target does not pay for counts that are not read.

use std::time::{Duration, Instant};

use crate::arch;
use heapattach_process::fault;

/// How long the hooks go on without a beat. A suspended machine or a stopped command may skip some.
const PATIENCE: Duration = Duration::from_secs(15);

/// How often to beat.
pub const PERIOD: Duration = Duration::from_secs(1);

/// Knows how fast the processor's time-stamp counter runs.
#[derive(Debug)]
pub struct Heartbeat {
    start: (Instant, u64),
}

impl Heartbeat {
    /// Notes the time; the longer before the first beat, the better the estimate.
    pub fn new() -> Self {
        Self { start: (Instant::now(), arch::time_stamp()) }
    }

    /// The time stamp until which the hooks may go on.
    pub fn deadline(&self) -> u64 {
        if fault::is_spent("heart") {
            return 1;
        }
        let ticks = arch::time_stamp().wrapping_sub(self.start.1);
        let micros = self.start.0.elapsed().as_micros().max(1);
        let rate = u128::from(ticks) / micros;
        // A counter that does not run, or backwards, gives no deadline at all.
        let ahead = rate.checked_mul(PATIENCE.as_micros()).and_then(|t| u64::try_from(t).ok());
        match ahead {
            Some(ahead) if ahead > 0 => arch::time_stamp().saturating_add(ahead),
            _ => 0,
        }
    }
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self::new()
    }
}
