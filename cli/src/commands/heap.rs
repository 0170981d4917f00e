//! `heapattach heap`.

use std::sync::Arc;

use heapattach_files::output_file;
use heapattach_injector::attach;
use heapattach_report::{CensusReport, Status};
use heapattach_session::{
    client::{
        front::{self, Mode},
        talk::Talk as _,
    },
    fork::{self, Side},
    heap,
};
use heapattach_view::{HeapView, Page};

use crate::{
    args::HeapArgs,
    exit_status::Exit,
    moment::{Show, is_interrupted, open},
    output::complain,
    terminal::{Terminal, Verbosity, progress},
};

/// Tells what all memory of a process is.
pub fn heap(args: &HeapArgs) -> Exit {
    if let Some(what) = args.not_in_a_file().or_else(|| args.not_in_view()) {
        complain(&what);
        return Exit::Usage;
    }
    if let Some(Err(error)) = args.output.as_deref().map(output_file::look_at) {
        complain(&error);
        return Exit::Failed;
    }
    if let Some(file) = args.moment_file() {
        if let Some(option) = args.not_of_a_moment() {
            complain(&format!(
                "{option} looks at blocks, which a file of a moment does not have; need a process, `-p PID`"
            ));
            return Exit::Usage;
        }
        return open(file)
            .map_or_else(|exit| exit, |moment| show(args).tell_file(moment.census, file));
    }
    if let Some(core) = &args.core {
        let read = Arc::default();
        let bar = progress::of_counting("looking through the core", &read);
        let report = heap::of_core(core, args.exe.as_deref(), &args.options(), &read);
        bar.finish_and_clear();
        return show(args).tell(report);
    }
    if args.view() == HeapView::Cold && args.cold.is_none() {
        complain(
            "--view cold needs to know for how long it is watched what is written: --cold TIME",
        );
        return Exit::Usage;
    }
    let pid = match args.which.pid() {
        Ok(Some(pid)) => pid,
        Ok(None) => {
            complain(
                "a look at a heap needs a process: heapattach heap -p PID, a name, or --core FILE",
            );
            return Exit::Usage;
        }
        Err(unclear) => {
            complain(&unclear.message);
            return unclear.exit;
        }
    };
    let target = match attach::open(pid, args.force) {
        Ok(target) => target,
        Err(refusal) => {
            let status = if refusal.unsupported { Status::Unsupported } else { Status::Refused };
            let report = CensusReport::new(pid, String::new());
            return show(args)
                .tell(report.failed(status, format!("{refusal} (target: untouched)")));
        }
    };
    let command = target.process.command();
    match fork::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            heap::attach(line, &target, &args.options());
            Exit::Done
        }
        Ok(Side::Front(line, tracer)) => {
            drop(target);
            // What was begun is undone by the other process; then this one ends as it was told to.
            front::hold_signals(Mode::Attach);
            let mut terminal = Terminal::new(Verbosity::Usual, None, None);
            terminal.begin();
            let report = heap::follow(line, |how| terminal.go_on(how), is_interrupted);
            terminal.end();
            let report = report.unwrap_or_else(|| {
                let why = format!(
                    "the tracing process died; the target runs on; clean up with `heapattach detach -p {pid}`"
                );
                CensusReport::new(pid, command).failed(Status::Left, why)
            });
            let _ = nix::sys::wait::waitpid(tracer, None);
            match is_interrupted() {
                true => Exit::Interrupted,
                false => show(args).tell(report),
            }
        }
        Err(error) => {
            let why =
                format!("the tracing process could not be started: {error} (target: untouched)");
            show(args).tell(CensusReport::new(pid, command).failed(Status::Failed, why))
        }
    }
}

/// What is shown and written.
fn show(args: &HeapArgs) -> Show {
    Show {
        view: args.view(),
        json: args.json.clone(),
        output: args.output.clone().zip(args.form()),
        redact: args.redact,
        text_to: None,
        page: Page::for_stream(args.color, &std::io::stdout()),
    }
}
