//! Without a terminal: text once, or JSON again and again.

use std::{io::stdout, time::Instant};

use heapattach_top::{processes_document, text, top_document};

use super::Top;
use crate::{exit_status::Exit, output::print};

/// Columns of text that goes to no terminal.
const COLUMNS: u16 = 80;

/// Prints it.
pub fn run(mut top: Top<'_>) -> Exit {
    let exit = match (top.args.json, top.args.once) {
        (true, false) => again_and_again(&mut top),
        (is_json, _) => once(&mut top, is_json),
    };
    match (exit, top.end()) {
        (Exit::Done, exit) | (exit, _) => exit,
    }
}

/// Waits until something can be said of the growth of all targets, and says it.
fn once(top: &mut Top<'_>, is_json: bool) -> Exit {
    while !is_known(top) {
        let news = top.news.recv_timeout(top.args.interval).ok();
        if news.is_some_and(|news| top.take(news)) {
            return Exit::Interrupted;
        }
        top.look_at_sessions();
    }
    // What else came at the same time.
    while let Ok(news) = top.news.try_recv() {
        top.take(news);
    }
    let mut exit = Exit::Done;
    for at in 0..top.model.count().max(1) {
        top.model.turn_to(at);
        let told = match is_json {
            true => document(top) + "\n",
            false => {
                let columns = top.args.width.unwrap_or_else(columns);
                let is_coloured = top.has_colours(&stdout());
                text(&mut top.model, columns, top.args.limit, is_coloured)
            }
        };
        exit = print(told.trim_end_matches('\n'), exit);
    }
    exit
}

fn again_and_again(top: &mut Top<'_>) -> Exit {
    let mut due = Instant::now() + top.args.interval;
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if let Ok(news) = top.news.recv_timeout(left) {
            if top.take(news) {
                return Exit::Done;
            }
            continue;
        }
        top.look_at_sessions();
        due = Instant::now() + top.args.interval;
        for at in 0..top.model.count().max(1) {
            top.model.turn_to(at);
            let exit = print(&document(top), Exit::Done);
            if exit != Exit::Done || is_closed() {
                return exit;
            }
        }
        if top.model.is_over() {
            return Exit::Done;
        }
    }
}

fn document(top: &mut Top<'_>) -> String {
    let limit = top.args.limit;
    match top.model.processes() {
        Some(processes) => processes_document(processes, limit),
        None => top_document(&top.model, limit),
    }
}

/// Whether the reader of standard output has gone: what is printed then is no error.
fn is_closed() -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;
    let out = stdout();
    let mut fds = [PollFd::new(out.as_fd(), PollFlags::empty())];
    let _ = poll(&mut fds, PollTimeout::ZERO);
    fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
}

/// Whether enough is known of all targets: of what goes on, of an interval at least.
fn is_known(top: &mut Top<'_>) -> bool {
    let interval = u64::try_from(top.args.interval.as_millis()).unwrap_or(u64::MAX);
    match top.model.processes() {
        Some(processes) => processes.shown().any(|(_, growth)| growth.is_some()),
        None => top.model.is_known(interval),
    }
}

fn columns() -> u16 {
    use std::io::IsTerminal;
    let wide = || crossterm::terminal::size().map(|(columns, _)| columns).ok();
    wide().filter(|_| stdout().is_terminal()).unwrap_or(COLUMNS)
}
