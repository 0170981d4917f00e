//! May we attach, and would it work? Asked before the target is touched; a refusal says what was
//! found, what is needed, and what to do.

use std::fmt;

use nix::{errno::Errno, fcntl::OFlag, sys::utsname::uname};

use crate::{
    arch,
    home::Home,
    proc::{Process, maps, runs_still, status::Status},
    target::{Target, may_suspend_seccomp},
};

/// openat2(2), with which a container's files are opened safely, came with this.
const OLDEST_KERNEL: (u32, u32) = (5, 6);

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
    fn denied(value: impl Into<String>, need: &str, cure: impl Into<String>) -> Self {
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
    check_kernel()?;
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
    let target = Target::open(process).map_err(|errno| denied(pid, &status, errno))?;
    check_executable(&target)?;
    check_seccomp(&target, &status, force)?;
    check_sessions(&target)?;
    Ok(target)
}

fn check_kernel() -> Result<(), Refusal> {
    let release = uname().map(|u| u.release().to_string_lossy().into_owned()).unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= OLDEST_KERNEL || version == (0, 0) {
        return Ok(());
    }
    Err(Refusal::unsupported(
        format!("the kernel is Linux {release}"),
        "Linux 5.6 or later",
        "run heapattach on a newer kernel",
    ))
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

fn denied(pid: i32, status: &Status, errno: Errno) -> Refusal {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let own = nix::unistd::geteuid().as_raw();
    let need = "the right to trace it";
    match scope.trim() {
        "3" => Refusal::denied(
            "ptrace_scope is 3 (no process may be traced)",
            "ptrace_scope 2 or less, which takes a reboot",
            "set kernel.yama.ptrace_scope in the boot configuration",
        ),
        "2" => Refusal::denied(
            "ptrace_scope is 2 (administrators only)",
            "CAP_SYS_PTRACE",
            format!("try `sudo heapattach -p {pid}`"),
        ),
        "1" if status.uid == own => Refusal::denied(
            "ptrace_scope is 1 (children only)",
            "0, or CAP_SYS_PTRACE, or to be its parent",
            format!(
                "try `sudo heapattach -p {pid}`, or `sysctl kernel.yama.ptrace_scope=0`, or start \
                 it with `heapattach run -- COMMAND`"
            ),
        ),
        _ if status.uid != own && own != 0 => Refusal::denied(
            format!("process {pid} belongs to user {}, heapattach runs as user {own}", status.uid),
            need,
            format!("try `sudo heapattach -p {pid}`"),
        ),
        _ => Refusal::denied(
            format!("the kernel does not allow to trace process {pid} ({})", errno.desc()),
            "CAP_SYS_PTRACE in its user namespace (it may have made itself undumpable)",
            format!("try `sudo heapattach -p {pid}`, outside of any container"),
        ),
    }
}

fn check_executable(target: &Target) -> Result<(), Refusal> {
    use std::{fs::File, io::Read};
    const EI_CLASS: usize = 4;
    const ELFCLASS64: u8 = 2;
    let mut head = [0; 20];
    let exe = target.process.open_below("exe", OFlag::O_RDONLY);
    let read = exe.map(|exe| File::from(exe).read_exact(&mut head));
    // Gone or not ours to read: its memory will tell.
    if !matches!(read, Ok(Ok(()))) {
        return Ok(());
    }
    let machine = u16::from_le_bytes([head[18], head[19]]);
    if head[EI_CLASS] != ELFCLASS64 || machine != arch::ELF_MACHINE {
        let bits = if head[EI_CLASS] == 1 { 32 } else { 64 };
        return Err(Refusal::unsupported(
            format!("the program is a {bits}-bit one for ELF machine {machine}"),
            "a 64-bit x86-64 program",
            "there is no heapattach for this kind of program yet",
        ));
    }
    Ok(())
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
