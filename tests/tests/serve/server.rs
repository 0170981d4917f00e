//! A server beside a fixture.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use heapattach_tests::{
    command::{Heapattach, Running},
    deadline::{PATIENCE, wait_until},
    fixture::{Fixture, Launch},
};

/// A server, and the process that it serves.
pub struct Served {
    pub fixture: Fixture,
    pub running: Running,
    /// `127.0.0.1:PORT`.
    pub host: String,
}

impl Served {
    /// Records every block; `None` without a compiler.
    pub fn start(more: &[&str]) -> Option<Self> {
        Self::start_with(more, &[])
    }

    /// The same with variables.
    pub fn start_with(more: &[&str], variables: &[(&str, &str)]) -> Option<Self> {
        let fixture = Launch::new("holds.c")?.start();
        let pid = fixture.pid();
        let args = ["serve", "-p", &pid.to_string(), "--listen", ":0", "--every", "1"];
        let mut command = Heapattach::new(args).target(pid).limit(10 * PATIENCE);
        for word in more {
            command = command.arg(*word);
        }
        for (name, value) in variables {
            command = command.env(name, value);
        }
        let running = command.start();
        let host = address(&running);
        let this = Self { fixture, running, host };
        wait_until("a session", PATIENCE, || this.live() >= 0.0);
        Some(this)
    }

    /// The body of an answer.
    pub fn get(&self, path: &str) -> String {
        let answer = self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }

    /// The answer to a request.
    pub fn ask(&self, request: &str) -> String {
        ask(&self.host, request)
    }

    /// `heapattach_live_bytes`, or less than nothing while there is none.
    pub fn live(&self) -> f64 {
        figure(&self.get("/metrics"), "heapattach_live_bytes").unwrap_or(-1.0)
    }

    /// Has the fixture keep so many blocks, and the server know it; answers the bytes that are kept.
    pub fn keep(&mut self, blocks: u64) -> u64 {
        let bytes = self.fixture.step(1, blocks);
        let told = || {
            #[allow(clippy::cast_precision_loss)]
            let kept = bytes as f64;
            (self.live() - kept).abs() < 0.5
        };
        wait_until("what is kept", PATIENCE, told);
        bytes
    }
}

/// The answer of a server to a request.
pub fn ask(host: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(host).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Where a server listens.
pub fn address(running: &Running) -> String {
    let mut host = String::new();
    wait_until("an address", PATIENCE, || {
        let talk = running.talk();
        let at = talk.split("http://").nth(1).and_then(|rest| rest.split([';', '\n']).next());
        host = at.unwrap_or_default().to_owned();
        !host.is_empty()
    });
    host
}

/// The value of a metric of one process.
pub fn figure(text: &str, name: &str) -> Option<f64> {
    let line =
        text.lines().find(|line| line.strip_prefix(name).is_some_and(|l| l.starts_with('{')))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Longer than any answer takes.
pub const LONG: Duration = PATIENCE;
