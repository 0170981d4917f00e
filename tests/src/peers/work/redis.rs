//! redis-server under redis-benchmark.

use super::{
    Subject, Turn, Work,
    benchmark::{self, Clients},
};
use crate::{
    peers::dress::Dress,
    real::{Server, redis},
};

/// Sets and gets, so many at a time.
#[derive(Debug)]
pub(in super::super) struct Redis {
    /// Requests that a client sends before it waits.
    pub(in super::super) pipeline: u32,
}

struct Running {
    server: Server,
    pipeline: u32,
}

impl Work for Redis {
    fn name(&self) -> String {
        match self.pipeline {
            1 => "redis: set, get".to_owned(),
            many => format!("redis: set, get, {many} at a time"),
        }
    }

    fn operations(&self) -> u64 {
        if self.pipeline == 1 { 20_000 } else { 100_000 }
    }

    fn bears_slow_tools(&self) -> bool {
        self.pipeline == 1
    }

    /// Debian's is linked with jemalloc.
    fn has_own_allocator(&self) -> bool {
        true
    }

    fn start(&self, dress: &Dress) -> Result<Box<dyn Subject>, String> {
        let server = redis::start_by(|program| dress.command(program));
        let server = server.map_err(|error| error.to_string())?;
        Ok(Box::new(Running { server, pipeline: self.pipeline }))
    }
}

impl Subject for Running {
    fn pid(&mut self) -> Result<i32, String> {
        Ok(self.server.pid())
    }

    fn work(&mut self, operations: u64) -> Result<Turn, String> {
        let clients = Clients { number: 50, pipeline: self.pipeline };
        benchmark::run(&redis::socket(&self.server), self.server.pid(), clients, operations)
    }
}
