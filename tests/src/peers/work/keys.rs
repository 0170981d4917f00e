//! Small servers of our own under redis-benchmark.

use std::{os::unix::net::UnixStream, path::PathBuf};

use super::{
    Subject, Turn, Work,
    benchmark::{self, Clients},
    stepped,
};
use crate::{peers::dress::Dress, real::Server};

/// Sets and gets by many connections.
#[derive(Debug)]
pub(in super::super) struct Keys {
    name: &'static str,
    file: &'static str,
    clients: Clients,
}

struct Running {
    server: Server,
    socket: PathBuf,
    clients: Clients,
}

impl Keys {
    /// In C, on one thread.
    pub(in super::super) fn mini_redis() -> Self {
        let clients = Clients { number: 128, pipeline: 1 };
        Self { name: "mini-redis in C, 128 connections", file: "mini_redis.c", clients }
    }

    /// In Rust, each connection on a thread of its own.
    pub(in super::super) fn rust_server() -> Self {
        let clients = Clients { number: 16, pipeline: 1 };
        Self { name: "Rust server, 16 threads", file: "key_value.rs", clients }
    }
}

impl Work for Keys {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn operations(&self) -> u64 {
        20_000
    }

    fn start(&self, dress: &Dress) -> Result<Box<dyn Subject>, String> {
        let program = stepped::built(self.file)?;
        let directory = Server::directory("keys").map_err(|error| error.to_string())?;
        let socket = directory.join("socket");
        let mut command = dress.command(&program);
        command.arg(&socket);
        let listens = || UnixStream::connect(&socket).is_ok();
        let server = Server::start(command, directory, listens).map_err(|e| e.to_string())?;
        Ok(Box::new(Running { server, socket, clients: self.clients }))
    }
}

impl Subject for Running {
    fn pid(&mut self) -> Result<i32, String> {
        Ok(self.server.pid())
    }

    fn work(&mut self, operations: u64) -> Result<Turn, String> {
        benchmark::run(&self.socket, self.server.pid(), self.clients, operations)
    }
}
