//! `heapattach status`: sessions, and what killed ones left.

use heapattach_injector::detach::leftovers::{Found, look_everywhere};
use heapattach_session::{allocator::profiler, golang::rate};
use serde::Serialize;

use crate::{args::StatusArgs, exit_status::Exit, output::print};

#[derive(Serialize)]
struct Row {
    pid: i32,
    command: String,
    /// The tracing process, if the session is alive.
    session: Option<i32>,
    /// Hooks that no session owns any more, or a profile of Go's or jemalloc's that one switched on.
    leftover: bool,
    /// Pages of jumps that former sessions left on purpose.
    stub_pages: usize,
    /// One of them has what stands in for functions of LeakSanitizer.
    stands_in: bool,
}

/// Prints a line for every process with something of ours in it.
pub fn status(args: &StatusArgs) -> Exit {
    let mut rows: Vec<Row> = look_everywhere().into_iter().map(row).collect();
    let switched = rate::left_on().into_iter().chain(profiler::left_on());
    rows.extend(switched.map(|process| Row {
        pid: process.pid(),
        command: process.command(),
        session: None,
        leftover: true,
        stub_pages: 0,
        stands_in: false,
    }));
    if args.json {
        return print(&serde_json::to_string_pretty(&rows).unwrap_or_default(), Exit::Done);
    }
    if rows.is_empty() {
        let nothing = "no session, and nothing left behind, in any process that you may examine";
        return print(nothing, Exit::Done);
    }
    let lines = rows.into_iter().map(|row| {
        let what = match (row.session, row.leftover) {
            (Some(owner), _) => format!("attached (by process {owner})"),
            (None, true) => format!("left over; clean up with: heapattach detach -p {}", row.pid),
            (None, false) if row.stands_in => {
                "clean, but for the page of jumps, with what stands in for LeakSanitizer".to_owned()
            }
            (None, false) => "clean, but for the page of jumps".to_owned(),
        };
        format!("{:>8}  {what}  {}", row.pid, row.command)
    });
    print(&lines.collect::<Vec<_>>().join("\n"), Exit::Done)
}

fn row(found: Found) -> Row {
    Row {
        pid: found.pid,
        command: found.command,
        session: found.homes.iter().find_map(|(_, owner)| *owner),
        leftover: found.homes.iter().any(|(_, owner)| owner.is_none()),
        stub_pages: found.stub_pages,
        stands_in: found.provides,
    }
}
