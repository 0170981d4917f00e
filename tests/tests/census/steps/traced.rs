//! A thread that makes one instruction after another, and the heap between two of them.

use std::{collections::BTreeMap, fs, ops::Range};

use heapattach_census::{Answer, Live, Moment, State, Thread, Walk, Walker, walkers::Glibc};
use heapattach_process::proc::Process;
use nix::{
    sys::{
        ptrace,
        signal::Signal,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// Threads that wait in a system call.
const FUTEX: u64 = 202;

/// A thread that is traced.
pub(super) struct Traced {
    tid: Pid,
}

impl Traced {
    /// Stops all threads: the one that was begun last, and those that wait for it.
    pub fn all(pid: i32) -> (Self, Vec<Self>) {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
        let number = |name: std::ffi::OsString| name.to_str().and_then(|name| name.parse().ok());
        let mut tids: Vec<i32> =
            tasks.filter_map(|task| number(task.expect("a thread").file_name())).collect();
        tids.sort_unstable();
        let worker = Self::stop(tids.pop().expect("a thread"));
        (worker, tids.into_iter().map(Self::stop).collect())
    }

    fn stop(tid: i32) -> Self {
        let tid = Pid::from_raw(tid);
        ptrace::seize(tid, ptrace::Options::empty())
            .expect("a process of ours, which has no tracer");
        ptrace::interrupt(tid).expect("traced by us");
        waitpid(tid, Some(WaitPidFlag::__WALL)).expect("traced by us");
        Self { tid }
    }

    /// One instruction.
    pub fn step(&self) {
        ptrace::step(self.tid, None).expect("stopped and traced by us");
        let status = waitpid(self.tid, Some(WaitPidFlag::__WALL)).expect("traced by us");
        assert!(matches!(status, WaitStatus::Stopped(_, Signal::SIGTRAP)), "{status:?}");
    }

    /// Where it is.
    pub fn thread(&self, call: Option<u64>) -> Thread {
        let all = ptrace::getregs(self.tid).expect("stopped and traced by us");
        Thread {
            tid: self.tid.as_raw(),
            pointer: all.fs_base,
            stack: all.rsp,
            code: all.rip,
            call,
            registers: vec![
                all.rax, all.rbx, all.rcx, all.rdx, all.rsi, all.rdi, all.rbp, all.r8, all.r9,
                all.r10, all.r11, all.r12, all.r13, all.r14, all.r15,
            ],
        }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = ptrace::detach(self.tid, None);
    }
}

/// Where the code of the C library is.
pub(super) fn code_of_libc(pid: i32) -> Range<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).expect("a map");
    let lines = text.lines().filter(|line| line.contains("/libc") && line.contains("r-xp"));
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("an address");
    let range = |line: &str| {
        let (start, end) =
            line.split_once(' ').expect("columns").0.split_once('-').expect("a range");
        hex(start)..hex(end)
    };
    lines.map(range).next().expect("code of the C library")
}

/// A walk, and the blocks in use, while one thread is there and the others wait for it.
pub(super) fn look(
    process: &Process,
    worker: Thread,
    waiting: &[Traced],
) -> (Walk, BTreeMap<u64, u64>) {
    let waiting = waiting.iter().map(|one| one.thread(Some(FUTEX)));
    let threads = std::iter::once(worker).chain(waiting).collect();
    let live = Live::open(process).expect("memory that can be read");
    let regions = Live::regions(process).expect("a map that can be read");
    let moment = Moment::new(&live, regions, threads);
    let mut blocks = Vec::new();
    let answer = Glibc.walk(&moment, &mut blocks);
    let Answer::Walked(walk) = answer else { panic!("{answer:?}") };
    let used = blocks.iter().filter(|block| block.state == State::Used);
    (walk, used.map(|block| (block.at, block.size)).collect())
}
