//! Backends that are away, slow, full or broken: what was made is accounted for, and nothing waits for them.

use std::{
    fs,
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use heapattach_tests::{
    Folder,
    compile::is_there,
    deadline::{PATIENCE, wait_until},
    skip::skip,
};
use nix::sys::signal::Signal;

use crate::{
    ends::is_touched,
    push::{adds_up, pushed},
    push_stub::{Manner, Stub},
    server::Served,
};

/// Longer than what waits is tried at the end, and less than any time-out of a request.
const END: Duration = Duration::from_secs(20);

/// Longer than between two profiles.
const SLOW: Duration = Duration::from_millis(1500);

#[test]
fn what_was_made_is_accounted_for_whatever_backends_do_and_nothing_waits_for_them() {
    let status = |line, lines, text| Stub::start(move |_| Manner::Status(line, lines, text));
    let stubs = [
        status("500 Internal Server Error", "", "broken"),
        Stub::start(|number| match number {
            0 => Manner::Status("429 Too Many Requests", "Retry-After: 2\r\n", "later"),
            1 => Manner::Reset,
            _ => Manner::Strict,
        }),
        Stub::start(|_| Manner::Reset),
        Stub::start(|_| Manner::Silent),
        status("301 Moved", "Location: http://127.0.0.1:1/\r\n", ""),
    ];
    let listen = || TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = |of: &TcpListener| of.local_addr().expect("an address").to_string();
    // Of the second the system takes connections that no program takes.
    let (dead, half_open) = (host(&listen()), listen());
    let more = [Stub::start(|_| Manner::Slow(SLOW)), Stub::start(|_| Manner::Trickle)];
    let all = stubs.iter().map(|stub| stub.host.clone()).chain([dead, host(&half_open)]);
    let hosts: Vec<_> = all.chain(more.iter().map(|stub| stub.host.clone())).collect();
    let urls: Vec<_> = hosts.iter().map(|host| format!("pyroscope+http://{host}")).collect();
    let mut args: Vec<_> = urls.iter().flat_map(|url| ["--push", url]).collect();
    args.extend(["--push-every", "1s", "--push-queue", "4KiB"]);
    let Some(mut served) = Served::start(&args) else { return };
    let pid = served.fixture.pid();
    let mut all_bytes = 0;
    wait_until("what backends do", 2 * PATIENCE, || {
        // The process goes on meanwhile, and the server answers.
        all_bytes = served.fixture.step(1, 10);
        let metrics = served.get("/metrics");
        for host in &hosts {
            assert!(adds_up(&metrics, host), "{host}: {metrics}");
            assert!(pushed(&metrics, "queued_bytes", host) <= 4096.0 + 2048.0, "{metrics}");
        }
        let of = |name, at: usize| pushed(&metrics, name, &hosts[at]);
        of("retried_total", 0) >= 2.0
            && of("retried_total", 1) >= 2.0
            && of("sent_total", 1) >= 1.0
            && of("retried_total", 2) >= 2.0
            && of("made_total", 3) >= 3.0
            && of("dropped_total", 4) >= 2.0
            && of("dropped_total", 5) >= 1.0
            && of("made_total", 6) >= 3.0
            && of("sent_total", 7) >= 2.0
            && of("made_total", 8) >= 3.0
    });
    let told = Instant::now();
    served.running.signal(Signal::SIGTERM);
    // First of all the process is let go.
    wait_until("the detach", PATIENCE, || !is_touched(pid));
    let outcome = served.running.wait().expect(0);
    assert!(told.elapsed() < END, "{:?}", told.elapsed());
    served.fixture.step(1, 10);
    served.fixture.finish();
    // The one that took some in the end has all that it took once.
    assert_eq!(stubs[1].sum("alloc_space"), all_bytes, "{}", outcome.stderr);
    let lines = outcome.stderr.lines().filter(|line| line.contains(": made "));
    let mut ends = 0;
    for line in lines {
        let number = |word: &str| -> u64 {
            let rest = line.split_once(&format!("{word} ")).map_or("", |(_, rest)| rest);
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("").parse().unwrap_or(0)
        };
        let sum = number(" sent") + number(" dropped") + number(" queued");
        assert_eq!(number(": made"), sum, "{line}");
        ends += 1;
    }
    assert_eq!(ends, hosts.len(), "{}", outcome.stderr);
    for why in ["status 500: broken", "status 301", "status 429: later", "refused"] {
        assert!(outcome.stderr.contains(why), "{why}: {}", outcome.stderr);
    }
    // Once, not each second.
    assert_eq!(outcome.stderr.matches("status 500").count(), 1, "{}", outcome.stderr);
}

#[test]
fn what_is_too_old_is_dropped_and_a_backend_that_comes_back_has_the_rest() {
    let is_back = Arc::new(AtomicBool::new(false));
    let back = is_back.clone();
    let stub = Stub::start(move |_| match back.load(SeqCst) {
        true => Manner::Strict,
        false => Manner::Status("503 Service Unavailable", "", ""),
    });
    let url = format!("parca+http://{}", stub.host);
    let args = ["--push", &url, "--push-every", "1s", "--push-age", "3s"];
    let Some(served) = Served::start(&args) else { return };
    wait_until("old ones", PATIENCE, || {
        pushed(&served.get("/metrics"), "dropped_total", &stub.host) >= 2.0
    });
    is_back.store(true, SeqCst);
    wait_until("the rest", PATIENCE, || {
        let metrics = served.get("/metrics");
        assert!(adds_up(&metrics, &stub.host), "{metrics}");
        pushed(&metrics, "sent_total", &stub.host) >= 2.0
    });
    served.running.signal(Signal::SIGTERM);
    let outcome = served.running.wait().expect(0);
    assert!(outcome.stderr.contains("sent again"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("too old"), "{}", outcome.stderr);
    served.fixture.finish();
}

#[test]
fn a_token_goes_to_its_backend_alone_and_is_shown_nowhere() {
    let open = Stub::start(|_| Manner::Strict);
    let closed = Stub::start(|_| {
        let late = "Date: Fri, 01 Jan 2021 00:00:00 GMT\r\n";
        Manner::Status("401 Unauthorized", late, "you said {token}")
    });
    let folder = Folder::new("push-token");
    let files = ["tok3n-abc", "me:geheim"].map(|text| {
        let path = folder.0.join(&text[..2]);
        fs::write(&path, format!("{text}\n")).expect("a folder of ours");
        path.display().to_string()
    });
    let urls = [&open, &closed].map(|stub| format!("pyroscope+http://{}", stub.host));
    let args = [
        "--push",
        &urls[0],
        "--push-token-file",
        &files[0],
        "--push",
        &urls[1],
        "--push-token-file",
        &files[1],
        "--push-every",
        "1s",
    ];
    let Some(served) = Served::start(&args) else { return };
    wait_until("an answer of each", PATIENCE, || {
        !open.taken().is_empty() && !closed.refused().is_empty()
    });
    // A token that is another one from now on.
    fs::write(&files[0], "an0ther\n").expect("a folder of ours");
    wait_until("the new token", PATIENCE, || {
        open.taken().iter().any(|one| one.head.contains("Bearer an0ther\r\n"))
    });
    assert!(open.taken()[0].head.contains("Bearer tok3n-abc\r\n"), "{:?}", open.taken()[0]);
    let line = fs::read(format!("/proc/{}/cmdline", served.running.pid())).expect("it runs");
    let metrics = served.get("/metrics");
    assert!(pushed(&metrics, "dropped_total", &closed.host) >= 1.0, "{metrics}");
    assert!(pushed(&metrics, "clock_ahead_seconds", &closed.host) < -100_000.0, "{metrics}");
    served.running.signal(Signal::SIGTERM);
    let outcome = served.running.wait().expect(0);
    served.fixture.finish();
    assert!(outcome.stderr.contains("status 401: you said Basic ***"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("behind this machine's"), "{}", outcome.stderr);
    let said = outcome.stderr + &String::from_utf8_lossy(&line) + &metrics;
    for secret in ["tok3n", "an0ther", "geheim", "bWU6Z2VoZWlt"] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
}

#[test]
fn a_proxy_is_gone_through_unless_the_host_is_excepted() {
    let proxy = Stub::start(|_| Manner::Strict);
    let through = format!("http://{}", proxy.host);
    let direct = Stub::start(|_| Manner::Strict);
    let urls =
        ["pyroscope+http://profiles.invalid".to_owned(), format!("parca+http://{}", direct.host)];
    let args = ["--push", &urls[0], "--push", &urls[1], "--push-every", "1s"];
    let variables = [("HTTP_PROXY", &*through), ("NO_PROXY", "localhost,127.0.0.1")];
    let Some(served) = Served::start_with(&args, &variables) else { return };
    wait_until("both", PATIENCE, || !proxy.taken().is_empty() && !direct.taken().is_empty());
    assert!(proxy.taken()[0].head.contains("profiles.invalid"), "{:?}", proxy.taken()[0]);
    served.running.signal(Signal::SIGTERM);
    served.running.wait().expect(0);
    served.fixture.finish();
}

/// A server of others', ended with the test.
pub struct Foreign(pub Child);

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes requests over TLS and prints a line for each, after its port.
const TLS: &str = r#"
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        print(self.path, flush=True)
    def log_message(self, *words):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

#[test]
fn a_private_authority_is_believed_if_it_is_named_and_not_else() {
    if !is_there("openssl") || !is_there("python3") {
        return skip("no openssl and python3 here", "apt-get install openssl python3");
    }
    let folder = Folder::new("push-ca");
    let make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=ours \
         -keyout ca.key -out ca.pem -addext basicConstraints=critical,CA:TRUE 2>&1 && \
         openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost \
         -keyout key.pem -out request.pem 2>&1 && \
         printf 'subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\n' >more && \
         openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile more \
         -out cert.pem 2>&1";
    let made =
        Command::new("sh").args(["-c", make]).current_dir(&folder.0).output().expect("a shell");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
    let said = folder.0.join("said");
    let child = Command::new("python3")
        .args(["-c", TLS, "cert.pem", "key.pem"])
        .current_dir(&folder.0)
        .stdout(fs::File::create(&said).expect("a folder of ours"))
        .stderr(Stdio::null())
        .spawn()
        .expect("python3");
    let _server = Foreign(child);
    let mut port = String::new();
    wait_until("a port", PATIENCE, || {
        let text = fs::read_to_string(&said).unwrap_or_default();
        port = text.split_once('\n').map_or("", |(line, _)| line).to_owned();
        !port.is_empty()
    });
    let url = format!("parca+https://localhost:{port}");
    let ca = folder.0.join("ca.pem").display().to_string();
    let Some(served) = Served::start(&["--push", &url, "--push-every", "1s"]) else { return };
    wait_until("a refusal", PATIENCE, || served.running.talk().contains("tried again"));
    assert!(
        served.running.talk().to_lowercase().contains("certificate"),
        "{}",
        served.running.talk()
    );
    served.running.signal(Signal::SIGTERM);
    let outcome = served.running.wait().expect(0);
    assert!(outcome.stderr.contains("sent 0"), "{}", outcome.stderr);
    served.fixture.finish();
    let args = ["--push", &url, "--push-every", "1s", "--push-ca", &ca];
    let Some(served) = Served::start(&args) else { return };
    wait_until("a request", PATIENCE, || {
        fs::read_to_string(&said).unwrap_or_default().contains("/api/profiles/writeraw")
    });
    served.running.signal(Signal::SIGTERM);
    served.running.wait().expect(0);
    served.fixture.finish();
}
