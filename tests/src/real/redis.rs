//! redis-server under redis-benchmark and a client that checks what it stored.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{Load, Server, StartError, installed, load::Tally, server::listens};

const CURE: &str = "apt-get install redis-server redis-tools";
/// Requests of one test of one run of redis-benchmark.
const REQUESTS: u64 = 2000;
const TESTS: &str = "set,get,incr,lpush,rpop,sadd,hset,lrange_100,mset";

/// The socket of a server started by [`start`].
#[must_use]
pub fn socket(server: &Server) -> PathBuf {
    server.path().join("redis.sock")
}

/// Starts a server that keeps nothing.
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
    start_by(|program| {
        let mut command = Command::new(program);
        command.envs(environment);
        command
    })
}

/// The same by a command that runs the program it is given.
///
/// # Errors
/// As [`start`].
pub fn start_by(command: impl FnOnce(&Path) -> Command) -> Result<Server, StartError> {
    let program = installed("redis-server").ok_or(StartError::Missing(CURE))?;
    installed("redis-benchmark").ok_or(StartError::Missing(CURE))?;
    let directory = Server::directory("redis")?;
    let socket = directory.join("redis.sock");
    let mut command = command(&program);
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
    Server::start(command, directory, || listens(&socket))
}

/// redis-benchmark over and over, and two clients of our own beside it.
#[must_use]
pub fn load(server: &Server) -> Load {
    let socket = socket(server);
    let (first, second) = (socket.clone(), socket.clone());
    Load::default()
        .with(move |tally| benchmark(&socket, tally))
        .with(move |tally| check_values(&first, "first", tally))
        .with(move |tally| check_values(&second, "second", tally))
}

fn benchmark(socket: &Path, tally: &Tally) -> Result<(), String> {
    let program = installed("redis-benchmark").ok_or("redis-benchmark went away")?;
    while tally.goes_on() {
        let run = Command::new(&program)
            .arg("-s")
            .arg(socket)
            .args(["-n", &REQUESTS.to_string(), "-c", "10", "-r", "1000", "-d", "300", "--csv"])
            .args(["-t", TESTS])
            .output()
            .map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&run.stdout).into_owned()
            + &String::from_utf8_lossy(&run.stderr);
        if !run.status.success() || said.contains("rror") {
            return Err(format!("redis-benchmark: {}: {said}", run.status));
        }
        // A heading, then a line for each test done; lrange has one for filling its list.
        let lines = said.lines().filter(|line| line.starts_with('"')).count().saturating_sub(1);
        if lines < TESTS.split(',').count() {
            return Err(format!("redis-benchmark answered {lines} tests only: {said}"));
        }
        tally.answered(REQUESTS * u64::try_from(lines).unwrap_or(0));
    }
    Ok(())
}

/// Stores values of changing length and reads each of them back.
fn check_values(socket: &Path, name: &str, tally: &Tally) -> Result<(), String> {
    let stream = UnixStream::connect(socket).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(|error| error.to_string())?;
    let mut client = Client { stream: BufReader::new(stream) };
    let mut turn = 0_usize;
    while tally.goes_on() {
        let key = format!("{name}:{}", turn % 500);
        let letter = char::from(b'a' + u8::try_from(turn % 26).unwrap_or(0));
        let value: String = std::iter::repeat_n(letter, 1 + turn * 37 % 5000).collect();
        client.expect(&["SET", &key, &value], "OK")?;
        client.expect(&["GET", &key], &value)?;
        if turn.is_multiple_of(3) {
            client.expect(&["DEL", &key], "1")?;
        }
        tally.answered(2);
        turn += 1;
    }
    Ok(())
}

struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    fn expect(&mut self, request: &[&str], wanted: &str) -> Result<(), String> {
        let got = self.ask(request).map_err(|error| format!("{}: {error}", request[0]))?;
        if got == wanted {
            return Ok(());
        }
        let start: String = got.chars().take(80).collect();
        Err(format!("{} {} answered {start:?} ({} bytes)", request[0], request[1], got.len()))
    }

    fn ask(&mut self, request: &[&str]) -> std::io::Result<String> {
        let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
        for word in request {
            bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
        }
        self.stream.get_mut().write_all(&bytes)?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let line = line.trim_end();
        let Some(length) = line.strip_prefix('$') else {
            return Ok(line.trim_start_matches(['+', ':']).to_owned());
        };
        let length = length.parse::<usize>().unwrap_or(0);
        let mut body = vec![0; length + 2];
        self.stream.read_exact(&mut body)?;
        body.truncate(length);
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}
