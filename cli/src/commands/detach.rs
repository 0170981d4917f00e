//! `heapattach detach -p PID`: cleans up what a killed heapattach left.

use heapattach_injector::{
    home::Home,
    preflight::{self, Refusal, busy},
    proc::maps,
    target::Target,
    undo::undo,
};

use crate::{
    args::DetachArgs,
    compose::with_causes,
    exit::Exit,
    front::{self, Mode},
    message::Message,
    output::{complain, print},
    report::{Report, StopReport},
    spawn::{self, Side},
};

/// Gives everything back that is found in the process.
pub fn detach(args: &DetachArgs) -> Exit {
    let target = match open(args.pid) {
        Ok(target) => target,
        Err(refusal) => {
            complain(&format!("{refusal} (target: untouched)"));
            return if refusal.unsupported { Exit::Unsupported } else { Exit::Refused };
        }
    };
    // In a process of its own, as attach does, so that killing this one cannot cut it short.
    match spawn::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            spawn::leave_session();
            let report = clean(&target);
            heapattach_injector::fault::summary();
            let message = Message::Finished(Box::new(report));
            let mut text = serde_json::to_vec(&message).unwrap_or_default();
            text.push(b'\n');
            let _ = std::io::Write::write_all(&mut &line, &text);
            Exit::Done
        }
        Ok(Side::Front(line, tracer)) => {
            drop(target);
            match front::follow(line, tracer, Mode::Attach, None) {
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

fn open(pid: i32) -> Result<Target, Refusal> {
    let target = preflight::open(pid, true)?;
    match homes(&target).iter().find_map(|home| busy(pid, home)) {
        Some(refusal) => Err(refusal),
        None => Ok(target),
    }
}

fn homes(target: &Target) -> Vec<Home> {
    let text = target.process.read("maps").unwrap_or_default();
    let maps = maps::parse(&text).unwrap_or_default();
    let found = Home::find(&target.memory, &maps).into_iter();
    found.filter_map(|at| Home::open(&target.memory, at).ok()).collect()
}

fn clean(target: &Target) -> Report {
    let mut report = Report::new(target.process.pid(), target.process.command());
    report.outcome = "detached".to_owned();
    let homes = homes(target);
    if homes.is_empty() {
        report.why = Some("there was nothing to clean up".to_owned());
    }
    for home in homes {
        report.target = "restored".to_owned();
        match undo(target, &home) {
            Ok(undone) => {
                report.window_us += undone.exposed.as_secs_f64() * 1e6;
                report.stub_page = undone.stub_page.map(|at| at.to_string());
                report.stops.extend(undone.stops.iter().map(|cost| StopReport {
                    why: "detach".to_owned(),
                    threads: cost.threads,
                    stopped_us: cost.stopped.as_secs_f64() * 1e6,
                }));
            }
            Err(left) => {
                report.target = "altered".to_owned();
                report.error = Some(with_causes(&left.error));
                report.left = left.what;
                report.status = Exit::Left.code();
                break;
            }
        }
    }
    report
}

fn conclude(report: &Report, args: &DetachArgs) -> Exit {
    if let Some(error) = &report.error {
        complain(&format!("{error} (target: {})", report.target));
    }
    let text = if args.json {
        serde_json::to_string_pretty(report).unwrap_or_default()
    } else if let Some(why) = &report.why {
        why.clone()
    } else if report.status == 0 {
        format!("process {} is as it was before heapattach", report.pid)
    } else {
        format!("still there: {}", report.left.join("; "))
    };
    print(&text, if report.status == 0 { Exit::Done } else { Exit::Left })
}
