//! redis-benchmark, and what it says.

use std::{path::Path, process::Command};

use super::{Turn, stepped::measured};
use crate::{
    peers::{clock::processor_time, kit},
    real::installed,
};

/// Who asks, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clients {
    /// Connections.
    pub(super) number: u32,
    /// Requests that one sends before it waits.
    pub(super) pipeline: u32,
}

/// Fewer requests say nothing of waiting times.
const FEWEST: u64 = 1000;

/// Sets and gets, half of `requests` each, of the server `pid` that listens on `socket`.
pub(super) fn run(
    socket: &Path,
    pid: i32,
    clients: Clients,
    requests: u64,
) -> Result<Turn, String> {
    let each = (requests / 2).max(FEWEST);
    let program = installed("redis-benchmark").ok_or("missing: apt-get install redis-tools")?;
    let mut command = Command::new(program);
    command.arg("-s").arg(socket).args(["--csv", "-t", "set,get", "-r", "10000", "-d", "200"]);
    command.args(["-n", &each.to_string(), "-c", &clients.number.to_string()]);
    command.args(["-P", &clients.pipeline.to_string()]);
    let mut said = String::new();
    let clock = || processor_time(pid);
    let turn = measured(2 * each, clock, || {
        said = kit::run(&mut command)?;
        Ok(())
    })?;
    told(&said).map(|told| Turn { cpu_ns: turn.cpu_ns, ..told })
}

/// Rates and waiting times out of what redis-benchmark says: the mean of its tests.
fn told(said: &str) -> Result<Turn, String> {
    let mut lines = said.lines().map(|line| line.split(',').map(|word| word.trim_matches('"')));
    let heading: Vec<&str> = lines.next().ok_or("no answer")?.collect();
    let tests: Vec<Vec<&str>> =
        lines.map(Iterator::collect).filter(|t: &Vec<_>| t.len() > 1).collect();
    let mean = |name: &str| {
        let column = heading.iter().position(|word| *word == name)?;
        let values: Vec<f64> =
            tests.iter().filter_map(|test| test.get(column)?.parse().ok()).collect();
        #[expect(clippy::cast_precision_loss, reason = "two tests")]
        let number = values.len() as f64;
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / number)
    };
    let us = |name| mean(name).map(|ms| ms * 1e3);
    let rate = Some(mean("rps").ok_or_else(|| format!("no rate in {said}"))?);
    let [p50_us, p99_us] = ["p50_latency_ms", "p99_latency_ms"].map(us);
    Ok(Turn { cpu_ns: 0.0, rate, p50_us, p99_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_table_of_the_benchmark() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
            \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
            \"SET\",\"100.00\",\"0.1\",\"0.1\",\"0.250\",\"0.3\",\"0.400\",\"1\"\n\
            \"GET\",\"300.00\",\"0.1\",\"0.1\",\"0.750\",\"0.3\",\"0.600\",\"1\"\n";
        let turn = told(said).unwrap();
        assert_eq!((turn.rate, turn.p50_us, turn.p99_us), (Some(200.0), Some(500.0), Some(500.0)));
        assert!(told("").is_err() && told("error\n").is_err());
    }
}
