//! `heapattach run -- COMMAND`.

use std::{io::Write, path::Path, time::Duration};

use crate::{
    args::{FileFormat, RunArgs, json},
    exit_status::Exit,
    next_command,
    output::complain,
    payload, tables,
    terminal::{Follower, Terminal, Verbosity},
};
use heapattach_files::output_file::{self, Readers};
use heapattach_recording::{RecordingError, Store};
use heapattach_report::{Report, Status};
use heapattach_session::{
    client::front::{self, Mode},
    fork::{self, Side},
    own_cost::own_cost,
    tracer,
    watch::{self, Files, StackList},
};
use heapattach_text::error_chain::with_causes;
use heapattach_view::{Colour, Page};

/// Starts the program, counts, and ends as it ends.
pub fn run(args: &RunArgs) -> Exit {
    let args = &RunArgs { session: args.session.clone().of_own_program(), ..args.clone() };
    if args.session.duration == Some(Duration::ZERO) {
        complain("--duration 0 is of a process that runs: need `-p PID`, or at least 1ms");
        return Exit::Usage;
    }
    if let Some(why) = args.session.misuse() {
        complain(&why);
        return Exit::Usage;
    }
    let files = match look_at_files(args).and_then(|()| open(args)) {
        Ok(files) => files,
        Err(error) => {
            complain(&error);
            return Exit::RunFailed;
        }
    };
    match fork::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            let options = args.options();
            tracer::run(line, &options, files, payload::image_for(options.watch.flow));
            Exit::Done
        }
        Ok(Side::Front(line, tracer)) => {
            let Files { store, stacks, .. } = files;
            let shared = store.as_ref().and_then(|store| store.share().ok());
            let session = &args.session;
            let full_names = session.hooks.full_names;
            let follower = session.record.follow.map(|_| Follower::new(shared, full_names));
            let mut terminal = Terminal::new(args.verbosity(), follower, session.duration)
                .with(session.triggers.on_growth());
            match front::follow(line, tracer, Mode::Run, &mut terminal, None) {
                Some(mut report) => {
                    report.expense = report.expense.and(own_cost());
                    let exit = conclude(&mut report, args, stacks.as_ref());
                    terminal.finish(&report);
                    exit
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

/// Why a file that was named can never be written: better known before the program has run.
fn look_at_files(args: &RunArgs) -> Result<(), String> {
    args.session.record.look_at_tables()?;
    let named = [args.report.as_deref(), json::file(args.session.json.as_ref())];
    let named = named.into_iter().chain([args.session.stacks.as_deref()]);
    named.flatten().try_for_each(output_file::look_at)?;
    let prefix = args.session.record.output_prefix.as_deref();
    let folder = prefix.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(format!(
            "--output-prefix: there is no folder `{}`; need one that is there",
            folder.display()
        )),
        _ => Ok(()),
    }
}

fn open(args: &RunArgs) -> Result<Files, String> {
    let store = store(args).map_err(|error| with_causes(&error))?;
    Files::new(store, args.session.stacks.as_deref())
}

/// Where to write the session to, as far as that is known before there is a process.
fn store(args: &RunArgs) -> Result<Option<Store>, RecordingError> {
    match args.session.record.recording() {
        Some(path) => {
            let file = heapattach_recording::create_named(&path, args.force)?;
            Ok(Some(Store { path: Some(path), file }))
        }
        None => Ok(Store::anonymous().ok()),
    }
}

fn conclude(report: &mut Report, args: &RunArgs, stacks: Option<&StackList>) -> Exit {
    front::let_signals_end_us();
    let mut failures = Vec::new();
    let folder = args.session.record.tables();
    match tables::of_session(report, &args.session.record.tables, folder) {
        Ok(is_written) => {
            let is_told = is_written && args.verbosity() == Verbosity::Usual;
            let told = folder.filter(|_| is_told);
            let told = told.map(|folder| next_command::written(folder, FileFormat::Parquet));
            told.iter().for_each(|told| complain(told));
        }
        Err(why) => failures.push(why),
    }
    failures.extend(watch::deliver(stacks, args.session.stacks.as_deref()).err());
    failures.extend(write(report, args).err());
    if args.verbosity() != Verbosity::Silent {
        complain_of_unwatched(report);
    }
    failures.iter().for_each(|failure| complain(failure));
    if !failures.is_empty() && report.status == Status::Done {
        report.status = Status::RunFailed;
    }
    report.status.into()
}

fn complain_of_unwatched(report: &Report) {
    for other in report.not_watched() {
        let error = other.error.as_deref().unwrap_or_default();
        if std::ptr::eq(other, report) {
            complain(error);
        } else {
            let (pid, command) = (other.pid, &other.command);
            complain(&format!("process {pid} ({command}) was not watched: {error}"));
        }
    }
}

/// Writes every form that was asked for.
fn write(report: &Report, args: &RunArgs) -> Result<(), String> {
    let as_json = || serde_json::to_string_pretty(report).unwrap_or_default() + "\n";
    // A report may name paths and arguments: it is for its owner.
    let put = |path: &Path, text: String| output_file::write(path, text, Readers::Owner);
    if let Some(path) = json::file(args.session.json.as_ref()) {
        put(path, as_json())?;
    }
    let is_json = json::is_instead(args.session.json.as_ref());
    let has_something = report.error.is_none() || !report.functions.is_empty();
    let text = |page| if is_json { as_json() } else { args.session.tell(report, page) };
    match &args.report {
        Some(path) => put(path, text(Page::new(None, false))),
        // Standard output is the program's.
        None if has_something || is_json => {
            let page = Page::for_stream(Colour::Auto, &std::io::stderr());
            let _ = std::io::stderr().write_all(text(page).as_bytes());
            Ok(())
        }
        None => Ok(()),
    }
}
