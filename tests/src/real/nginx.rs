//! nginx, master and workers, under ab and a client that compares every body.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{Load, Server, StartError, installed, load::Tally};
use crate::deadline::{PATIENCE, poll};

const CURE: &str = "apt-get install nginx-light apache2-utils";
const WORKERS: usize = 2;
/// Requests of one run of ab.
const REQUESTS: u64 = 1000;

/// A file beside the configuration that names the port: ab speaks no other kind of socket.
const PORT_FILE: &str = "port";

/// Starts a master with two workers that serve one page, compressed for those who ask.
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
    let program = installed("nginx").ok_or(StartError::Missing(CURE))?;
    installed("ab").ok_or(StartError::Missing(CURE))?;
    let directory = Server::directory("nginx")?;
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    fs::write(directory.join("page.txt"), page())?;
    fs::write(directory.join(PORT_FILE), port.to_string())?;
    let configuration = directory.join("nginx.conf");
    fs::write(&configuration, configure(&directory, port))?;
    let mut command = Command::new(program);
    command.envs(environment);
    command.arg("-p").arg(&directory).arg("-e").arg(directory.join("errors"));
    command.arg("-c").arg(configuration);
    let server =
        Server::start(command, directory, || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    // The master listens before it forks.
    let forked = poll(PATIENCE, || (server.children().len() == WORKERS).then_some(()));
    forked.ok_or_else(|| StartError::Failed("nginx forks no workers".into()))?;
    Ok(server)
}

fn configure(directory: &Path, port: u16) -> String {
    // The tests may run as root, whose directory the server's own user could not read.
    let user = if nix::unistd::geteuid().is_root() { "user root root;" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {};\n", directory.join(kind).display()))
        .collect();
    format!(
        "{user}\ndaemon off;\nworker_processes {WORKERS};\npid {0}/pid;\nevents {{ worker_connections 256; }}\n\
         http {{\n{temporary}access_log off;\ndefault_type text/plain;\ngzip on;\n\
         gzip_min_length 1;\ngzip_types text/plain;\nkeepalive_requests 50;\n\
         server {{ listen 127.0.0.1:{port}; root {0}; }}\n}}\n",
        directory.display()
    )
}

fn page() -> String {
    (0..800).map(|line| format!("line {line} of a page that compresses well\n")).collect()
}

/// ab with and without kept connections, compressed; and a client that compares.
#[must_use]
pub fn load(server: &Server) -> Load {
    let port = port(server);
    pages(server).with(move |tally| bench(port, tally))
}

/// The client alone: ab does not bear that a worker that leaves closes a connection it keeps.
#[must_use]
pub fn pages(server: &Server) -> Load {
    let port = port(server);
    Load::default().with(move |tally| check_pages(port, tally))
}

fn port(server: &Server) -> u16 {
    let port = fs::read_to_string(server.path().join(PORT_FILE)).unwrap_or_default();
    port.parse().unwrap_or(0)
}

fn bench(port: u16, tally: &Tally) -> Result<(), String> {
    let program = installed("ab").ok_or("ab went away")?;
    let (url, number) = (format!("http://127.0.0.1:{port}/page.txt"), REQUESTS.to_string());
    let mut keep = false;
    while tally.goes_on() {
        keep = !keep;
        let mut command = Command::new(&program);
        command.args(["-q", "-n", &number, "-c", "8", "-H", "Accept-Encoding: gzip"]);
        command.args(keep.then_some("-k")).arg(&url);
        let run = command.output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&run.stdout).into_owned()
            + &String::from_utf8_lossy(&run.stderr);
        let field = |name: &str| {
            said.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim())
        };
        let all = field("Complete requests:") == Some(&number);
        let right = field("Failed requests:") == Some("0") && field("Non-2xx responses:").is_none();
        if !run.status.success() || !all || !right {
            return Err(format!("ab: {}: {said}", run.status));
        }
        tally.answered(REQUESTS);
    }
    Ok(())
}

fn check_pages(port: u16, tally: &Tally) -> Result<(), String> {
    let wanted = page();
    let request = b"GET /page.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    while tally.goes_on() {
        let body = fetch(port, request).map_err(|error| format!("nginx: {error}"))?;
        let body = body.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        if body != wanted {
            return Err(format!("nginx: {} bytes of {} came back", body.len(), wanted.len()));
        }
        tally.answered(1);
    }
    Ok(())
}

fn fetch(port: u16, request: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(request)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
