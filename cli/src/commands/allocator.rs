//! `heapattach allocator`.

use std::{
    io::{BufRead, BufReader, Read},
    net::Shutdown,
    time::{Duration, Instant},
};

use heapattach_files::output_file::{self, Readers};
use heapattach_injector::attach;
use heapattach_recording::{RecordingError, Store};
use heapattach_report::{AppliedReport, CountersReport, Status};
use heapattach_session::{
    allocator::{self, Look, background, decay, profiler, purge, trim},
    client::front::{self, Mode},
    fork::{self, Side},
    own_profile,
};
use heapattach_text::error_chain::with_causes;
use heapattach_view::{Page, session};

use crate::{
    args::{AllocatorArgs, RemedyArg, json},
    exit_status::Exit,
    output::{complain, print},
    payload,
};

/// Longer results are none.
const LONGEST: u64 = 1 << 20;

/// Tells what the allocators of a process count.
pub fn allocator(args: &AllocatorArgs) -> Exit {
    if let Some(wrong) = misused(args) {
        complain(wrong);
        return Exit::Usage;
    }
    let pid = match args.which.pid() {
        Ok(Some(pid)) => pid,
        Ok(None) => {
            complain(
                "a look at an allocator needs a process: heapattach allocator -p PID, or a name",
            );
            return Exit::Usage;
        }
        Err(unclear) => {
            complain(&unclear.message);
            return unclear.exit;
        }
    };
    let mut look = match Look::open(pid) {
        Ok(look) => look,
        Err(errno) => {
            // What is needed and what to type is the same as for an attach.
            let (status, why) = match attach::open(pid, false) {
                Err(refusal) if refusal.unsupported => (Status::Unsupported, refusal.to_string()),
                Err(refusal) => (Status::Refused, refusal.to_string()),
                Ok(_) => (Status::Refused, format!("its memory cannot be read: {}", errno.desc())),
            };
            let report = CountersReport::new(pid, String::new());
            return tell(&report.failed(status, format!("{why} (target: untouched)")), args);
        }
    };
    if let Some(path) = &args.profile {
        return match heapattach_recording::create_named(path, false) {
            Ok(file) => {
                let store = Store { path: Some(path.to_owned()), file };
                match args.duration {
                    None => profile(&look, store, args, None),
                    Some(time) => active_profile(&look, store, args, time),
                }
            }
            // It has no --force.
            Err(RecordingError::Exists(path)) => {
                complain(&format!("{} is there already; give another name", path.display()));
                Exit::Failed
            }
            Err(error) => {
                complain(&with_causes(&error));
                Exit::Failed
            }
        };
    }
    let mut report = look.take();
    if let Some(remedy) = args.apply.filter(|_| report.error.is_none()) {
        let applied = apply(pid, remedy, args);
        report.status = applied.status;
        report.applied = Some(applied);
    }
    let mut exit = tell(&report, args);
    let Some(every) = args.every else { return exit };
    let mut left = args.count.map(|count| count - 1);
    while exit == Exit::Done && left != Some(0) {
        if !look.wait(every) {
            complain(&format!("process {pid} has ended"));
            return Exit::TargetDied;
        }
        exit = tell(&look.take(), args);
        left = left.map(|left| left - 1);
    }
    exit
}

/// What options do not go together.
fn misused(args: &AllocatorArgs) -> Option<&'static str> {
    let is_active = args.apply == Some(RemedyArg::Profiler);
    match (args.profile.is_some(), args.duration.is_some(), is_active) {
        (_, false, true) => Some(
            "prof_active=true is for the time of a session: need --profile FILE and --duration TIME",
        ),
        (_, true, false) => {
            Some("--duration is how long --apply prof_active=true lasts: need that, too")
        }
        (true, _, false) if args.apply.is_some() => {
            Some("with --profile only --apply prof_active=true can be applied")
        }
        _ => None,
    }
}

/// The same, where its profiler samples for the time of the session only.
fn active_profile(look: &Look, store: Store, args: &AllocatorArgs, time: Duration) -> Exit {
    let pid = look.process().pid();
    let path = store.path.clone();
    let refused = |why: String| {
        complain(&why);
        // Nothing was recorded.
        let _ = path.as_ref().map(std::fs::remove_file);
        Exit::Refused
    };
    // Before anything is changed.
    if let Err(why) = own_profile::can_be_taken(look) {
        return refused(format!("{why} (target: untouched)"));
    }
    let target = match attach::open(pid, false) {
        Ok(target) => target,
        Err(refusal) => return refused(format!("{refusal} (target: untouched)")),
    };
    let (line, tracer) = match fork::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            profiler::session(line, &target, payload::image(), args.max_pause);
            std::process::exit(0)
        }
        Ok(Side::Front(line, tracer)) => (line, tracer),
        Err(error) => {
            return refused(format!(
                "the tracing process could not be started: {error} (target: untouched)"
            ));
        }
    };
    drop(target);
    front::hold_signals(Mode::Attach);
    let mut lines = BufReader::new(&line).lines();
    let mut heard = || {
        let applied = lines.next().and_then(Result::ok);
        let applied =
            applied.and_then(|text| serde_json::from_slice::<AppliedReport>(text.as_bytes()).ok());
        applied.unwrap_or_else(|| {
            let why = format!(
                "the tracing process died; the target runs on; clean up with `heapattach detach -p {pid}`"
            );
            AppliedReport::default().failed(Status::Left, why)
        })
    };
    let on = heard();
    if let Some(error) = &on.error {
        let _ = refused(format!("{}: {error}", profiler::NAME));
        let _ = nix::sys::wait::waitpid(tracer, None);
        return Exit::from(on.status);
    }
    let was = on.setting_before.unwrap_or_default();
    complain(&format!("{was} until now, {} from now on; Ctrl-C ends", profiler::NAME));
    let began = Instant::now();
    front::wait(time, || look.process().is_alive());
    let was_off = was != profiler::NAME;
    let exit = profile(look, store, args, was_off.then(|| began.elapsed()));
    let _ = line.shutdown(Shutdown::Write);
    let off = heard();
    let _ = nix::sys::wait::waitpid(tracer, None);
    match off.error {
        Some(error) => {
            complain(&error);
            Exit::from(off.status)
        }
        None => {
            complain(&format!("{was} again"));
            exit
        }
    }
}

