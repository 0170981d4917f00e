//! What is sent to Pyroscope, Parca and a collector of OpenTelemetry is what the recording says.

use std::fs;

use heapattach_ledger::Metric;
use heapattach_recording::Recording;
use heapattach_tests::{
    Folder,
    command::Heapattach,
    deadline::{PATIENCE, wait_until},
};
use nix::sys::signal::Signal;

use crate::{
    push_stub::{Manner, Stub},
    server::{Served, figure},
};

/// The value of a metric of one backend.
pub fn pushed(metrics: &str, name: &str, host: &str) -> f64 {
    let lines = metrics.lines().filter(|line| {
        line.starts_with(&format!("heapattach_push_{name}{{"))
            && line.contains(&format!("//{host}\""))
    });
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Whether all that was made for a backend is accounted for.
pub fn adds_up(metrics: &str, host: &str) -> bool {
    let [made, sent, dropped, queued] = ["made_total", "sent_total", "dropped_total", "queued"]
        .map(|name| pushed(metrics, name, host));
    (made - sent - dropped - queued).abs() < 0.1
}

#[test]
fn all_backends_have_what_the_recording_has_and_each_by_its_rules() {
    let [pyroscope, parca, otlp] = [0; 3].map(|_| Stub::start(|_| Manner::Strict));
    let stubs = [&pyroscope, &parca, &otlp];
    let folder = Folder::new("push-truth");
    let urls = [
        format!("pyroscope+http://{}", pyroscope.host),
        format!("parca+http://{}", parca.host),
        format!("otlp+http://{}", otlp.host),
    ];
    let output = folder.0.display().to_string();
    let args = [
        "--push",
        &urls[0],
        "--push",
        &urls[1],
        "--push",
        &urls[2],
        "--push-every",
        "1s",
        "-o",
        &output,
        "--label",
        "zone=north",
        "--tenant",
        "team",
    ];
    let Some(mut served) = Served::start(&args) else { return };
    let pid = served.fixture.pid();
    let first = served.keep(1000);
    wait_until("what is in use", PATIENCE, || {
        stubs.iter().all(|stub| stub.last("inuse_space") == first)
    });
    let second = served.keep(500);
    wait_until("what came", PATIENCE, || {
        stubs.iter().all(|stub| stub.sum("alloc_space") == second)
    });
    // Of a process that does nothing what is in use is sent all the same.
    let before = pyroscope.taken().len();
    wait_until("more of the same", PATIENCE, || pyroscope.taken().len() > before + 2);
    let metrics = served.get("/metrics");
    for stub in stubs {
        assert!(adds_up(&metrics, &stub.host), "{metrics}");
        assert!(pushed(&metrics, "sent_total", &stub.host) > 2.0, "{metrics}");
    }
    assert!(figure(&metrics, "heapattach_push_clock_ahead_seconds").is_none(), "no date was told");

    let third = served.fixture.step(1, 250);
    served.running.signal(Signal::SIGTERM);
    let outcome = served.running.wait().expect(0);
    served.fixture.finish();
    let recording = Recording::open(&folder.0.join(format!("{pid}.heapattach"))).expect("kept");
    let ledger = recording.ledger(None);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let total = |metric| ledger.total.measure(metric).bytes.value.round() as u64;
    assert_eq!(total(Metric::Live), third);
    for stub in stubs {
        assert_eq!(stub.refused(), Vec::<String>::new());
        assert_eq!(stub.sum("alloc_space"), total(Metric::Allocated));
        assert_eq!(stub.last("inuse_space"), total(Metric::Live));
        let taken = stub.taken();
        let labels = &taken[0].labels;
        let names = if stub.host == otlp.host {
            ["process.pid", "service.name"]
        } else {
            ["pid", "service_name"]
        };
        assert_eq!(labels[names[0]], pid.to_string());
        assert_eq!(labels["zone"], "north");
        assert!(labels[names[1]].starts_with("holds"), "{labels:?}");
        assert!(taken[0].profiles.iter().any(|one| one.names.iter().any(|name| name == "keep")));
        // Once for each request: OTLP tells it with each of its types.
        let windows = taken.iter().map(|one| {
            one.profiles.iter().map(|one| one.duration_nanos / 1_000_000).max().unwrap_or(0)
        });
        let windows: u64 = windows.sum();
        let lasted = ledger.about.lasted_ms;
        assert!(windows.abs_diff(lasted) < 20, "windows of {windows} ms in {lasted} ms");
        let told = format!("made {0}, sent {0}, dropped 0, queued 0", taken.len());
        assert!(outcome.stderr.contains(&told), "{told}: {}", outcome.stderr);
    }
    assert!(pyroscope.taken()[0].head.to_lowercase().contains("x-scope-orgid: team\r\n"));
}

#[test]
fn a_process_that_ends_is_told_to_its_end() {
    let stub = Stub::start(|_| Manner::Strict);
    let url = format!("pyroscope+http://{}", stub.host);
    let Some(mut served) = Served::start(&["--push", &url, "--push-every", "1h"]) else { return };
    let bytes = served.fixture.step(1, 300);
    served.fixture.finish();
    served.running.wait().expect(5);
    assert_eq!((stub.sum("alloc_space"), stub.taken().len()), (bytes, 1), "{:?}", stub.refused());
}

#[test]
fn what_cannot_be_sent_is_refused_before_anything_is_begun() {
    let folder = Folder::new("push-refused");
    let empty = folder.0.join("empty");
    fs::write(&empty, "\n").expect("a folder of ours");
    let empty = empty.display().to_string();
    for (args, why) in [
        (&["--push", "http://a"][..], "pyroscope+https://HOST"),
        (&["--push", "parca+http://u:geheim@a"], "--push-token-file"),
        (&["--push", "parca+http://a", "--label", "a-b=c"], "name of a label"),
        (&["--push", "parca+http://a", "--push-every", "10ms"], "1s"),
        (&["--push", "parca+http://a", "--push-token-file", &empty], "token"),
        (&["--push", "parca+https://a", "--push-ca", &empty], "PEM"),
        (&["--push", "parca+http://a", "--push-token-file", "/nonexistent"], "/nonexistent"),
        (
            &["--push", "parca+http://a", "--push", "parca+http://b", "--push-token-file", &empty],
            "for each",
        ),
        (&["--label", "a=b"], "--push"),
    ] {
        let all = [&["serve", "-p", "1", "--listen", ":0"], args].concat();
        let outcome = Heapattach::new(all).run().expect(2);
        assert!(outcome.stderr.contains(why), "{args:?}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("geheim"), "{}", outcome.stderr);
    }
}
