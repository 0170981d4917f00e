//! The time since counting began.

use std::time::{Duration, Instant};

use crate::{Tick, ticks};

/// Blocks that live shorter are temporary: they come and go with a request, a frame, a line of
/// input. Lifetimes are known to about the pause between two looks at the rings.
pub const TEMPORARY: Duration = Duration::from_millis(20);

/// Knows when counting began.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Counting begins now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since counting began.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// The same in ticks.
    pub fn ticks(&self) -> u64 {
        ticks(self.elapsed())
    }

    /// [`TEMPORARY`] in ticks.
    pub fn temporary() -> u32 {
        Tick::after(TEMPORARY).0
    }
}
