//! Sessions and what they left, in any process: found by the first bytes of our mappings, so that
//! no file or lock is needed to know of them.

use std::time::{Duration, Instant};

use heapattach_abi::control::ENABLED;

use crate::home::Home;
use crate::{
    home::{session_lock, stub_page::StubPage},
    installation::give_back::Undone,
    session::undo::{Left, UndoError, undo_within},
    trace::{target::Target, tracer::Tracer},
};
use heapattach_process::{
    addr::RemoteAddr,
    memory::Memory,
    proc::{Process, all_pids, maps, start_time_of},
};

/// What was found in one process.
#[derive(Debug)]
pub struct Found {
    /// The process.
    pub pid: i32,
    /// Its command line.
    pub command: String,
    /// Homes: whether the session still has an owner, and which.
    pub homes: Vec<(Home, Option<i32>)>,
    /// Stub pages.
    pub stub_pages: usize,
    /// One of them has what stands in for functions of LeakSanitizer.
    pub provides: bool,
}

/// Looks into one process; `None` if there is nothing of ours, or we may not look.
pub fn look(pid: i32) -> Option<Found> {
    let process = Process::open(pid).ok()?;
    let target = Target::open(process, Tracer::Own).ok()?;
    let found = look_at(&target);
    (!found.homes.is_empty() || found.stub_pages > 0).then_some(found)
}

fn look_at(target: &Target) -> Found {
    let text = target.process.read("maps").unwrap_or_default();
    let maps = maps::parse(&text).unwrap_or_default();
    let homes = Home::all(&target.memory, &maps)
        .into_iter()
        .map(|home| {
            let owner = session_lock::owner(&home);
            (home, owner)
        })
        .collect();
    let pages = StubPage::find(&target.memory, &maps);
    let open = |at: &RemoteAddr| StubPage::open(&target.memory, *at).ok();
    let provides = pages.iter().filter_map(open).any(|page| page.provides(&target.memory));
    let (pid, command) = (target.process.pid(), target.process.command());
    Found { pid, command, homes, stub_pages: pages.len(), provides }
}

/// Whether hooks are switched on in a process that has none of its own: then the memory is that of
/// the parent. What a fork copies is switched off.
pub fn is_borrowed(target: &Target) -> bool {
    let text = target.process.read("maps").unwrap_or_default();
    let homes = Home::find(&target.memory, &maps::parse(&text).unwrap_or_default());
    homes.into_iter().any(|at| {
        let mut enabled = [0; 4];
        let control = Home::open(&target.memory, at).map(|home| home.control());
        let switch = control.map(|at| at.offset(ENABLED as u64));
        switch.is_ok_and(|at| target.memory.read(at, &mut enabled).is_ok()) && enabled != [0; 4]
    })
}

/// Every process of this machine with something of ours in it.
pub fn look_everywhere() -> Vec<Found> {
    all_pids().into_iter().filter_map(look).collect()
}

/// A child that inherited our hooks, and what became of it.
#[derive(Debug)]
pub struct Child {
    /// The child.
    pub pid: i32,
    /// Whether everything was given back there.
    pub result: Result<Undone, Left>,
}

/// How long a child may take to unload what its parent loaded. Children are many, and most of them
/// wait for work; an object that nothing leads to can stay.
const PATIENCE: Duration = Duration::from_millis(300);

/// How long all of them may take: those that are still waited for then are named as not cleaned.
const PATIENCE_FOR_ALL: Duration = Duration::from_secs(60);

/// Gives back what children forked in mid-session inherited. They are passive from their first
/// instruction on, but they hold our mappings and patches.
pub fn clean_children(parent: &Target, home: &Home, since: u64) -> Vec<Child> {
    // A child may fork while we look; its children are as clean as it is when they are born.
    const ROUNDS: usize = 8;
    let (mut cleaned, since_now) = (Vec::new(), Instant::now());
    for _ in 0..ROUNDS {
        let found: Vec<i32> = all_pids()
            .into_iter()
            .filter(|&pid| {
                pid != parent.process.pid() && !cleaned.iter().any(|c: &Child| c.pid == pid)
            })
            .filter(|&pid| inherited(pid, home, since))
            .collect();
        if found.is_empty() {
            break;
        }
        for pid in found {
            if since_now.elapsed() > PATIENCE_FOR_ALL {
                let what = vec![format!("all of it: `heapattach detach -p {pid}`")];
                let result = Err(Left { error: UndoError::Late(PATIENCE_FOR_ALL), what });
                cleaned.push(Child { pid, result });
                continue;
            }
            let target = Process::open(pid)
                .and_then(|process| Target::open(process, parent.tracer().clone()));
            if let Ok(target) = target {
                let result = undo_within(&target, home, PATIENCE);
                cleaned.push(Child { pid, result });
            }
        }
    }
    cleaned
}

fn inherited(pid: i32, home: &Home, since: u64) -> bool {
    // Nearly all processes of the machine are older, and to open one takes five times as long.
    if start_time_of(pid).is_none_or(|started| started < since) {
        return false;
    }
    let Ok(process) = Process::open(pid) else { return false };
    if process.start_time().is_none_or(|started| started < since) {
        return false;
    }
    // Asked of its memory at once: a map can have tens of thousands of lines, and any process of the
    // machine may have such a one.
    let found = Memory::open(&process).ok().map(|memory| Home::open(&memory, home.at()));
    found.is_some_and(|found| found.is_ok_and(|f| f.header().session == home.header().session))
}
