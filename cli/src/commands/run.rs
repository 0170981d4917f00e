//! `heapattach run -- COMMAND`.

use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt};

use crate::{
    args::RunArgs,
    compose::with_causes,
    exit::Exit,
    expense::Expense,
    follower::Follower,
    front::{self, Mode},
    output::complain,
    reading::summarize,
    recording::{self, RecordingError, Store},
    report::Report,
    spawn::{self, Side},
    text, tracer,
    view::{Colour, Page},
};

/// Starts the program, counts, and ends as it ends.
pub fn run(args: &RunArgs) -> Exit {
    let store = match store(args) {
        Ok(store) => store,
        Err(error) => {
            complain(&with_causes(&error));
            return Exit::RunFailed;
        }
    };
    match spawn::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            tracer::run(line, args, store);
            Exit::Done
        }
        Ok(Side::Front(line, tracer)) => {
            let shared = store.as_ref().and_then(|store| store.share().ok());
            let follower = args.session.record.follow.map(|_| Follower::new(shared));
            match front::follow(line, tracer, Mode::Run, follower) {
                Some(mut report) => {
                    if report.summary.is_none() {
                        summarize(&mut report, store.as_ref());
                    }
                    report.expense = report.expense.and(Expense::own());
                    conclude(&report, args)
                }
                None => {
                    complain("the tracing process died; the program, if it was started, runs on");
                    Exit::RunFailed
                }
            }
        }
        Err(error) => {
            complain(&format!("the tracing process could not be started: {error}"));
            Exit::RunFailed
        }
    }
}

/// Where to write the session to, as far as that is known before there is a process.
fn store(args: &RunArgs) -> Result<Option<Store>, RecordingError> {
    match &args.session.record.output {
        Some(path) => Ok(Some(Store { path: Some(path.clone()), file: recording::create(path)? })),
        None => Ok(Store::anonymous().ok()),
    }
}

fn conclude(report: &Report, args: &RunArgs) -> Exit {
    if let Some(error) = &report.error {
        complain(error);
    }
    let text = if args.session.json {
        serde_json::to_string_pretty(report).unwrap_or_default() + "\n"
    } else {
        let page = match &args.report {
            Some(_) => Page::new(None, false),
            None => Page::for_stream(Colour::Auto, &std::io::stderr()),
        };
        text::report(report, page)
    };
    match &args.report {
        Some(path) => {
            // A report may name paths and arguments: it is for its owner.
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
            if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
                complain(&format!("the report cannot be written to {}: {error}", path.display()));
            }
        }
        // Standard output is the program's.
        None if report.error.is_none() => {
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        None => {}
    }
    Exit::Program(report.status)
}
