//! `heapattach -p PID`.

use heapattach_injector::{preflight, target::Target};

use crate::{
    args::{AttachArgs, LoaderArg},
    compose::with_causes,
    exit::Exit,
    expense::Expense,
    follower::Follower,
    front::{self, Mode},
    output::{complain, print},
    reading::summarize,
    recording::{self, RecordingError, Store},
    report::Report,
    spawn::{self, Side},
    text, tracer,
    view::{Colour, Page},
};

/// Attaches, counts, detaches, reports.
pub fn attach(pid: i32, args: &AttachArgs) -> Exit {
    if args.session.follow_forks && args.loader == LoaderArg::Dlopen {
        // Processes of a family are stopped at their births, where nothing can be loaded yet.
        complain("--loader dlopen cannot follow forks; use --loader map, which is the default");
        return Exit::Usage;
    }
    let target = match preflight::open(pid, args.force) {
        Ok(target) => target,
        Err(refusal) => return refuse(pid, args, &refusal),
    };
    let store = match store(&target, args) {
        Ok(store) => store,
        Err(error) => {
            complain(&format!("{} (target: untouched)", with_causes(&error)));
            return Exit::Failed;
        }
    };
    match spawn::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            tracer::attach(line, target, args, store);
            Exit::Done
        }
        Ok(Side::Front(line, tracer)) => {
            drop(target);
            let follow = args.session.record.follow;
            let shared = store.as_ref().and_then(|store| store.share().ok());
            let follower = follow.map(|_| Follower::new(shared));
            match front::follow(line, tracer, Mode::Attach, follower) {
                Some(mut report) => {
                    if report.summary.is_none() {
                        summarize(&mut report, store.as_ref());
                    }
                    report.expense = report.expense.and(Expense::own());
                    show(&report, args.session.json)
                }
                None => abandoned(pid),
            }
        }
        Err(error) => {
            complain(&format!("the tracing process could not be started: {error}"));
            Exit::Failed
        }
    }
}

/// Where to write the session to.
fn store(target: &Target, args: &AttachArgs) -> Result<Option<Store>, RecordingError> {
    if let Some(path) = &args.session.record.output {
        return Ok(Some(Store { path: Some(path.clone()), file: recording::create(path)? }));
    }
    if args.session.records_by_default() {
        let name = target.process.status().map(|status| status.name).unwrap_or_default();
        match recording::create_for(&name, target.process.pid()) {
            Ok((path, file)) => return Ok(Some(Store { path: Some(path), file })),
            // Nobody has asked for it.
            Err(error) => complain(&format!("no recording: {}", with_causes(&error))),
        }
    }
    Ok(Store::anonymous().ok())
}

/// Prints a report where it belongs and answers the exit status it asks for.
fn show(report: &Report, json: bool) -> Exit {
    if let Some(error) = &report.error {
        complain(&format!("{error} (target: {})", report.target));
    }
    let exit = match report.status {
        0 => Exit::Done,
        3 => Exit::Refused,
        4 => Exit::Unsupported,
        5 => Exit::TargetDied,
        7 => Exit::Left,
        130 => Exit::Interrupted,
        _ => Exit::Failed,
    };
    if json {
        print(&serde_json::to_string_pretty(report).unwrap_or_default(), exit)
    } else if report.outcome != "refused" || report.target == "altered" {
        let page = Page::for_stream(Colour::Auto, &std::io::stdout());
        print(text::report(report, page).trim_end(), exit)
    } else {
        exit
    }
}

fn refuse(pid: i32, args: &AttachArgs, refusal: &preflight::Refusal) -> Exit {
    let exit = if refusal.unsupported { Exit::Unsupported } else { Exit::Refused };
    complain(&format!("{refusal} (target: untouched)"));
    if args.session.json {
        let mut report = Report::new(pid, String::new());
        report.outcome = "refused".to_owned();
        report.error = Some(refusal.to_string());
        report.status = exit.code();
        return print(&serde_json::to_string_pretty(&report).unwrap_or_default(), exit);
    }
    exit
}

/// The tracing process was killed.
fn abandoned(pid: i32) -> Exit {
    complain(&format!(
        "the tracing process died; the target runs on, perhaps with hooks that pass everything \
         through; clean up with `heapattach detach -p {pid}`"
    ));
    Exit::Left
}
