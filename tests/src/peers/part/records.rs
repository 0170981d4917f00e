//! Recording all that happens: how much of it gets through, what it takes of memory, disk and
//! processor, and how long it is until there is something to read.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use nix::sys::resource::{UsageWho, getrusage};

use super::race::resident_mib;
use crate::peers::{
    attempt::attempt,
    book::Place,
    dress::{Dress, Folder},
    figure::Figure,
    kit::{program, run as run_to_end},
    part::Run,
    session::{Session, lost},
    tool::{ALL, ALL_OPTIONS, NO_FILE, SAMPLED},
    work::{Subject, Work, busy_loops, python},
};

const PART: &str = "records";
/// Turns of a work: its sessions last some seconds.
const TURNS: u64 = 4;
/// A reader may be behind by this when the program ends.
const BEHIND: Duration = Duration::from_secs(60);
const MIB: f64 = 1024.0 * 1024.0;

pub(super) fn measure(run: &mut Run<'_>) {
    let works = if run.options.quick { Vec::new() } else { busy_loops() };
    let works = works.into_iter().chain([python()]);
    for work in works.filter(|work| run.options.wants_work(&work.name())) {
        let name = work.name();
        eprintln!("records: {name}");
        for round in 0..run.options.rounds.min(3) {
            let at = |tool| Place { part: PART, work: &name, tool };
            for (tool, options) in [
                (SAMPLED, &[][..]),
                (ALL, ALL_OPTIONS),
                ("heapattach --all --on-full drop", &["--all", "--ring=8MiB"]),
            ] {
                let done = attempt(|| by_us(run, work.as_ref(), options, true, at(tool), round));
                done.unwrap_or_else(|why| run.book.fail(at(tool), &why));
            }
            let unwritten = at(NO_FILE);
            let done = attempt(|| by_us(run, work.as_ref(), ALL_OPTIONS, false, unwritten, round));
            done.unwrap_or_else(|why| run.book.fail(unwritten, &why));
            let peer = at("heaptrack");
            let done = attempt(|| by_heaptrack(run, work.as_ref(), peer, round));
            done.unwrap_or_else(|why| run.book.fail(peer, &why));
        }
    }
}

fn by_us(
    run: &mut Run<'_>,
    work: &dyn Work,
    options: &[&str],
    is_written: bool,
    place: Place<'_>,
    round: u32,
) -> Result<(), String> {
    let folder = Folder::new("recording")?;
    let file = folder.path.join("recording");
    let output = format!("--output={}", file.display());
    let mut subject = work.start(&Dress::default())?;
    subject.work(work.operations())?;
    let pid = subject.pid()?;
    let before = resident_mib(pid).ok_or("it is gone")?;
    let written: &[&str] = if is_written { &[&output] } else { &[] };
    let session = Session::open(pid, &[options, written].concat())?;
    let began = Instant::now();
    work_on(subject.as_mut(), work)?;
    let wall = began.elapsed();
    let added = resident_mib(pid).ok_or("it is gone")? - before;
    let began = Instant::now();
    let report = session.end()?;
    let first = began.elapsed();
    #[expect(clippy::cast_precision_loss, reason = "some millions")]
    let (events, memory, cpu) =
        (report.calls() as f64, report.expense.memory as f64, report.expense.cpu_us as f64);
    let told = [
        (Figure::EVENTS, events / wall.as_secs_f64() / 1e6),
        (Figure::LOST, lost(&report)),
        (Figure::MEMORY, added),
        (Figure::TOOL_MEMORY, memory / MIB),
        (Figure::TOOL_CPU, cpu * 1e3 / events),
        (Figure::DISK, if is_written { size(&file)? / events } else { f64::NAN }),
        (Figure::FIRST_REPORT, first.as_secs_f64() * 1e3),
    ];
    told.into_iter().for_each(|(figure, value)| run.book.note(place, figure, round, value));
    Ok(())
}

fn by_heaptrack(
    run: &mut Run<'_>,
    work: &dyn Work,
    place: Place<'_>,
    round: u32,
) -> Result<(), String> {
    let plain = {
        let mut subject = work.start(&Dress::default())?;
        subject.work(work.operations())?;
        resident_mib(subject.pid()?)
    };
    let mut dress = Dress::preload(run.kit.heaptrack_preload.as_ref()?);
    let folder = dress.folder()?;
    let file = folder.join("recording.zst");
    let interpreter = run.kit.heaptrack_interpret.as_ref()?.display();
    program("zstd")?;
    let line = format!("{interpreter} <\"$1\" | zstd -q -o {}", file.display());
    let pipe = dress.pipe_to(&line)?;
    let mut dress = dress.with("DUMP_HEAPTRACK_OUTPUT", pipe);
    let mut subject = work.start(&dress)?;
    let began = Instant::now();
    subject.work(work.operations())?;
    work_on(subject.as_mut(), work)?;
    let wall = began.elapsed();
    let own = resident_mib(subject.pid()?);
    drop(subject);
    // The program is reaped: what is added from here on is the reader's.
    let before = of_children()?;
    let began = Instant::now();
    dress.wait_for_reader(BEHIND)?;
    let behind = began.elapsed();
    let cpu = of_children()?.saturating_sub(before);
    let (calls, printed) = print(&file)?;
    // It tells of allocations; in these works each has its end.
    let events = 2.0 * calls;
    if let (Some(own), Some(plain)) = (own, plain) {
        run.book.note(place, Figure::MEMORY, round, own - plain);
    }
    let told = [
        (Figure::EVENTS, events / wall.as_secs_f64() / 1e6),
        (Figure::TOOL_CPU, cpu.as_secs_f64() * 1e9 / events),
        (Figure::DISK, size(&file)? / events),
        (Figure::FIRST_REPORT, (behind + printed).as_secs_f64() * 1e3),
    ];
    told.into_iter().for_each(|(figure, value)| run.book.note(place, figure, round, value));
    Ok(())
}

fn work_on(subject: &mut dyn Subject, work: &dyn Work) -> Result<(), String> {
    (0..TURNS).try_for_each(|_| subject.work(work.operations()).map(|_| ()))
}

/// Calls to allocation functions, as the report says, and how long the report takes.
fn print(file: &Path) -> Result<(f64, Duration), String> {
    let began = Instant::now();
    let text = run_to_end(Command::new(program("heaptrack_print")?).arg("-f").arg(file))?;
    let took = began.elapsed();
    let line = text.lines().find_map(|line| line.strip_prefix("calls to allocation functions: "));
    let calls = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    calls.map(|calls| (calls, took)).ok_or_else(|| "heaptrack_print tells of no calls".to_owned())
}

fn size(file: &Path) -> Result<f64, String> {
    let bytes = fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?.len();
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    let bytes = bytes as f64;
    Ok(bytes)
}

/// Processor time of all children that were waited for.
fn of_children() -> Result<Duration, String> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
    let micros = |time: nix::sys::time::TimeVal| {
        u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap_or(0)
    };
    Ok(Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time())))
}
