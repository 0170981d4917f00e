//! Takes connections, a thread each, and no more than a few dozen.

use std::{
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread::Builder,
    time::{Duration, Instant},
};

use crate::{
    answer::{Answer, Status},
    door::Door,
    figures::Figures,
    http::{self, Method},
    listen::{Listener, Stream},
    routes::{LAST, Sources},
    stop::Stop,
    target_list::TargetList,
};

/// So many connections are served at once.
const MOST: usize = 64;
/// Where no connection can be taken: too many open files, say.
const TROUBLE: Duration = Duration::from_millis(50);

/// Between two looks whether readers have what came last.
const LAST_PAUSE: Duration = Duration::from_millis(10);

/// What is served, and to whom.
#[derive(Debug)]
pub struct Options {
    /// The processes.
    pub targets: TargetList,
    /// Whether their command lines are told.
    pub show_args: bool,
    /// Who is let in.
    pub door: Door,
    /// What is told among the figures besides.
    pub figures: Option<Figures>,
}

/// A server.
#[derive(Debug)]
pub struct Server {
    sources: Sources,
    door: Door,
    stop: Stop,
    open: AtomicUsize,
    /// Readers of events among them.
    streams: AtomicUsize,
}

impl Server {
    /// That answers until it is over.
    pub fn new(options: Options, stop: Stop) -> Arc<Self> {
        let Options { targets, show_args, door, figures } = options;
        let sources = Sources { targets, show_args, figures };
        let (open, streams) = Default::default();
        Arc::new(Self { sources, door, stop, open, streams })
    }

    /// Has the readers of events take what came last, and waits until they have, but not for long.
    pub fn close(&self) {
        self.stop.close();
        let until = Instant::now() + LAST;
        while self.streams.load(Relaxed) > 0 && Instant::now() < until {
            self.stop.wait(LAST_PAUSE);
        }
    }

    /// Answers each client, until the server is to end.
    pub fn run(self: &Arc<Self>, listener: &Listener) {
        // Not to be waited in for ever.
        let _ = listener.set_nonblocking();
        while !self.stop.is_set() {
            let stream = match listener.accept() {
                Ok(stream) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    listener.wait(&self.stop);
                    continue;
                }
                Err(_) => {
                    self.stop.wait(TROUBLE);
                    continue;
                }
            };
            let server = self.clone();
            match Place::take(self) {
                Some(place) => {
                    stream.set_blocking();
                    // Without a thread it is closed.
                    let _ = Builder::new().name("http".to_owned()).spawn(move || {
                        server.serve(stream);
                        drop(place);
                    });
                }
                None => turn_away(stream),
            }
        }
    }

    fn serve(&self, mut stream: Stream) {
        let request = match http::read(&mut stream) {
            Ok(request) => request,
            Err(answer) => {
                let _ = http::answer(&mut stream, &answer, Method::Get);
                return;
            }
        };
        if let Some(refusal) = self.door.refusal(&request, stream.is_private()) {
            let _ = http::answer(&mut stream, &refusal, request.method);
            return;
        }
        if let Some((target, write)) = self.sources.stream(&request) {
            self.streams.fetch_add(1, Relaxed);
            write(&mut stream, &target, &self.stop);
            self.streams.fetch_sub(1, Relaxed);
            return;
        }
        let answer = self.sources.answer(&request, &self.stop);
        let _ = http::answer(&mut stream, &answer, request.method);
    }
}

/// Says that there is no room, to those who listen at once.
fn turn_away(mut stream: Stream) {
    stream.set_nonblocking();
    let no = Answer::no(Status::Unavailable, "64 connections are served already");
    let _ = http::answer(&mut stream, &no.with("Retry-After", "1"), Method::Get);
}

/// One of the places for connections, until it is dropped.
struct Place(Arc<Server>);

impl Place {
    fn take(server: &Arc<Server>) -> Option<Self> {
        let taken = server.open.fetch_add(1, Relaxed);
        let place = Self(server.clone());
        (taken < MOST).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}
