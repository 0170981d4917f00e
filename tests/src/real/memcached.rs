//! memcached under clients that check what they stored.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{Load, Server, StartError, installed, load::Tally, server::listens};

const CURE: &str = "apt-get install memcached";
/// Exchanges before a client hangs up and connects anew: connections cost the server allocations,
/// items do not (they lie in slabs).
const PER_CONNECTION: usize = 40;

/// Starts a server with four worker threads.
///
/// # Errors
/// If it is not installed or does not come up.
pub fn start() -> Result<Server, StartError> {
    start_with(None)
}

/// The same with more in its environment, such as a library to preload.
///
/// # Errors
/// As [`start`].
pub fn start_with(
    environment: impl IntoIterator<Item = (&'static str, PathBuf)>,
) -> Result<Server, StartError> {
    let program = installed("memcached").ok_or(StartError::Missing(CURE))?;
    let directory = Server::directory("memcached")?;
    let socket = directory.join("socket");
    let mut command = Command::new(program);
    command.envs(environment);
    command.args(["-u", "root", "-m", "64", "-t", "4", "-s"]).arg(&socket);
    Server::start(command, directory, || listens(&socket))
}

/// Four clients.
#[must_use]
pub fn load(server: &Server) -> Load {
    let socket = server.path().join("socket");
    (0..4).fold(Load::default(), |load, number| {
        let socket = socket.clone();
        load.with(move |tally| check_values(&socket, number, tally))
    })
}

fn check_values(socket: &Path, number: usize, tally: &Tally) -> Result<(), String> {
    let mut turn = 0_usize;
    while tally.goes_on() {
        let stream = UnixStream::connect(socket).map_err(|error| error.to_string())?;
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).map_err(|error| error.to_string())?;
        let mut stream = BufReader::new(stream);
        for _ in 0..PER_CONNECTION {
            exchange(&mut stream, number, turn).map_err(|error| format!("memcached: {error}"))?;
            tally.answered(3);
            turn += 1;
        }
    }
    Ok(())
}

/// One value stored and read back, and the server's statistics (a reply it allocates for).
fn exchange(stream: &mut BufReader<UnixStream>, number: usize, turn: usize) -> Result<(), String> {
    let say = |error: std::io::Error| error.to_string();
    let key = format!("client{number}:{}", turn % 300);
    let value = vec![b'a' + u8::try_from(turn % 26).unwrap_or(0); 1 + turn * 53 % 9000];
    let mut request = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
    request.extend_from_slice(&value);
    request.extend_from_slice(b"\r\n");
    stream.get_mut().write_all(&request).map_err(say)?;
    expect(stream, "STORED")?;
    stream.get_mut().write_all(format!("get {key}\r\n").as_bytes()).map_err(say)?;
    expect(stream, &format!("VALUE {key} 0 {}", value.len()))?;
    let mut body = vec![0; value.len() + 2];
    stream.read_exact(&mut body).map_err(say)?;
    if body[..value.len()] != value[..] {
        return Err(format!("the value of {key} changed"));
    }
    expect(stream, "END")?;
    stream.get_mut().write_all(b"stats\r\n").map_err(say)?;
    while line(stream)? != "END" {}
    Ok(())
}

fn expect(stream: &mut BufReader<UnixStream>, wanted: &str) -> Result<(), String> {
    let got = line(stream)?;
    if got == wanted { Ok(()) } else { Err(format!("{got:?} instead of {wanted:?}")) }
}

fn line(stream: &mut BufReader<UnixStream>) -> Result<String, String> {
    let mut line = String::new();
    match stream.read_line(&mut line) {
        Ok(0) => Err("the connection was closed".into()),
        Ok(_) => Ok(line.trim_end().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
