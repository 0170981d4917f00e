//! PHP as servers run it: a worker of php-fpm in a request has what PHP counts, after it nothing of it is left,
//! and while requests are answered no leak is told.

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use heapattach_test_folder::Folder;
use heapattach_tests::{
    command::Heapattach,
    deadline::{PATIENCE, poll},
    skip::skip,
};
use nix::{
    sys::{
        signal::{Signal, kill},
        stat::Mode,
    },
    unistd::{Pid, mkfifo},
};
use serde_json::Value;

use crate::php::{BETWEEN, allocator};

const DONE: i32 = 0;
/// What PHP has of its own heap when it waits for a request.
const AT_REST: u64 = 1 << 20;
/// What the script answers without a pipe.
const ANSWER: &str = "5000 347500";
/// Numbers of FastCGI: version, kinds of records, role.
const VERSION: u8 = 1;
const BEGIN: u8 = 1;
const END: u8 = 3;
const PARAMETERS: u8 = 4;
const INPUT: u8 = 5;
const OUTPUT: u8 = 6;
const RESPONDER: u8 = 1;

/// php-fpm with one worker, on a socket in a folder.
struct Server {
    master: Child,
    worker: i32,
    folder: Folder,
}

impl Server {
    fn start() -> Option<Self> {
        let installed = fs::read_dir("/usr/sbin").ok()?.filter_map(Result::ok);
        let is_it = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm"))
        };
        let Some(program) = installed.map(|entry| entry.path()).find(is_it) else {
            skip("no php-fpm here", "apt-get install php-fpm");
            return None;
        };
        let folder = Folder::new("php-fpm");
        let root = nix::unistd::geteuid().is_root();
        let owner = if root { "user = root\n" } else { "" };
        let place = folder.0.display();
        let settings = format!(
            "[global]\ndaemonize = no\nerror_log = {place}/log\npid = {place}/pid\n[www]\n{owner}listen = \
             {place}/socket\npm = static\npm.max_children = 1\nphp_admin_flag[implicit_flush] = on\n"
        );
        fs::write(folder.0.join("conf"), settings).expect("a file");
        let mut command = Command::new(program);
        command.args(["-n", "-F"]).args(root.then_some("-R")).arg("-y").arg(folder.0.join("conf"));
        let master = command.stderr(Stdio::null()).spawn().expect("php-fpm");
        let children = format!("/proc/{0}/task/{0}/children", master.id());
        let socket = folder.0.join("socket");
        let worker = poll(PATIENCE, || {
            let text = fs::read_to_string(&children).ok()?;
            let is_up = UnixStream::connect(&socket).is_ok();
            text.split_whitespace().next()?.parse().ok().filter(|_| is_up)
        });
        let log = fs::read_to_string(folder.0.join("log")).unwrap_or_default();
        let worker = worker.unwrap_or_else(|| panic!("no worker: {log}"));
        Some(Self { master, worker, folder })
    }

    /// Sends a request for the script.
    fn request(&self, parameters: &[(&str, &str)]) -> UnixStream {
        let mut stream = UnixStream::connect(self.folder.0.join("socket")).expect("php-fpm");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/census/under_fpm.php");
        let script = script.canonicalize().expect("a fixture");
        let all =
            [("SCRIPT_FILENAME", script.to_str().expect("a name")), ("REQUEST_METHOD", "GET")];
        let mut pairs = Vec::new();
        for (name, value) in all.iter().chain(parameters) {
            for length in [name.len(), value.len()] {
                let length = u32::try_from(length).expect("short") | 1 << 31;
                pairs.extend(length.to_be_bytes());
            }
            pairs.extend(name.bytes().chain(value.bytes()));
        }
        let records = [
            (BEGIN, vec![0, RESPONDER, 0, 0, 0, 0, 0, 0]),
            (PARAMETERS, pairs),
            (PARAMETERS, vec![]),
            (INPUT, vec![]),
        ];
        for (kind, content) in records {
            let [high, low] = u16::try_from(content.len()).expect("short").to_be_bytes();
            let head = [VERSION, kind, 0, 1, high, low, 0, 0];
            stream.write_all(&[&head[..], &content].concat()).expect("it is read");
        }
        stream
    }

    fn look(&self) -> Value {
        let pid = self.worker.to_string();
        let outcome = Heapattach::new(["heap", "-p", &pid, "--json"]).run().expect(DONE);
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends its worker, which a SIGKILL would leave alone.
        let master = Pid::from_raw(self.master.id().cast_signed());
        let _ = kill(master, Signal::SIGTERM);
        let has_ended = poll(PATIENCE, || self.master.try_wait().ok().flatten());
        if has_ended.is_none() {
            let _ = (kill(Pid::from_raw(self.worker), Signal::SIGKILL), self.master.kill());
        }
    }
}

