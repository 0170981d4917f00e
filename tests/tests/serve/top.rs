//! `heapattach top`: its figures are those of the process, as text, as JSON and on a terminal; however it ends,
//! the process is as it was and the terminal, too.

use std::{
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::Duration,
};

use heapattach_tests::{
    Folder,
    command::{Heapattach, Running, binary},
    deadline::{PATIENCE, wait_until},
    fixture::{Fixture, Launch},
    json_schema::faults,
    recorded::Recorded,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{
    server::{Served, address},
    tmux::Tmux,
};

fn fixture() -> Option<Fixture> {
    Some(Launch::new("holds.c")?.start())
}

/// Whether a session is on a process, or one left something in it.
fn is_touched(pid: i32) -> bool {
    let told = Heapattach::new(["status", "--json"]).run();
    told.stdout.contains(&format!("\"pid\": {pid},"))
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn assert_fits(document: &Value) {
    let schema = parsed(&Heapattach::new(["schema", "top"]).run().expect(0).stdout);
    assert_eq!(faults(&schema, document), [""; 0], "{document}");
}

/// The last whole document that was printed.
fn last(running: &Running) -> Option<Value> {
    let output = running.output();
    let whole = &output[..output.rfind('\n')?];
    Some(parsed(whole.lines().next_back()?))
}

/// Starts `top` on a terminal, and waits until it shows figures.
fn shown(columns: u16, lines: u16, fixture: &Fixture, before: &str) -> Option<Tmux> {
    let tmux = Tmux::start(columns, lines)?;
    let (binary, pid) = (binary(), fixture.pid());
    tmux.line(&format!("{before}{} top -p {pid} --every 1 --interval 200ms", binary.display()));
    tmux.wait_for("1 Live");
    tmux.wait_for("LIVE ±");
    tmux.wait_for("no records dropped");
    Some(tmux)
}

#[test]
fn json_tells_what_is_in_use_to_the_byte_and_by_which_site() {
    let Some(mut fixture) = fixture() else { return };
    let pid = fixture.pid();
    let args = ["top", "-p", &pid.to_string(), "--every", "1", "--json", "--interval", "200ms"];
    let running = Heapattach::new(args).target(pid).limit(10 * PATIENCE).start();
    wait_until("figures", PATIENCE, || last(&running).is_some_and(|told| told["state"] == "live"));
    let bytes = fixture.step(1, 1000);
    wait_until("what is kept", PATIENCE, || {
        last(&running).is_some_and(|told| told["live"]["value"].as_f64() == Some(bytes as f64))
    });
    wait_until("growth", PATIENCE, || {
        let growth = |told: Value| told["sites"][0]["growth_per_minute"]["value"].as_f64();
        last(&running).and_then(growth).is_some_and(|growth| growth > 0.0)
    });
    let told = last(&running).expect("a document");
    assert_fits(&told);
    assert_eq!(told["sites"][0]["function"], "keep");
    assert_eq!(told["sites"][0]["live"]["value"].as_f64(), Some(bytes as f64));
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    assert!(!is_touched(pid));
    fixture.step(1, 10);
    fixture.finish();
}

#[test]
fn once_prints_a_screen_and_detaches() {
    let Some(fixture) = fixture() else { return };
    let pid = fixture.pid();
    let args = ["top", "-p", &pid.to_string(), "--once", "--interval", "200ms"];
    let told = Heapattach::new(args).target(pid).run().expect(0).stdout;
    assert!(told.lines().next().is_some_and(|line| line.contains(&format!(" {pid}   "))), "{told}");
    assert!(
        told.contains("LIVE ±") && told.contains("live ") && !told.contains('\u{1b}'),
        "{told}"
    );
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    assert!(!is_touched(pid));
    fixture.finish();
}

#[test]
fn a_session_that_is_only_looked_at_goes_on() {
    let Some(mut fixture) = fixture() else { return };
    let pid = fixture.pid();
    let file = Recorded::new();
    let path = file.as_ref().to_str().expect("a path of ours");
    let args = ["-p", &pid.to_string(), "--all", "-o", path, "--force"];
    let mut session = Heapattach::new(args).target(pid).limit(10 * PATIENCE).start();
    wait_until("a session", PATIENCE, || is_touched(pid));
    let bytes = fixture.step(1, 100);
    let look = || {
        let told = Heapattach::new(["top", path, "--once", "--json", "--interval", "100ms"]).run();
        (told.code() == Some(0)).then(|| parsed(&told.stdout))
    };
    wait_until("what is kept", PATIENCE, || {
        look().is_some_and(|told| told["live"]["value"].as_f64() == Some(bytes as f64))
    });
    let told = look().expect("a document");
    assert_fits(&told);
    assert_eq!((told["state"].as_str(), told["pid"].as_i64()), (Some("live"), Some(pid.into())));
    assert!(session.is_running(), "a viewer ends no session of others");
    session.signal(Signal::SIGINT);
    session.wait();
    let over = look().expect("a document");
    assert_eq!(over["state"], "over", "{over}");
    fixture.finish();
}

#[test]
fn a_server_is_looked_at_and_looked_at_again_when_it_comes_back() {
    let Some(mut served) = Served::start(&[]) else { return };
    let bytes = served.keep(100) as f64;
    let (address, pid) = (format!("http://{}", served.host), served.fixture.pid());
    let once = Heapattach::new(["top", &address, "--once", "--json", "--interval", "100ms"]);
    let told = parsed(&once.run().expect(0).stdout);
    assert_fits(&told);
    assert_eq!(
        (told["pid"].as_i64(), told["live"]["value"].as_f64()),
        (Some(pid.into()), Some(bytes))
    );
    assert_eq!(told["sites"][0]["function"], "keep");
    let elsewhere = Heapattach::new(["top", &format!("{address}/p/1"), "--once"]).run().expect(1);
    assert!(elsewhere.stderr.contains("no such process is looked at"), "{}", elsewhere.stderr);
    let args = ["top", &format!("{address}/p/{pid}"), "--json", "--interval", "200ms"];
    let viewer = Heapattach::new(args).limit(10 * PATIENCE).start();
    let is = |state: &str| last(&viewer).is_some_and(|told| told["state"] == state);
    wait_until("figures", PATIENCE, || is("live"));
    served.running.signal(Signal::SIGTERM);
    wait_until("no answer", PATIENCE, || is("away"));
    let again = ["serve", "-p", &pid.to_string(), "--listen", &served.host, "--every", "1"];
    let again = Heapattach::new(again).target(pid).limit(10 * PATIENCE).start();
    wait_until("figures of the second server", PATIENCE, || is("live"));
    let bytes = served.fixture.step(1, 10);
    let kept = (10 * 4000) as f64;
    wait_until("what is kept since then", PATIENCE, || {
        last(&viewer).is_some_and(|told| told["live"]["value"].as_f64() == Some(kept))
    });
    assert!(bytes as f64 > kept, "older blocks are not those of the second session");
    viewer.signal(Signal::SIGTERM);
    viewer.wait().expect(0);
    again.signal(Signal::SIGTERM);
    again.wait().expect(0);
    served.fixture.finish();
}

#[test]
fn a_server_at_a_socket_is_looked_at() {
    let Some(mut fixture) = fixture() else { return };
    let pid = fixture.pid();
    let folder = Folder::new("top");
    let socket = folder.0.join("socket");
    let address = format!("unix:{}", socket.display());
    let args = ["serve", "-p", &pid.to_string(), "--listen", &address, "--every", "1"];
    let mut server = Heapattach::new(args).target(pid).limit(10 * PATIENCE).start();
    wait_until("a server", PATIENCE, || {
        assert!(server.is_running(), "{}", server.talk());
        socket.exists() && is_touched(pid)
    });
    let bytes = fixture.step(1, 50) as f64;
    wait_until("what is kept", PATIENCE, || {
        let told =
            Heapattach::new(["top", &address, "--once", "--json", "--interval", "100ms"]).run();
        let live = |told: &Value| told["live"]["value"].as_f64();
        told.code() == Some(0) && live(&parsed(&told.stdout)) == Some(bytes)
    });
    server.signal(Signal::SIGTERM);
    server.wait().expect(0);
    fixture.finish();
}

#[test]
fn two_processes_are_looked_at_and_a_key_leads_from_one_to_the_other() {
    let (Some(one), Some(other)) = (fixture(), fixture()) else { return };
    let Some(tmux) = Tmux::start(100, 24) else { return };
    let (first, second) = (one.pid().min(other.pid()), one.pid().max(other.pid()));
    let binary = binary();
    tmux.line(&format!("{} top {first} {second} --interval 200ms", binary.display()));
    tmux.wait_for("[1/2]");
    tmux.wait_for(&format!(" {first}   "));
    tmux.key("Tab");
    tmux.wait_for("[2/2]");
    tmux.wait_for(&format!(" {second}   "));
    tmux.key("q");
    wait_until("the detach", PATIENCE, || !is_touched(first) && !is_touched(second));
    one.finish();
    other.finish();
}

#[test]
fn a_recording_that_is_served_has_no_arguments_unless_they_are_shown() {
    let Some(mut served) = Served::start(&[]) else { return };
    served.keep(10);
    let page = served.get("/");
    let pid = served.fixture.pid();
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
    let line = String::from_utf8_lossy(&line).into_owned();
    for argument in line.split('\0').skip(1).filter(|argument| argument.len() > 3) {
        assert!(!page.contains(argument), "{argument}");
    }
    let head = served.ask("GET /recording HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("X-Heapattach-From: 0"), "{head}");
    served.fixture.finish();
    // Of a session that tells them, they are not served.
    let Some(fixture) = fixture() else { return };
    let pid = fixture.pid();
    let file = Recorded::new();
    let path = file.as_ref().to_str().expect("a path of ours");
    let args = ["-p", &pid.to_string(), "--duration", "300ms", "-o", path, "--force"];
    Heapattach::new(args).target(pid).run().expect(0);
    for (options, status) in [(&[][..], "403"), (&["--show-args"], "200")] {
        let args = ["serve", path, "--listen", ":0"];
        let running = Heapattach::new(args.iter().chain(options)).limit(10 * PATIENCE).start();
        let mut stream = TcpStream::connect(address(&running)).expect("it listens");
        let request = "GET /recording HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
        let has_args = line.iter().filter(|byte| **byte == 0).count() > 1;
        let wanted = if has_args { status } else { "200" };
        assert!(answer.starts_with(&format!("HTTP/1.1 {wanted}")), "{answer}");
        running.signal(Signal::SIGTERM);
        running.wait();
    }
    fixture.finish();
}

#[test]
fn without_a_process_those_that_grow_are_listed() {
    let told = Heapattach::new(["top", "--once", "--json", "--interval", "600ms"]).run().expect(0);
    let document = parsed(&told.stdout);
    assert_fits(&document);
    assert!(document["processes"].as_array().is_some_and(|all| !all.is_empty()), "{document}");
    let text = Heapattach::new(["top", "--once", "--interval", "600ms"]).run().expect(0).stdout;
    assert!(text.contains("GROWTH/min") && !text.contains("q quit"), "{text}");
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    let gone = Heapattach::new(["top", "no-such-program"]).run().expect(3);
    assert!(gone.stderr.contains("neither a file nor the name of a process"), "{}", gone.stderr);
    let alien = Recorded::new();
    std::fs::write(&alien, "no recording\n").expect("a file of ours");
    let path = alien.as_ref().to_str().expect("a path of ours");
    Heapattach::new(["top", path, "--once"]).run().expect(1);
}

#[test]
fn keys_do_what_they_are_for_and_q_detaches() {
    let Some(mut fixture) = fixture() else { return };
    let pid = fixture.pid();
    let Some(tmux) = shown(80, 24, &fixture, "") else { return };
    fixture.step(1, 100);
    tmux.wait_for("keep (holds.c");
    tmux.key("Enter");
    tmux.wait_for("STACK     1 of 1");
    tmux.wait_for("struct block *block = malloc");
    tmux.key("Escape");
    tmux.wait_for("LIVE ±");
    tmux.key("4");
    tmux.wait_for("main (holds.c)");
    tmux.key("m");
    tmux.key("9");
    tmux.wait_for("by SIGUSR1");
    tmux.key("1");
    tmux.key("b");
    fixture.step(1, 50);
    tmux.key("d");
    tmux.wait_for("before");
    tmux.key("d");
    tmux.resize(200, 60);
    tmux.wait_for("LAST MINUTE");
    tmux.resize(25, 5);
    tmux.wait_for("too small");
    tmux.resize(80, 24);
    tmux.wait_for("LIVE ±");
    tmux.key("D");
    tmux.wait_for("the session is over");
    wait_until("the detach", PATIENCE, || !is_touched(pid));
    tmux.wait_for("keep (holds.c");
    tmux.key("q");
    // The screen of before is there again: until then keys are for top, and what was typed while it ended is forgotten.
    wait_until("the other screen", PATIENCE, || !tmux.screen().contains("2 Growth"));
    wait_until("the shell", PATIENCE, || {
        tmux.line("echo the-end");
        thread::sleep(Duration::from_secs(1));
        tmux.screen().contains("\nthe-end")
    });
    fixture.step(1, 10);
    fixture.finish();
}

#[test]
fn killed_it_leaves_the_terminal_and_the_process_as_they_were() {
    let Some(mut fixture) = fixture() else { return };
    let pid = fixture.pid();
    let Some(tmux) = shown(80, 24, &fixture, "exec 3>&1; ") else { return };
    let top = std::process::Command::new("pgrep")
        .args(["-f", &format!("top -p {pid} --every 1")])
        .output()
        .expect("pgrep runs");
    let top: i32 = String::from_utf8_lossy(&top.stdout)
        .lines()
        .next()
        .and_then(|line| line.parse().ok())
        .expect("it runs");
    kill(Pid::from_raw(top), Signal::SIGKILL).expect("a command of ours");
    tmux.wait_for("the terminal is restored");
    tmux.line("stty -a");
    tmux.wait_for(" icanon");
    let settings = tmux.screen();
    assert!(settings.contains("opost -olcuc") && settings.contains(" echo "), "{settings}");
    wait_until("the detach", PATIENCE, || !is_touched(pid));
    let folder = std::env::temp_dir().join(format!("heapattach-top-{top}"));
    wait_until("the folder to be removed", PATIENCE, || !folder.exists());
    fixture.step(1, 10);
    fixture.finish();
}

#[test]
fn suspended_it_gives_the_terminal_to_the_shell_and_goes_on_with_it() {
    let Some(mut fixture) = fixture() else { return };
    let Some(tmux) = shown(80, 24, &fixture, "set -m; ") else { return };
    tmux.key("C-z");
    tmux.wait_for("Stopped");
    tmux.line("fg");
    tmux.wait_for("LIVE ±");
    fixture.step(1, 100);
    tmux.wait_for("keep (holds.c");
    tmux.key("q");
    tmux.wait_for("Stopped");
    fixture.finish();
}

#[test]
fn without_colours_nothing_is_coloured() {
    let Some(mut fixture) = fixture() else { return };
    let Some(tmux) = shown(80, 24, &fixture, "NO_COLOR=1 ") else { return };
    fixture.step(1, 100);
    tmux.wait_for("keep (holds.c");
    let told = tmux.coloured();
    assert!(!told.contains("[31m") && !told.contains("[33m"), "{told}");
    tmux.key("q");
    drop(tmux);
    fixture.finish();
}
