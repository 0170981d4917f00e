//! The tracer is killed at the requests of attach, clone and detach, again and again: no target dies.
//! Ten thousand deaths:
//!
//! ```text
//! HEAPATTACH_KILLS=10000 cargo test --release --workspace --test hostile -- --nocapture --test-threads=1 kill_soak
//! ```
//!
//! One cycle is one command: what the last one left is cleaned up by the next, whose requests are then
//! part of what is tried. Without the variable it is a few deaths, in a soak of cycles ten thousand.

use std::{collections::BTreeMap, path::Path, time::Duration};

use heapattach_tests::{
    command::{Heapattach, Hooks, Outcome},
    compile::{fixture, is_there},
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    sample::is_soak,
    seed::{Random, seed},
    skip::skip,
};

use crate::scripts::STEADY_JAVA;

const DONE: i32 = 0;
const WINDOW: Duration = Duration::from_millis(1);
/// A program at rest between two allocations, one on stacks from its heap, one in the midst of signals,
/// one with threads, and interpreters whose frames are read.
const TARGETS: [(&str, &[&str]); 11] = [
    ("steady.c", &[]),
    ("coroutines.c", &[]),
    ("signal_storm.c", &[]),
    ("many_threads.c", &["6"]),
    ("python_load.py", &[]),
    ("php_load.php", &[]),
    ("ruby_load.rb", &[]),
    ("perl_load.pl", &[]),
    ("lua_load.lua", &[]),
    ("JavaLoad.java", &[]),
    ("javascript_load.js", &[]),
];
/// After so many tries their requests are counted again.
const RECOUNTED: u64 = 50;
/// What runs such a file.
const INTERPRETERS: [(&str, &str, &str); 7] = [
    (".py", "python3", "apt-get install python3"),
    (".php", "php", "apt-get install php-cli"),
    (".rb", "ruby", "apt-get install ruby"),
    (".pl", "perl", "apt-get install perl"),
    (".lua", "lua5.4", "apt-get install lua5.4"),
    (".java", "java", "apt-get install default-jdk-headless"),
    (".js", "node", "apt-get install nodejs"),
];
/// Of so many deaths one befalls a check, whose cycles take longer.
const CHECKS: u64 = 5;

/// How often it is told how far it is.
const TOLD: u64 = 100;

/// How many deaths are wanted.
fn wanted() -> u64 {
    match std::env::var("HEAPATTACH_KILLS") {
        Ok(text) => text.parse().expect("HEAPATTACH_KILLS is a number"),
        Err(_) if is_soak() => 10_000,
        Err(_) => 60,
    }
}

fn attach(fixture: &Fixture, fault: &str) -> Outcome {
    Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg("--no-record").fault(fault).run()
}

fn check(fixture: &Fixture, fault: &str) -> Outcome {
    let pid = fixture.pid().to_string();
    let args = ["check", "-p", &pid, "--duration", "1ms", "--snapshot", "fork", "--json"];
    Heapattach::new(args).arg("--max-pause=60s").fault(fault).run()
}

/// A target whose tracers are killed, one after the other.
struct Victim {
    file: &'static str,
    words: &'static [&'static str],
    fixture: Fixture,
    /// How many requests an undisturbed command makes.
    requests: u64,
}

impl Victim {
    fn new(
        (file, words): (&'static str, &'static [&'static str]),
        run: fn(&Fixture, &str) -> Outcome,
    ) -> Option<Self> {
        let mut victim = Self { file, words, fixture: start(file, words)?, requests: 0 };
        victim.count(run);
        Some(victim)
    }

    /// Counts the requests: where signals never end, and others have the processors, they can be very many once.
    fn count(&mut self, run: fn(&Fixture, &str) -> Outcome) {
        let said = run(&self.fixture, "count").stderr;
        let count = said.split_once("faults: ").and_then(|(_, rest)| rest.split_once(" calls"));
        let requests = count.and_then(|(count, _)| count.parse().ok());
        self.requests = requests.unwrap_or_else(|| panic!("{}: no count in {said}", self.file));
    }

    /// Whether it goes on, and sees nothing wrong.
    fn lives(&mut self) -> bool {
        let goal = self.fixture.progress() + 1;
        let ended = poll(PATIENCE, || match self.fixture.ended() {
            Some(_) => Some(true),
            None => (self.fixture.progress() >= goal).then_some(false),
        });
        match ended {
            Some(true) => false,
            Some(false) => {
                self.fixture.assert_well();
                true
            }
            None => self.fixture.fail("hangs after its tracer was killed"),
        }
    }
}

fn start(file: &str, words: &[&str]) -> Option<Fixture> {
    let script = INTERPRETERS.into_iter().find(|(ending, ..)| file.ends_with(ending));
    let launch = match script {
        Some((_, interpreter, cure)) if !is_there(interpreter) => {
            skip(&format!("no {interpreter} here"), cure);
            return None;
        }
        Some((_, interpreter, _)) => Launch::program(Path::new(interpreter))
            .arg(fixture(file))
            .env(STEADY_JAVA.0, STEADY_JAVA.1),
        None => Launch::new(file)?,
    };
    Some(words.iter().fold(launch, |launch, word| launch.arg(word)).start())
}

fn kill_again_and_again(what: &str, wanted: u64, run: fn(&Fixture, &str) -> Outcome) {
    let seed = seed();
    let mut random = Random::new(seed);
    let mut dead: BTreeMap<String, u64> = BTreeMap::new();
    let mut killed = 0;
    // One after the other: each of them takes all it gets of a processor.
    for (number, target) in (1..).zip(TARGETS) {
        let Some(mut victim) = Victim::new(target, run) else { continue };
        let (goal, mut tried) = (wanted * number / TARGETS.len() as u64, 0);
        while killed < goal {
            // A command that ends before the chosen request kills nothing.
            assert!(tried < 1000 + wanted * 10, "{what}: {killed} deaths only, seed {seed}");
            tried += 1;
            if tried % RECOUNTED == 0 {
                victim.count(run);
            }
            // What is cleaned up first makes the later requests come later.
            let n = random.between(1, victim.requests * 5 / 4);
            let said = run(&victim.fixture, &format!("kill:{n}")).stderr;
            let call = format!("call {n} is ");
            let Some((_, call)) = said.lines().find_map(|line| line.split_once(&call)) else {
                continue;
            };
            killed += 1;
            if killed % TOLD == 0 {
                println!("{what}: {killed} deaths, of targets {}", dead.values().sum::<u64>());
            }
            if !victim.lives() {
                *dead.entry(format!("{} at {call}", victim.file)).or_default() += 1;
                let fresh = start(victim.file, victim.words);
                victim.fixture = fresh.unwrap_or_else(|| panic!("compiled before"));
            }
        }
        Heapattach::detach(victim.fixture.pid()).run().expect(DONE);
        victim.fixture.finish();
    }
    let count: u64 = dead.values().sum();
    println!("{what}: tracer killed {killed} times, {count} targets dead, seed {seed}");
    assert!(dead.is_empty(), "{what}: {dead:?}, seed {seed}");
}

#[test]
fn no_target_dies_with_the_tracer_that_attaches_and_detaches() {
    kill_again_and_again("attach and detach", wanted() - wanted() / CHECKS, attach);
}

#[test]
fn no_target_dies_with_the_tracer_that_clones_it() {
    kill_again_and_again("checks", wanted() / CHECKS, check);
}
