//! The profile that an allocator keeps itself, from before heapattach came: jemalloc's, where `opt.prof` is on.
//! Its samples become a recording like any other. Nothing is stopped, written or run in the process.
//!
//! ```text
//! settings (is it on, at which rate) -> sampled blocks with their stacks -> sums by stack -> recording, report
//! ```

use std::{
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use heapattach_census::{
    Live, Moment,
    counters::{AllocatorKind, Statistics, Value},
    walkers::{self, Samples},
};
use heapattach_process::proc::Process;
use heapattach_profile::{Facts, Limits, Profile, clock::Clock, ticks};
use heapattach_recording::{Ended, Store, names::Code};
use heapattach_report::{Outcome, Report, Status, TargetState};

use crate::{
    allocator::Look,
    golang::{Stacks, symbols_of},
    watch::{
        heading::{fill, heading, plain_writer},
        intake::Left,
        names,
        result::Written,
    },
};

/// What such a profile does not tell.
const BLIND: [&str; 3] = [
    "blocks that were freed, and how many were allocated in all: the profiler knows blocks in use",
    "when blocks were allocated, and by which thread",
    "mapped memory, and blocks of other allocators",
];
/// jemalloc's rate is a power of two.
const MOST_RATE: i64 = 62;

/// Whether there is a profiler that can be on.
///
/// # Errors
/// Why there is none.
pub fn can_be_taken(look: &Look) -> Result<(), String> {
    let all = look.statistics().map_err(|errno| unread(errno.desc()))?;
    rate(of_jemalloc(&all)?).map(drop)
}

fn of_jemalloc(all: &[Statistics]) -> Result<&Statistics, String> {
    let jemalloc = all.iter().find(|one| one.allocator == AllocatorKind::Jemalloc);
    Ok(jemalloc.ok_or("it has no jemalloc, whose profiler could be read")?)
}

/// Writes what the profiler of a process's allocator holds, and tells it. If it sampled for a time only, it was that
/// long.
pub fn take(look: &Look, store: Option<Store>, span: Option<Duration>) -> Report {
    let process = look.process();
    let mut report = Report::new(process.pid(), process.command());
    report.target = TargetState::Untouched;
    let path = store.as_ref().and_then(|store| store.path.clone());
    if let Err(why) = write(look, store, span, &mut report) {
        report.error = Some(why);
        report.status = Status::Refused;
        report.outcome = Outcome::Refused;
        // Nothing was recorded.
        let _ = path.map(std::fs::remove_file);
    }
    report
}

fn write(
    look: &Look,
    store: Option<Store>,
    span: Option<Duration>,
    report: &mut Report,
) -> Result<(), String> {
    let process = look.process();
    let all = look.statistics().map_err(|errno| unread(errno.desc()))?;
    let jemalloc = of_jemalloc(&all)?;
    let rate = rate(jemalloc)?;
    let samples = samples(process)?;
    let clock = Clock::start();
    let mut profile = Profile::new(Limits::default(), Clock::temporary());
    profile.know(Facts { every: rate, asked: None });
    let mut stacks = Stacks::default();
    for block in &samples.blocks {
        let Some(frames) = samples.stacks.get(block.stack as usize) else { continue };
        profile.counted(stacks.number(frames), block.size, chance(block.size, rate), [1, 0]);
    }
    let mut heading = heading(report.command.clone(), &[], (report.pid, rate), process);
    let about = &mut heading.about;
    // Behind a hyphen there is a hash of sources.
    let version = jemalloc.version.split('-').next().unwrap_or_default();
    about.counted_by = format!("the profiler of jemalloc {version}");
    (about.from_start, about.in_use_only) = (span.is_none(), true);
    let before = match span {
        None => Duration::from_millis(std::mem::take(&mut about.up_ms)),
        Some(span) => span,
    };
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    about.began = began.saturating_sub(before).as_secs();
    report.blind = BLIND.map(str::to_owned).to_vec();
    if span.is_some() {
        report.blind.push("blocks from before prof.active was set for this session".to_owned());
    }
    if samples.unread > 0 {
        report.blind.push(format!("{} blocks that came or went just then", samples.unread));
    }
    let mut symbols = symbols_of(process)?;
    let path = store.as_ref().and_then(|store| store.path.clone());
    let mut writer = store
        .map(plain_writer)
        .transpose()
        .map_err(|error| format!("the recording cannot be begun: {error}"))?;
    let until = ticks(before + clock.elapsed());
    if let Some(writer) = &mut writer {
        writer.heading(&heading);
        writer.modules(&symbols.known());
        writer.snapshot(until, &mut profile, &stacks);
    }
    let ended = Ended::of(profile.into_sheet(), &stacks);
    let addresses: Vec<u64> = ended.addresses().to_vec();
    symbols.fetch_returns(addresses.iter().copied(), &mut |_| true);
    let known = symbols.known();
    let code = names::look_up(&mut symbols, addresses, |_| true);
    let code = code.unwrap_or_else(|| Code::without_names(&known));
    report.missing_symbols = symbols.missing();
    (report.outcome, report.status) = (Outcome::Detached, Status::Done);
    report.counted_ms = u64::try_from(before.as_millis()).unwrap_or(u64::MAX);
    fill(&mut heading.about, report, before);
    let left = Left {
        ended,
        births: Vec::new(),
        page_births: Vec::new(),
        kernel: Vec::new(),
        until,
        session_writer: writer,
        threads: Vec::new(),
        moments: Vec::new(),
    };
    let written = Written { path, store: None, has_names: true, full_names: false };
    written.finish(left, heading, code, report, || true);
    Ok(())
}

fn unread(why: &str) -> String {
    format!("its memory cannot be read: {why}")
}

/// Mean bytes between samples.
fn rate(jemalloc: &Statistics) -> Result<u64, String> {
    let flag = |name: &str| matches!(jemalloc.opt.get(name), Some(Value::Flag(true)));
    if !jemalloc.opt.contains_key("prof") {
        return Err(
            "this jemalloc was built without a profiler; heapattach -p PID samples by itself"
                .to_owned(),
        );
    }
    if !flag("prof") {
        return Err("the profiler of this jemalloc is off (opt.prof:false), and cannot be switched on in a process \
                    that runs; heapattach -p PID samples by itself"
            .to_owned());
    }
    let power = jemalloc.opt.get("lg_prof_sample").and_then(Value::number);
    match power {
        Some(power @ 0..=MOST_RATE) => Ok(1 << power),
        _ => Err("the rate of jemalloc's profiler (opt.lg_prof_sample) is not known".to_owned()),
    }
}

/// How probable it was that a block of so many bytes is sampled; `None` if it was certain.
fn chance(size: u64, rate: u64) -> Option<f64> {
    (rate > 1).then(|| -(-(size as f64) / rate as f64).exp_m1())
}

/// A process that frees what was sampled as soon as it has it is looked at several times.
fn samples(process: &Process) -> Result<Samples, String> {
    const LOOKS: usize = 5;
    const BETWEEN: Duration = Duration::from_millis(20);
    let mut last = samples_now(process);
    for _ in 1..LOOKS {
        if last.is_ok() {
            break;
        }
        thread::sleep(BETWEEN);
        last = samples_now(process);
    }
    last
}

fn samples_now(process: &Process) -> Result<Samples, String> {
    let live = Live::open(process).map_err(|errno| unread(errno.desc()))?.without_swap();
    let regions = Live::regions(process).map_err(|errno| unread(errno.desc()))?;
    walkers::samples(&Moment::new(&live, regions, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_sampled_by_its_size() {
        assert_eq!(chance(100, 1), None);
        let half = chance(1000, 1443).unwrap();
        assert!((half - 0.5).abs() < 0.001, "{half}");
        assert!(chance(1 << 30, 1 << 19).unwrap() > 0.999);
    }

    #[test]
    fn the_profiler_must_be_on_and_its_rate_known() {
        let mut jemalloc = Statistics::default();
        assert!(rate(&jemalloc).unwrap_err().contains("without a profiler"));
        jemalloc.opt.insert("prof".to_owned(), Value::Flag(false));
        assert!(rate(&jemalloc).unwrap_err().contains("is off"));
        jemalloc.opt.insert("prof".to_owned(), Value::Flag(true));
        assert!(rate(&jemalloc).unwrap_err().contains("not known"));
        jemalloc.opt.insert("lg_prof_sample".to_owned(), Value::Number(19));
        assert_eq!(rate(&jemalloc), Ok(1 << 19));
    }
}
