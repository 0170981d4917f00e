//! A process that was forked from a server of sessions: one session, from the options to its result.

use std::{ffi::OsString, io, os::fd::OwnedFd, path::Path};

use heapattach_files::output_file::{Readers, begin_anew};
use heapattach_session::client::talk::Talk;
use nix::unistd::{dup2_stderr, dup2_stdout};

use crate::{
    commands::attach, exit_status::Exit, fork_server::Orders, output::complain, parse,
    terminal::Verbosity,
};

/// What a session says, line by line, where there is no terminal.
struct Lines(Verbosity);

impl Talk for Lines {
    fn say(&mut self, text: &str) {
        if self.0 == Verbosity::Usual {
            complain(text);
        }
    }
}

/// The session.
pub fn run(orders: Orders) -> Exit {
    let Orders { line, claim, words, output, log } = orders;
    if let Err(error) = redirect(output.as_deref().map(Path::new), log.as_deref().map(Path::new)) {
        complain(&format!("no session: {error} (target: untouched)"));
        return Exit::Failed;
    }
    let words = [OsString::from("heapattach")].into_iter().chain(words).collect();
    let cli = match parse(words) {
        Ok(cli) => cli,
        Err(exit) => return exit,
    };
    let pid = match cli.attach.which.pid() {
        Ok(Some(pid)) => pid,
        Ok(None) => return Exit::Usage,
        Err(unclear) => {
            complain(&unclear.message);
            return unclear.exit;
        }
    };
    let talk = Box::leak(Box::new(Lines(cli.verbosity())));
    attach::attach_within(pid, &cli.attach, line, claim, talk)
}

fn redirect(output: Option<&Path>, log: Option<&Path>) -> io::Result<()> {
    if let Some(path) = output {
        dup2_stdout(OwnedFd::from(begin_anew(path, Readers::Owner)?))?;
    }
    if let Some(path) = log {
        dup2_stderr(OwnedFd::from(begin_anew(path, Readers::Owner)?))?;
    }
    Ok(())
}
