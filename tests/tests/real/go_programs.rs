//! Programs of Go that people run, stripped, with C in them and under load: their profile, what their runtime counts and
//! their objects, beside what they tell themselves; and they answer as before.
//!
//! Some are not in the CI (containerd needs root):
//!
//! ```text
//! apt-get install etcd-server caddy syncthing nats-server containerd
//! cargo test -p heapattach-tests --test real -- --ignored --nocapture tells_its_heap
//! ```

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use heapattach_tests::{
    command::Heapattach,
    deadline::{PATIENCE, poll, wait_until},
    real::{Load, Server, StartError, installed},
    skip::skip,
};
use serde_json::Value;

/// An answer over HTTP, of status 200 or 204.
fn ask(port: u16, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.split(' ').nth(1).filter(|status| status.starts_with("20"))?;
    Some(body.to_owned())
}

fn get(port: u16, path: &str) -> Option<String> {
    ask(port, &format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n"))
}

/// What a program tells of its own runtime.
fn metrics(text: &str) -> HashMap<String, f64> {
    let of = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    text.lines().filter_map(of).collect()
}

/// What is known of a program.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// What has it.
    package: &'static str,
    /// Functions of it are called so.
    own: &'static str,
    /// What it is asked, and a part of each answer.
    path: &'static str,
    answer: &'static str,
    /// Whether that has what its runtime counts.
    has_figures: bool,
    /// Bytes that it has in use at least.
    least: u64,
}

impl Kind {
    const fn new(name: &'static str, own: &'static str) -> Self {
        let (path, answer) = ("/metrics", "go_goroutines ");
        Self { name, package: name, own, path, answer, has_figures: true, least: 1 << 20 }
    }
}

struct Program {
    kind: Kind,
    server: Server,
    port: u16,
}

