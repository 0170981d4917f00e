//! `heapattach heap`.

use std::{fs, io::Read, os::unix::net::UnixStream};

use heapattach_files::artifact::{self, Readers};
use heapattach_injector::attach;
use heapattach_report::{CensusReport, Status};
use heapattach_session::{
    client::front::{self, Mode},
    fork::{self, Side},
    heap,
};
use heapattach_view::Page;

use crate::{
    args::{HeapArgs, json},
    exit_status::Exit,
    output::{complain, print},
};

/// Longer results are none.
const LONGEST: u64 = 256 << 20;

/// Tells what all memory of a process is.
pub fn heap(args: &HeapArgs) -> Exit {
    if let Some(core) = &args.core {
        if let Some(what) = args.not_of_a_core() {
            complain(&format!("{what} is not told of a core file yet: need a process, `-p PID`"));
            return Exit::Usage;
        }
        return tell(&heap::of_core(core, args.exe.as_deref(), &args.options()), args);
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
            return tell(&report.failed(status, format!("{refusal} (target: untouched)")), args);
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
            let report = follow(line).unwrap_or_else(|| {
                let why = format!(
                    "the tracing process died; the target runs on; clean up with `heapattach detach -p {pid}`"
                );
                CensusReport::new(pid, command).failed(Status::Left, why)
            });
            let _ = nix::sys::wait::waitpid(tracer, None);
            match is_interrupted() {
                true => Exit::Interrupted,
                false => tell(&report, args),
            }
        }
        Err(error) => {
            let why =
                format!("the tracing process could not be started: {error} (target: untouched)");
            tell(&CensusReport::new(pid, command).failed(Status::Failed, why), args)
        }
    }
}

/// The result of the tracing process; `None` if it died.
fn follow(line: UnixStream) -> Option<CensusReport> {
    let mut text = Vec::new();
    line.take(LONGEST).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Whether a signal that ends a command came meanwhile.
fn is_interrupted() -> bool {
    use nix::sys::signal::Signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let pending = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(0)
    };
    let pending = pending("SigPnd:") | pending("ShdPnd:");
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
        .iter()
        .any(|&signal| pending & 1_u64.wrapping_shl(signal as u32 - 1) != 0)
}

fn tell(report: &CensusReport, args: &HeapArgs) -> Exit {
    let exit = Exit::from(report.status);
    if let Some(error) = &report.error {
        complain(error);
    }
    let text = || serde_json::to_string_pretty(report).unwrap_or_default();
    if json::is_instead(args.json.as_ref()) {
        return print(&text(), exit);
    }
    if let Some(path) = json::file(args.json.as_ref())
        && let Err(error) = artifact::write(path, text() + "\n", Readers::Owner)
    {
        complain(&error);
        return if exit == Exit::Done { Exit::Failed } else { exit };
    }
    if report.error.is_some() {
        return exit;
    }
    if let Some(path) = &args.output {
        let holders = report.go.as_ref().map_or(&[][..], |go| &go.holders);
        let written = match holders {
            [] => Err("no objects of a Go program: nothing was written".to_owned()),
            holders => heapattach_export::write_go_holders(holders)
                .map_err(|error| error.to_string())
                .and_then(|profile| artifact::write(path, profile, Readers::Owner)),
        };
        if let Err(error) = written {
            complain(&error);
            return if exit == Exit::Done { Exit::Failed } else { exit };
        }
    }
    let page = Page::for_stream(args.color, &std::io::stdout());
    print(args.view().tell(report, page).trim_end(), exit)
}
