//! A program that keeps a table of its blocks, stopped, and the walk of its heap beside that table.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use heapattach_census::{Answer, Block, Live, Memory, Moment, Region, State, Thread, Walk, Walker};
use heapattach_process::proc::Process;
use heapattach_test_folder::skip;
use nix::{
    sys::{
        ptrace,
        signal::{Signal, kill},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};

use crate::hostile::{self, Changed};

/// Far more than any step here takes.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// The table's words for no block.
const NONE: std::ops::RangeInclusive<u64> = 0..=1;

/// A running program; it ends with this.
#[derive(Debug)]
pub struct Running(pub Child);

/// One that keeps a table.
#[derive(Debug)]
pub struct Program {
    child: Running,
    table: (u64, usize),
}

/// What was found beside the table.
#[derive(Debug)]
pub struct Found {
    pub walk: Walk,
    pub blocks: Vec<Block>,
    pub live: usize,
    /// In the table, and no used block begins there (or reaches over it, where blocks can begin within).
    pub missing: Vec<(u64, u64)>,
    /// Used, and not in the table.
    pub extra: Vec<Block>,
    /// Used, and of another size.
    pub wrong: Vec<(Block, u64)>,
}

/// The fixture of that name, built for this test with these flags.
pub fn build(compiler: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    if Command::new(compiler).arg("--version").output().is_err() {
        skip(&format!("no {compiler} here"), "apt-get install gcc musl-tools");
        return None;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/heaps");
    let own: String =
        flags.join("").chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let own = &own[own.len().saturating_sub(60)..];
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let target = target.join(format!("{name}-{compiler}-{own}-{}", std::process::id()));
    // Several tests want the same one.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if target.exists() {
        return Some(target);
    }
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fno-builtin", "-pthread"]);
    command.arg("-o").arg(&target).arg(folder.join(name)).args(flags);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(target)
}

/// A library of the system; `None` (reported as skipped) where it is not there.
pub fn library(name: &str, package: &str) -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let found = folders.map(|folder| Path::new(folder).join(name)).into_iter().find(|p| p.exists());
    if found.is_none() {
        skip(&format!("no {name} here"), &format!("apt-get install {package}"));
    }
    found
}

/// An allocator built from its sources by `fixtures/heaps/allocators.sh`; `None` (reported as skipped) where
/// that was not done.
pub fn built_allocator(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/allocators");
    let found = Some(root.join(name)).filter(|path| path.exists());
    if found.is_none() {
        skip(&format!("no target/allocators/{name} here"), "fixtures/heaps/allocators.sh makes it");
    }
    found
}

/// A program of `fixtures/rust_allocators`; `None` (reported as skipped) where its crates are not to be had.
pub fn rust(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = root.join("target/rust_allocators");
    let mut cargo = Command::new("cargo");
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        cargo.env_remove(variable);
    }
    cargo.args(["build", "--release", "--locked", "--quiet", "--bin", name, "--manifest-path"]);
    cargo.arg(root.join("fixtures/rust_allocators/Cargo.toml")).arg("--target-dir").arg(&target);
    let output = cargo.output().unwrap();
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!complaint.contains("could not compile"), "{complaint}");
        skip("the crates of fixtures/rust_allocators cannot be fetched", "go online once");
        return None;
    }
    Some(target.join("release").join(name))
}

/// An archive that the build of a crate has left, the newest; after [`rust`].
pub fn rust_archive(of: &str, name: &str) -> Option<PathBuf> {
    let builds =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/rust_allocators/release/build");
    let builds = fs::read_dir(builds).ok()?.filter_map(Result::ok);
    let of = builds.filter(|entry| entry.file_name().to_string_lossy().starts_with(of));
    let archives = of.map(|entry| entry.path().join("out/lib").join(name));
    archives
        .filter(|path| path.exists())
        .max_by_key(|path| fs::metadata(path).and_then(|file| file.modified()).ok())
}

impl Program {
    /// Starts it and waits until it has its blocks.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        let ["table", at, slots] = words[..] else { panic!("{command:?} told {line:?}") };
        let table = (u64::from_str_radix(at, 16).unwrap(), slots.parse().unwrap());
        Self { child: Running(child), table }
    }

    pub fn pid(&self) -> i32 {
        self.child.0.id().cast_signed()
    }

    pub fn stop(&self) {
        stop(self.pid());
    }

    pub fn go_on(&self) {
        kill(Pid::from_raw(self.pid()), Signal::SIGCONT).unwrap();
    }

    /// The table: address and usable size of every block.
    pub fn truth(&self, live: &Live) -> BTreeMap<u64, u64> {
        let mut bytes = vec![0; self.table.1 * 16];
        assert_eq!(live.read(self.table.0, &mut bytes), bytes.len());
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (slots, _) = words.as_chunks::<2>();
        let slots = slots.iter().filter(|slot| !NONE.contains(&slot[0]));
        slots.map(|slot| (slot[0], slot[1])).collect()
    }

    /// Changes words of a copy of the stopped program's memory, and walks that.
    pub fn assert_bounded(&self, walker: &dyn Walker) {
        let process = Process::open(self.pid()).unwrap();
        let live = Live::open(&process).unwrap();
        let (regions, threads) = (Live::regions(&process).unwrap(), threads(self.pid()));
        let table = self.table.0..self.table.0 + 1;
        let is_table = |region: &Region| region.range.contains(&table.start);
        let regions: Vec<_> = regions.into_iter().filter(|region| !is_table(region)).collect();
        let changed = Changed::copy(&live, regions, threads);
        let mut found = self.walk(walker, true);
        found.blocks.sort_by_key(|block| block.at);
        hostile::assert_bounded(changed, walker, &found.walk, &found.blocks);
    }

    /// Walks the heap of the stopped program. `is_within`: whether the table's block can begin within one.
    pub fn walk(&self, walker: &dyn Walker, is_within: bool) -> Found {
        let mut blocks = Vec::new();
        let walk = match walk(self.pid(), walker, &mut blocks) {
            Answer::Walked(walk) => walk,
            other => panic!("{other:?}"),
        };
        let live = Live::open(&Process::open(self.pid()).unwrap()).unwrap();
        let mut truth = self.truth(&live);
        let live = truth.len();
        let (mut extra, mut wrong) = (Vec::new(), Vec::new());
        for block in blocks.iter().filter(|block| block.state == State::Used) {
            let end = block.at + block.size;
            let own = match truth.remove(&block.at) {
                Some(size) => Some((block.at, size)),
                None if is_within => {
                    let first = truth.range(block.at..end).next().map(|(at, size)| (*at, *size));
                    first.inspect(|(at, _)| assert!(truth.remove(at).is_some()))
                }
                None => None,
            };
            match own {
                None => extra.push(*block),
                Some((at, size)) if at + size != end => wrong.push((*block, size)),
                Some(_) => {}
            }
        }
        Found { walk, blocks, live, missing: truth.into_iter().collect(), extra, wrong }
    }
}

