//! `heapattach detach -p PID`: cleans up what a killed heapattach left.

use std::time::Duration;

use heapattach_injector::{
    attach::{self, Refusal, Sessions},
    detach::{self, Home, StubPage, undo_orphaned},
    target::{StopCost, Target},
};
use heapattach_process::{addr::RemoteAddr, proc::maps};

use crate::{
    args::DetachArgs,
    exit_status::Exit,
    output::{complain, print},
    payload,
    terminal::{Terminal, Verbosity},
};
use heapattach_report::{Outcome, Report, Status, StopReport, StoppedFor, TargetState};
use heapattach_session::{
    allocator::profiler,
    client::{
        front::{self, Mode},
        message::Message,
    },
    fork::{self, Side},
    golang::rate,
    own_cost::own_cost,
    watch::add_window,
};
use heapattach_text::error_chain::with_causes;

/// A profiler is switched off by a call of the process's own, for which it is stopped in between.
const LONGEST_STOP: Duration = Duration::from_millis(250);

/// Gives everything back that is found in the process.
pub fn detach(args: &DetachArgs) -> Exit {
    let target = match open(args) {
        Ok(target) => target,
        Err(refusal) => {
            complain(&format!("{refusal} (target: untouched)"));
            return if refusal.unsupported { Exit::Unsupported } else { Exit::Refused };
        }
    };
    // In a process of its own, as attach does, so that killing this one cannot cut it short.
    match fork::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            fork::leave_session();
            let report = clean(&target);
            heapattach_process::fault::summary();
            let message = Message::Finished(Box::new(report));
            let mut text = serde_json::to_vec(&message).unwrap_or_default();
            text.push(b'\n');
            let _ = std::io::Write::write_all(&mut &line, &text);
            Exit::Done
        }
        Ok(Side::Front(line, tracer)) => {
            drop(target);
            let mut terminal = Terminal::new(Verbosity::Usual, None, None);
            match front::follow(line, tracer, Mode::Attach, &mut terminal, None) {
                Some(report) => conclude(&report, args),
                None => {
                    complain("the tracing process died; try again");
                    Exit::Left
                }
            }
        }
        Err(error) => {
            complain(&format!("the tracing process could not be started: {error}"));
            Exit::Failed
        }
    }
}

fn open(args: &DetachArgs) -> Result<Target, Refusal> {
    let sessions = if args.force { Sessions::None } else { Sessions::All };
    let target = attach::open_with(args.pid, true, sessions)?;
    let switched = [
        ("Go's profile", rate::is_in_use(&target.process)),
        ("jemalloc's profiler", profiler::is_in_use(&target.process)),
    ];
    match switched.iter().find(|(_, is_in_use)| *is_in_use && !args.force) {
        None => Ok(target),
        Some((what, _)) => Err(Refusal::denied(
            format!("another heapattach has {what} of process {} switched on", args.pid),
            "a process that no heapattach is attached to",
            "it is switched off when that one ends: wait for it, or end it with Ctrl-C; see `heapattach status`",
        )),
    }
}

fn homes(target: &Target) -> Vec<Home> {
    let text = target.process.read("maps").unwrap_or_default();
    let maps = maps::parse(&text).unwrap_or_default();
    Home::all(&target.memory, &maps)
}

/// The page that sessions which hooked by slots have left on purpose.
fn stub_page(target: &Target) -> Option<RemoteAddr> {
    let text = target.process.read("maps").unwrap_or_default();
    let maps = maps::parse(&text).unwrap_or_default();
    StubPage::find(&target.memory, &maps).into_iter().next()
}

/// What else is in it.
fn contents(target: &Target, at: RemoteAddr) -> &'static str {
    let page = StubPage::open(&target.memory, at);
    match page.is_ok_and(|page| page.provides(&target.memory)) {
        true => ", with what stands in for LeakSanitizer,",
        false => "",
    }
}

fn clean(target: &Target) -> Report {
    let mut report = Report::new(target.process.pid(), target.process.command());
    report.outcome = Outcome::Detached;
    let homes = homes(target);
    let is_without = homes.is_empty();
    for home in homes {
        report.target = TargetState::Restored;
        match undo_orphaned(target, &home) {
            Ok(undone) => {
                add_window(&mut report, undone.exposed);
                report.stub_page = undone.stub_page.map(|at| at.to_string());
                report.stops.extend(undone.stops.iter().map(stop_report));
            }
            Err(left) => {
                report.target = TargetState::Altered;
                report.error = Some(with_causes(&left.error));
                report.left = left.what;
                report.status = Status::Left;
                break;
            }
        }
    }
    if report.status == Status::Done {
        undo_frames(target, &mut report);
    }
    let switched = [
        rate::undo_orphaned(&target.process, &target.memory),
        profiler::undo_orphaned(target, payload::image(), LONGEST_STOP),
    ];
    for switched in switched {
        match switched {
            Ok(false) => {}
            Ok(true) if report.left.is_empty() => report.target = TargetState::Restored,
            Ok(true) => {}
            Err(why) => {
                report.target = TargetState::Altered;
                report.left.push(why.clone());
                (report.error, report.status) = (Some(why), Status::Left);
            }
        }
    }
    if is_without && report.target != TargetState::Restored {
        let page = stub_page(target);
        let what = page.map_or("", |at| contents(target, at));
        report.why = Some(match page {
            None => "there was nothing to clean up".to_owned(),
            Some(at) => format!(
                "there was nothing to clean up, but for one page of jumps{what} at {at} that stays, since \
                 it may still be in use"
            ),
        });
        report.stub_page = page.map(|at| at.to_string());
    }
    report.expense = own_cost();
    report
}

/// What was written behind the program's code, where a heapattach was killed just then.
fn undo_frames(target: &Target, report: &mut Report) {
    let Ok((given, cost)) = detach::undo_frames(target) else { return };
    report.stops.extend(cost.iter().map(stop_report));
    if given > 0 {
        report.target = TargetState::Restored;
    }
}

fn stop_report(cost: &StopCost) -> StopReport {
    StopReport {
        why: StoppedFor::Detach,
        threads: cost.threads,
        stopped_us: cost.stopped.as_secs_f64() * 1e6,
    }
}

fn conclude(report: &Report, args: &DetachArgs) -> Exit {
    if let Some(error) = &report.error {
        complain(&format!("{error} (target: {})", report.target));
    }
    let text = if args.json {
        serde_json::to_string_pretty(report).unwrap_or_default()
    } else if let Some(why) = &report.why {
        why.clone()
    } else if let (Status::Done, Some(at)) = (report.status, &report.stub_page) {
        format!(
            "process {} is as it was before heapattach, but for one page of jumps at {at} that \
             stays, since it may still be in use",
            report.pid
        )
    } else if report.status == Status::Done {
        format!("process {} is as it was before heapattach", report.pid)
    } else {
        format!("still there: {}", report.left.join("; "))
    };
    print(&text, if report.status == Status::Done { Exit::Done } else { Exit::Left })
}