impl Program {
    fn start(kind: Kind, args: &dyn Fn(&Path, u16) -> Vec<String>) -> Option<Self> {
        let Kind { name, package, .. } = kind;
        let Some(program) = installed(name) else {
            skip(&format!("no {name} here"), &format!("apt-get install {package}"));
            return None;
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let directory = Server::directory(name).expect("a folder");
        let mut command = Command::new(program);
        command.args(args(&directory, port)).env("HOME", &directory);
        match Server::start(command, directory, || get(port, kind.path).is_some()) {
            Ok(server) => Some(Self { kind, server, port }),
            Err(StartError::Missing(cure)) => {
                skip(&format!("no {name} here"), cure);
                None
            }
            Err(StartError::Failed(why)) => panic!("{name} does not start: {why}"),
        }
    }

    /// Questions that allocate in it, every answer checked.
    fn load(&self) -> Load {
        let (port, Kind { name, path, answer: part, .. }) = (self.port, self.kind);
        Load::default().with(move |tally| {
            while tally.goes_on() {
                let answer = get(port, path).ok_or(format!("{name} does not answer"))?;
                if !answer.contains(part) {
                    return Err(format!("{name} answers: {answer}"));
                }
                tally.answered(1);
                thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        })
    }

    fn json(&self, words: &[&str]) -> Value {
        let pid = self.server.pid().to_string();
        let words = words.iter().map(|word| if *word == "PID" { pid.as_str() } else { word });
        let command = Heapattach::new(words).target(self.server.pid());
        let text = command.run().expect(0).stdout;
        let all = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        all.last().expect("a document").unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The runtime's counts are those that the program tells just before or after.
    fn allocator(&self) {
        let text = || get(self.port, self.kind.path).expect("it answers");
        let before = self.kind.has_figures.then(|| metrics(&text()));
        let report = self.json(&["allocator", "-p", "PID", "--json"]);
        // An answer can be an old one: VictoriaMetrics keeps it for a second. The next other one is new.
        let after = self.kind.has_figures.then(|| {
            let first = text();
            let next = || Some(text()).filter(|next| *next != first);
            metrics(&poll(PATIENCE, next).expect("what it counts changes under load"))
        });
        let allocators = report["allocators"].as_array().expect("allocators");
        let own = allocators.iter().find(|one| one["allocator"] == "go").expect("Go's");
        let name = self.kind.name;
        assert!(own["version"].as_str().is_some_and(|text| text.starts_with("go1.")), "{own:#}");
        let Some((before, after)) = before.zip(after) else {
            let goroutines = own["stats"]["NumGoroutine"].as_f64();
            return assert!(goroutines.is_some_and(|number| number > 2.0), "{name}: {own:#}");
        };
        for (told, number) in [("go_memstats_sys_bytes", "Sys"), ("go_goroutines", "NumGoroutine")]
        {
            let bounds = [before[told], after[told]];
            let number = own["stats"][number].as_f64().expect("a number");
            let (least, most) = (bounds[0].min(bounds[1]), bounds[0].max(bounds[1]));
            assert!(
                (least * 0.7 - 10.0..=most * 1.3 + 10.0).contains(&number),
                "{name}: {told}: {number}, itself {bounds:?}"
            );
        }
        let pauses = own["stats"]["NumGC"].as_f64().expect("a number");
        let collections = |of: &HashMap<String, f64>| of["go_gc_duration_seconds_count"];
        let range = collections(&before)..=collections(&after);
        assert!(range.contains(&pauses), "{name}: {pauses}, itself {range:?}");
    }

    /// All objects are told, and what holds them.
    fn heap(&self) {
        let report = self.json(&["heap", "-p", "PID", "--view", "holders", "--json"]);
        let (go, found, name) = (&report["go"], &report["holders"], self.kind.name);
        assert!(go["error"].is_null() && found["error"].is_null(), "{name}: {go:#} {found:#}");
        let allocators = report["allocators"].as_array().expect("allocators").iter();
        let is_exact: Vec<_> = allocators.map(|one| (&one["name"], &one["is_exact"])).collect();
        assert!(is_exact.contains(&(&"go".into(), &true.into())), "{name}: {is_exact:?}");
        let bytes = |of: &Value| of["bytes"].as_u64().expect("a number");
        assert_eq!(found["reached"], go["reached"], "{name}");
        assert!(bytes(&go["reached"]) > self.kind.least, "{name}: {}", go["reached"]);
        assert!(go["goroutines"].as_u64() > Some(5), "{name}: {}", go["goroutines"]);
        // Nothing waits for ever in them.
        assert!(go["leaked_goroutines"].as_u64() <= Some(2), "{name}: {:#}", go["leaked"]);
        let rows = found["holders"].as_array().expect("rows").iter();
        let top: u64 =
            rows.filter(|row| row["before"].is_null()).map(|row| bytes(&row["retained"])).sum();
        let reached = bytes(&found["reached"]);
        let typed = bytes(&go["typed"]) * 1000 / reached.max(1);
        println!("{name}: {reached} bytes, of which {typed} in 1000 have a known type");
        // Rows that retain little are not told.
        assert!(top <= reached && top * 10 >= reached * 8, "{name}: {top} of {reached}");
    }

    fn has_c(&self) -> bool {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.server.pid()));
        maps.expect("it runs").contains("/libc.so")
    }

    /// What its functions allocated is told, and it is as it was.
    fn session(&self) {
        let words = ["-p", "PID", "--duration", "1s", "--no-record", "--json"];
        let report = self.json(&words);
        // With a C library it has hooks for a while.
        let state = if self.has_c() { "restored" } else { "untouched" };
        assert_eq!(report["target"], state, "{}", self.kind.name);
        assert!(report["left"].as_array().is_none_or(Vec::is_empty), "{}", report["left"]);
        let processes = report["processes"].as_array().into_iter().flatten();
        let mut all = processes.chain([&report]);
        let of_go = |one: &&Value| {
            let sites = one["heap"]["sites"].as_array().into_iter().flatten();
            let mut frames = sites.flat_map(|site| site["frames"].as_array().into_iter().flatten());
            frames.any(|frame| {
                frame["function"].as_str().is_some_and(|name| name.contains(self.kind.own))
            })
        };
        assert!(all.any(|one| of_go(&one)), "{}: {report:#}", self.kind.name);
    }
}

fn look(program: &Program) {
    let load = program.load();
    wait_until("it is at work", PATIENCE, || load.answered() > 100);
    for look in [Program::allocator, Program::heap, Program::session] {
        look(program);
        let before = load.answered();
        wait_until("it goes on", PATIENCE, || load.answered() > before + 10);
    }
    if let Err(complaint) = load.finish() {
        panic!("{}: {complaint}", program.kind.name);
    }
}

#[test]
fn prometheus_tells_its_heap_and_its_runtime_and_goes_on() {
    let kind = Kind::new("prometheus", "github.com/prometheus/");
    let program = Program::start(kind, &|folder, port| {
        let config = folder.join("prometheus.yml");
        let text = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: own\n  static_configs:\n  - targets: \
             ['127.0.0.1:{port}']\n"
        );
        std::fs::write(&config, text).expect("a folder of ours");
        vec![
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ]
    });
    program.iter().for_each(look);
}