/// Stops all of a process's threads.
pub fn stop(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    let until = Instant::now() + DEADLINE;
    let tasks = format!("/proc/{}/task", pid);
    let is_stopped = |stat: PathBuf| {
        // One that ended meanwhile is stopped enough.
        let text = fs::read_to_string(stat).unwrap_or_else(|_| ") T".to_owned());
        text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['T', 'Z', 'X']))
    };
    while !fs::read_dir(&tasks).unwrap().all(|task| is_stopped(task.unwrap().path().join("stat"))) {
        assert!(Instant::now() < until, "it does not stop");
        std::thread::yield_now();
    }
}

/// Walks the heap of a stopped process.
pub fn walk(pid: i32, walker: &dyn Walker, blocks: &mut Vec<Block>) -> Answer {
    let process = Process::open(pid).unwrap();
    let live = Live::open(&process).unwrap();
    let moment = Moment::new(&live, Live::regions(&process).unwrap(), threads(pid));
    let before = Instant::now();
    let answer = walker.walk(&moment, blocks);
    eprintln!("{} blocks in {:?}", blocks.len(), before.elapsed());
    answer
}

/// The threads of the stopped process.
fn threads(pid: i32) -> Vec<Thread> {
    let tasks = fs::read_dir(format!("/proc/{}/task", pid)).unwrap();
    let names = tasks.map(|task| task.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| thread(name.parse().unwrap())).collect()
}

/// Its registers; `None` if it ended.
fn thread(tid: i32) -> Option<Thread> {
    let pid = Pid::from_raw(tid);
    ptrace::seize(pid, ptrace::Options::empty()).ok()?;
    ptrace::interrupt(pid).ok()?;
    waitpid(pid, Some(WaitPidFlag::__WALL)).ok()?;
    let registers = ptrace::getregs(pid).ok();
    ptrace::detach(pid, None).ok()?;
    registers.map(|own| Thread {
        tid,
        pointer: own.fs_base,
        stack: own.rsp,
        code: own.rip,
        registers: vec![
            own.rax, own.rbx, own.rcx, own.rdx, own.rsi, own.rdi, own.rbp, own.r8, own.r9, own.r10,
            own.r11, own.r12, own.r13, own.r14, own.r15,
        ],
        ..Thread::default()
    })
}

impl Found {
    /// How many of the first extra blocks can be objects that a library's own constructors made, past the
    /// program's functions.
    pub fn libraries(&self) -> usize {
        self.extra.iter().take(3).take_while(|block| block.size <= 80).count()
    }

    /// Every block of the table, no other, of the right sizes, and all checks hold.
    pub fn assert_exact(&self) {
        let Self { walk, missing, extra, wrong, live, .. } = self;
        let some = |count: usize| count.min(5);
        let told = format!(
            "of {live}: {} missing {:x?}, {} extra {:x?}, {} wrong {:x?}; {:#?}",
            missing.len(),
            &missing[..some(missing.len())],
            extra.len(),
            &extra[..some(extra.len())],
            wrong.len(),
            &wrong[..some(wrong.len())],
            walk.trust,
        );
        eprintln!(
            "{live} live, {} extra, {} missing, {} wrong",
            extra.len(),
            missing.len(),
            wrong.len()
        );
        assert!(missing.is_empty() && extra.is_empty() && wrong.is_empty(), "{told}");
        assert!(walk.is_exact() && !walk.checks.is_empty(), "{told}");
        assert!(walk.checks.iter().all(heapattach_census::Check::holds), "{told}");
        for arena in &walk.arenas {
            let (told, found) = (arena.system, arena.bytes.all());
            assert!(told.is_none_or(|told| told == found), "{}: {told:?}, {found}", arena.name);
            let unused: u64 = arena.top.iter().map(|range| range.end - range.start).sum();
            assert_eq!(unused, arena.bytes.top, "{}", arena.name);
            assert!(arena.memory.is_sorted_by(|a, b| a.end <= b.start), "{}", arena.name);
        }
        let is_inside = |block: &Block| {
            let memory = &walk.arenas[block.arena as usize].memory;
            let place = memory.partition_point(|range| range.end <= block.at);
            memory
                .get(place)
                .is_some_and(|range| range.start <= block.at && block.at + block.size <= range.end)
        };
        assert!(self.blocks.iter().all(is_inside), "a block outside of its arena");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
