//! `heapattach top`: live figures of processes on a terminal, as text and as JSON.
//!
//! ```text
//! threads: a source a target, keys, signals -> news -> model -> screen, or lines
//!                                                \-> wish -> effects: what keys do to files and sessions
//! ```
//!
//! It looks at what is written down: sessions are processes of their own (`sessions`), or those of others, and
//! the latter go on when this ends.

mod backend;
mod effects;
mod guard;
mod keys;
mod lines;
mod live;
mod news;
mod process_list;
mod recording;
mod screen;
mod server;
mod source;
mod web;

use std::{
    io::IsTerminal,
    path::Path,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use heapattach_top::{Model, State, Subject};
use heapattach_view::{Colour, knows_colours};
use nix::sys::signal::{SigSet, Signal};

use crate::{
    args::TopArgs,
    choose_process::Several,
    exit_status::Exit,
    output::complain,
    sessions::{Options, Sessions, exit as exit_of},
};
use news::News;
use recording::RecordingSource;
use server::ServerSource;
use source::Source;

type Failed = (Exit, String);

/// Shows it until the user, or a signal, ends it, or there is nothing more to show.
pub fn top(args: &TopArgs) -> Exit {
    if args.guard_terminal {
        return guard::run();
    }
    match Top::begin(args) {
        Ok(top) => top.run(),
        Err((exit, why)) => {
            complain(&why);
            exit
        }
    }
}

/// What runs.
struct Top<'a> {
    args: &'a TopArgs,
    model: Model,
    sessions: Sessions,
    to: Sender<News>,
    news: Receiver<News>,
}

impl<'a> Top<'a> {
    fn begin(args: &'a TopArgs) -> Result<Self, Failed> {
        let several = Several::of(&args.pid, &args.what)?;
        let (to, news) = channel();
        let failed = |why: String| (Exit::Failed, format!("{why} (targets: untouched)"));
        listen(to.clone()).map_err(|error| failed(format!("signals: {error}")))?;
        let options = Options {
            of: "top",
            every: args.every,
            max_size: args.max_size,
            output: args.output.clone(),
            has_log: true,
            redacts: false,
        };
        let mut subjects = Vec::new();
        for file in &several.files {
            let subject = recording::subject(Path::new(file));
            subjects.push(subject.map_err(|error| (Exit::Failed, error.to_string()))?);
        }
        let token = server::token(args.token_file.as_deref()).map_err(|why| (Exit::Usage, why))?;
        let mut servers = Vec::new();
        for address in &several.addresses {
            servers.extend(
                server::find(address, token.as_deref()).map_err(|why| (Exit::Failed, why))?,
            );
        }
        subjects.extend(servers.iter().map(|server| server.subject.clone()));
        let sessions = Sessions::begin(&several.pids, options).map_err(failed)?;
        let model = match several.is_empty() {
            true => Model::choosing(),
            false => Model::new(subjects),
        };
        let mut top = Self { args, model, sessions, to, news };
        for (number, file) in several.files.iter().enumerate() {
            let source = RecordingSource::new(Path::new(file));
            news::follow(number, Source::File(source), args.interval, top.to.clone());
        }
        for (number, server) in (several.files.len()..).zip(servers) {
            let source = Source::Server(ServerSource::new(server, top.sessions.folder(), number));
            news::follow(number, source, args.interval, top.to.clone());
        }
        let sessions = top.sessions.all().len();
        (0..sessions).for_each(|at| top.follow_session(at));
        if several.is_empty() {
            news::follow_processes(args.interval, top.to.clone());
        }
        top.model.show_first(args.tab, !args.by_thread);
        Ok(top)
    }

    fn run(self) -> Exit {
        let is_terminal = std::io::stdout().is_terminal();
        if self.args.once || self.args.json || !is_terminal || !is_able() {
            return lines::run(self);
        }
        live::run(self)
    }

    /// Looks at one of our sessions from now on.
    fn follow_session(&mut self, at: usize) {
        let Some(session) = self.sessions.all().nth(at) else { return };
        let source = RecordingSource::new(&session.path);
        let source = Source::Session(source, session.log());
        let (name, pid) = (session.name.clone(), session.pid);
        let subject = Subject { name, pid, from: String::new(), is_own: true };
        let target = self.model.add(subject);
        news::follow(target, source, self.args.interval, self.to.clone());
    }

    /// Tells of sessions of ours that have ended.
    fn look_at_sessions(&mut self) {
        self.sessions.look();
        for session in self.sessions.all() {
            let Some(status) = session.ended() else { continue };
            let why = match status.code() {
                Some(0 | 130) => "the session is over: detached",
                Some(5) => "the session is over: the process ended",
                Some(3 | 4) => "the process cannot be attached to: 9 Log says why",
                _ => "the session has failed: 9 Log says why",
            };
            if let Some(target) = self.model.target_of(session.pid) {
                self.model.tell(target, State::Over(why.to_owned()));
            }
        }
    }

    /// Takes what became known; whether that ends it.
    fn take(&mut self, news: News) -> bool {
        match news {
            News::Looked(target, snapshots, state) => {
                for snapshot in snapshots {
                    self.model.take(target, snapshot);
                }
                if let Some(state) = state {
                    self.model.tell(target, state);
                }
            }
            News::Log(target, line) => self.model.log(target, line),
            News::Processes(at, listed) => {
                if let Some(processes) = self.model.processes() {
                    processes.take(at, listed);
                }
            }
            News::Told | News::NoTerminal => return true,
            News::Input(_) | News::Resized => {}
        }
        false
    }

    /// Ends our sessions, and says what went wrong with them, if anything.
    fn end(self) -> Exit {
        let failed = self
            .sessions
            .all()
            .filter(|session| session.ended().is_some_and(|status| exit_of(status).is_some()));
        let logs: Vec<String> =
            failed.filter_map(|session| std::fs::read_to_string(session.log()).ok()).collect();
        let exit = self.sessions.end();
        logs.iter().for_each(|log| eprint!("{log}"));
        exit.unwrap_or(Exit::Done)
    }

    fn has_colours(&self, stream: &impl IsTerminal) -> bool {
        match self.args.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => {
                stream.is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && is_able()
            }
        }
    }
}

/// Whether the terminal obeys sequences.
fn is_able() -> bool {
    knows_colours(std::env::var_os("TERM").as_deref())
}

/// Hears of the signals that end us; the second one ends us at once.
fn listen(to: Sender<News>) -> nix::Result<()> {
    let mut signals = SigSet::empty();
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|one| signals.add(one));
    signals.thread_block()?;
    let hear = move || {
        let is_first = signals.wait().is_ok() && to.send(News::Told).is_ok();
        if is_first && signals.wait().is_ok() {
            // Sessions end with this process; whatever it waits for, a terminal that takes nothing, is left.
            std::process::exit(Exit::Interrupted.code().into());
        }
    };
    let spawned = thread::Builder::new().name("signals".to_owned()).spawn(hear);
    spawned.map(drop).map_err(|_| nix::Error::EAGAIN)
}