#[test]
fn victoria_metrics_tells_its_heap_and_its_runtime_and_goes_on() {
    let kind = Kind::new("victoria-metrics", "github.com/VictoriaMetrics/");
    let program = Program::start(kind, &|folder, port| {
        vec![
            format!("-storageDataPath={}", folder.join("data").display()),
            format!("-httpListenAddr=127.0.0.1:{port}"),
        ]
    });
    program.iter().for_each(look);
}

#[test]
#[ignore = "not in the CI: half a minute"]
fn etcd_tells_its_heap_and_its_runtime_and_goes_on() {
    let kind = Kind { package: "etcd-server", ..Kind::new("etcd", "go.etcd.io/") };
    let program = Program::start(kind, &|folder, port| {
        let url = format!("http://127.0.0.1:{port}");
        vec![
            format!("--data-dir={}", folder.join("data").display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
        ]
    });
    program.iter().for_each(look);
}

#[test]
#[ignore = "not in the CI: half a minute"]
fn caddy_tells_its_heap_and_its_runtime_and_goes_on() {
    let kind = Kind::new("caddy", "github.com/caddyserver/");
    let program = Program::start(kind, &|folder, port| {
        let config = folder.join("caddy.json");
        let text = format!("{{\"admin\": {{\"listen\": \"127.0.0.1:{port}\"}}}}");
        std::fs::write(&config, text).expect("a folder of ours");
        ["run", "--config"]
            .map(str::to_owned)
            .into_iter()
            .chain([config.display().to_string()])
            .collect()
    });
    program.iter().for_each(look);
}

#[test]
#[ignore = "not in the CI: half a minute"]
fn nats_server_tells_its_heap_and_its_runtime_and_goes_on() {
    let (path, answer) = ("/varz", "\"connections\"");
    let own = "github.com/nats-io/";
    let kind = Kind { path, answer, has_figures: false, ..Kind::new("nats-server", own) };
    let kind = Kind { least: 256 << 10, ..kind };
    let program = Program::start(kind, &|_, port| {
        let port = port.to_string();
        ["-a", "127.0.0.1", "-p", "-1", "-m", &port].map(str::to_owned).to_vec()
    });
    program.iter().for_each(look);
}

#[test]
#[ignore = "not in the CI: half a minute"]
fn syncthing_tells_its_heap_and_its_runtime_and_goes_on() {
    let (path, answer) = ("/meta.js", "deviceID");
    let own = "github.com/syncthing/";
    let kind = Kind { path, answer, has_figures: false, ..Kind::new("syncthing", own) };
    let kind = Kind { least: 256 << 10, ..kind };
    let program = Program::start(kind, &|folder, port| {
        vec![
            "serve".to_owned(),
            "--no-browser".to_owned(),
            // What it keeps running is itself, in a child.
            "--no-restart".to_owned(),
            format!("--home={}", folder.join("home").display()),
            format!("--gui-address=http://127.0.0.1:{port}"),
        ]
    });
    program.iter().for_each(look);
}

#[test]
#[ignore = "not in the CI: half a minute"]
fn containerd_tells_its_heap_and_its_runtime_and_goes_on() {
    let kind = Kind { path: "/v1/metrics", ..Kind::new("containerd", "github.com/containerd/") };
    let program = Program::start(kind, &|folder, port| {
        let config = folder.join("config.toml");
        let place = folder.display();
        let text = format!(
            "version = 2\nroot = \"{place}/root\"\nstate = \"{place}/state\"\n[grpc]\naddress = \
             \"{place}/socket\"\n[metrics]\naddress = \"127.0.0.1:{port}\"\n"
        );
        std::fs::write(&config, text).expect("a folder of ours");
        vec![format!("--config={}", config.display())]
    });
    program.iter().for_each(look);
}
