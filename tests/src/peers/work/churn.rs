//! A program that does nothing but call malloc and free.

use super::{Subject, Work, stepped};
use crate::peers::dress::Dress;

/// Pairs of one measurement.
const PAIRS: u64 = 600_000;

/// Pairs of malloc and free from stacks of some depth, of one of many blocks in use.
#[derive(Debug)]
pub(in super::super) struct Churn {
    threads: u32,
    depth: u32,
    live: u64,
}

impl Churn {
    pub(in super::super) fn new(threads: u32, depth: u32, live: u64) -> Self {
        Self { threads, depth, live }
    }
}

impl Work for Churn {
    fn name(&self) -> String {
        let s = if self.threads == 1 { "" } else { "s" };
        format!("malloc loop, {} thread{s}, depth {}", self.threads, self.depth)
    }

    fn operations(&self) -> u64 {
        PAIRS
    }

    fn bears_slow_tools(&self) -> bool {
        self.threads == 1 && self.depth == 10
    }

    fn start(&self, dress: &Dress) -> Result<Box<dyn Subject>, String> {
        let launch = dress.launch(&stepped::built("churn.c")?);
        let launch = launch.arg(self.threads.to_string()).arg(self.depth.to_string());
        Ok(stepped::Stepped::start(launch.arg(self.live.to_string())))
    }
}
