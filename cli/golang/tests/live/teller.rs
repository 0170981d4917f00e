//! A program that tells what its runtime counts and samples, whenever it is asked.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use heapattach_census::{Live, Moment};
use heapattach_golang::profile::{self, Reading};
use heapattach_process::{addr::RemoteAddr, memory::Memory, proc::Process};

const DEADLINE: Duration = Duration::from_secs(60);
/// The runtime tells so many frames of a stack.
const FRAMES: usize = 32;

/// What is told of a bucket: size, and stack.
type Key = (u64, Vec<u64>);

/// Objects that came and went, by bucket.
pub type Buckets = BTreeMap<Key, (u64, u64)>;

/// The program.
pub struct Teller {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Its file.
    pub file: PathBuf,
}

/// What it told.
#[derive(Debug, Default)]
pub struct Told {
    /// Figures of `runtime.MemStats`, and the rate.
    pub figures: BTreeMap<String, u64>,
    /// Its profile.
    pub buckets: Buckets,
}

impl Teller {
    /// One in which so many goroutines allocate.
    pub fn start(file: &Path, load: u32) -> Self {
        let mut command = Command::new(file);
        command.arg(load.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        if load == 0 {
            // With more, threads of the runtime begin while it tells, and that takes objects.
            command.env("GOMAXPROCS", "1");
        }
        let mut child = command.spawn().expect("just built");
        let orders = child.stdin.take().expect("its input");
        let answers = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, orders, answers, file: file.to_owned() }
    }

    /// Its process.
    pub fn process(&self) -> Process {
        Process::open(self.child.id().cast_signed()).expect("it runs")
    }

    /// What it tells of itself.
    pub fn tell(&mut self) -> Told {
        self.ask("tell")
    }

    /// The same as of the collection before.
    pub fn tell_again(&mut self) -> Told {
        self.ask("again")
    }

    /// What it tells of itself; it has stopped itself then.
    pub fn tell_and_stop(&mut self) -> Told {
        let told = self.ask("stop");
        let began = Instant::now();
        let status = format!("/proc/{}/status", self.child.id());
        while !fs::read_to_string(&status).expect("it runs").contains("State:\tT") {
            assert!(began.elapsed() < DEADLINE, "it does not stop itself");
            thread::sleep(Duration::from_millis(1));
        }
        told
    }

    fn ask(&mut self, order: &str) -> Told {
        // At once: `writeln!` writes the end of the line by itself, and what came before it was an order of its own.
        self.orders.write_all(format!("{order}\n").as_bytes()).expect("it reads");
        let mut told = Told::default();
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.answers.read_line(&mut line).expect("an answer");
            assert!(read > 0, "{} ended", self.file.display());
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            let numbers: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
            match (name, &numbers[..]) {
                ("done", _) => return told,
                ("bucket", [came, bytes, went, _, stack @ ..]) => {
                    // One that was made and never counted has no size.
                    if let Some(size) = bytes.checked_div(*came) {
                        add(&mut told.buckets, (size, stack.to_vec()), (*came, *went));
                    }
                }
                (name, [value]) => {
                    told.figures.insert(name.to_owned(), *value);
                }
                _ => panic!("{line}"),
            }
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stacks that differ behind what the runtime tells are one.
fn add(all: &mut Buckets, mut key: Key, (came, went): (u64, u64)) {
    key.1.truncate(FRAMES);
    let sum = all.entry(key).or_default();
    *sum = (sum.0 + came, sum.1 + went);
}

/// What a reading has as of the last collection.
pub fn active(reading: &Reading) -> Buckets {
    let mut all = Buckets::new();
    for bucket in reading.buckets.iter().filter(|bucket| bucket.active.came > 0) {
        let counts = (bucket.active.came, bucket.active.went);
        add(&mut all, (bucket.size, bucket.stack.clone()), counts);
    }
    all
}

/// Memory that is read as it is just then.
pub struct Running(pub Memory);

impl profile::Live for Running {
    fn read(&self, at: u64, buffer: &mut [u8]) -> bool {
        self.0.read(RemoteAddr::new(at), buffer).is_ok()
    }
}

/// Looks at its memory.
pub fn at_moment<T>(process: &Process, look: impl FnOnce(&Moment<'_>) -> T) -> T {
    let live = Live::open(process).expect("it is ours");
    let regions = Live::regions(process).expect("its maps");
    look(&Moment::new(&live, regions, Vec::new()))
}
