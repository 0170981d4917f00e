//! glibc's heap after every instruction of calls of malloc, free, calloc, realloc and posix_memalign: whatever they are in
//! the middle of, nearly all looks are exact, and no more blocks than those of the call are told as they were before it. What
//! is doubted is said to be worth another look.

use std::{collections::BTreeMap, fs, ops::Range};

use heapattach_census::{Answer, Live, Moment, State, Thread, Walk, Walker, walkers::Glibc};
use heapattach_process::proc::Process;
use heapattach_tests::{compile::Source, fixture::Launch, sample::is_soak};
use nix::{
    sys::{
        ptrace,
        signal::Signal,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// Instructions of malloc that are looked at; one in so many is.
const LOOKS: usize = 3000;
const ONE_IN: usize = 7;
/// Instructions that are made, at most.
const MOST: usize = 40_000_000;
/// Of `realloc` two blocks are on their way, and of `posix_memalign` what is cut off on both sides.
const MOST_MOVING: usize = 3;
/// Threads that wait in a system call.
const FUTEX: u64 = 202;

/// A thread that is traced.
struct Traced {
    tid: Pid,
}

impl Traced {
    fn stop(tid: i32) -> Self {
        let tid = Pid::from_raw(tid);
        ptrace::seize(tid, ptrace::Options::empty())
            .expect("a process of ours, which has no tracer");
        ptrace::interrupt(tid).expect("traced by us");
        waitpid(tid, Some(WaitPidFlag::__WALL)).expect("traced by us");
        Self { tid }
    }

    fn step(&self) {
        ptrace::step(self.tid, None).expect("stopped and traced by us");
        let status = waitpid(self.tid, Some(WaitPidFlag::__WALL)).expect("traced by us");
        assert!(matches!(status, WaitStatus::Stopped(_, Signal::SIGTRAP)), "{status:?}");
    }

    fn thread(&self, call: Option<u64>) -> Thread {
        let all = ptrace::getregs(self.tid).expect("stopped and traced by us");
        Thread {
            tid: self.tid.as_raw(),
            pointer: all.fs_base,
            stack: all.rsp,
            code: all.rip,
            call,
            registers: Vec::new(),
        }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = ptrace::detach(self.tid, None);
    }
}

/// Where the code of the C library is.
fn code_of_libc(pid: i32) -> Range<u64> {
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

/// A walk, and the blocks in use.
fn look(process: &Process, threads: Vec<Thread>) -> (Walk, BTreeMap<u64, u64>) {
    let live = Live::open(process).expect("memory that can be read");
    let regions = Live::regions(process).expect("a map that can be read");
    let moment = Moment::new(&live, regions, threads);
    let mut blocks = Vec::new();
    let answer = Glibc.walk(&moment, &mut blocks);
    let Answer::Walked(walk) = answer else { panic!("{answer:?}") };
    let used = blocks.iter().filter(|block| block.state == State::Used);
    (walk, used.map(|block| (block.at, block.size)).collect())
}

/// Which blocks are in one of them only, or have another size there.
fn apart(one: &BTreeMap<u64, u64>, other: &BTreeMap<u64, u64>) -> usize {
    let only = |one: &BTreeMap<u64, u64>, other: &BTreeMap<u64, u64>| {
        one.keys().filter(|at| !other.contains_key(at)).count()
    };
    let resized = one.iter().filter(|(at, size)| other.get(at).is_some_and(|own| own != *size));
    only(one, other).max(only(other, one)) + resized.count()
}

/// Looks after every so many instructions within the C library; answers how many looks there were, which were
/// doubted, and why.
fn stepped(arguments: &[&str]) -> Option<(usize, Vec<String>)> {
    let program = Source::new("stepped.c").build()?;
    let launch = Launch::program(&program);
    let mut fixture = arguments.iter().fold(launch, |launch, one| launch.arg(one)).start();
    fixture.advance(2000);
    let pid = fixture.pid();
    let process = Process::open(pid).expect("a process of ours");
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let number = |name: std::ffi::OsString| name.to_str().and_then(|name| name.parse().ok());
    let mut tids: Vec<i32> =
        tasks.filter_map(|task| number(task.expect("a thread").file_name())).collect();
    tids.sort_unstable();
    let worker = Traced::stop(tids.pop().expect("a thread"));
    let waiting: Vec<Traced> = tids.into_iter().map(Traced::stop).collect();
    let code = code_of_libc(pid);
    let (looks, one_in) = if is_soak() { (LOOKS * 100, 1) } else { (LOOKS, ONE_IN) };
    let (mut doubts, mut looked, mut inside) = (Vec::new(), 0, 0_usize);
    let mut before: Option<BTreeMap<u64, u64>> = None;
    let mut was_inside = false;
    for _ in 0..MOST {
        worker.step();
        let thread = worker.thread(None);
        let is_inside = code.contains(&thread.code);
        inside += usize::from(is_inside);
        // Where a call ends the heap is what it is to be for the next.
        let is_end = !is_inside && was_inside;
        was_inside = is_inside;
        if !(is_end || is_inside && inside.is_multiple_of(one_in)) {
            continue;
        }
        let at = thread.code;
        let mut threads = vec![thread];
        threads.extend(waiting.iter().map(|one| one.thread(Some(FUTEX))));
        let (walk, used) = look(&process, threads);
        let place = format!("libc+{:#x}", at.wrapping_sub(code.start));
        if !walk.is_exact() {
            doubts.push(format!("{place}: trust: {:?}", walk.trust));
        }
        match &before {
            _ if is_end => before = Some(used),
            None => {}
            Some(before) if apart(before, &used) > MOST_MOVING => {
                doubts.push(format!("{place}: {} blocks are moving", apart(before, &used)));
            }
            Some(_) => {}
        }
        looked += 1;
        if looked == looks {
            break;
        }
    }
    drop((worker, waiting));
    println!("{looked} looks, {} doubts", doubts.len());
    fixture.assert_well();
    fixture.finish();
    Some((looked, doubts))
}

/// One look in so many may be doubted: a block that `realloc` is cutting in two has no end to be found by, and for a few
/// instructions what is merged is in a list that it does not go on with.
const ONE_DOUBT_IN: usize = 50;

fn assert_few(found: Option<(usize, Vec<String>)>) {
    let Some((looks, doubts)) = found else { return };
    let silent =
        doubts.iter().find(|doubt| doubt.contains("trust") && !doubt.contains("look again"));
    assert_eq!(silent, None);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    doubts.iter().for_each(|doubt| *kinds.entry(doubt.as_str()).or_default() += 1);
    assert!(doubts.len() * ONE_DOUBT_IN <= looks, "{looks} looks: {kinds:#?}");
}

#[test]
fn the_heap_of_one_thread_is_told_after_every_instruction() {
    assert_few(stepped(&[]));
}

#[test]
fn an_arena_of_a_thread_is_told_after_every_instruction() {
    assert_few(stepped(&["thread"]));
}
