//! The heap of a real program, whose books an input changes: every walk of it ends, soon and without a panic.
//!
//! The program is started once, stopped, and its memory copied; after each input that memory is as it was.

use std::{
    cell::RefCell,
    fs,
    io::{BufRead, BufReader},
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use heapattach_census::{
    Answer, Block, Live, Memory, Region, Thread, Walk, Walker, synthetic::Synthetic,
};
use heapattach_process::proc::Process;
use nix::{
    sys::{
        ptrace,
        signal::{Signal, kill},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};

/// A change: where, how, and two bytes of what.
const CHANGE: usize = 6;
/// So many at once; more would only make a heap that is not recognised.
const MOST: usize = 64;
/// A walk takes some milliseconds here, built for a fuzzer.
const MOST_TIME: Duration = Duration::from_secs(20);
const FIRST_PAGE: u64 = 64;

/// Memory, and its words that are no block's.
struct Base {
    memory: Synthetic,
    books: Vec<u64>,
    mapped: u64,
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[allow(dead_code, reason = "the target of CPython has a program of its own")]
/// A program with a table of its blocks, built with these flags.
pub fn table(compiler: &str, flags: &[&str], preload: Option<&str>) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = std::env::temp_dir().join(format!("heapattach-fuzz-{}", std::process::id()));
    let mut command = Command::new(compiler);
    command.args(["-O2", "-fno-builtin", "-pthread", "-o"]).arg(&program);
    command.arg(root.join("fixtures/heaps/heap_table.c")).args(flags);
    assert!(command.status().is_ok_and(|status| status.success()), "{command:?}");
    let mut command = Command::new(program);
    command.args(["2", "400"]);
    if let Some(name) = preload {
        command.env("LD_PRELOAD", PathBuf::from("/usr/lib/x86_64-linux-gnu").join(name));
    }
    command
}

/// Walks the heap of what `command` starts, which says a line once it has its blocks, with these changes.
pub fn walk(input: &[u8], walker: &dyn Walker, command: impl FnOnce() -> Command) {
    thread_local! { static BASE: RefCell<Option<Base>> = const { RefCell::new(None) } }
    BASE.with_borrow_mut(|base| {
        let base = base.get_or_insert_with(|| Base::of(command(), walker));
        let changes = input.chunks_exact(CHANGE).take(MOST);
        let old: Vec<(u64, u64)> = changes.map(|change| base.change(change)).collect();
        base.assert_ends(walker);
        for (at, word) in old.into_iter().rev() {
            base.memory.write(at, word);
        }
    });
}

impl Base {
    fn of(mut command: Command, walker: &dyn Walker) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut running = Running(child.expect("the program can be started"));
        let mut told = BufReader::new(running.0.stdout.take().expect("piped"));
        told.read_line(&mut String::new()).expect("it says a line");
        let pid = i32::try_from(running.0.id()).expect("a number of a process");
        let threads = stop(pid);
        let process = Process::open(pid).expect("it lives");
        let live = Live::open(&process).expect("its memory");
        let mut memory = Synthetic::default();
        memory.threads = threads;
        memory.regions = Live::regions(&process).expect("its map");
        for region in memory.regions.clone().iter().filter(|region| region.readable) {
            for part in parts(&live, region) {
                let mut bytes = vec![0; usize::try_from(part.end - part.start).expect("64 bits")];
                let read = live.read(part.start, &mut bytes);
                memory.write_bytes(part.start, &bytes[..read]);
            }
        }
        let (walk, blocks) = walked(&memory, walker);
        let Answer::Walked(walk) = walk else { panic!("{walk:?}") };
        let books = books(&mut memory, &walk, &blocks);
        assert!(books.len() > 100, "{} words of books", books.len());
        let mapped = memory.regions.iter().map(Region::bytes).sum();
        eprintln!("{} blocks, {} words of books", blocks.len(), books.len());
        Self { memory, books, mapped }
    }

    fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.memory.read(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Answers the word as it was.
    fn change(&mut self, change: &[u8]) -> (u64, u64) {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let book = |number: u64| {
            let index = number % self.books.len() as u64;
            self.books[usize::try_from(index).expect("an index")]
        };
        let (at, value) = (book(number(&change[..3])), number(&change[4..]));
        let old = self.word(at);
        let word = match change[3] % 10 {
            0 => value,
            1 => u64::MAX - value,
            2 => old ^ 1 << (value % 64),
            3 => old.wrapping_add(value),
            4 => old.wrapping_sub(value),
            5 => book(value),
            6 => self.word(book(value)),
            7 => at.wrapping_sub(value & !7),
            8 => old.rotate_left(u32::from(change[5])),
            _ => value << (change[4] % 48),
        };
        self.memory.write(at, word);
        (at, old)
    }

    fn assert_ends(&self, walker: &dyn Walker) {
        let began = Instant::now();
        let (_, blocks) = walked(&self.memory, walker);
        let took = began.elapsed();
        assert!(took < MOST_TIME, "{took:?}");
        assert!(blocks.len() as u64 <= self.mapped / 8, "{} blocks", blocks.len());
    }
}

fn walked(memory: &Synthetic, walker: &dyn Walker) -> (Answer, Vec<Block>) {
    let mut blocks = Vec::new();
    let answer = walker.walk(&memory.moment(), &mut blocks);
    (answer, blocks)
}

/// What there is of a region.
fn parts(live: &Live, region: &Region) -> Vec<Range<u64>> {
    match region.is_private_memory() {
        true => live.present(&region.range),
        false => vec![region.range.clone()],
    }
}

/// Words that are not zero, in memory that is written to and in no block.
fn books(memory: &mut Synthetic, walk: &Walk, blocks: &[Block]) -> Vec<u64> {
    let mut heap: Vec<_> = walk.arenas.iter().flat_map(|arena| arena.memory.clone()).collect();
    heap.sort_by_key(|range| range.start);
    let mut blocks = blocks.to_vec();
    blocks.sort_by_key(|block| block.at);
    let covers = |at: u64| {
        let before = blocks.partition_point(|block| block.at <= at).checked_sub(1);
        before.is_some_and(|index| at < blocks[index].at + blocks[index].size)
    };
    let is_heap = |at: u64| heap.iter().any(|range| range.contains(&at));
    let writable: Vec<Range<u64>> = memory.regions.iter().filter(|r| r.writable && !r.shared)
        .map(|region| region.range.clone()).collect();
    let mut words = Vec::new();
    for (page, bytes) in memory.pages() {
        if !writable.iter().any(|range| range.contains(&page)) {
            continue;
        }
        for (at, word) in (page..).step_by(8).zip(bytes.as_chunks::<8>().0) {
            if *word != [0; 8] && (!is_heap(at) || at - page < FIRST_PAGE || !covers(at)) {
                words.push(at);
            }
        }
    }
    words
}

/// Stops all threads of a process; answers them.
fn stop(pid: i32) -> Vec<Thread> {
    kill(Pid::from_raw(pid), Signal::SIGSTOP).expect("a child of ours");
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    let names = tasks.map(|task| task.expect("it lives").file_name().into_string());
    names.filter_map(|name| thread(name.ok()?.parse().ok()?)).collect()
}

fn thread(tid: i32) -> Option<Thread> {
    let pid = Pid::from_raw(tid);
    ptrace::seize(pid, ptrace::Options::empty()).ok()?;
    ptrace::interrupt(pid).ok()?;
    waitpid(pid, Some(WaitPidFlag::__WALL)).ok()?;
    let own = ptrace::getregs(pid).ok()?;
    let registers = vec![own.rax, own.rbx, own.rcx, own.rdx, own.rsi, own.rdi, own.rbp, own.r12];
    let (pointer, stack, code) = (own.fs_base, own.rsp, own.rip);
    // It stays stopped until it is ended.
    Some(Thread { tid, pointer, stack, code, registers, ..Thread::default() })
}