/// Writes what the allocator's own profiler holds; of so long, if it was on for so long only.
fn profile(look: &Look, store: Store, args: &AllocatorArgs, span: Option<Duration>) -> Exit {
    let report = own_profile::take(look, Some(store), span);
    let mut exit = Exit::from(report.status);
    if let Some(error) = &report.error {
        complain(&format!("{error} (target: {})", report.target));
    }
    let json = || serde_json::to_string_pretty(&report).unwrap_or_default();
    if let Some(path) = json::file(args.json.as_ref())
        && let Err(error) = output_file::write(path, json() + "\n", Readers::Owner)
    {
        complain(&error);
        exit = if exit == Exit::Done { Exit::Failed } else { exit };
    }
    match (json::is_instead(args.json.as_ref()), report.error.is_some()) {
        (true, _) => print(&json(), exit),
        (false, true) => exit,
        (false, false) => {
            let page = Page::for_stream(args.color, &std::io::stdout());
            print(session::report(&report, page).trim_end(), exit)
        }
    }
}

/// What the tracing process did.
fn apply(pid: i32, remedy: RemedyArg, args: &AllocatorArgs) -> AppliedReport {
    let name = match remedy {
        RemedyArg::Purge => "purge".to_owned(),
        RemedyArg::Call(remedy) => remedy.words(),
        RemedyArg::Decay(decay) => decay.words(),
        RemedyArg::Background(wanted) => wanted.words(),
        RemedyArg::Profiler => profiler::NAME.to_owned(),
    };
    let failed = |status, why: String| {
        AppliedReport { remedy: name.clone(), ..AppliedReport::default() }.failed(status, why)
    };
    let target = match attach::open(pid, false) {
        Ok(target) => target,
        Err(refusal) => {
            let status = if refusal.unsupported { Status::Unsupported } else { Status::Refused };
            return failed(status, format!("{refusal} (target: untouched)"));
        }
    };
    match fork::fork_tracer() {
        Ok(Side::Tracer(line)) => {
            let most = args.max_pause;
            allocator::tell(line, || match remedy {
                RemedyArg::Purge => purge::apply(&target, most),
                RemedyArg::Call(remedy) => trim::apply(&target, payload::image(), remedy, most),
                RemedyArg::Decay(decay) => decay::apply(&target, payload::image(), decay, most),
                RemedyArg::Background(wanted) => {
                    background::apply(&target, payload::image(), wanted, most)
                }
                // Only with --profile.
                RemedyArg::Profiler => AppliedReport::default(),
            });
            std::process::exit(0)
        }
        Ok(Side::Front(line, tracer)) => {
            drop(target);
            front::hold_signals(Mode::Attach);
            let mut text = Vec::new();
            let read = line.take(LONGEST).read_to_end(&mut text).ok();
            let applied = read.and_then(|_| serde_json::from_slice(&text).ok());
            let _ = nix::sys::wait::waitpid(tracer, None);
            applied.unwrap_or_else(|| {
                let why = format!(
                    "the tracing process died; the target runs on; clean up with `heapattach detach -p {pid}`"
                );
                failed(Status::Left, why)
            })
        }
        Err(error) => {
            let why =
                format!("the tracing process could not be started: {error} (target: untouched)");
            failed(Status::Failed, why)
        }
    }
}

fn tell(report: &CountersReport, args: &AllocatorArgs) -> Exit {
    let exit = Exit::from(report.status);
    let applied = report.applied.as_ref().and_then(|applied| applied.error.as_ref());
    report.error.iter().chain(applied).for_each(|error| complain(error));
    // One line a look, where there are several.
    let text = || match args.every {
        None => serde_json::to_string_pretty(report).unwrap_or_default(),
        Some(_) => serde_json::to_string(report).unwrap_or_default(),
    };
    if json::is_instead(args.json.as_ref()) {
        return print(&text(), exit);
    }
    if let Some(path) = json::file(args.json.as_ref())
        && let Err(error) = output_file::write(path, text() + "\n", Readers::Owner)
    {
        complain(&error);
        return if exit == Exit::Done { Exit::Failed } else { exit };
    }
    if report.allocators.is_empty() {
        return exit;
    }
    let page = Page::for_stream(args.color, &std::io::stdout());
    print(args.view.tell(report, page).trim_end(), exit)
}
