//! The server of `fixtures/rust_allocators`, which answers every message with the same bytes.

use std::{
    fs,
    io::{self, Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    time::Duration,
};

use super::{Server, StartError};

/// Messages by one client, and what they are together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// How many.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Starts a server.
///
/// # Errors
/// If it does not come up.
pub fn start(program: &Path) -> Result<Server, StartError> {
    let directory = Server::directory("echo")?;
    let log = directory.join("output");
    Server::start(Command::new(program), directory, || port_in(&log).is_some())
}

fn port_in(log: &Path) -> Option<u16> {
    fs::read_to_string(log).ok()?.lines().next()?.parse().ok()
}

/// Sends so many messages over one connection, and compares the answers.
///
/// # Errors
/// At the first wrong answer.
pub fn talk(server: &Server, client: u32, messages: u32) -> io::Result<Sent> {
    let port = port_in(&server.path().join("output")).ok_or(io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut sent = Sent::default();
    for message in 0..messages {
        let length = 1 + (client * 7919 + message * 131) % 20_000;
        let byte = u8::try_from(message % 251).unwrap_or_default();
        let body = vec![byte; length as usize];
        // In one piece: the second of two would wait for the first to be acknowledged.
        stream.write_all(&[&length.to_le_bytes()[..], &body].concat())?;
        let mut answer = vec![0; body.len()];
        stream.read_exact(&mut answer)?;
        if answer != body {
            return Err(io::Error::other(format!("message {message} came back changed")));
        }
        sent.messages += 1;
        sent.bytes += u64::from(length);
    }
    Ok(sent)
}
