//! An agent for half an hour: its memory stays as it is, its files within their bounds.
//!
//! ```text
//! HEAPATTACH_MINUTES=30 cargo test -p heapattach-tests --test serve -- --ignored --nocapture agent_long
//! ```

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use heapattach_tests::{
    deadline::{PATIENCE, wait_until},
    real::children,
};
use nix::sys::signal::Signal;

use crate::agent::{Place, events};

/// Processes; one has its slot, then another.
const PROCESSES: usize = 6;
/// Between two looks at it.
const PAUSE: Duration = Duration::from_secs(2);
/// Profiles of a minute, so that the bound is reached.
const SPOOL: u64 = 64 << 10;
/// By more than that the usual memory does not grow in the second half, in KiB: what comes by chance.
const ROOM: u64 = 2 << 10;
/// Nor the most that there is for a moment: a look beside a session, or a session that ends while another begins.
const ROOM_OF_MOST: u64 = 12 << 10;

/// Private memory and the part of what is shared, of a process and all below it, in KiB. Without that of files: of the
/// program each process that runs it has its part, also those of other tests.
fn memory(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let of = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
    };
    let own = of("Pss_Anon:") + of("Pss_Shmem:");
    children(pid).into_iter().map(memory).fold(own, |sum: u64, one| sum + one)
}

/// The one in the middle, and the largest.
fn middle_and_most(all: &mut [u64]) -> [u64; 2] {
    all.sort_unstable();
    [all.get(all.len() / 2), all.last()].map(|one| one.copied().unwrap_or(0))
}

/// Bytes of all files below a folder, and how many they are.
fn files(folder: &Path) -> [u64; 2] {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.fold([0, 0], |[bytes, count], entry| match entry.metadata() {
        Ok(about) if about.is_dir() => {
            let [more, others] = files(&entry.path());
            [bytes + more, count + others]
        }
        Ok(about) => [bytes + about.len(), count + 1],
        Err(_) => [bytes, count],
    })
}

#[test]
#[ignore = "half an hour, or HEAPATTACH_MINUTES"]
fn half_an_hour_takes_no_more_memory_and_files_than_its_first_half() {
    let minutes = std::env::var("HEAPATTACH_MINUTES").map_or(30, |text| text.parse().expect("one"));
    let time = Duration::from_secs(60 * minutes);
    let Some(place) = Place::new() else { return };
    let spool = format!("[spool]\nmax-size = '{SPOOL}'\nformats = ['pprof', 'parquet']");
    place.write_with(&spool, "mode = 'rotate'\nslot = '2s'\nallocator = '5s'");
    let mut fixtures: Vec<_> = (0..PROCESSES).map(|_| place.fixture()).collect();
    let running = place.start();
    let state = place.folder.0.join("state");
    wait_until("a slot", PATIENCE, || !events(&running.talk(), "attach").is_empty());
    let mut memories = [Vec::new(), Vec::new()];
    let (began, mut most, mut steps) = (Instant::now(), [0, 0], 0_u64);
    while began.elapsed() < time {
        fixtures.iter_mut().for_each(|one| {
            one.step(1, 3);
        });
        steps += 1;
        // The first quarter is that of a program that begins.
        let half = usize::from(began.elapsed() > time / 2);
        if half == 1 || began.elapsed() > time / 4 {
            memories[half].push(memory(running.pid()));
        }
        let [bytes, count] = files(&state);
        most = [bytes.max(most[0]), count.max(most[1])];
        thread::sleep(PAUSE);
    }
    running.signal(Signal::SIGTERM);
    let talk = running.wait().expect(0).stderr;
    let count = |name: &str| events(&talk, name).len();
    let [before, after] = memories.each_mut().map(|all| middle_and_most(all));
    println!(
        "{steps} steps in {:?}: {} attaches, {} profiles, {} looks; {} KiB in the second quarter (at most {}), {} KiB \
         in the second half (at most {}); at most {} bytes in {} files",
        began.elapsed(),
        count("attach"),
        count("profile"),
        count("allocator"),
        before[0],
        before[1],
        after[0],
        after[1],
        most[0],
        most[1]
    );
    assert!(after[0] > 0 && after[0] <= before[0] + ROOM, "{before:?}, then {after:?} KiB");
    assert!(after[1] <= before[1] + ROOM_OF_MOST, "{before:?}, then {after:?} KiB");
    // The spool, and of each session a recording, a report and a log.
    assert!(most[0] <= SPOOL + (8 << 20), "{most:?}");
    assert!(count("profile") > 0, "{talk}");
    assert!(began.elapsed() < time + 10 * PATIENCE);
    fixtures.into_iter().for_each(|one| one.finish());
}
