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
    check,
    command::{Hooks, binary},
    compile::{Source, is_there},
    real::{StartError, redis},
    report::fresh_file,
    skip::skip,
    toolchain::{go_with_c, python_with},
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

/// Their heaps are full of pointers that are not such, in mappings of which only a part is used.
#[test]
fn no_mapping_of_a_runtime_is_called_leaked() {
    let folder = Folder::new("checked-runtimes");
    let source = folder.0.join("Maps.java");
    let java = "import java.util.*; public class Maps { public static void main(String[] a) \
                throws Exception { List<Object> kept = new ArrayList<>(); for (int i = 0; i < 8; i++) { \
                kept.add(java.nio.ByteBuffer.allocateDirect(1 << 20)); kept.add(new byte[1 << 20]); \
                Thread t = new Thread(() -> { }); t.start(); t.join(); } } }";
    fs::write(&source, java).expect("a folder of ours");
    let node = "const kept = []; for (let i = 0; i < 8; i++) { kept.push(new ArrayBuffer(4 << 20)); \
                kept.push(Buffer.alloc(1 << 20)); }";
    let runtimes: [(&str, Vec<&str>); 2] = [
        ("java", vec!["-Xmx256m", source.to_str().expect("a plain path")]),
        ("node", vec!["-e", node]),
    ];
    for (program, arguments) in runtimes {
        if !is_there(program) {
            skip(&format!("no {program} here"), "apt-get install default-jdk nodejs");
            continue;
        }
        let result = check::run(Path::new(program), &arguments, &[], &["--max-pause", "60s"]);
        let findings = result.check()["findings"].as_array().cloned().unwrap_or_default();
        let is_mapping = |finding: &&Value| finding["frames"][0]["function"] == "[mapped]";
        let mappings: Vec<_> = findings.iter().filter(is_mapping).collect();
        assert!(mappings.is_empty(), "{program}: {mappings:#?}");
        println!("{program}: code {:?}, {} findings", result.code, findings.len());
    }
}

/// Its runtime maps by the C library, too.
#[test]
fn a_go_program_with_c_is_told_to_the_byte_and_its_runtime_by_name() {
    let Some(program) = go_with_c("cgo_maps.go") else { return };
    let mut talker = Talker::start(Command::new(&program));
    let (report, _) = session(&mut talker, "more", 20);
    let sites = report["summary"]["mapped_sites"].as_array().cloned().unwrap_or_default();
    let sum = |is_its: &dyn Fn(&Value) -> bool, name: &str| -> u64 {
        sites.iter().filter(|site| is_its(site)).filter_map(|site| site[name].as_u64()).sum()
    };
    let is_own = |site: &Value| site["by"].is_null();
    let own = ["mapped", "live"].map(|name| sum(&is_own, name));
    assert_eq!(own, [20 * (8 << 20), 20 * (3 << 20)], "{sites:#?}");
    drop(talker);

    // Seen from its start, it maps its heap.
    let input = "more\n".repeat(20);
    let mut command = Command::new(binary());
    let file = fresh_file();
    command.args(["check", "--json", "--max-pause", "20s", "--report"]).arg(&file).arg("--");
    command.arg(&program).arg("lose").stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().expect("the command");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    assert_eq!(child.wait().expect("a child").code(), Some(23), "it leaks");
    let report: Value =
        serde_json::from_str(&fs::read_to_string(&file).expect("a report")).expect("JSON");
    let _ = fs::remove_file(&file);
    let findings = report["check"]["findings"].as_array().cloned().unwrap_or_default();
    let [finding] = &findings[..] else { panic!("one place leaks: {findings:#?}") };
    assert!(finding["frames"].to_string().contains("\"lose_pages\""), "{finding:#}");
    let count = finding["own"]["blocks"].as_u64().expect("a number");
    // A word on a stack may still lead to the last ones.
    assert!((36..=40).contains(&count), "{finding:#}");
    assert_eq!(finding["own"]["bytes"], count << 20, "{finding:#}");
    // What limits compare has what its C code mapped, and nothing of Go's heap.
    assert_eq!(report["check"]["heap"]["mapped"], 20 * (5 << 20), "{:#}", report["check"]["heap"]);
}

