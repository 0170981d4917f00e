//! Who is let in, and what those can do who are not.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixStream},
};

use heapattach_tests::{
    Folder,
    command::Heapattach,
    deadline::{PATIENCE, poll, wait_until},
    fixture::Launch,
};

use nix::sys::signal::Signal;

use crate::server::{LONG, Served, address};

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("nothing")
}

#[test]
fn strangers_are_turned_away_before_anything_else() {
    let Some(served) = Served::start(&[]) else { return };
    let long = "x".repeat(9000);
    for (request, wanted) in [
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "200"),
        ("GET /healthz HTTP/1.1\r\nHost: rebound.example\r\n\r\n", "421"),
        ("GET /healthz HTTP/1.1\r\n\r\n", "421"),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", "403"),
        ("POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", "405"),
        ("DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("GET /p/1/debug/pprof/heap HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("GET /debug/pprof/heap?seconds=x HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"),
        ("GET /debug/pprof/heap?seconds=99999 HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"),
        (
            "POST /pprof/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n",
            "431",
        ),
        ("nonsense\r\n\r\n", "400"),
        (&format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"), "431"),
    ] {
        let answer = served.ask(request);
        assert_eq!(status(&answer), wanted, "{}: {answer}", &request[..request.len().min(80)]);
        assert!(!answer.contains("Access-Control"), "{answer}");
    }
    // The program, not what it was called with.
    assert!(!served.get("/pprof/cmdline").contains(' '));
    served.fixture.finish();
}

#[test]
fn ten_thousand_that_say_nothing_keep_nobody_out_for_long() {
    let Some(served) = Served::start(&[]) else { return };
    let mut silent = Vec::new();
    for number in 0..10_000 {
        // Those that are turned away make room for our own descriptors.
        if silent.len() >= 200 {
            silent.clear();
        }
        match TcpStream::connect(&served.host) {
            Ok(stream) => silent.push(stream),
            Err(error) => panic!("connection {number}: {error}"),
        }
    }
    let threads = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", served.running.pid()));
        tasks.map_or(0, Iterator::count)
    };
    // Where the machine is busy some threads have let go of their place and not yet ended.
    assert!(poll(PATIENCE, || (threads() < 80).then_some(())).is_some(), "{} threads", threads());
    // Requests that come letter by letter have ten seconds, as whole ones do.
    let mut slow = TcpStream::connect(&served.host).expect("it listens");
    let _ = slow.write_all(b"GET / HT");
    drop(silent);
    wait_until("an answer", PATIENCE, || served.get("/healthz") == "ok\n");
    slow.set_read_timeout(Some(LONG)).expect("a socket");
    let mut answer = String::new();
    let _ = slow.read_to_string(&mut answer);
    assert!(["408", "503"].contains(&status(&answer)), "{answer}");
    served.fixture.finish();
}

#[test]
fn others_need_a_token_and_a_socket_is_its_owners() {
    let refused = Heapattach::new(["serve", "-p", "1", "--listen", "0.0.0.0:0"]).run().expect(2);
    assert!(refused.stderr.contains("--token-file"), "{}", refused.stderr);

    let folder = Folder::new("serve-token");
    let token = folder.0.join("token");
    fs::write(&token, "0123456789abcdef0123\n").expect("a folder of ours");
    let token = token.display().to_string();
    let Some(fixture) = Launch::new("holds.c") else { return };
    let fixture = fixture.start();
    let pid = fixture.pid().to_string();
    let args = ["serve", "-p", &pid, "--listen", "0.0.0.0:0", "--token-file", &token];
    let running = Heapattach::new(args).start();
    let host = address(&running).replace("0.0.0.0", "127.0.0.1");
    let ask = |line: &str| {
        let mut stream = TcpStream::connect(&host).expect("it listens");
        let request = format!("GET /healthz HTTP/1.1\r\nHost: any.name\r\n{line}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("a socket");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        status(&answer).to_owned()
    };
    assert_eq!(ask("X: y"), "401");
    assert_eq!(ask("Authorization: Bearer 0123456789abcdef0124"), "401");
    assert_eq!(ask("Authorization: Bearer 0123456789abcdef0123"), "200");
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    fixture.finish();
}

#[test]
fn a_socket_at_a_path_is_for_its_owner_and_goes_with_the_server() {
    let folder = Folder::new("serve-socket");
    let path = folder.0.join("heap.sock");
    let Some(fixture) = Launch::new("holds.c") else { return };
    let fixture = fixture.start();
    let pid = fixture.pid().to_string();
    let listen = format!("unix:{}", path.display());
    let running = Heapattach::new(["serve", "-p", &pid, "--listen", &listen]).start();
    wait_until("a socket", PATIENCE, || path.exists());
    let mode = fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // It has its name before it is listened on.
    let mut stream = poll(PATIENCE, || UnixStream::connect(&path).ok()).expect("ours");
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").expect("a socket");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    assert_eq!(status(&answer), "200", "{answer}");
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    assert!(!path.exists());
    fixture.finish();
}
