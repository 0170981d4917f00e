//! Backends that are away, slow or broken for a long time: memory is bounded, what was made is accounted for, and the
//! process that is watched goes on.
//!
//! ```text
//! HEAPATTACH_MINUTES=10 cargo test -p heapattach-tests --test serve -- --ignored --nocapture push_long
//! ```

use std::{
    fs,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use heapattach_tests::real::children;
use nix::sys::signal::Signal;

use crate::{
    push::{adds_up, pushed},
    push_stub::{Manner, Stub},
    server::{Served, figure},
};

/// What waits for each backend, at most: less than what is made in the time.
const QUEUE: f64 = 24_576.0;
/// More than that the largest request is not.
const REQUEST: f64 = 4096.0;
/// More than that memory does not grow once the queues are full, in KiB: what threads and tables take by chance.
const ROOM: u64 = 16 << 10;
/// The time that a slow one takes for an answer: the others' profiles wait meanwhile.
const SLOW: Duration = Duration::from_secs(5);
/// Between two steps of the process.
const PAUSE: Duration = Duration::from_millis(200);

fn minutes() -> u64 {
    std::env::var("HEAPATTACH_MINUTES").map_or(10, |text| text.parse().expect("a number"))
}

/// Memory of a process and all below it, in KiB, shared pages counted for each.
fn resident(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let own = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0);
    children(pid).into_iter().map(resident).fold(own, |sum: u64, one| sum + one)
}

/// Backends that fail each in its way until they are back.
struct Backends {
    names: Vec<&'static str>,
    hosts: Vec<String>,
    stubs: Vec<Stub>,
    is_back: Arc<AtomicBool>,
    /// A port where nothing listens, and one where nothing is taken.
    dead: String,
    half_open: TcpListener,
}

impl Backends {
    fn start() -> Self {
        let is_back = Arc::new(AtomicBool::new(false));
        let until_back = |manner: Manner| {
            let back = is_back.clone();
            Stub::start(move |_| if back.load(SeqCst) { Manner::Strict } else { manner.clone() })
        };
        let stubs = vec![
            until_back(Manner::Slow(SLOW)),
            until_back(Manner::Status("429 Too Many Requests", "Retry-After: 5\r\n", "later")),
            until_back(Manner::Status("500 Internal Server Error", "", "broken")),
            until_back(Manner::Reset),
            until_back(Manner::Trickle),
        ];
        let listen = || TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = |of: &TcpListener| of.local_addr().expect("an address").to_string();
        let (dead, half_open) = (host(&listen()), listen());
        let hosts = stubs.iter().map(|stub| stub.host.clone());
        let hosts = hosts.chain([dead.clone(), host(&half_open)]).collect();
        let names = vec!["slow", "429", "500", "resetting", "trickling", "dead", "half-open"];
        Self { names, hosts, stubs, is_back, dead, half_open }
    }

    /// From now on all of them take what comes; in the order of the names.
    fn recover(self) -> Vec<Stub> {
        let Self { mut stubs, is_back, dead, half_open, .. } = self;
        is_back.store(true, SeqCst);
        half_open.set_nonblocking(true).expect("a socket");
        // Requests that waited there are made again.
        while half_open.accept().is_ok() {}
        half_open.set_nonblocking(false).expect("a socket");
        stubs.push(Stub::on(TcpListener::bind(dead).expect("its port"), |_| Manner::Strict));
        stubs.push(Stub::on(half_open, |_| Manner::Strict));
        stubs
    }
}

#[test]
#[ignore = "ten minutes, or HEAPATTACH_MINUTES"]
fn what_backends_do_for_ten_minutes_costs_no_more_than_the_bound() {
    let backends = Backends::start();
    let (names, hosts) = (backends.names.clone(), backends.hosts.clone());
    let urls: Vec<_> = hosts.iter().map(|host| format!("pyroscope+http://{host}")).collect();
    let mut args: Vec<_> = urls.iter().flat_map(|url| ["--push", url]).collect();
    args.extend(["--push-every", "1s", "--push-queue", "24KiB"]);
    let Some(mut served) = Served::start(&args) else { return };
    let time = Duration::from_secs(60 * minutes());
    let (began, pid) = (Instant::now(), served.running.pid());
    let (mut steps, mut slowest, mut bytes) = (0_u64, Duration::ZERO, 0);
    let (mut first, mut last, mut most) = (0, 0, vec![0.0_f64; hosts.len()]);
    while began.elapsed() < time {
        let step = Instant::now();
        // Each has a block of its own kept: what is in use says how far it has come.
        bytes = served.fixture.step(1, 10);
        slowest = slowest.max(step.elapsed());
        steps += 1;
        let metrics = served.get("/metrics");
        assert_eq!(figure(&metrics, "heapattach_lost_records_total"), Some(0.0));
        for (at, host) in hosts.iter().enumerate() {
            assert!(adds_up(&metrics, host), "{}: {metrics}", names[at]);
            let queued = pushed(&metrics, "queued_bytes", host);
            assert!(queued <= QUEUE + REQUEST, "{}: {queued}", names[at]);
            most[at] = most[at].max(queued);
        }
        // The queues are full by the middle, and nothing grows any more.
        let now = resident(pid);
        match began.elapsed() < time / 2 {
            true => first = first.max(now),
            false => last = last.max(now),
        }
        thread::sleep(PAUSE);
    }
    println!(
        "{steps} steps, the slowest {slowest:?}; {first} KiB in the first half, {last} KiB in the second; queues {most:?}"
    );
    assert!(last <= first + ROOM, "{first} KiB, then {last} KiB");
    let stubs = backends.recover();
    served.running.signal(Signal::SIGTERM);
    let outcome = served.running.wait().expect(0);
    served.fixture.step(1, 10);
    served.fixture.finish();
    for (at, stub) in stubs.iter().enumerate() {
        let start = format!("push to pyroscope+http://{}: made ", stub.host);
        let line = outcome.stderr.lines().find(|line| line.contains(&start)).expect("its line");
        let number = |word: &str| -> u64 {
            let rest = line.split_once(&format!("{word} ")).map_or("", |(_, rest)| rest);
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("").parse().unwrap_or(0)
        };
        let (made, sent, dropped) = (number(": made"), number(" sent"), number(" dropped"));
        println!("{}: {line}; taken {}", names[at], stub.taken().len());
        assert_eq!(made, sent + dropped + number(" queued"), "{line}");
        // What is dropped had no room, and is told; all else has arrived, once.
        let taken = stub.taken().len() as u64;
        // The answer of a slow one may come after the end.
        let late = u64::from(names[at] == "slow");
        assert!((sent..=sent + late).contains(&taken), "{}: {taken}, {line}", names[at]);
        if dropped > 0 {
            assert!(most[at] >= QUEUE - REQUEST, "{}: {} of {QUEUE}", names[at], most[at]);
        }
        if sent == made {
            assert_eq!(stub.sum("alloc_space"), bytes, "{}: {line}", names[at]);
            assert_eq!(stub.last("inuse_space"), bytes, "{}: {line}", names[at]);
        }
    }
}