#[test]
fn stacks_of_threads_are_told_by_thread_and_by_who_began_them() {
    let Some(program) = Source::new("named_threads.c").flag("-pthread").build() else { return };
    let mut talker = Talker::start(Command::new(&program));
    // The first one is there before.
    let (report, new) = session(&mut talker, "more", 5);
    let sites = report["summary"]["mapped_sites"].as_array().cloned().unwrap_or_default();
    let [workers, watcher] = &sites[..] else { panic!("{sites:#?}") };
    let told = [
        (workers, "begin_worker", 4, "worker 1, worker 2, worker 4 and 1 more"),
        (watcher, "begin_watcher", 1, "watcher 3"),
    ];
    for (site, place, threads, stacks) in told {
        assert_eq!(site["by"], "stacks of threads");
        assert_eq!(site["live"].as_u64(), Some(new / 5 * threads), "{site:#}");
        assert!(site["place"].as_str().is_some_and(|at| at.starts_with(place)), "{site:#}");
        // None of the other's, though both called one function of the library.
        let kinds: Vec<_> = site["kinds"].as_array().into_iter().flatten().collect();
        let [guard, kind] = &kinds[..] else { panic!("{site:#}") };
        assert_eq!(*guard, "guard pages");
        let (_, named) = kind.as_str().and_then(|kind| kind.split_once(" of ")).expect("stacks");
        // Of a thread that runs just then the kernel tells nothing.
        let own = |name: &str| {
            let number = name.strip_prefix("worker ").and_then(|number| number.parse().ok());
            threads > 1 && number.is_some_and(|number: u32| [1, 2, 4, 5].contains(&number))
        };
        let is_part = named.split(", ").all(own);
        assert!(named == stacks || is_part, "{site:#}");
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

/// At its end a table, which a word of a stack may lead to or not, has pointers to all of them.
#[test]
fn sixty_thousand_mappings_are_judged_one_by_one() {
    let Some(program) = Source::new("many_mappings.c").build() else { return };
    let most = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    if most.trim().parse::<u64>().is_ok_and(|most| most < 62_000) {
        return skip("few mappings are allowed here", "sysctl vm.max_map_count=65530");
    }
    let cost = |count: u64| {
        let words = [count.to_string()];
        let words = words.each_ref().map(String::as_str);
        let result = check::run(&program, &words, &[], &["--max-pause", "60s"]);
        let kinds = ["direct", "indirect", "possible", "reachable"].map(|kind| result.sum(kind));
        let (bytes, mappings) = kinds.iter().fold((0, 0), |(b, m), kind| (b + kind.0, m + kind.1));
        // The C library has a block or two of its own.
        assert!((count / 3 + 1..count / 3 + 4).contains(&mappings), "{count}: {kinds:?}");
        assert!(bytes > count / 3 * 8192, "{count}: {kinds:?}");
        result.check()["look"]["took_us"].as_f64().expect("a number")
    };
    let best = |count| (0..3).map(|_| cost(count)).fold(f64::INFINITY, f64::min);
    let (few, many) = (best(7_500), best(60_000));
    println!("7,500 mappings are judged in {few:.0} us, 60,000 in {many:.0}");
    assert!(many < 8.0 * few * 3.0, "{many} us for eight times what took {few}");
}

#[test]
fn mappings_that_come_and_go_fast_leave_nothing_to_a_check() {
    let Some(program) = Source::new("map_pairs.c").build() else { return };
    let result = check::run(&program, &["4", "200000", "65536"], &[], &[]);
    assert_eq!(result.code, Some(0), "{}", result.talk);
    assert_eq!(result.lost(), [(0, 0); 3], "{:#}", result.report);
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
