//! A program under checks for leaks: what each adds to it, how long its end takes, and whether the leak
//! was found.

use std::{
    fs::{self, File},
    io::Read,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use nix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::peers::{
    attempt::attempt, book::Place, clock::processor_time_at_end, dress::Folder, figure::Figure,
    part::Run, tool::PLAIN,
};
use crate::{command::binary, compile::Source};

const PART: &str = "checks";
/// Pairs of malloc and free, blocks in use at the end, blocks leaked.
const SUITES: [(u64, u64, u64); 2] = [(5_000_000, 1000, 100), (500_000, 500_000, 1000)];
/// The program's blocks that leak are so large.
const LOST_BYTES: u64 = 100;
/// What makes the program slower by an order of magnitude.
const SLOW_ROUNDS: u32 = 2;
const CHECK: &str = "heapattach check";

/// What a check told.
struct Ended {
    cpu: Option<Duration>,
    wall: Duration,
    /// From the end of its work to its end.
    end: Duration,
    lost_bytes: Option<u64>,
}

#[derive(Clone, Copy)]
enum By {
    Nobody,
    Heapattach,
    Sanitizer,
    Valgrind,
}

const TOOLS: [(&str, By); 4] = [
    (PLAIN, By::Nobody),
    (CHECK, By::Heapattach),
    ("LeakSanitizer, built anew", By::Sanitizer),
    ("valgrind memcheck --leak-check=full", By::Valgrind),
];

pub(super) fn measure(run: &mut Run<'_>) {
    let suites = if run.options.quick { &SUITES[1..] } else { &SUITES[..] };
    for &suite in suites {
        let work = format!("a suite: {} pairs, {} blocks held, {} lost", suite.0, suite.1, suite.2);
        eprintln!("checks: {work}");
        for round in 0..run.options.rounds {
            let mut plain = None;
            for (tool, by) in TOOLS {
                let is_slow = matches!(by, By::Valgrind);
                if is_slow && (round >= SLOW_ROUNDS || run.options.quick) {
                    continue;
                }
                let place = Place { part: PART, work: &work, tool };
                match attempt(|| once(run, by, suite)) {
                    Ok(ended) => {
                        note(run, place, round, &ended, plain.as_ref());
                        if matches!(by, By::Nobody) {
                            plain = Some(ended);
                        } else {
                            judge(run, place, round, &ended, suite);
                        }
                    }
                    Err(why) => run.book.fail(place, &why),
                }
            }
        }
    }
}

fn note(run: &mut Run<'_>, place: Place<'_>, round: u32, ended: &Ended, plain: Option<&Ended>) {
    run.book.note(place, Figure::WALL, round, ended.wall.as_secs_f64());
    run.book.note(place, Figure::END, round, ended.end.as_secs_f64() * 1e3);
    let Some(plain) = plain else { return };
    let times = ended.wall.as_secs_f64() / plain.wall.as_secs_f64();
    run.book.note(place, Figure::WALL_TIMES, round, times);
    if let (Some(own), Some(plain)) = (ended.cpu, plain.cpu) {
        run.book.note(place, Figure::TIMES, round, own.as_secs_f64() / plain.as_secs_f64());
    }
}

fn judge(run: &mut Run<'_>, place: Place<'_>, round: u32, ended: &Ended, suite: (u64, u64, u64)) {
    let wanted = suite.2 * LOST_BYTES;
    #[expect(clippy::cast_precision_loss, reason = "some kilobytes")]
    match ended.lost_bytes {
        Some(found) => {
            let percent = found as f64 / wanted as f64 * 100.0;
            run.book.note(place, Figure::FOUND, round, percent);
        }
        None => run.book.fail(place, "it tells of no lost bytes"),
    }
}

fn once(run: &Run<'_>, by: By, (pairs, held, lost): (u64, u64, u64)) -> Result<Ended, String> {
    let folder = Folder::new("check")?;
    let result = folder.path.join("result");
    let plain = || Source::new("suite.c").build().ok_or("no C compiler");
    let mut command = match by {
        By::Nobody => Command::new(plain()?),
        By::Heapattach => {
            let mut command = Command::new(binary());
            command.args(["check", "--json", "--report"]).arg(&result).arg("--").arg(plain()?);
            command
        }
        By::Sanitizer => {
            let source = Source::new("suite.c").flag("-fsanitize=leak");
            Command::new(source.build().ok_or("no C compiler")?)
        }
        By::Valgrind => {
            let mut command = Command::new(run.kit.valgrind.as_ref()?);
            let mut log = std::ffi::OsString::from("--log-file=");
            log.push(&result);
            command.arg("--leak-check=full").arg(log).arg(plain()?);
            command
        }
    };
    command.args([pairs, held, lost].map(|number| number.to_string()));
    let output = folder.path.join("output");
    let file = |path: &Path| File::create(path).map_err(|error| error.to_string());
    command.stdin(Stdio::null()).stdout(file(&output)?).stderr(file(&folder.path.join("talk"))?);
    let began = now()?;
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let cpu = processor_time_at_end(child.id().cast_signed());
    let over = now()?;
    child.wait().map_err(|error| error.to_string())?;
    let done = read(&output).lines().find_map(|line| line.strip_prefix("done ")?.parse().ok());
    let done = Duration::from_micros(done.ok_or_else(|| {
        format!("the program did not come to its end: {}", read(&folder.path.join("talk")))
    })?);
    let lost_bytes = match by {
        By::Nobody => None,
        By::Heapattach => of_heapattach(&read(&result)),
        By::Sanitizer => number_before(&read(&folder.path.join("talk")), " byte(s) leaked"),
        By::Valgrind => number_before(&number_line(&read(&result)), " bytes"),
    };
    // What the command takes is not what the program it starts takes.
    let cpu = if matches!(by, By::Heapattach) { None } else { Some(cpu?) };
    Ok(Ended { cpu, wall: over - began, end: over.saturating_sub(done), lost_bytes })
}

fn now() -> Result<Duration, String> {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).map_err(|error| error.to_string())
}

fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    let _ = fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn of_heapattach(json: &str) -> Option<u64> {
    let report: Value = serde_json::from_str(json).ok()?;
    report["check"]["sums"]["direct"]["bytes"].as_u64()
}

fn number_line(log: &str) -> String {
    log.lines().find_map(|line| line.split_once("definitely lost: ")).map_or("", |l| l.1).to_owned()
}

/// The number in front of these words, without the separators between its digits.
fn number_before(text: &str, words: &str) -> Option<u64> {
    let before = text.split(words).next().filter(|before| before.len() < text.len())?;
    before.rsplit(' ').next()?.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_others_say_was_lost() {
        let sanitizer = "SUMMARY: LeakSanitizer: 500 byte(s) leaked in 5 allocation(s).";
        assert_eq!(number_before(sanitizer, " byte(s) leaked"), Some(500));
        let valgrind = "==7==\n==7==    definitely lost: 10,500 bytes in 5 blocks\n==7== x";
        assert_eq!(number_before(&number_line(valgrind), " bytes"), Some(10_500));
        assert_eq!(number_before("nothing", " bytes"), None);
        let json = r#"{"check":{"sums":{"direct":{"bytes":77}}}}"#;
        assert_eq!(of_heapattach(json), Some(77));
    }
}
