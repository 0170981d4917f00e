//! `heapattach check`.

use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt};

use heapattach_injector::preflight;

use crate::{
    args::CheckArgs,
    check_text,
    exit::Exit,
    front::{self, Mode},
    inspection,
    output::{complain, print},
    pause::{self, Load},
    report::Report,
    spawn::{self, Side},
};

/// Has a process, or a program from its start, checked for lost blocks.
pub fn check(args: &CheckArgs) -> Exit {
    match args.pid {
        Some(pid) => attach(pid, args),
        None => run(args),
    }
}

fn attach(pid: i32, args: &CheckArgs) -> Exit {
    let target = match preflight::open(pid, args.force) {
        Ok(target) => target,
        Err(refusal) => {
            complain(&format!("{refusal} (target: untouched)"));
            return if refusal.unsupported { Exit::Unsupported } else { Exit::Refused };
        }
    };
    let load = Load::of(&target.process);
    if let Err(refusal) = pause::choose(args.snapshot, &load, args.max_pause) {
        complain(&format!("{refusal} (target: untouched)"));
        return Exit::Refused;
    }
    match spawn::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            inspection::attach(line, &target, args);
            Exit::Done
        }
        Ok(Side::Front(line, tracer)) => {
            drop(target);
            match front::follow(line, tracer, Mode::Attach, None) {
                Some(report) => show(&report, args, Exit::Program(report.status)),
                None => {
                    complain(&format!(
                        "the tracing process died; the target runs on, perhaps with hooks that \
                         pass everything through; clean up with `heapattach detach -p {pid}`"
                    ));
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

fn run(args: &CheckArgs) -> Exit {
    match spawn::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            inspection::run(line, args);
            Exit::Done
        }
        Ok(Side::Front(line, tracer)) => match front::follow(line, tracer, Mode::Run, None) {
            Some(report) => show(&report, args, Exit::Program(report.status)),
            None => {
                complain("the tracing process died; the program, if it was started, runs on");
                Exit::RunFailed
            }
        },
        Err(error) => {
            complain(&format!("the tracing process could not be started: {error}"));
            Exit::RunFailed
        }
    }
}

/// Prints the result where it belongs: the standard output of a program is its own.
fn show(report: &Report, args: &CheckArgs, exit: Exit) -> Exit {
    if let Some(error) = &report.error {
        complain(&format!("{error} (target: {})", report.target));
    }
    let text = match &report.check {
        _ if args.json => serde_json::to_string_pretty(report).unwrap_or_default() + "\n",
        Some(check) => check_text::text(report, check),
        None => match &report.why {
            Some(why) => format!("heapattach: not checked: {why}\n"),
            None => return exit,
        },
    };
    match (&args.report, args.pid) {
        (Some(path), _) => {
            // A report may name paths and arguments: it is for its owner.
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
            if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
                complain(&format!("the report cannot be written to {}: {error}", path.display()));
            }
            exit
        }
        (None, Some(_)) => print(text.trim_end(), exit),
        (None, None) => {
            let _ = std::io::stderr().write_all(text.as_bytes());
            exit
        }
    }
}
