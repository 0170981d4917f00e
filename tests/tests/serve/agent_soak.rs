//! An agent of many processes that start, die, exec and fork, killed every second, it or one of its helpers: all that
//! live in the end are as they were, and go on.
//!
//! ```text
//! HEAPATTACH_MINUTES=10 cargo test -p heapattach-tests --test serve -- --ignored --nocapture agent_soak
//! ```

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use heapattach_tests::{
    command::{Heapattach, Running},
    compile::Source,
    deadline::{PATIENCE, poll},
    fingerprint::{Fingerprint, Scope, diff_within},
    fixture::{Fixture, Launch},
    real::children,
    seed::{Random, seed},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::agent::{Place, events};

/// Between two deaths.
const PAUSE: Duration = Duration::from_secs(1);
/// After so many rounds a process has done all that it does.
const ROUNDS: u64 = 10;
/// What processes do, in turn.
const KINDS: [&str; 4] = ["stays", "forks", "execs", "dies"];

/// One process after the other, of a kind.
struct Life {
    kind: &'static str,
    fixture: Fixture,
    /// As it was before any agent, of those that stay what they are.
    before: Option<Fingerprint>,
}

impl Life {
    fn begin(program: &Path, kind: &'static str) -> Self {
        let fixture = Launch::program(program).arg(kind).start();
        Self { kind, fixture, before: None }
    }

    /// Once it has called all functions that it calls.
    fn note(&mut self) {
        if self.kind == "stays" || self.kind == "forks" {
            self.fixture.advance(ROUNDS);
            self.before = Some(fingerprint(&mut self.fixture));
        }
    }
}

/// Of a process that does nothing meanwhile.
fn fingerprint(fixture: &mut Fixture) -> Fingerprint {
    fixture.pause();
    let taken = Fingerprint::of(fixture.pid()).expect("a process of ours");
    fixture.resume();
    taken
}

/// Executable bytes of files that are not those of the files: `exec` leaves nothing to compare with.
fn patched(now: &Fingerprint) -> Vec<String> {
    let code = now.maps.values().filter(|one| one.is_executable() && one.is_of_file());
    let differs = |bytes: &[u8], path: &str, offset: u64| {
        let file = fs::read(path).unwrap_or_default();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let kept = file.get(from..).unwrap_or_default();
        let len = kept.len().min(bytes.len());
        kept[..len] != bytes[..len]
    };
    code.filter(|one| {
        now.bytes.get(&one.start).is_some_and(|bytes| differs(bytes, &one.path, one.offset))
    })
    .map(heapattach_tests::fingerprint::Mapping::describe)
    .collect()
}

/// All processes below this one.
fn below(pid: i32) -> Vec<i32> {
    let own = children(pid);
    own.iter().flat_map(|one| below(*one)).chain(own.iter().copied()).collect()
}

/// The agent, begun anew where it was killed. What was barred is allowed: else what dies is left alone soon.
struct Agents<'a> {
    place: &'a Place,
    running: Option<Running>,
    attaches: usize,
    cleaned: usize,
}

impl Agents<'_> {
    fn kill_one(&mut self, random: &mut Random) -> &'static str {
        let running = self.running.get_or_insert_with(|| {
            self.place.command(&["--allow", "fixture"]).run();
            self.place.start()
        });
        thread::sleep(PAUSE);
        assert!(running.is_running(), "it ended by itself: {}", running.talk());
        let helpers = below(running.pid());
        if !helpers.is_empty() && random.between(0, 2) == 0 {
            let at = random.between(0, helpers.len() as u64);
            let one = helpers[usize::try_from(at).expect("few")];
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(one), Signal::SIGKILL);
            return "helper";
        }
        self.end();
        "agent"
    }

    fn end(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.signal(Signal::SIGKILL);
        let talk = running.wait().stderr;
        self.attaches += events(&talk, "attach").len();
        self.cleaned += events(&talk, "cleaned").len();
    }
}

fn soak(time: Duration, processes: usize) {
    let seed = seed();
    let mut random = Random::new(seed);
    let Some(place) = Place::new() else { return };
    let Some(source) = Source::new("lives.c").build() else { return };
    // As long as that the kernel's name is; the rule fits it, too.
    let program = place.folder.0.join(place.program());
    fs::remove_file(&program).expect("a copy of ours");
    fs::copy(source, &program).expect("a copy");
    let kinds = KINDS.into_iter().cycle().take(processes);
    let mut lives: Vec<_> = kinds.map(|kind| Life::begin(&program, kind)).collect();
    lives.iter_mut().for_each(Life::note);
    let mut agents = Agents { place: &place, running: None, attaches: 0, cleaned: 0 };
    let (began, mut killed, mut begun) = (Instant::now(), [0, 0], 0);
    while began.elapsed() < time {
        let what = agents.kill_one(&mut random);
        killed[usize::from(what == "helper")] += 1;
        for one in &mut lives {
            let Some(status) = one.fixture.ended() else { continue };
            let is_due = one.kind == "dies" && status.success();
            assert!(is_due, "{} ended with {status}, seed {seed}", one.kind);
            *one = Life::begin(&program, one.kind);
            begun += 1;
        }
    }
    agents.end();
    // Those that die do so no more, and nothing is attached to any more.
    lives.retain(|one| one.kind != "dies");
    let pids: Vec<_> = lives.iter().map(|one| one.fixture.pid()).collect();
    let is_clean = || {
        // A helper whose agent is no more has ended soon; until then a process is its.
        for pid in &pids {
            let told = Heapattach::detach(*pid).run();
            assert!(told.signal().is_none(), "{pid}: {}", told.stderr);
        }
        let told = Heapattach::new(["status", "--json"]).run().stdout;
        (!pids.iter().any(|pid| told.contains(&format!("\"pid\": {pid},")))).then_some(())
    };
    if poll(4 * PATIENCE, is_clean).is_none() {
        let told = Heapattach::new(["status", "--json"]).run().stdout;
        panic!("something is left, seed {seed}: {told}");
    }
    for one in &mut lives {
        let after = fingerprint(&mut one.fixture);
        match &one.before {
            Some(before) => assert_eq!(diff_within(before, &after, Scope::Loose), [""; 0]),
            None => assert_eq!(patched(&after), [""; 0]),
        }
        one.fixture.advance(3);
    }
    println!(
        "{} processes for {:?}: {} agents and {} helpers killed, {} attaches, {} cleaned up, {begun} begun anew, \
         {} compared, seed {seed}",
        processes,
        began.elapsed(),
        killed[0],
        killed[1],
        agents.attaches,
        agents.cleaned,
        lives.len(),
    );
    lives.into_iter().for_each(|one| one.fixture.finish());
}

fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).map_or(or, |text| text.parse().expect("a number"))
}

#[test]
fn killed_every_second_it_leaves_processes_that_come_and_go_as_they_were() {
    soak(Duration::from_secs(4), 8);
}

#[test]
#[ignore = "ten minutes, or HEAPATTACH_MINUTES"]
fn two_hundred_processes_for_ten_minutes() {
    let time = Duration::from_secs(60 * number("HEAPATTACH_MINUTES", 10));
    let processes = number("HEAPATTACH_PROCESSES", 200);
    soak(time, usize::try_from(processes).expect("not so many"));
}
