//! May we attach, and would it work? Asked before the target is touched; a refusal says what was
//! found, what is needed, and what to do.

pub(crate) mod denial;
pub mod foreseen;
pub(crate) mod kernel;
pub(crate) mod machine;

pub use kernel::OLDEST as OLDEST_KERNEL;

use crate::{
    home::session_lock,
    preflight::denial::Facts,
    trace::{
        target::{Target, may_suspend_seccomp},
        tracer::Tracer,
    },
};
use crate::{
    home::{Home, HomeError},
    refusal::Refusal,
};
use heapattach_process::proc::{Process, maps, status::Status};

/// Which homes in the target speak against touching it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// Those whose owner lives, and those that we cannot read.
    All,
    /// Those whose owner lives: what we cannot read is left alone, hooks are put beside it.
    Readable,
    /// None: the user said so.
    None,
}

/// Takes hold of `pid`, if it can be attached to.
///
/// # Errors
/// The first thing that speaks against it.
pub fn open(pid: i32, force: bool) -> Result<Target, Refusal> {
    open_with(pid, force, if force { Sessions::Readable } else { Sessions::All })
}

/// The same, with a word on sessions that are there.
///
/// # Errors
/// As [`open`].
pub fn open_with(pid: i32, force: bool, sessions: Sessions) -> Result<Target, Refusal> {
    kernel::check()?;
    if pid == std::process::id().cast_signed() {
        return Err(Refusal::denied(
            format!("process {pid} is heapattach itself"),
            "another process",
            "give the pid of the program to attach to",
        ));
    }
    let process = Process::open(pid).map_err(|_| no_process(pid))?;
    let status = process.status().map_err(|_| no_process(pid))?;
    check_kind(&process, &status)?;
    check_tracer(&status, pid)?;
    kernel::check_sandbox(pid, &status.name)?;
    let target = Target::open(process, Tracer::Own).map_err(|errno| {
        let facts = Facts::of(pid, status.uid, own_capabilities());
        denial::explain(pid, &facts, errno)
    })?;
    check_machine(&target)?;
    check_seccomp(&target, &status, force)?;
    check_sessions(&target, sessions)?;
    Ok(target)
}

fn own_capabilities() -> u64 {
    let own = Process::open(std::process::id().cast_signed()).and_then(|p| p.status());
    own.map_or(0, |status| status.capabilities)
}

fn no_process(pid: i32) -> Refusal {
    Refusal::denied(
        format!("there is no process {pid}"),
        "the pid of a running process",
        "find it with `pgrep -a NAME`",
    )
}

fn check_kind(process: &Process, status: &Status) -> Result<(), Refusal> {
    let pid = process.pid();
    if status.tgid != pid {
        return Err(Refusal::denied(
            format!("{pid} is a thread of process {}", status.tgid),
            "the process",
            format!("try `heapattach -p {}`", status.tgid),
        ));
    }
    if !process.is_alive() {
        return Err(Refusal::denied(
            format!("process {pid} ({}) has ended and waits for its parent (zombie)", status.name),
            "a running process",
            format!("attach to its parent, process {}", status.parent),
        ));
    }
    let has_memory = process
        .threads()
        .unwrap_or_default()
        .iter()
        .any(|&tid| process.thread_status(tid).is_ok_and(|s| s.has_memory));
    if !has_memory {
        return Err(Refusal::unsupported(
            format!("process {pid} ({}) is a kernel thread", status.name),
            "a process with memory of its own",
            "give the pid of a program",
        ));
    }
    Ok(())
}

fn check_tracer(status: &Status, pid: i32) -> Result<(), Refusal> {
    if status.tracer == 0 {
        return Ok(());
    }
    let name = Process::open(status.tracer).and_then(|p| p.status()).map(|s| s.name);
    let name = name.unwrap_or_else(|_| "?".to_owned());
    let cure = if name.starts_with("heapattach") {
        format!("wait for it, or see `heapattach status`: it is working on {pid} just now")
    } else {
        format!("end or detach process {} ({name})", status.tracer)
    };
    Err(Refusal::denied(
        format!("process {pid} is traced by process {} ({name})", status.tracer),
        "a process without a tracer, since Linux allows one",
        cure,
    ))
}

/// By what the kernel has put into its memory: the program's file may be on a disk that answers no more.
fn check_machine(target: &Target) -> Result<(), Refusal> {
    let text = target.process.read("maps").unwrap_or_default();
    let maps = maps::parse(&text).unwrap_or_default();
    let Some(vdso) = maps.iter().find(|mapping| mapping.label() == "[vdso]") else {
        return Ok(());
    };
    let mut head = [0; machine::HEAD];
    match target.memory.read(vdso.range.start, &mut head) {
        Ok(()) => machine::check(&head),
        Err(_) => Ok(()),
    }
}

fn check_seccomp(target: &Target, status: &Status, force: bool) -> Result<(), Refusal> {
    if status.seccomp == 0 || force || may_suspend_seccomp() {
        return Ok(());
    }
    let kind = if status.seccomp == 1 { "strict mode" } else { "a filter" };
    Err(Refusal::denied(
        format!(
            "process {} is under seccomp ({kind}), and a forbidden call would kill it",
            target.process.pid()
        ),
        "CAP_SYS_ADMIN to suspend the filter meanwhile",
        "run heapattach as root, or add --force if the filter allows mmap, munmap, madvise, \
         memfd_create and close",
    ))
}

fn check_sessions(target: &Target, sessions: Sessions) -> Result<(), Refusal> {
    if sessions == Sessions::None {
        return Ok(());
    }
    let text = target.process.read("maps").unwrap_or_default();
    let Ok(maps) = maps::parse(&text) else { return Ok(()) };
    for at in Home::find(&target.memory, &maps) {
        let home = match Home::open(&target.memory, at) {
            Ok(home) => home,
            Err(HomeError::Version { version, .. }) if sessions == Sessions::All => {
                return Err(other_version(target.process.pid(), version));
            }
            // The marks of a home without what belongs to one: no heapattach has made that.
            Err(_) => continue,
        };
        if let Some(refusal) = busy(target.process.pid(), &home) {
            return Err(refusal);
        }
    }
    Ok(())
}

fn other_version(pid: i32, version: u64) -> Refusal {
    Refusal::denied(
        format!(
            "another version of heapattach left its hooks in process {pid} (their layout has the \
             number {version})"
        ),
        "a process without hooks",
        "run `heapattach detach -p PID` with that version, or attach beside them: --force",
    )
}

/// Refuses if the owner of this home still works on it.
pub fn busy(pid: i32, home: &Home) -> Option<Refusal> {
    let owner = session_lock::owner(home)?;
    Some(Refusal::denied(
        format!("another heapattach (process {owner}) is attached to process {pid}"),
        "a process that no heapattach is attached to",
        format!(
            "wait for it, or end it with Ctrl-C; see `heapattach status`. If process {owner} does \
             not react, end it with `kill -9 {owner}`, or clean up without asking it: \
             `heapattach detach -p {pid} --force`"
        ),
    ))
}
