//! What an agent costs: beside two hundred idle processes, and beside more work than its budget has room for.
//!
//! ```text
//! cargo test --release -p heapattach-tests --test serve -- --ignored --nocapture two_hundred_idle
//! HEAPATTACH_MINUTES=10 cargo test --release -p heapattach-tests --test serve -- --ignored --nocapture more_work
//! ```

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use heapattach_tests::{
    compile::Source,
    deadline::{PATIENCE, wait_until},
    fixture::Fixture,
    real::children,
};
use nix::sys::signal::Signal;

use crate::agent::{Place, events};

/// A place whose program does nothing until it is told to, and an agent with these limits.
fn place(limits: &str, rule: &str) -> Option<Place> {
    let place = Place::new()?;
    let program = place.folder.0.join(place.program());
    fs::remove_file(&program).expect("a copy of ours");
    fs::copy(Source::new("burst.c").build()?, &program).expect("a copy");
    let text = format!(
        "version = 1\nstate = '{}'\ninterval = '1s'\n[admission]\nmin-age = '1ms'\nmax-pressure = 1000.0\n\
         [budget]\n{limits}\n[[rule]]\nname = 'fixture'\nprocess = '{}'\n{rule}\n",
        place.folder.0.join("state").display(),
        place.program(),
    );
    fs::write(place.config(), text).expect("a file of ours");
    Some(place)
}

/// Processor time of a process and all that are or were below it, in seconds.
fn seconds(pid: i32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    // Its own, and that of its children which have ended, each of user and system.
    let ticks: u32 =
        rest.split(' ').skip(11).take(4).filter_map(|text| text.parse::<u32>().ok()).sum();
    // The kernel tells hundredths of a second.
    let own = f64::from(ticks) / 100.0;
    children(pid).into_iter().map(seconds).fold(own, |sum, one| sum + one)
}

/// Memory of a process and all below it, of shared pages its part, in MiB.
fn memory(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let own: u64 = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0);
    children(pid).into_iter().map(memory).fold(own >> 10, |sum, one| sum + one)
}

#[test]
#[ignore = "five minutes"]
fn two_hundred_idle_processes_take_less_than_may_be() {
    const PROCESSES: usize = 200;
    /// Of one processor, in percent, and MiB.
    const MAY_BE: (f64, u64) = (4.0, 350);
    let limits = "processors-percent = 100.0\nmemory = '64GiB'\nstopped-ms-per-hour = 1e9";
    let Some(place) = place(limits, "") else { return };
    let fixtures: Vec<_> = (0..PROCESSES).map(|_| place.fixture()).collect();
    let running = place.start();
    wait_until("all sessions", 20 * PATIENCE, || {
        events(&running.talk(), "attach").len() >= PROCESSES
    });
    // From now on as it is by default.
    let text = fs::read_to_string(place.config()).expect("a file of ours");
    fs::write(place.config(), text.replace("interval = '1s'", "interval = '5s'")).expect("ours");
    running.signal(Signal::SIGHUP);
    // Sessions look at their processes ever less often, for a minute.
    thread::sleep(Duration::from_secs(80));
    let (began, before) = (Instant::now(), seconds(running.pid()));
    thread::sleep(Duration::from_secs(90));
    let percent = 100.0 * (seconds(running.pid()) - before) / began.elapsed().as_secs_f64();
    let memory = memory(running.pid());
    println!("{PROCESSES} idle processes: {percent:.2} % of a processor, {memory} MiB");
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    fixtures.into_iter().for_each(Fixture::finish);
    assert!(percent <= MAY_BE.0 && memory <= MAY_BE.1, "may be {MAY_BE:?}");
}

#[test]
#[ignore = "ten minutes, or HEAPATTACH_MINUTES"]
fn more_work_than_the_budget_has_room_for_does_not_exceed_it_by_a_tenth() {
    const PROCESSES: usize = 12;
    /// Of all processors.
    const PERCENT: f64 = 2.0;
    let minutes = std::env::var("HEAPATTACH_MINUTES").map_or(10, |text| text.parse().expect("one"));
    let time = Duration::from_secs(60 * minutes);
    let limits = format!(
        "processors-percent = {PERCENT:?}\nmemory = '64GiB'\nstopped-ms-per-hour = 1e9\n\
         events-per-second = 1e9\npause = '10s'"
    );
    let Some(place) = place(&limits, "every = '4KiB'") else { return };
    let mut fixtures: Vec<_> = (0..PROCESSES).map(|_| place.fixture()).collect();
    let running = place.start();
    let (began, mut at, mut most) = (Instant::now(), Vec::new(), 0.0_f64);
    let processors = f64::from(
        u32::try_from(thread::available_parallelism().map_or(1, usize::from)).expect("not so many"),
    );
    while began.elapsed() < time {
        for (number, one) in fixtures.iter_mut().enumerate() {
            // Some do more than others.
            one.step(1, 50 * (1 + number as u64));
        }
        thread::sleep(Duration::from_millis(100));
        at.push((began.elapsed().as_secs_f64(), seconds(running.pid())));
        // In each five minutes.
        let (now, spent) = at[at.len() - 1];
        let before = at.iter().rev().find(|one| now - one.0 >= 300.0);
        if let Some((then, before)) = before {
            most = most.max(100.0 * (spent - before) / (now - then) / processors);
        }
    }
    let (lasted, spent) = at[at.len() - 1];
    let percent = 100.0 * spent / lasted / processors;
    let talk = running.talk();
    println!(
        "{percent:.2} % of the processors, at most {most:.2} % in five minutes; {} attaches, {} detached for the budget",
        events(&talk, "attach").len(),
        events(&talk, "budget").len(),
    );
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    fixtures.into_iter().for_each(Fixture::finish);
    assert!(!events(&talk, "budget").is_empty(), "it had room");
    assert!(most <= 1.1 * PERCENT, "may be {PERCENT} %");
}
