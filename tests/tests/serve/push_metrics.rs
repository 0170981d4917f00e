//! Those who scrape have what became of what was sent.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
};

use heapattach_tests::{
    Folder,
    compile::is_there,
    deadline::{PATIENCE, wait_until},
    skip::skip,
};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    push_stub::{Manner, Stub},
    push_trouble::Foreign,
    server::Served,
};

/// A figure of a server that answers as Prometheus does; the sum of its series.
fn query(port: u16, text: &str) -> Option<f64> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let ask = format!("GET /api/v1/query?query={text} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(ask.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let json: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
    json["data"]["result"][0]["value"][1].as_str()?.parse().ok()
}

#[test]
fn prometheus_and_victoria_metrics_have_the_counters_and_they_add_up() {
    let stub = Stub::start(|number| match number {
        0 | 1 => Manner::Status("400 Bad Request", "", "no"),
        _ => Manner::Strict,
    });
    let url = format!("pyroscope+http://{}", stub.host);
    let Some(mut served) = Served::start(&["--push", &url, "--push-every", "1s"]) else { return };
    let bytes = served.keep(2000);
    for (program, args, more) in [
        (
            "prometheus",
            ["--config.file=", "--storage.tsdb.path=", "--web.listen-address=127.0.0.1:"],
            &[][..],
        ),
        (
            "victoria-metrics",
            ["-promscrape.config=", "-storageDataPath=", "-httpListenAddr=127.0.0.1:"],
            // Else it does not tell the last half minute.
            &["-search.latencyOffset=1s"][..],
        ),
    ] {
        if !is_there(program) {
            skip(&format!("no {program} here to scrape"), &format!("apt-get install {program}"));
            continue;
        }
        let folder = Folder::new(&format!("push-{program}"));
        let config = folder.0.join("scrape.yml");
        let text = format!(
            "global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\nscrape_configs:\n- job_name: heap\n  \
             static_configs:\n  - targets: ['{}']\n",
            served.host
        );
        fs::write(&config, text).expect("a folder of ours");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let child = Command::new(program)
            .arg(format!("{}{}", args[0], config.display()))
            .arg(format!("{}{}", args[1], folder.0.join("data").display()))
            .arg(format!("{}{port}", args[2]))
            .args(more)
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.0.join("log")).expect("a folder of ours"))
            .spawn()
            .expect("it is there");
        let _server = Foreign(child);
        let of = |name: &str| query(port, &format!("sum(heapattach_push_{name})"));
        let mut seen = [0.0; 4];
        wait_until(program, 2 * PATIENCE, || {
            let all = ["sent_total", "dropped_total", "queued", "made_total"].map(of);
            seen = all.map(|value| value.unwrap_or(-1.0));
            // All of one scrape: what is asked for between two of them is of both.
            seen[0] >= 1.0 && (seen[0] + seen[1] + seen[2] - seen[3]).abs() < 0.1
        });
        assert!((seen[1] - 2.0).abs() < 0.1, "{seen:?}");
        #[allow(clippy::cast_precision_loss)]
        let wanted = bytes as f64;
        let live = query(port, "sum(heapattach_live_bytes)").unwrap_or_default();
        assert!((live - wanted).abs() < wanted * 0.02, "{program}: {live}, kept: {wanted}");
    }
    served.running.signal(Signal::SIGTERM);
    served.running.wait().expect(0);
    served.fixture.finish();
}
