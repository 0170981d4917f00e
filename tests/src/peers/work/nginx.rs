//! nginx under wrk.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
};

use super::{Subject, Turn, Work, stepped::measured};
use crate::{
    peers::{clock::processor_time, dress::Dress, kit},
    real::Server,
};

/// One process that serves a page, compressed anew for each request, which allocates.
#[derive(Debug)]
pub(in super::super) struct Nginx;

struct Running {
    server: Server,
    port: u16,
}

impl Work for Nginx {
    fn name(&self) -> String {
        "nginx: a compressed page".to_owned()
    }

    /// Tenths of a second: wrk counts time, not pages.
    fn operations(&self) -> u64 {
        10
    }

    /// wrk counts whole seconds.
    fn rounds(&self, wanted: u32) -> u32 {
        wanted.min(4)
    }

    fn is_long(&self) -> bool {
        true
    }

    fn start(&self, dress: &Dress) -> Result<Box<dyn Subject>, String> {
        let program = kit::program("nginx")?;
        kit::program("wrk")?;
        let say = |error: std::io::Error| error.to_string();
        let directory = Server::directory("nginx").map_err(say)?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(say)?;
        let port = listener.local_addr().map_err(say)?.port();
        drop(listener);
        let page: String = (0..100).map(|line| format!("line {line} of a page\n")).collect();
        fs::write(directory.join("page.txt"), page).map_err(say)?;
        let configuration = directory.join("nginx.conf");
        fs::write(&configuration, configure(&directory, port)).map_err(say)?;
        let mut command = dress.command(&program);
        command.arg("-p").arg(&directory).arg("-e").arg(directory.join("errors"));
        command.arg("-c").arg(configuration);
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        let server = Server::start(command, directory, listens).map_err(|e| e.to_string())?;
        Ok(Box::new(Running { server, port }))
    }
}

/// Without a master: the process that is started is the one that works.
fn configure(directory: &Path, port: u16) -> String {
    let user = if nix::unistd::geteuid().is_root() { "user root root;" } else { "" };
    let directory = directory.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {directory}/{kind};\n"))
        .collect();
    format!(
        "{user}\ndaemon off;\nmaster_process off;\npid {directory}/pid;\n\
         events {{ worker_connections 256; }}\n\
         http {{\n{temporary}access_log off;\ndefault_type text/plain;\ngzip on;\n\
         gzip_min_length 1;\ngzip_types text/plain;\nkeepalive_requests 100;\n\
         server {{ listen 127.0.0.1:{port}; root {directory}; }}\n}}\n"
    )
}

impl Subject for Running {
    fn pid(&mut self) -> Result<i32, String> {
        Ok(self.server.pid())
    }

    fn work(&mut self, operations: u64) -> Result<Turn, String> {
        let pid = self.server.pid();
        let mut command = Command::new(kit::program("wrk")?);
        let seconds = operations.div_ceil(10);
        command.args(["-t", "1", "-c", "16", "--latency", "-H", "Accept-Encoding: gzip"]);
        command
            .arg(format!("-d{seconds}s"))
            .arg(format!("http://127.0.0.1:{}/page.txt", self.port));
        let mut said = String::new();
        let turn = measured(
            1,
            || processor_time(pid),
            || {
                said = kit::run(&mut command)?;
                Ok(())
            },
        )?;
        told(&said, turn.cpu_ns)
    }
}

fn told(said: &str, cpu_ns: f64) -> Result<Turn, String> {
    let odd = || format!("wrk said {said}");
    let field =
        |name: &str| said.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
    if said.contains("Socket errors") || said.contains("Non-2xx") {
        return Err(odd());
    }
    let answered = said.lines().find(|line| line.contains("requests in"));
    let answered = answered.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let answered = answered.filter(|&number| number > 0.0).ok_or_else(odd)?;
    let rate = field("Requests/sec:").and_then(|text| text.parse().ok());
    let [p50_us, p99_us] = ["50%", "99%"].map(|name| field(name).and_then(microseconds));
    Ok(Turn { cpu_ns: cpu_ns / answered, rate, p50_us, p99_us })
}

fn microseconds(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    number.parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_wrk_says() {
        let said = "  Latency Distribution\n     50%  340.00us\n     99%    1.20ms\n\
            \x20 1000 requests in 1.00s, 2.00MB read\nRequests/sec:    998.50\n";
        let turn = told(said, 5e6).unwrap();
        assert_eq!((turn.cpu_ns, turn.rate), (5000.0, Some(998.5)));
        assert_eq!((turn.p50_us, turn.p99_us), (Some(340.0), Some(1200.0)));
        assert!(told("  0 requests in 1s", 1.0).is_err());
    }
}
