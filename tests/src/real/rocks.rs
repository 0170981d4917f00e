//! A server in Rust whose own blocks are jemalloc's and whose values are RocksDB's, with the C
//! library's allocator: two allocators in one process, as many services in Rust have them.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{Load, Server, StartError, installed, load::Tally, server::listens};
use crate::toolchain::rust_with_rocksdb;

const CURE: &str = "apt-get install librocksdb-dev redis-tools";
/// Requests of one run of redis-benchmark.
const REQUESTS: u64 = 20_000;

/// What clients saw of one run: requests a second, and waiting times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Requests a second, of both tests together.
    pub throughput: f64,
    /// So long waited 95 of 100,
    pub p95: f64,
    /// and 99 of 100, in the slower test.
    pub p99: f64,
}

fn socket(server: &Server) -> PathBuf {
    server.path().join("rocks.sock")
}

/// Starts it.
///
/// # Errors
/// If it cannot be built or does not come up.
pub fn start() -> Result<Server, StartError> {
    installed("redis-benchmark").ok_or(StartError::Missing(CURE))?;
    let program = rust_with_rocksdb("key-value-rocksdb").ok_or(StartError::Missing(CURE))?;
    let directory = Server::directory("rocks")?;
    let socket = directory.join("rocks.sock");
    let mut command = Command::new(program);
    command.arg(&socket).arg(directory.join("values"));
    Server::start(command, directory, || listens(&socket))
}

/// redis-benchmark over and over.
#[must_use]
pub fn load(server: &Server) -> Load {
    let socket = socket(server);
    Load::default().with(move |tally: &Tally| {
        while tally.goes_on() {
            measure_at(&socket)?;
            tally.answered(2 * REQUESTS);
        }
        Ok(())
    })
}

/// One run of redis-benchmark.
///
/// # Errors
/// If it failed.
pub fn measure(server: &Server) -> Result<Run, String> {
    measure_at(&socket(server))
}

fn measure_at(socket: &Path) -> Result<Run, String> {
    let program = installed("redis-benchmark").ok_or("redis-benchmark went away")?;
    let output = Command::new(program)
        .arg("-s")
        .arg(socket)
        .args(["-n", &REQUESTS.to_string(), "-c", "16", "-r", "5000", "-d", "400", "--csv"])
        .args(["-t", "set,get"])
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let talk = String::from_utf8_lossy(&output.stderr);
    read(&said).ok_or_else(|| format!("redis-benchmark: {}: {said}{talk}", output.status))
}

/// `"SET","21097.05","0.379","0.080","0.359","0.591","0.791","2.039"`: after the name requests a
/// second, mean, minimum, median, 95 %, 99 % and maximum.
fn read(said: &str) -> Option<Run> {
    let rows = said.lines().filter(|l| l.starts_with("\"SET\"") || l.starts_with("\"GET\""));
    let rows: Vec<Vec<f64>> = rows
        .map(|row| {
            row.split(',').skip(1).filter_map(|n| n.trim_matches('"').parse().ok()).collect()
        })
        .collect();
    let worst = |at: usize| {
        rows.iter()
            .map(|row| row.get(at).copied())
            .collect::<Option<Vec<f64>>>()
            .map(|all| all.into_iter().fold(0.0, f64::max))
    };
    let seconds: f64 = rows.iter().map(|row| 1.0 / row[0]).sum();
    (rows.len() == 2).then_some(())?;
    Some(Run { throughput: 2.0 / seconds, p95: worst(4)?, p99: worst(5)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_rows_must_be_there() {
        let set = "\"SET\",\"20000.00\",\"0.3\",\"0.0\",\"0.3\",\"0.5\",\"0.7\",\"2.0\"\n";
        let get = "\"GET\",\"20000.00\",\"0.3\",\"0.0\",\"0.3\",\"0.6\",\"0.6\",\"2.0\"\n";
        assert_eq!(read(set), None);
        let run = read(&format!("\"test\",\"rps\"\n{set}{get}")).unwrap();
        assert_eq!(run, Run { throughput: 20000.0, p95: 0.6, p99: 0.7 });
    }
}
