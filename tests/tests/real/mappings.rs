//! Mappings of programs that people run, and of extremes: what is told agrees with the kernel's list, and what
//! it costs grows no faster than their number.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use heapattach_tests::{
    Folder,
    attached::{Attached, INTERRUPTED},
    command::Hooks,
    compile::{Source, is_there},
    real::{StartError, redis},
    skip::skip,
    toolchain::python_with,
    truth::{EXACT, places, run},
};
use nix::sys::signal::Signal;
use serde_json::Value;

/// A program that answers `done` to each line.
struct Talker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Talker {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("a program that is there");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = (input.expect("piped"), BufReader::new(output.expect("piped")));
        Self { child, input, output }
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    fn ask(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("it reads");
        let mut answer = String::new();
        while answer.trim_end() != "done" {
            answer.clear();
            assert_ne!(self.output.read_line(&mut answer).expect("text"), 0, "it ended");
        }
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes of mappings that are in the second list and not in the first; of no heap of brk and none of ours.
fn new_bytes(before: &BTreeMap<u64, u64>, after: &BTreeMap<u64, u64>) -> u64 {
    let is_old = |page: u64| before.range(..=page).next_back().is_some_and(|(_, end)| *end > page);
    let pages = after.iter().flat_map(|(start, end)| (*start..*end).step_by(4096));
    pages.filter(|page| !is_old(*page)).count() as u64 * 4096
}

fn list(pid: i32) -> BTreeMap<u64, u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let ranges =
        text.lines().filter(|line| !line.ends_with("[heap]") && !line.contains("heapattach"));
    let range = |line: &str| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).ok());
        Some((from?, to?))
    };
    ranges.filter_map(range).collect()
}

/// A session with some questions, and by how much the kernel's list grew in it.
fn session(talker: &mut Talker, line: &str, times: usize) -> (Value, u64) {
    // What is only made once is there by now.
    talker.ask(line);
    let command = Attached::command(talker.pid(), Hooks::Auto).arg("--no-record");
    let attached = Attached::open(command).unwrap_or_else(|why| panic!("{why}"));
    let before = list(talker.pid());
    (0..times).for_each(|_| talker.ask(line));
    let new = new_bytes(&before, &list(talker.pid()));
    let running = attached.into_command();
    running.signal(Signal::SIGINT);
    let outcome = running.wait().expect(INTERRUPTED);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(report["target"], "restored", "{report:#}");
    assert_eq!(report["heap"]["lost"]["blocks"], 0, "{report:#}");
    // No hook misses what unmaps.
    assert_eq!(report["summary"]["vanished"], Value::Null, "{:#}", report["summary"]);
    talker.ask(line);
    (report, new)
}

#[test]
fn a_python_that_maps_is_told_to_the_byte() {
    if !is_there("python3") {
        return skip("no python3 here", "apt-get install python3");
    }
    let script = "import sys, mmap\nkept = []\nfor line in sys.stdin:\n  \
                  kept.append(mmap.mmap(-1, 3 << 20))\n  other = mmap.mmap(-1, 5 << 20)\n  \
                  other.close()\n  print('done', flush=True)\n";
    let mut command = Command::new("python3");
    command.args(["-u", "-c", script]).env("PYTHONMALLOC", "malloc");
    let mut talker = Talker::start(command);
    let (report, new) = session(&mut talker, "more", 40);
    assert_eq!(report["heap"]["mapped_live"], 40 * (3 << 20), "{:#}", report["summary"]);
    assert_eq!(report["heap"]["mapped"], 40 * (8 << 20), "{:#}", report["summary"]);
    assert_eq!(new, 40 * (3 << 20), "the kernel's list");
}

#[test]
fn a_database_that_maps_its_file_is_told_as_the_kernel_has_it() {
    if !is_there("sqlite3") {
        return skip("no sqlite3 here", "apt-get install sqlite3");
    }
    let folder = Folder::new("mapped-database");
    let mut command = Command::new("sqlite3");
    command.arg(folder.0.join("a.db"));
    let mut talker = Talker::start(command);
    talker.ask("PRAGMA mmap_size=268435456; CREATE TABLE t(a); SELECT 'done';");
    let line = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
                INSERT INTO t SELECT randomblob(200) FROM n; SELECT sum(length(a)) FROM t; \
                SELECT 'done';";
    let (report, new) = session(&mut talker, line, 10);
    let live = report["heap"]["mapped_live"].as_u64().expect("a number");
    assert!(live > 1 << 20, "its file grows, and its mapping: {:#}", report["summary"]);
    // It unmaps and maps what it had before, in part at the same place.
    assert!(live >= new, "{live} live, {new} new in the kernel's list: {:#}", report["summary"]);
}

/// LMDB has its whole file mapped, shared: most of it is never touched.
#[test]
fn a_database_of_one_mapping_is_a_file_that_is_held() {
    let Some(python) = python_with("lmdb", "lmdb") else { return };
    let folder = Folder::new("mapped-lmdb");
    let script = "import sys, lmdb\nkept = []\nfor line in sys.stdin:\n  \
                  path = sys.argv[1] + '/' + str(len(kept))\n  \
                  kept.append(lmdb.open(path, map_size=64 << 20))\n  \
                  with kept[-1].begin(write=True) as t:\n    \
                  [t.put(b'key %d' % i, b'v' * 100) for i in range(1000)]\n  \
                  other = lmdb.open(path + 'x', map_size=32 << 20)\n  other.close()\n  \
                  print('done', flush=True)\n";
    let mut command = Command::new(python);
    command.args(["-u", "-c", script]).arg(&folder.0).env("PYTHONMALLOC", "malloc");
    let mut talker = Talker::start(command);
    let (report, _) = session(&mut talker, "more", 10);
    let files: Vec<_> =
        report["summary"]["mapped_sites"].as_array().into_iter().flatten().collect();
    let live = report["heap"]["mapped_live"].as_u64().expect("a number");
    // Its lock file is mapped too: 8 KiB for 126 readers.
    let own = 10 * (64 << 20);
    assert!((own..own + (1 << 20)).contains(&live), "{live} live: {files:#?}");
    let all = report["heap"]["mapped"].as_u64().expect("a number");
    assert!(all >= 10 * (96 << 20), "{all} in all: {files:#?}");
}

