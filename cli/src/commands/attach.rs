//! `heapattach -p PID`.

use std::os::unix::net::UnixStream;

use heapattach_injector::{
    attach::{self, Refusal},
    target::Target,
};

use crate::{
    args::{AttachArgs, FileFormat, LoaderArg, json},
    exit_status::Exit,
    moment::{Around, CensusOfSession, Watched},
    next_command,
    output::{complain, print},
    payload, tables,
    terminal::{Follower, Terminal},
};
use heapattach_files::output_file::{self, Readers};
use heapattach_recording::{RecordingError, Store};
use heapattach_report::{Outcome, Report, Status, TargetState};
use heapattach_session::{
    client::{
        claim::Claim,
        front::{self, Mode},
        talk::Talk,
    },
    fork::{self, Side},
    heap::both_ends::{self, BothEnds},
    own_cost::own_cost,
    recorded::RecordedBlocks,
    tracer,
    watch::{self, Files, StackList},
};
use heapattach_text::error_chain::with_causes;
use heapattach_view::{Colour, Page};
use serde::Serialize;

/// Attaches, counts, detaches, reports.
pub fn attach(pid: i32, args: &AttachArgs) -> Exit {
    if args.session.follow_forks && args.loader == LoaderArg::Dlopen {
        // Processes of a family are stopped at their births, where nothing can be loaded yet.
        complain("--loader dlopen cannot follow forks; use --loader map, which is the default");
        return Exit::Usage;
    }
    if let Some(why) = args.session.misuse() {
        complain(&why);
        return Exit::Usage;
    }
    let target = match attach::open(pid, args.force) {
        Ok(target) => target,
        Err(refusal) => return refuse(pid, args, &refusal),
    };
    front::hold_signals(Mode::Attach);
    // Between the process that records and the one that takes the moments.
    let blocks = args.census.then(RecordedBlocks::new).transpose();
    let blocks = match blocks {
        Ok(blocks) => blocks,
        Err(error) => {
            complain(&format!("there is no room for blocks: {error} (target: untouched)"));
            return Exit::Failed;
        }
    };
    // Nothing is forked once there are threads: this process waits for the end of the session.
    let taker = match args.census.then(fork::fork_tracer) {
        None => None,
        Some(Ok(Side::Tracer(line))) => {
            both_ends::serve(line, &target, &args.heap_options(blocks));
            return Exit::Done;
        }
        Some(Ok(Side::Front(line, process))) => Some(BothEnds::new(line, process)),
        Some(Err(error)) => {
            complain(&format!("the process for the census could not be started: {error}"));
            return Exit::Failed;
        }
    };
    let files = match look_at_files(args).and_then(|()| open(&target, args)) {
        Ok(files) => Files { blocks, ..files },
        Err(error) => {
            complain(&format!("{error} (target: untouched)"));
            return Exit::Failed;
        }
    };
    let around = match taker.map(|taker| Around::begin(taker, args.session.record.redact)) {
        None => None,
        Some(Ok(around)) => Some(around),
        Some(Err((status, why))) => {
            let path = files.store.as_ref().and_then(|store| store.path.as_ref());
            let _ = path.map(std::fs::remove_file);
            complain(&format!("no session, since no census: {why}"));
            return Exit::from(status);
        }
    };
    let claim = Claim::new().ok();
    match fork::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            if let Some(claim) = claim {
                target.permit.ask_first(claim.question(line.try_clone().ok()));
            }
            let options = args.watch_options();
            tracer::attach(line, target, &options, files, payload::image_for(options.flow));
            Exit::Done
        }
        Ok(Side::Front(line, tracer)) => {
            drop(target);
            let Files { store, stacks, .. } = files;
            let follow = args.session.record.follow;
            let shared = store.as_ref().and_then(|store| store.share().ok());
            let session = &args.session;
            let full_names = session.hooks.full_names;
            let written = store.as_ref().filter(|_| around.is_some());
            let written = written.and_then(|store| store.share().ok());
            let follower = follow.map(|_| Follower::new(shared, full_names));
            let mut terminal = Terminal::new(session.verbosity(), follower, session.duration)
                .with(session.triggers.on_growth());
            match front::follow(line, tracer, Mode::Attach, &mut terminal, claim) {
                Some(report) if report.is_untouched_by_wish() => {
                    // Nothing was recorded.
                    let path = store.as_ref().and_then(|store| store.path.as_ref());
                    let _ = path.map(std::fs::remove_file);
                    show(&Report { pid, ..report }, args, (None, None))
                }
                Some(mut report) => {
                    report.expense = report.expense.and(own_cost());
                    let path = report.recording.as_ref().map(|recording| &*recording.path);
                    // Who ended the session early waits for nothing.
                    let goes_on = report.status != Status::Interrupted;
                    let watched = args.cold.filter(|_| goes_on).map(|_| Watched);
                    let recorded = written.as_ref().and_then(Store::read);
                    let census = around.map(|around| around.end(watched, path, recorded));
                    let tables = write_tables(&mut report, args);
                    let exit = show(&report, args, (stacks.as_ref(), census.as_ref()));
                    let exit = if exit == Exit::Done { tables } else { exit };
                    terminal.finish(&report);
                    exit
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

/// The same in this very process, which was forked for it, and is asked over the line for what a command would be by
/// signals. Such a session has neither a census nor a list of stacks.
pub fn attach_within(
    pid: i32,
    args: &AttachArgs,
    line: UnixStream,
    claim: Option<Claim>,
    talk: &'static mut (impl Talk + Send),
) -> Exit {
    let target = match attach::open(pid, args.force) {
        Ok(target) => target,
        Err(refusal) => return refuse(pid, args, &refusal),
    };
    let files = match look_at_files(args).and_then(|()| open(&target, args)) {
        Ok(files) => files,
        Err(error) => {
            complain(&format!("{error} (target: untouched)"));
            return Exit::Failed;
        }
    };
    if let Some(claim) = claim {
        target.permit.ask_first(claim.question(line.try_clone().ok()));
    }
    let options = args.watch_options();
    let image = payload::image_for(options.flow);
    let tell = Box::new(front::teller(talk));
    let report = tracer::attach_within(line, tell, target, &options, files, image);
    show(&report, args, (None, None))
}

/// Why a file that was named can never be written: better known before the target is stopped.
fn look_at_files(args: &AttachArgs) -> Result<(), String> {
    args.session.record.look_at_tables()?;
    let named = [json::file(args.session.json.as_ref()), args.session.stacks.as_deref()];
    named.into_iter().flatten().try_for_each(output_file::look_at)
}

fn open(target: &Target, args: &AttachArgs) -> Result<Files, String> {
    let store = store(target, args).map_err(|error| with_causes(&error))?;
    Files::new(store, args.session.stacks.as_deref())
}

/// Where to write the session to.
fn store(target: &Target, args: &AttachArgs) -> Result<Option<Store>, RecordingError> {
    if let Some(path) = args.session.record.recording() {
        let file = heapattach_recording::create_named(&path, args.force)?;
        return Ok(Some(Store { path: Some(path), file }));
    }
    if args.session.records_by_default() {
        let (prefix, pid) = (args.session.record.output_prefix.as_deref(), target.process.pid());
        let name = target.process.status().map(|status| status.name).unwrap_or_default();
        let created = match prefix {
            Some(prefix) => heapattach_recording::create_prefixed(prefix, pid),
            None => heapattach_recording::create_for(&name, pid),
        };
        match created {
            Err(error) if prefix.is_some() => return Err(error),
            Ok((path, file)) => return Ok(Some(Store { path: Some(path), file })),
            // The user has not asked for this file: the session goes on without it.
            Err(error) => complain(&format!("no recording: {}", with_causes(&error))),
        }
    }
    Ok(Store::anonymous().ok())
}

/// Prints a report where it belongs and answers the exit status it asks for.
fn show(
    report: &Report,
    args: &AttachArgs,
    (stacks, census): (Option<&StackList>, Option<&CensusOfSession>),
) -> Exit {
    front::let_signals_end_us();
    if let Some(error) = &report.error {
        complain(&format!("{error} (target: {})", report.target));
    }
    let exit = Exit::from(report.status);
    let exit = match write_files(report, args, (stacks, census)) {
        Err(error) => {
            complain(&error);
            if exit == Exit::Done { Exit::Failed } else { exit }
        }
        Ok(()) => exit,
    };
    let is_told = match report.outcome {
        Outcome::Refused | Outcome::Interrupted => report.target == TargetState::Altered,
        Outcome::Detached
        | Outcome::Exited
        | Outcome::Execed
        | Outcome::Failed
        | Outcome::Aside
        | Outcome::Skipped
        | Outcome::Shared => true,
    };
    if json::is_instead(args.session.json.as_ref()) {
        print(&json_of(report, census), exit)
    } else if is_told {
        let page = Page::for_stream(Colour::Auto, &std::io::stdout());
        let mut text = args.session.tell(report, page.clone());
        text.extend(census.map(|census| census.tell(page)));
        print(text.trim_end(), exit)
    } else {
        exit
    }
}

/// Tables in the place of the recording, if they are requested.
fn write_tables(report: &mut Report, args: &AttachArgs) -> Exit {
    let (session, folder) = (&args.session, args.session.record.tables());
    match tables::of_session(report, &session.record.tables, folder) {
        Ok(is_written) => {
            let told = folder.filter(|_| is_written && !session.quiet);
            let told = told.map(|folder| next_command::written(folder, FileFormat::Parquet));
            told.iter().for_each(|told| complain(told));
            Exit::Done
        }
        Err(why) => {
            complain(&why);
            Exit::Failed
        }
    }
}

/// The files that were named, except for the recording.
fn write_files(
    report: &Report,
    args: &AttachArgs,
    (stacks, census): (Option<&StackList>, Option<&CensusOfSession>),
) -> Result<(), String> {
    watch::deliver(stacks, args.session.stacks.as_deref())?;
    let Some(path) = json::file(args.session.json.as_ref()) else { return Ok(()) };
    let text = json_of(report, census) + "\n";
    output_file::write(path, text, Readers::Owner)
}

/// The report for programs, with the census if there is one.
fn json_of(report: &Report, census: Option<&CensusOfSession>) -> String {
    #[derive(Serialize)]
    struct Both<'a> {
        #[serde(flatten)]
        report: &'a Report,
        #[serde(skip_serializing_if = "Option::is_none")]
        census: Option<&'a CensusOfSession>,
    }
    serde_json::to_string_pretty(&Both { report, census }).unwrap_or_default()
}

fn refuse(pid: i32, args: &AttachArgs, refusal: &Refusal) -> Exit {
    let status = if refusal.unsupported { Status::Unsupported } else { Status::Refused };
    let exit = Exit::from(status);
    complain(&format!("{refusal} (target: untouched)"));
    let json = args.session.json.as_ref();
    if json.is_none() {
        return exit;
    }
    let mut report = Report::new(pid, String::new());
    report.outcome = Outcome::Refused;
    report.error = Some(refusal.to_string());
    report.status = status;
    if let Err(error) = write_files(&report, args, (None, None)) {
        complain(&error);
    }
    if json::is_instead(json) {
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
