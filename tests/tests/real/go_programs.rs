//! Programs of Go that people run, stripped, with C in them and under load: their profile, what their runtime counts and
//! their objects, beside what they tell themselves; and they answer as before.

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
    deadline::{PATIENCE, wait_until},
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
    ask(port, &format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"))
}

/// What a program tells of its own runtime.
fn metrics(port: u16) -> HashMap<String, f64> {
    let text = get(port, "/metrics").expect("it answers");
    let of = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    text.lines().filter_map(of).collect()
}

struct Program {
    name: &'static str,
    /// Functions of it are called so.
    own: &'static str,
    server: Server,
    port: u16,
}

impl Program {
    fn start(
        name: &'static str,
        own: &'static str,
        args: &dyn Fn(&Path, u16) -> Vec<String>,
    ) -> Option<Self> {
        let Some(program) = installed(name) else {
            skip(&format!("no {name} here"), &format!("apt-get install {name}"));
            return None;
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let directory = Server::directory(name).expect("a folder");
        let mut command = Command::new(program);
        command.args(args(&directory, port));
        match Server::start(command, directory, || get(port, "/metrics").is_some()) {
            Ok(server) => Some(Self { name, own, server, port }),
            Err(StartError::Missing(cure)) => {
                skip(&format!("no {name} here"), cure);
                None
            }
            Err(StartError::Failed(why)) => panic!("{name} does not start: {why}"),
        }
    }

    /// Questions that allocate in it, every answer checked.
    fn load(&self) -> Load {
        let (port, name) = (self.port, self.name);
        Load::default().with(move |tally| {
            while tally.goes_on() {
                let answer = get(port, "/metrics").ok_or(format!("{name} does not answer"))?;
                if !answer.contains("go_goroutines ") {
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
        let before = metrics(self.port);
        let report = self.json(&["allocator", "-p", "PID", "--json"]);
        let after = metrics(self.port);
        let allocators = report["allocators"].as_array().expect("allocators");
        let own = allocators.iter().find(|one| one["allocator"] == "go").expect("Go's");
        let name = self.name;
        assert!(own["version"].as_str().is_some_and(|text| text.starts_with("go1.")), "{own:#}");
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
        let (go, found, name) = (&report["go"], &report["holders"], self.name);
        assert!(go["error"].is_null() && found["error"].is_null(), "{name}: {go:#} {found:#}");
        let allocators = report["allocators"].as_array().expect("allocators").iter();
        let is_exact: Vec<_> = allocators.map(|one| (&one["name"], &one["is_exact"])).collect();
        assert!(is_exact.contains(&(&"go".into(), &true.into())), "{name}: {is_exact:?}");
        let bytes = |of: &Value| of["bytes"].as_u64().expect("a number");
        assert_eq!(found["reached"], go["reached"], "{name}");
        assert!(bytes(&go["reached"]) > 1 << 20, "{name}: {}", go["reached"]);
        assert!(go["goroutines"].as_u64() > Some(5), "{name}: {}", go["goroutines"]);
        // Nothing waits for ever in them.
        assert!(go["leaked_goroutines"].as_u64() <= Some(2), "{name}: {:#}", go["leaked"]);
        let rows = found["holders"].as_array().expect("rows").iter();
        let top: u64 =
            rows.filter(|row| row["before"].is_null()).map(|row| bytes(&row["retained"])).sum();
        let reached = bytes(&found["reached"]);
        // Rows that retain little are not told.
        assert!(top <= reached && top * 10 >= reached * 8, "{name}: {top} of {reached}");
    }

    /// What its functions allocated is told, and it is as it was.
    fn session(&self) {
        let words = ["-p", "PID", "--duration", "1s", "--no-record", "--json"];
        let report = self.json(&words);
        assert_eq!(report["target"], "restored", "{}", self.name);
        assert!(report["left"].as_array().is_none_or(Vec::is_empty), "{}", report["left"]);
        let processes = report["processes"].as_array().into_iter().flatten();
        let mut all = processes.chain([&report]);
        let of_go = |one: &&Value| {
            let sites = one["heap"]["sites"].as_array().into_iter().flatten();
            let mut frames = sites.flat_map(|site| site["frames"].as_array().into_iter().flatten());
            frames
                .any(|frame| frame["function"].as_str().is_some_and(|name| name.contains(self.own)))
        };
        assert!(all.any(|one| of_go(&one)), "{}: {report:#}", self.name);
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
        panic!("{}: {complaint}", program.name);
    }
}

#[test]
fn prometheus_tells_its_heap_and_its_runtime_and_goes_on() {
    let own = "github.com/prometheus/";
    let program = Program::start("prometheus", own, &|folder, port| {
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
    let own = "github.com/VictoriaMetrics/";
    let program = Program::start("victoria-metrics", own, &|folder, port| {
        vec![
            format!("-storageDataPath={}", folder.join("data").display()),
            format!("-httpListenAddr=127.0.0.1:{port}"),
        ]
    });
    program.iter().for_each(look);
}
