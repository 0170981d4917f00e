//! Servers in languages of scripts, whose answers are checked.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use heapattach_tests::command::Heapattach;

/// Tells the client that it is over, also where the work panics: else it would be waited for without end.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Does something while one client asks all the time, by the numbers of its questions; answers how many these were, too.
pub fn while_asked<T>(ask: impl Fn(u64) + Sync, work: impl FnOnce() -> T) -> (T, u64) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let numbers = (0..).take_while(|_| !is_over.load(Relaxed));
            numbers.inspect(|number| ask(*number)).count() as u64
        });
        let end = AtEnd(&is_over);
        let done = work();
        drop(end);
        (done, client.join().expect("right answers"))
    })
}

/// A server, ended with the test.
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts this script of an interpreter.
    pub fn start(interpreter: &str, script: &Path) -> Self {
        let mut command = Command::new(interpreter);
        let mut child = command.arg(script).stdout(Stdio::piped()).spawn().expect("an interpreter");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        let _ = BufReader::new(out).read_line(&mut line).expect("its port");
        Self { child, port: line.trim().parse().expect("a port") }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What a session of so many seconds tells while two clients ask it, its words one behind the other: the page is
    /// folded to its width.
    pub fn told_under_load(&self, seconds: &str) -> String {
        let pid = self.pid().to_string();
        let session = ["-p", &pid, "--duration", seconds, "--every", "16KiB", "--no-record"];
        let session = Heapattach::new(session).limit(Duration::from_secs(60));
        let second = || while_asked(self.client(), || session.run());
        let ((outcome, other), answered) = while_asked(self.client(), second);
        let answered = answered + other;
        let told = outcome.expect(0).stdout;
        println!("{answered} requests answered\n{told}");
        told.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// A client that has it answer, and looks whether that is right.
    pub fn client(&self) -> impl Fn(u64) + Sync {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let stream = Mutex::new(stream);
        move |number| {
            let mut stream = stream.lock().expect("one asks");
            let path = format!("/item/{number}");
            stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).expect("it reads");
            assert_eq!(answer_of(&mut stream), format!("{path} 20870"));
        }
    }
}

/// What is behind the head of an answer, which is as long as that says.
fn answer_of(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("it answers");
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200 ok\r\n"), "{head}");
    let told = head.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
    let length = told.and_then(|told| told.trim().parse().ok()).expect("a length");
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).expect("all of it");
    String::from_utf8_lossy(&answer).into_owned()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}
