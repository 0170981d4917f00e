//! Servers in languages of scripts, whose answers are checked.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

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

    /// Asks it until that is over; answers how often it was right.
    pub fn load(&self, is_over: &AtomicBool) -> u64 {
        let mut answered = 0;
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        while !is_over.load(Relaxed) {
            let path = format!("/item/{answered}");
            stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).expect("it reads");
            let expected = format!("{path} 20870");
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", expected.len());
            let mut answer = vec![0; head.len() + expected.len()];
            stream.read_exact(&mut answer).expect("it answers");
            assert_eq!(String::from_utf8_lossy(&answer), head + &expected);
            answered += 1;
        }
        answered
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}
