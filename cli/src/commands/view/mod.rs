//! `heapattach view`: the page of a session in a browser, live. The server is that of `serve`, for this machine
//! alone and with a secret of its own.

mod browser;
mod moment;
mod secret;
mod writer;

use std::{io::IsTerminal, sync::Arc, thread::Builder};

use heapattach_serve::{Address, Beside, Door, Link, Listener, Options, Server, Stop, Target};

use super::serve::{Failed, hold_signals, recording, wait, wait_to_be_told};
use crate::{
    args::ViewArgs,
    choose_process::Several,
    exit_status::Exit,
    output::complain,
    sessions::{Options as SessionOptions, Session, Sessions},
    source_files,
};

/// Shows it until it is told to end.
pub fn view(args: &ViewArgs) -> Exit {
    match begin(args) {
        Ok(exit) => exit,
        Err((exit, why)) => {
            complain(&why);
            exit
        }
    }
}

fn begin(args: &ViewArgs) -> Result<Exit, Failed> {
    let (pids, files) = wanted(args)?;
    let failed = |why: String| (Exit::Failed, format!("{why} (targets: untouched)"));
    let beside = beside(args);
    // Before anything is begun: what cannot be shown needs no session.
    let read = |file: &String| {
        Ok(Arc::new(match moment::of(file) {
            Some(moment) => moment?,
            None => recording(file, true)?.with(beside.clone()),
        }))
    };
    let mut targets = files.iter().map(read).collect::<Result<Vec<_>, Failed>>()?;
    let listener = Listener::bind(&args.listen).map_err(failed)?;
    let url = listener.url();
    let secrets = (secret::new(), secret::new());
    let (Some((token, text)), Some((once, once_text))) = secrets else {
        return Err(failed("no random numbers from the system: no secret for the link".to_owned()));
    };
    let (_, port) = url.rsplit_once(':').unwrap_or_default();
    let link = Arc::new(Link::new(token.clone(), Some(once), port));
    let hosts = args.allow_host.clone();
    let door = Door { hosts, token: Some(token), link: Some(link), is_public: false };
    let (_held, signals) = hold_signals().map_err(|error| failed(format!("signals: {error}")))?;
    let options = SessionOptions {
        of: "view",
        every: args.every,
        max_size: args.max_size,
        output: args.output.clone(),
        has_log: false,
        redacts: false,
    };
    let mut sessions = Sessions::begin(&pids, options).map_err(failed)?;
    let target = |one: &Session| {
        let target = Target::new(one.pid, one.name.clone(), one.path.clone(), true);
        Arc::new(target.with(beside.clone()))
    };
    targets.extend(sessions.all().map(target));
    let stop = Stop::default();
    let server = Server::new(
        Options { targets: targets.into(), show_args: true, door, figures: None },
        stop.clone(),
    );
    let serving = server.clone();
    let serving = Builder::new().name("server".to_owned()).spawn(move || serving.run(&listener));
    let serving =
        serving.map_err(|error| (Exit::Failed, format!("no thread to serve: {error}")))?;
    complain(&format!("{} on {url}/?token={text}; Ctrl-C ends", told(&pids, &files)));
    if !args.no_open
        && std::io::stderr().is_terminal()
        && let Some(opener) = browser::opener()
    {
        browser::open(&opener, &format!("{url}/?token={once_text}"));
    }
    if !wait(&signals, &mut sessions) {
        complain("what was recorded stays on the page; Ctrl-C ends");
        wait_to_be_told(&signals);
    }
    let exit = sessions.end_with(|| server.close());
    stop.set();
    let _ = serving.join();
    Ok(exit.unwrap_or(Exit::Done))
}

fn told(pids: &[i32], files: &[String]) -> String {
    match (pids, files) {
        ([pid], []) => format!("process {pid} is shown"),
        ([], [file]) => format!("{file} is shown"),
        (pids, []) => format!("{} processes are shown", pids.len()),
        ([], files) => format!("{} recordings are shown", files.len()),
        (pids, files) => format!("{} processes and recordings are shown", pids.len() + files.len()),
    }
}

/// What the page has besides the recording.
fn beside(args: &ViewArgs) -> Beside {
    let has_source = !args.no_source;
    Beside {
        source: Arc::new(move |name, began| {
            has_source.then(|| source_files::read(name, began)).flatten()
        }),
        writer: Arc::new(writer::is_there),
    }
}

/// Which processes, and which files.
fn wanted(args: &ViewArgs) -> Result<(Vec<i32>, Vec<String>), Failed> {
    let usage = |why: &str| Err((Exit::Usage, why.to_owned()));
    match &args.listen {
        Address::Unix(_) => {
            return usage("a browser cannot open a socket at a path; need --listen :PORT");
        }
        Address::Tcp(at) if args.listen.is_public() => {
            let port = at.port();
            return usage(&format!(
                "other machines could read along at {at}, without TLS; need --listen :{port}, and from another \
                 machine: ssh -L {port}:localhost:{port} HOST (targets: untouched)"
            ));
        }
        Address::Tcp(_) => {}
    }
    let several = Several::of(&args.pid, &args.what)?;
    if let Some(address) = several.addresses.first() {
        return usage(&format!("`{address}` is a server already: open it in a browser"));
    }
    if several.is_empty() {
        return usage("give a process (heapattach view -p PID, or NAME), or a recording");
    }
    Ok((several.pids, several.files))
}
