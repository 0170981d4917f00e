//! May we attach, and would it work? Asked before the target is touched; a refusal says what was
//! found, what is needed, and what to do.

use std::{fmt, fs::File, io::Read};

use nix::fcntl::OFlag;

use crate::{
    denial::{self, Facts},
    home::Home,
    kernel, machine,
    proc::{Process, maps, runs_still, status::Status},
    target::{Target, may_suspend_seccomp},
};

/// Why we do not attach. The target was not touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was found.
    pub value: String,
    /// What is needed instead.
    pub need: String,
    /// What to type or change.
    pub cure: String,
    /// Nothing the user can grant would help.
    pub unsupported: bool,
}

impl Refusal {
    /// A process that could be attached to, were something else as it is not.
    pub(crate) fn denied(value: impl Into<String>, need: &str, cure: impl Into<String>) -> Self {
        Self { value: value.into(), need: need.into(), cure: cure.into(), unsupported: false }
    }

    /// A kind of process that no permission makes possible.
    pub fn unsupported(value: impl Into<String>, need: &str, cure: impl Into<String>) -> Self {
        Self { unsupported: true, ..Self::denied(value, need, cure) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; need {}; {}", self.value, self.need, self.cure)
    }
}

impl std::error::Error for Refusal {}

/// Takes hold of `pid`, if it can be attached to.
///
/// # Errors
/// The first thing that speaks against it.
pub fn open(pid: i32, force: bool) -> Result<Target, Refusal> {
    kernel::check()?;
    if pid == std::process::id().cast_signed() {
        return Err(Refusal::denied(
            format!("process {pid} is heapattach itself"),
            "another process",
            "give the pid of the program to look at",
        ));
    }
    let process = Process::open(pid).map_err(|_| no_process(pid))?;
    let status = process.status().map_err(|_| no_process(pid))?;
    check_kind(&process, &status)?;
    check_tracer(&status, pid)?;
    kernel::check_sandbox(pid, &status.name)?;
    let target = Target::open(process).map_err(|errno| {
        let facts = Facts::of(pid, status.uid, own_capabilities());
        denial::explain(pid, &facts, errno)
    })?;
    check_executable(&target)?;
    check_seccomp(&target, &status, force)?;
    check_sessions(&target)?;
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
            format!("look at its parent, process {}", status.parent),
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

fn check_executable(target: &Target) -> Result<(), Refusal> {
    let mut head = [0; machine::HEAD];
    let exe = target.process.open_below("exe", OFlag::O_RDONLY);
    let read = exe.map(|exe| File::from(exe).read_exact(&mut head));
    // Gone or not ours to read: its memory will tell.
    if !matches!(read, Ok(Ok(()))) {
        return Ok(());
    }
    machine::check(&head)
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

fn check_sessions(target: &Target) -> Result<(), Refusal> {
    let text = target.process.read("maps").unwrap_or_default();
    let Ok(maps) = maps::parse(&text) else { return Ok(()) };
    for at in Home::find(&target.memory, &maps) {
        let Ok(home) = Home::open(&target.memory, at) else {
            return Err(Refusal::denied(
                format!(
                    "another version of heapattach left its hooks in process {}",
                    target.process.pid()
                ),
                "a process without hooks",
                "run `heapattach detach -p PID` with that version",
            ));
        };
        if let Some(refusal) = busy(target.process.pid(), &home) {
            return Err(refusal);
        }
    }
    Ok(())
}

/// Refuses if the owner of this home still works on it.
pub fn busy(pid: i32, home: &Home) -> Option<Refusal> {
    let owner = i32::try_from(home.header().owner).unwrap_or(0);
    runs_still(owner, home.header().owner_started).then(|| {
        Refusal::denied(
            format!("another heapattach (process {owner}) is attached to process {pid}"),
            "a process that nobody is attached to",
            "wait for it, or end it with Ctrl-C; see `heapattach status`",
        )
    })
}
