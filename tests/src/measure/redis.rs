//! Attaching to redis: how long it takes, and how long redis gives no answer.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde::Serialize;

use super::{Rounds, Spread, peer};
use crate::{
    attached::{Attached, INTERRUPTED},
    command::Hooks,
    deadline::{PATIENCE, poll},
    real::{Server, StartError, installed, redis},
    skip::skip,
};

/// How long a session lasts between attach and detach.
const SESSION: Duration = Duration::from_millis(300);
const KEYS: &str = "100000";

/// One tool's attaches to redis.
#[derive(Debug, Default, Serialize)]
pub struct RedisCost {
    /// Which tool.
    pub tool: &'static str,
    /// From the start of the command until it counts, in ms.
    pub attach_ms: Spread,
    /// From the wish to detach until the command has ended, in ms.
    pub detach_ms: Spread,
    /// The longest time without an answer while attaching, in ms.
    pub attach_gap_ms: Spread,
    /// The same while detaching.
    pub detach_gap_ms: Spread,
    /// Servers that did not survive.
    pub dead: usize,
}

/// What one attach and detach took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    pub(super) attach: Duration,
    pub(super) attach_gap: Duration,
    /// The detach, and the longest silence during it.
    pub(super) detach: Option<(Duration, Duration)>,
    pub(super) died: bool,
}

type Tool = (&'static str, fn(&Server, &Probe) -> Option<Turn>);
const TOOLS: [Tool; 4] = [
    ("nobody", wait_only),
    ("heapattach", |server, probe| attach(server, probe, Hooks::Auto)),
    ("heapattach --hooks slots", |server, probe| attach(server, probe, Hooks::Slots)),
    ("heaptrack -p", peer::heaptrack),
];

pub(super) fn measure(rounds: Rounds) -> Vec<RedisCost> {
    let mut turns = TOOLS.map(|(tool, _)| (tool, Vec::new()));
    for _ in 0..rounds.0 {
        for ((_, run), (_, turns)) in TOOLS.iter().zip(&mut turns) {
            // A server of its own for each: not all tools leave one usable.
            let server = match redis::start() {
                Ok(server) => server,
                Err(StartError::Missing(cure)) => {
                    skip("no redis here", cure);
                    return Vec::new();
                }
                Err(StartError::Failed(why)) => panic!("redis does not start: {why}"),
            };
            fill(&redis::socket(&server));
            let probe = Probe::start(&redis::socket(&server));
            turns.extend(run(&server, &probe));
        }
    }
    turns.into_iter().filter(|(_, turns)| !turns.is_empty()).map(summary).collect()
}

fn summary((tool, turns): (&'static str, Vec<Turn>)) -> RedisCost {
    let spread = |of: fn(&Turn) -> Option<Duration>| {
        Spread::of(turns.iter().filter_map(of).map(|time| time.as_secs_f64() * 1e3).collect())
    };
    RedisCost {
        tool,
        attach_ms: spread(|turn| Some(turn.attach)),
        detach_ms: spread(|turn| turn.detach.map(|(time, _)| time)),
        attach_gap_ms: spread(|turn| Some(turn.attach_gap)),
        detach_gap_ms: spread(|turn| turn.detach.map(|(_, gap)| gap)),
        dead: turns.iter().filter(|turn| turn.died).count(),
    }
}

/// Puts something into the server's heap.
fn fill(socket: &Path) {
    let Some(program) = installed("redis-benchmark") else { return };
    let mut command = Command::new(program);
    command.arg("-s").arg(socket);
    command.args(["-q", "-t", "set", "-n", KEYS, "-r", KEYS, "-d", "200", "-P", "16"]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "redis cannot be filled");
}

fn attach(server: &Server, probe: &Probe, hooks: Hooks) -> Option<Turn> {
    probe.longest_gap();
    let began = Instant::now();
    let mut command = Attached::command(server.pid(), hooks).start();
    let attached = poll(PATIENCE, || {
        let told = Attached::is_told(&command.talk());
        (told || !command.is_running()).then_some(told)
    });
    assert_eq!(attached, Some(true), "{}", command.talk());
    let attach = began.elapsed();
    thread::sleep(SESSION);
    let attach_gap = probe.longest_gap();
    let began = Instant::now();
    command.signal(Signal::SIGINT);
    command.wait().expect(INTERRUPTED);
    let detach = began.elapsed();
    thread::sleep(SESSION / 3);
    let detach_gap = probe.longest_gap();
    let detach = Some((detach, detach_gap));
    Some(Turn { attach, attach_gap, detach, died: !probe.answers() })
}

/// What the probe sees when nobody attaches.
#[expect(clippy::unnecessary_wraps, reason = "one of the tools")]
fn wait_only(_: &Server, probe: &Probe) -> Option<Turn> {
    probe.longest_gap();
    thread::sleep(SESSION);
    let attach_gap = probe.longest_gap();
    thread::sleep(SESSION / 3);
    let detach_gap = probe.longest_gap();
    let detach = Some((Duration::ZERO, detach_gap));
    Some(Turn { attach_gap, detach, ..Turn::default() })
}

/// A client that asks without end, and remembers how long it had to wait.
pub(super) struct Probe {
    shared: Arc<Shared>,
    client: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    answers: AtomicU64,
    longest_us: AtomicU64,
}

impl Probe {
    fn start(socket: &Path) -> Self {
        let shared = Arc::new(Shared::default());
        let stream = UnixStream::connect(socket).expect("redis listens");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("not zero");
        let theirs = Arc::clone(&shared);
        let client = thread::spawn(move || ask(stream, &theirs));
        Self { shared, client: Some(client) }
    }

    /// The longest wait since the last call.
    pub(super) fn longest_gap(&self) -> Duration {
        Duration::from_micros(self.shared.longest_us.swap(0, Relaxed))
    }

    /// Whether the server still answers.
    pub(super) fn answers(&self) -> bool {
        let then = self.shared.answers.load(Relaxed);
        poll(Duration::from_secs(5), || (self.shared.answers.load(Relaxed) > then).then_some(()))
            .is_some()
    }
}

fn ask(mut stream: UnixStream, shared: &Shared) {
    const ANSWER: &[u8; 7] = b"+PONG\r\n";
    let mut last = Instant::now();
    while !shared.stop.load(Relaxed) {
        let mut answer = [0; ANSWER.len()];
        let asked = stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut answer));
        if asked.is_err() || answer != *ANSWER {
            return;
        }
        shared.answers.fetch_add(1, Relaxed);
        let now = Instant::now();
        let waited = u64::try_from((now - last).as_micros()).unwrap_or(u64::MAX);
        shared.longest_us.fetch_max(waited, Relaxed);
        last = now;
        // Leave the processor to those who are measured.
        thread::sleep(Duration::from_micros(100));
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(client) = self.client.take() {
            let _ = client.join();
        }
    }
}
