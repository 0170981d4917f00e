//! How long a check of a large heap stops a program that goes on, beside a fork of the same process, which
//! is the least that keeping its memory takes.

use std::{thread, time::Duration};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::peers::{
    attempt::attempt, book::Place, figure::Figure, machine::available_bytes, part::Run,
};
use crate::{
    attached::Attached,
    command::Heapattach,
    deadline::poll,
    fixture::{Fixture, Launch},
    page::Word,
};

const PART: &str = "pauses";
const WAYS: [&str; 4] = ["auto", "fork", "copy", "stop"];
const MIB: u64 = 1 << 20;
/// Heaps of small blocks, and heaps of large ones: number and bytes.
const HEAPS: [(u64, u64); 7] = [
    (10_000, 48),
    (100_000, 48),
    (1_000_000, 48),
    (10_000_000, 48),
    (100, MIB),
    (1024, MIB),
    (8192, MIB),
];
/// What is not looked at of these: a copy of so much takes long, and no user would ask for it.
const MOST_COPIED: u64 = 512 * MIB;
/// A check keeps books of each block, and a clone has entries for each page.
const BESIDES: u64 = 4;
/// Building and checking the largest takes that long under a busy machine.
const LIMIT: Duration = Duration::from_secs(100);
/// Steps of the fixture.
const HOLD: u64 = 1;
const FORK: u64 = 2;

pub(super) fn measure(run: &mut Run<'_>) {
    let heaps = if run.options.quick { &HEAPS[..1] } else { &HEAPS[..] };
    for &(blocks, size) in heaps {
        let work = name(blocks, size);
        if !run.options.wants_work(&work) {
            continue;
        }
        eprintln!("pauses: {work}");
        let (bytes, room) = (blocks * size, available_bytes());
        let is_large = bytes > MOST_COPIED || blocks > 1_000_000;
        let rounds = if run.options.quick || is_large { 1 } else { run.options.rounds.min(3) };
        for way in WAYS {
            let tool = format!("check --snapshot {way}");
            let place = Place { part: PART, work: &work, tool: &tool };
            if bytes.saturating_mul(BESIDES) > room && bytes + bytes / BESIDES > room / 2 {
                run.book.fail(place, &format!("not enough memory: {} MiB available", room / MIB));
                continue;
            }
            let is_apt = bytes <= MOST_COPIED || way == "fork" || way == "auto";
            for round in (0..rounds).take_while(|_| is_apt) {
                if let Err(why) = attempt(|| once(run, (blocks, size), way, place, round)) {
                    run.book.fail(place, &why);
                    break;
                }
            }
        }
    }
}

fn name(blocks: u64, size: u64) -> String {
    let digits = blocks.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let size = if size >= MIB { format!("{} MiB", size / MIB) } else { format!("{size} bytes") };
    format!("{grouped} blocks of {size}")
}

/// A process of its own each time: a fork leaves pages that cost more the next time.
fn once(
    run: &mut Run<'_>,
    (blocks, size): (u64, u64),
    way: &str,
    place: Place<'_>,
    round: u32,
) -> Result<(), String> {
    let mut fixture = Launch::new("holder.c").ok_or("no C compiler")?.start();
    let pid = fixture.pid().to_string();
    let snapshot = format!("--snapshot={way}");
    let words = ["check", "--json", "--max-pause=60s", &snapshot, "-p", &pid];
    let mut command = Heapattach::new(words).target(fixture.pid()).limit(LIMIT).start();
    let attached = poll(LIMIT, || {
        let told = Attached::is_told(&command.talk());
        (told || !command.is_running()).then_some(told)
    });
    if attached != Some(true) {
        return Err(command.talk());
    }
    fill(&mut fixture, blocks, size)?;
    // The records of the last blocks are to be taken in before, as in a program that runs on.
    thread::sleep(Duration::from_millis(300));
    let began = std::time::Instant::now();
    command.signal(Signal::SIGINT);
    let outcome = command.wait();
    let whole = began.elapsed();
    let report: Value = serde_json::from_str(&outcome.stdout)
        .map_err(|error| format!("no result ({error}): {}", outcome.stderr))?;
    let look = &report["check"]["look"];
    let paused =
        look["paused_us"].as_f64().ok_or_else(|| format!("no pause told: {}", outcome.stderr))?;
    let found = report["check"]["sums"]["reachable"]["blocks"].as_u64().unwrap_or(0);
    if found < blocks {
        return Err(format!("{found} of {blocks} blocks were seen: {}", outcome.stderr));
    }
    let method = look["method"].as_str().unwrap_or_default();
    if way != "auto" && method != way {
        return Err(format!("it was done by {method}"));
    }
    run.book.note(place, Figure::PAUSE, round, paused / 1e3);
    run.book.note(place, Figure::CHECK, round, whole.as_secs_f64());
    if way == "fork" {
        let at = Place { tool: "fork", ..place };
        #[expect(clippy::cast_precision_loss, reason = "some seconds")]
        let took = fixture.step(FORK, 0) as f64;
        run.book.note(at, Figure::FORK, round, took / 1e6);
    }
    Ok(())
}

fn fill(fixture: &mut Fixture, blocks: u64, size: u64) -> Result<(), String> {
    fixture.page().set(Word::Seen, size);
    fixture.begin_step(HOLD, blocks);
    let done = poll(LIMIT, || (fixture.page().get(Word::Done) != 0).then_some(()));
    done.ok_or("the heap was not built in time")?;
    match fixture.page().get(Word::Errors) {
        0 => Ok(()),
        _ => Err(fixture.output()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_number_and_size() {
        assert_eq!(name(1_000_000, 48), "1,000,000 blocks of 48 bytes");
        assert_eq!(name(100, 3 * MIB), "100 blocks of 3 MiB");
    }
}