/// What it answers, as it comes: without the head.
struct Answer(UnixStream);

impl Answer {
    /// The next record's kind and content.
    fn record(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 8];
        self.0.read_exact(&mut head).expect("an answer");
        let [_, kind, _, _, high, low, padding, _] = head;
        let mut content = vec![0; usize::from(u16::from_be_bytes([high, low]))];
        self.0.read_exact(&mut content).expect("an answer");
        let mut rest = vec![0; usize::from(padding)];
        self.0.read_exact(&mut rest).expect("an answer");
        (kind, content)
    }

    /// Reads all that is left of it.
    fn finish(mut self) {
        while self.record().0 != END {}
    }

    /// What is there as soon as it is enough, or all of it.
    fn text(&mut self, is_enough: impl Fn(&str) -> bool) -> String {
        let mut all = String::new();
        loop {
            let (kind, content) = self.record();
            match kind {
                OUTPUT => all.push_str(&String::from_utf8_lossy(&content)),
                END => break,
                _ => panic!("a record of kind {kind}"),
            }
            if body(&all).is_some_and(&is_enough) {
                break;
            }
        }
        body(&all).unwrap_or_else(|| panic!("no head: {all}")).to_owned()
    }
}

fn body(answer: &str) -> Option<&str> {
    answer.split_once("\r\n\r\n").map(|(_, body)| body)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn a_worker_has_what_php_counts_in_a_request_and_nothing_of_it_afterwards() {
    let Some(server) = Server::start() else { return };
    let pipe = server.folder.0.join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
    let mut answer = Answer(server.request(&[("WAIT_FOR", pipe.to_str().expect("a name"))]));
    let end = fs::File::options().write(true).open(&pipe).expect("it is read");
    let said = answer.text(|body| body.ends_with('\n'));
    let truth: Value =
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let document = server.look();
    let zend = allocator(&document, "zend").expect("its heap");
    assert_eq!((&zend["is_exact"], &zend["doubts"]), (&true.into(), &Value::Array(Vec::new())));
    let arena = &zend["arenas"][0];
    assert_eq!(arena["system"], truth["real"]);
    let (used, told) = (number(&arena["used"]), number(&truth["used"]));
    assert!(used.abs_diff(told) <= BETWEEN, "{used} found, {told} told by PHP");
    let rows = |document: &Value| document["classes"].as_array().cloned().unwrap_or_default();
    for (name, wanted) in truth["own"].as_object().expect("own classes") {
        let rows = rows(&document);
        let row = rows.iter().find(|row| row["name"] == name.as_str());
        let row = row.unwrap_or_else(|| panic!("{name} in {rows:?}"));
        assert_eq!((&row["blocks"], &row["language"]), (wanted, &"php".into()), "{name}");
    }
    drop(end);
    answer.finish();
    let rest = poll(PATIENCE, || {
        let document = server.look();
        let used = number(&allocator(&document, "zend")?["arenas"][0]["used"]);
        (used < AT_REST).then_some(document)
    });
    let rest = rest.expect("all of a request is freed at its end");
    assert!(
        rows(&rest)
            .iter()
            .all(|row| !row["name"].as_str().is_some_and(|name| name.starts_with("Shop")))
    );
}

#[test]
fn no_leak_is_told_while_requests_are_answered() {
    let Some(server) = Server::start() else { return };
    let is_over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut answered = 0;
            while !is_over.load(Ordering::Relaxed) {
                let answer = Answer(server.request(&[])).text(|_| false);
                assert_eq!(answer, ANSWER);
                answered += 1;
            }
            answered
        });
        let pid = server.worker.to_string();
        let check = ["check", "-p", &pid, "--duration", "2s", "--fail-on", "definite"];
        let outcome = Heapattach::new(check).run();
        is_over.store(true, Ordering::Relaxed);
        let answered = client.join().expect("all answers are right");
        println!("{answered} requests");
        assert!(answered > 10, "{answered}");
        outcome
    });
    outcome.expect(DONE);
    assert_eq!(Answer(server.request(&[])).text(|_| false), ANSWER);
}
