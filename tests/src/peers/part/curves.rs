//! How what it costs grows: with the rate of allocations, threads, live blocks, modules, processes and time.

use std::time::{Duration, Instant};

use crate::peers::{
    attempt::attempt,
    book::Place,
    clock::processor_time,
    dress::{Dress, Folder},
    figure::Figure,
    part::Run,
    session::{Session, lost},
    tool::{ALL, ALL_OPTIONS, SAMPLED},
    work::{Work, built, loop_of},
};
use crate::{
    command::Heapattach,
    compile::Source,
    fixture::{Fixture, Launch},
    report::Report,
};

const PART: &str = "curves";
const RATES: [u64; 5] = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
const THREADS: [u64; 4] = [1, 2, 8, 64];
const LIVE: [u64; 4] = [10_000, 100_000, 1_000_000, 4_000_000];
const MODULES: [u64; 4] = [10, 50, 200, 500];
/// Programs that a shell starts one after the other.
const PROCESSES: [u64; 3] = [4, 16, 64];
const SECONDS: [u64; 3] = [1, 4, 16];
/// The rate at which the work goes on while time passes, in pairs a second.
const STEADY: u64 = 500_000;
/// A step of `churn.c` at a rate lasts so long.
const STEP: Duration = Duration::from_millis(500);
const AT_A_RATE: u64 = 2;
const ROUNDS: u32 = 3;
const SESSIONS: [(&str, &[&str]); 2] = [(SAMPLED, &[]), (ALL, ALL_OPTIONS)];
const HEAPTRACK: &str = "heaptrack";

pub(super) fn measure(run: &mut Run<'_>) {
    for round in 0..ROUNDS.min(run.options.rounds) {
        eprintln!("curves: round {round}");
        for rate in RATES {
            let work = point("pairs a second", rate);
            each_session(run, &work, |run, options, at| at_rate(run, options, rate, at, round));
            let at = Place { part: PART, work: &work, tool: HEAPTRACK };
            let done = attempt(|| at_rate_by_heaptrack(run, rate, at, round));
            done.unwrap_or_else(|why| run.book.fail(at, &why));
        }
        for threads in THREADS {
            let threads_of = || loop_of(u32::try_from(threads).unwrap_or(1), 100_000);
            let work = point("threads", threads);
            each_session(run, &work, |run, options, at| {
                slow_down(run, threads_of().as_ref(), options, at, round)
            });
        }
        for live in LIVE {
            let work = point("live blocks", live);
            each_session(run, &work, |run, options, at| {
                slow_down(run, loop_of(1, live).as_ref(), options, at, round)
            });
        }
        for modules in MODULES {
            let work = point("modules", modules);
            let at = Place { part: PART, work: &work, tool: SAMPLED };
            let done = attempt(|| attach_to_modules(run, modules, at, round));
            done.unwrap_or_else(|why| run.book.fail(at, &why));
        }
        for processes in PROCESSES {
            let work = point("processes", processes);
            let at = Place { part: PART, work: &work, tool: SAMPLED };
            let done = attempt(|| follow(run, processes, at, round));
            done.unwrap_or_else(|why| run.book.fail(at, &why));
        }
    }
    for seconds in SECONDS {
        eprintln!("curves: {seconds} s");
        let work = point("seconds", seconds);
        each_session(run, &work, |run, options, at| for_so_long(run, options, seconds, at));
    }
}

fn point(what: &str, number: u64) -> String {
    format!("{what} = {number}")
}

fn each_session(
    run: &mut Run<'_>,
    work: &str,
    measure: impl Fn(&mut Run<'_>, &[&str], Place<'_>) -> Result<(), String>,
) {
    for (tool, options) in SESSIONS {
        let at = Place { part: PART, work, tool };
        let done = attempt(|| measure(run, options, at));
        done.unwrap_or_else(|why| run.book.fail(at, &why));
    }
}

/// What half a second at a rate took.
#[derive(Clone, Copy, Debug)]
struct Half {
    cpu_s: f64,
    wall_s: f64,
    pairs: f64,
}

impl Half {
    fn of(fixture: &mut Fixture, rate: u64) -> Result<Self, String> {
        let (pid, began) = (fixture.pid(), Instant::now());
        let before = processor_time(pid)?;
        #[expect(clippy::cast_precision_loss, reason = "some millions")]
        let pairs = fixture.step(AT_A_RATE, rate).max(1) as f64;
        let cpu_s = processor_time(pid)?.saturating_sub(before).as_secs_f64();
        Ok(Self { cpu_s, wall_s: began.elapsed().as_secs_f64(), pairs })
    }

    /// What the other took more for a pair, at this one's rate, in percent of one processor. With a
    /// tool the rate itself may not be reached.
    fn added_by(self, other: Self) -> f64 {
        (other.cpu_s / other.pairs - self.cpu_s / self.pairs) * self.pairs / self.wall_s * 100.0
    }
}

fn churn(dress: &Dress) -> Result<Launch, String> {
    let launch = dress.launch(&built("churn.c")?);
    Ok(["1", "20", "100000"].into_iter().fold(launch, Launch::arg))
}

fn at_rate(
    run: &mut Run<'_>,
    options: &[&str],
    rate: u64,
    at: Place<'_>,
    round: u32,
) -> Result<(), String> {
    let mut fixture = churn(&Dress::default())?.start();
    let plain = Half::of(&mut fixture, rate)?;
    let session = Session::open(fixture.pid(), options)?;
    let began = Instant::now();
    let with = Half::of(&mut fixture, rate)?;
    let wall = began.elapsed();
    let report = session.end()?;
    run.book.note(at, Figure::ADDED, round, plain.added_by(with));
    note_session(run, &report, wall, at, round);
    Ok(())
}

