//! A small server of files, for tests.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// What a server does with a connection.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Sends these bytes, and closes.
    Send(Vec<u8>),
    /// Sends these bytes, waits for another request, and breaks the connection without reading it.
    Break(Vec<u8>),
    /// Sends these bytes, then nothing more.
    Hang(Vec<u8>),
    /// Sends these bytes, then one now and then.
    Dribble(Vec<u8>),
}

impl Answer {
    /// A whole file.
    pub fn file(bytes: &[u8]) -> Self {
        let size = bytes.len();
        Self::Send(
            [format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").as_bytes(), bytes]
                .concat(),
        )
    }

    /// A file whose size is not told before.
    pub fn unsized_file(bytes: &[u8]) -> Self {
        Self::Send([b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", bytes].concat())
    }

    /// Only a status, and what goes with it.
    pub fn status(line: &str) -> Self {
        Self::Send(format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n").into_bytes())
    }

    fn give(self, stream: &mut TcpStream, is_over: &AtomicBool) {
        let (Self::Send(first) | Self::Break(first) | Self::Hang(first) | Self::Dribble(first)) =
            &self;
        let _ = stream.write_all(first);
        if matches!(self, Self::Break(_)) {
            let _ = stream.peek(&mut [0]);
        }
        while matches!(self, Self::Hang(_) | Self::Dribble(_)) && !is_over.load(SeqCst) {
            thread::sleep(Duration::from_millis(20));
            if matches!(self, Self::Dribble(_)) {
                let _ = stream.write_all(b"x");
            }
        }
    }
}

/// A server on a port of its own; gone with this.
pub struct Server {
    /// Where it is.
    pub url: String,
    asked: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// One that answers what is asked for by path.
    pub fn start(answer: impl Fn(&str) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, is_over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (noted, over) = (Arc::clone(&asked), Arc::clone(&is_over));
        let serve = move || {
            for mut stream in listener.incoming().filter_map(Result::ok) {
                if over.load(SeqCst) {
                    return;
                }
                let path = path_of(&mut stream);
                let (answer, over) = (answer(&path), Arc::clone(&over));
                noted.lock().unwrap().push(path);
                thread::spawn(move || answer.give(&mut stream, &over));
            }
        };
        Self { url, asked, is_over, thread: Some(thread::spawn(serve)) }
    }

    /// What it was asked for so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
        let _ = self.thread.take().unwrap().join();
    }
}

/// The path of a request, whose head is read whole.
fn path_of(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    head.split(' ').nth(1).unwrap_or_default().to_owned()
}
