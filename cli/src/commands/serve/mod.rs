//! `heapattach serve`: a session for each process, in a process of its own, and a server that reads what they
//! write down; with `--push` a sender besides.

mod door;
mod push;

use std::{os::fd::AsFd, path::Path, sync::Arc, thread::Builder};

use heapattach_recording::Recording;
use heapattach_serve::{Listener, Options, Server, Stop, Target};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};

use crate::{
    args::ServeArgs,
    choose_process::Several,
    exit_status::Exit,
    output::complain,
    sessions::{Options as SessionOptions, Session, Sessions},
};

pub use door::{check_token, of as door};

/// Serves until it is told to end, or nothing is left to serve.
pub fn serve(args: &ServeArgs) -> Exit {
    match begin(args) {
        Ok(exit) => exit,
        Err((exit, why)) => {
            complain(&why);
            exit
        }
    }
}

/// Why it cannot be begun.
pub type Failed = (Exit, String);

fn begin(args: &ServeArgs) -> Result<Exit, Failed> {
    let door = door(&args.listen, args.token_file.as_deref(), &args.allow_host);
    let door = door.map_err(|why| (Exit::Usage, why))?;
    let destinations = push::destinations(&args.push).map_err(|why| (Exit::Usage, why))?;
    let (pids, files) = wanted(args)?;
    let failed = |why: String| (Exit::Failed, format!("{why} (targets: untouched)"));
    let listener = Listener::bind(&args.listen).map_err(failed)?;
    let (held, signals) = hold_signals().map_err(|error| failed(format!("signals: {error}")))?;
    let options = SessionOptions {
        of: "serve",
        every: args.every,
        max_size: args.max_size,
        output: args.output.clone(),
        has_log: false,
        redacts: !args.show_args,
    };
    let mut sessions = Sessions::begin(&pids, options).map_err(failed)?;
    let target = |one: &Session| {
        Arc::new(Target::new(one.pid, one.name.clone(), one.path.clone(), args.show_args))
    };
    let mut targets: Vec<_> = sessions.all().map(target).collect();
    for file in files {
        targets.push(Arc::new(recording(&file, args.show_args)?));
    }
    let stop = Stop::default();
    let pusher = push::start(&args.push, destinations, &targets);
    let pusher = pusher.map_err(|why| (Exit::Failed, why))?;
    let figures = pusher.as_ref().map(push::figures);
    let options = Options { targets: targets.into(), show_args: args.show_args, door, figures };
    let server = Server::new(options, stop.clone());
    complain(&format!("{}; Ctrl-C ends", told(&listener.url(), &sessions, &pids)));
    let serving = server.clone();
    let serving = Builder::new().name("server".to_owned()).spawn(move || serving.run(&listener));
    let serving =
        serving.map_err(|error| (Exit::Failed, format!("no thread to serve: {error}")))?;
    let was_told = wait(&signals, &mut sessions);
    let mut sent = None;
    let exit = sessions.end_with(|| {
        server.close();
        sent = pusher.map(heapattach_push::Pusher::last);
    });
    stop.set();
    let _ = serving.join();
    if let Some(sent) = sent {
        // The processes are as they were: a second signal ends us at once.
        let _ = held.thread_unblock();
        push::end(&sent);
    }
    Ok(if was_told { exit.unwrap_or(Exit::Done) } else { exit.unwrap_or(Exit::TargetDied) })
}

fn told(url: &str, sessions: &Sessions, pids: &[i32]) -> String {
    let what = match pids {
        [] => "recordings".to_owned(),
        [pid] => format!("process {pid}"),
        pids => format!("{} processes", pids.len()),
    };
    let kept = sessions.kept().map(|folder| format!("; recordings in {}", folder.display()));
    format!("serving {what} on {url}{}", kept.unwrap_or_default())
}

/// Which processes, and which files.
fn wanted(args: &ServeArgs) -> Result<(Vec<i32>, Vec<String>), Failed> {
    let several = Several::of(&args.pid, &args.what)?;
    if let Some(address) = several.addresses.first() {
        let why = format!("`{address}` is a server already; heapattach top shows what it serves");
        return Err((Exit::Usage, why));
    }
    if several.is_empty() {
        let why = "give processes (heapattach serve -p PID, or NAME), or a recording that is being written";
        return Err((Exit::Usage, why.to_owned()));
    }
    Ok((several.pids, several.files))
}

/// A session that another command writes down.
///
/// # Errors
/// If it is none.
pub fn recording(file: &str, shows_args: bool) -> Result<Target, Failed> {
    let path = Path::new(file);
    let open = Recording::open(path);
    let recording = open.map_err(|error| (Exit::Failed, format!("{file}: {error}")))?;
    let about = recording.ledger(None).about;
    let name = about.command.split(' ').next().unwrap_or_default();
    let name = Path::new(name).file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(Target::new(about.pid, name.unwrap_or_default(), path.to_owned(), shows_args))
}

/// What ends us is heard by [`wait`].
///
/// # Errors
/// Those of the system.
pub fn hold_signals() -> nix::Result<(SigSet, SignalFd)> {
    let mut signals = SigSet::empty();
    let all = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    all.into_iter().for_each(|one| signals.add(one));
    signals.thread_block()?;
    let fd = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    Ok((signals, fd))
}

/// Waits for the end; whether that was told, or is so by itself: that can be only when a session has ended.
pub fn wait(signals: &SignalFd, sessions: &mut Sessions) -> bool {
    loop {
        // What came before the first look is no news.
        if sessions.are_over() {
            return false;
        }
        let own = PollFd::new(signals.as_fd(), PollFlags::POLLIN);
        let ends = sessions.news().map(|news| PollFd::new(news, PollFlags::POLLIN));
        let mut fds: Vec<_> = [Some(own), ends].into_iter().flatten().collect();
        let _ = poll(&mut fds, PollTimeout::NONE);
        if let Ok(Some(_)) = signals.read_signal() {
            return true;
        }
    }
}

/// Waits until it is told to end.
pub fn wait_to_be_told(signals: &SignalFd) {
    while !matches!(signals.read_signal(), Ok(Some(_))) {
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::NONE);
    }
}