fn at_rate_by_heaptrack(
    run: &mut Run<'_>,
    rate: u64,
    at: Place<'_>,
    round: u32,
) -> Result<(), String> {
    let preload = run.kit.heaptrack_preload.as_ref()?;
    let mut dress = Dress::preload(preload);
    let pipe = dress.pipe_to("exec cat <>\"$1\" >/dev/null")?;
    let dress = dress.with("DUMP_HEAPTRACK_OUTPUT", pipe);
    let plain = Half::of(&mut churn(&Dress::default())?.start(), rate)?;
    let with = Half::of(&mut churn(&dress)?.start(), rate)?;
    run.book.note(at, Figure::ADDED, round, plain.added_by(with));
    Ok(())
}

fn note_session(run: &mut Run<'_>, report: &Report, wall: Duration, at: Place<'_>, round: u32) {
    #[expect(clippy::cast_precision_loss, reason = "some millions")]
    let (calls, cpu, memory) =
        (report.calls() as f64, report.expense.cpu_us as f64, report.expense.memory as f64);
    run.book.note(at, Figure::EVENTS, round, calls / wall.as_secs_f64() / 1e6);
    run.book.note(at, Figure::LOST, round, lost(report));
    run.book.note(at, Figure::TOOL_SHARE, round, cpu / 1e6 / wall.as_secs_f64() * 100.0);
    run.book.note(at, Figure::TOOL_MEMORY, round, memory / 1024.0 / 1024.0);
}

fn slow_down(
    run: &mut Run<'_>,
    work: &dyn Work,
    options: &[&str],
    at: Place<'_>,
    round: u32,
) -> Result<(), String> {
    let mut subject = work.start(&Dress::default())?;
    let operations = work.operations() / 2;
    subject.work(operations)?;
    let plain = subject.work(operations)?;
    let session = Session::open(subject.pid()?, options)?;
    let began = Instant::now();
    let with = subject.work(operations)?;
    let wall = began.elapsed();
    let report = session.end()?;
    run.book.note(at, Figure::TIMES, round, with.cpu_ns / plain.cpu_ns);
    note_session(run, &report, wall, at, round);
    note_stops(run, &report, at, round);
    Ok(())
}

fn note_stops(run: &mut Run<'_>, report: &Report, at: Place<'_>, round: u32) {
    for (why, figure) in [("attach", Figure::STOP_AT_ATTACH), ("detach", Figure::STOP_AT_DETACH)] {
        let longest = report.stopped_us(why).into_iter().fold(0.0, f64::max);
        run.book.note(at, figure, round, longest / 1e3);
    }
}

fn attach_to_modules(
    run: &mut Run<'_>,
    modules: u64,
    at: Place<'_>,
    round: u32,
) -> Result<(), String> {
    let library = Source::new("loop_plugin.c").build().ok_or("no C compiler")?;
    let program = Source::new("many_modules.c").build().ok_or("no C compiler")?;
    let folder = Folder::new("modules")?;
    let launch = Launch::program(&program).arg(library).arg(modules.to_string());
    let fixture = launch.arg(&folder.path).start();
    let began = Instant::now();
    let session = Session::open(fixture.pid(), &[])?;
    let attach = began.elapsed();
    let report = session.end()?;
    run.book.note(at, Figure::ATTACH, round, attach.as_secs_f64() * 1e3);
    note_stops(run, &report, at, round);
    Ok(())
}

/// A shell that starts so many programs, all of which are followed: from its start to the last report.
fn follow(run: &mut Run<'_>, processes: u64, at: Place<'_>, round: u32) -> Result<(), String> {
    let script = format!("for one in $(seq {processes}); do /bin/true; done");
    let words = ["run", "--follow-forks", "--json", "--", "sh", "-c", &script];
    let began = Instant::now();
    let outcome = Heapattach::new(words).run();
    let wall = began.elapsed();
    if outcome.code() != Some(0) {
        return Err(outcome.stderr);
    }
    run.book.note(at, Figure::WALL, round, wall.as_secs_f64());
    Ok(())
}

/// The recording, and the tool's memory, of a program that goes on as it is.
fn for_so_long(
    run: &mut Run<'_>,
    options: &[&str],
    seconds: u64,
    at: Place<'_>,
) -> Result<(), String> {
    let folder = Folder::new("duration")?;
    let file = folder.path.join("recording");
    let mut fixture = churn(&Dress::default())?.start();
    let output = format!("--output={}", file.display());
    let session = Session::open(fixture.pid(), &[options, &[&output]].concat())?;
    let began = Instant::now();
    while began.elapsed() + STEP / 2 < Duration::from_secs(seconds) {
        fixture.step(AT_A_RATE, STEADY);
    }
    let wall = began.elapsed();
    let asked = Instant::now();
    let report = session.end()?;
    run.book.note(at, Figure::FIRST_REPORT, 0, asked.elapsed().as_secs_f64() * 1e3);
    let size = std::fs::metadata(&file).map_err(|error| error.to_string())?.len();
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    run.book.note(at, Figure::FILE, 0, size as f64 / 1024.0 / 1024.0);
    note_session(run, &report, wall, at, 0);
    Ok(())
}