#[test]
fn runtimes_that_map_for_themselves_are_told_without_a_gap() {
    let folder = Folder::new("mapping-runtimes");
    let source = folder.0.join("Keep.java");
    let java = "import java.nio.ByteBuffer; import java.util.*; public class Keep { \
                public static void main(String[] a) { List<Object> kept = new ArrayList<>(); \
                Scanner s = new Scanner(System.in); while (s.hasNextLine()) { s.nextLine(); \
                kept.add(ByteBuffer.allocateDirect(4 << 20)); kept.add(new byte[1 << 20]); \
                System.out.println(\"done\"); } } }";
    fs::write(&source, java).expect("a folder of ours");
    let node = "const kept = []; require('readline').createInterface({ input: process.stdin })\
                .on('line', () => { kept.push(new ArrayBuffer(4 << 20)); console.log('done'); })";
    let runtimes: [(&str, Vec<&str>); 2] = [
        ("java", vec!["-Xmx512m", source.to_str().expect("a plain path")]),
        ("node", vec!["-e", node]),
    ];
    for (program, arguments) in runtimes {
        if !is_there(program) {
            skip(&format!("no {program} here"), "apt-get install default-jdk nodejs");
            continue;
        }
        let mut command = Command::new(program);
        command.args(arguments);
        let mut talker = Talker::start(command);
        let (report, _) = session(&mut talker, "more", 20);
        println!("{program}: {:#}", report["summary"]["unhooked"]);
    }
}

#[test]
fn a_redis_that_forks_a_snapshot_has_its_mappings_once() {
    let mut server = match redis::start() {
        Ok(server) => server,
        Err(StartError::Missing(cure)) => return skip("no redis here", cure),
        Err(StartError::Failed(why)) => panic!("redis does not start: {why}"),
    };
    let command = Attached::command(server.pid(), Hooks::Auto).arg("--no-record");
    let attached = Attached::open(command).unwrap_or_else(|why| panic!("{why}"));
    let load = redis::load(&server);
    let socket = redis::socket(&server);
    for _ in 0..3 {
        let saved = Command::new("redis-cli").arg("-s").arg(&socket).arg("BGSAVE").output();
        assert!(saved.expect("redis-cli, of the same package").status.success());
        let then = load.answered();
        heapattach_tests::deadline::wait_until(
            "answers",
            heapattach_tests::deadline::PATIENCE,
            || load.answered() > then + 1000,
        );
    }
    load.finish().unwrap_or_else(|wrong| panic!("redis answered wrongly: {wrong}"));
    let running = attached.into_command();
    running.signal(Signal::SIGINT);
    let report: Value =
        serde_json::from_str(&running.wait().expect(INTERRUPTED).stdout).expect("JSON");
    assert_eq!(report["summary"]["vanished"], Value::Null, "{:#}", report["summary"]);
    assert_eq!(report["heap"]["lost"]["blocks"], 0, "{report:#}");
    assert!(server.is_alive(), "redis died");
}

#[test]
fn sixty_thousand_mappings_are_exact_and_cost_by_their_number() {
    let Some(program) = Source::new("many_mappings.c").build() else { return };
    // Beside its own the kernel allows a few.
    let most = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    if most.trim().parse::<u64>().is_ok_and(|most| most < 62_000) {
        return skip("few mappings are allowed here", "sysctl vm.max_map_count=65530");
    }
    let cost = |count: u64| {
        let cost = |_| {
            let (outcome, report) = run(&EXACT, &program, &[&count.to_string()]);
            assert!(report.is_complete(), "lost {:?}", report.heap.lost);
            let sites = report.heap.sites.iter().filter(|site| site.is_in("site_many"));
            let got = sites.fold([0; 2], |[m, l], site| [m + site.mapped, l + site.mapped_live]);
            assert_eq!(got, places(&outcome.stdout)["site_many"], "{count} mappings");
            report.expense.cpu_us
        };
        (0..3).map(cost).min().expect("three")
    };
    let (few, many) = (cost(7_500), cost(60_000));
    println!("7,500 mappings: {few} us, 60,000: {many} us of processor time of heapattach");
    assert!(many < 8 * few * 2, "{many} us for eight times what took {few}");
}

#[test]
fn threads_that_come_and_go_leave_nothing_mapped_that_is_not() {
    let Some(program) = Source::new("short_threads.c").build() else { return };
    for hooks in [Hooks::Auto, Hooks::Slots] {
        let mut server = heapattach_tests::fixture::Launch::program(Path::new(&program)).start();
        let attached =
            Attached::start(Attached::command(server.pid(), hooks).arg("--no-record"), &mut server);
        server.advance(2000);
        let running = attached.into_command();
        running.signal(Signal::SIGINT);
        let report: Value =
            serde_json::from_str(&running.wait().expect(INTERRUPTED).stdout).expect("JSON");
        assert_eq!(report["summary"]["vanished"], Value::Null, "{:#}", report["summary"]);
        server.finish();
    }
}
