//! A core and the live process at the same moment give the same census; what a core does not have is told.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};

use heapattach_census::{Census, CoreMemory, Moment, walkers};
use heapattach_injector::moment::Scene;
use heapattach_process::core_file::CoreFile;
use heapattach_test_folder::Folder;
use heapattach_tests::{
    command::Heapattach,
    compile::Source,
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    json_schema::faults,
    pty::Pty,
    sample::is_soak,
    seed::{Random, seed},
    skip::skip,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

const DONE: i32 = 0;
const FAILED: i32 = 1;
const UNSUPPORTED: i32 = 4;
const INCOMPLETE: i32 = 6;

fn json(words: &[&str], code: i32) -> Value {
    look(&[words, &["--unreachable"]].concat(), code)
}

fn look(words: &[&str], code: i32) -> Value {
    let outcome = Heapattach::new(words.iter().chain(&["--json"])).run().expect(code);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

fn of_core(path: &Path, code: i32) -> Value {
    json(&["heap", "--core", path.to_str().expect("a path of ours")], code)
}

/// Stops it and looks at it. It stays stopped.
fn stopped(fixture: &mut Fixture) -> Value {
    signal(fixture, Signal::SIGSTOP);
    let status = format!("/proc/{}/stat", fixture.pid());
    let is_stopped = || {
        let text = fs::read_to_string(&status).expect("a living process");
        text.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    };
    poll(PATIENCE, || is_stopped().then_some(())).expect("a stopped process");
    json(&["heap", "-p", &fixture.pid().to_string()], DONE)
}

fn signal(fixture: &Fixture, signal: Signal) {
    kill(Pid::from_raw(fixture.pid()), signal).expect("a process of ours");
}

/// Has gdb write a core of a stopped process.
fn gcore(fixture: &Fixture, folder: &Folder) -> Option<PathBuf> {
    gcore_of(fixture.pid(), folder)
}

/// The same of any process.
pub fn gcore_of(pid: i32, folder: &Folder) -> Option<PathBuf> {
    let prefix = folder.0.join("core");
    let command = Command::new("gcore")
        .arg("-o")
        .arg(&prefix)
        .arg(pid.to_string())
        .stdin(Stdio::null())
        .output();
    let Ok(output) = command else {
        skip("there is no gcore here", "apt-get install gdb");
        return None;
    };
    let path = folder.0.join(format!("core.{pid}"));
    assert!(path.is_file(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(path)
}

/// All that has nothing to do with what is resident.
fn essence(document: &Value) -> Value {
    let mut essence = Value::Null;
    for part in ["pid", "allocators", "sizes", "different_sizes", "classes", "unreachable"] {
        essence[part] = document[part].clone();
    }
    for allocator in essence["allocators"].as_array_mut().expect("allocators") {
        for arena in allocator["arenas"].as_array_mut().expect("arenas") {
            arena.as_object_mut().expect("an arena").remove("pages");
        }
    }
    essence
}

fn assert_same(live: &Value, core: &Value, what: &str) {
    assert_eq!(core["moment"]["method"], "core", "{what}: {core}");
    let (live, core) = (essence(live), essence(core));
    for part in ["pid", "allocators", "sizes", "different_sizes", "classes", "unreachable"] {
        assert_eq!(live[part], core[part], "{what}: {part}");
    }
    assert_eq!(core["unreachable"]["error"], Value::Null, "{what}");
}

/// Sums of a core are its own.
fn assert_sums(document: &Value, what: &str) {
    let memory = &document["memory"];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{what}: {value}"));
    let parts = memory["parts"].as_array().expect("parts").iter();
    let sum: u64 = parts.map(|part| number(&part["resident"])).sum();
    assert_eq!(sum, number(&memory["total"]["resident"]) + number(&memory["zero_page"]), "{what}");
    assert!(sum <= number(&document["core"]["bytes"]), "{what}: {sum}");
}

fn launches() -> Vec<(&'static str, Launch)> {
    let classes = Launch::new("classes.cpp").map(|launch| ("classes.cpp", launch));
    let heap = Source::new("heap_states.c").build();
    let heap = heap.map(|program| ("heap_states.c", Launch::program(&program).arg("3")));
    [classes, heap].into_iter().flatten().collect()
}

#[test]
fn a_core_by_gcore_tells_what_the_live_process_tells() {
    let schema = Heapattach::new(["schema", "heap"]).run().expect(DONE).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    for (name, launch) in launches() {
        let (mut fixture, folder) = (launch.start(), Folder::new("gcore"));
        let live = stopped(&mut fixture);
        let Some(path) = gcore(&fixture, &folder) else { return };
        let core = of_core(&path, DONE);
        assert_same(&live, &core, name);
        assert_sums(&core, name);
        assert_eq!(faults(&schema, &core), [""; 0], "{core}");
        signal(&fixture, Signal::SIGCONT);
        fixture.finish();
    }
}

/// Holders below variables: what threads are called is not in a core.
fn below_variables(document: &Value) -> Vec<(String, u64, u64)> {
    let rows = document["holders"]["holders"].as_array().into_iter().flatten();
    let told = |row: &Value| {
        let bytes = |part: &str| row[part]["bytes"].as_u64().expect("a number");
        (row["name"].to_string(), bytes("own"), bytes("retained"))
    };
    let mut rows: Vec<_> = rows.filter(|row| row["root"] == "globals").map(told).collect();
    rows.sort();
    rows
}

#[test]
fn holders_and_types_of_a_core_are_those_of_the_process() {
    let forms = [("holders.cpp", Some("map"), "holders"), ("store.c", None, "types")];
    for (name, argument, view) in forms {
        let Some(mut launch) = Launch::new(name) else { return };
        if let Some(argument) = argument {
            launch = launch.arg(argument);
        }
        let (mut fixture, folder) = (launch.start(), Folder::new("holders"));
        stopped(&mut fixture);
        let words = ["--view", view];
        let live = look(&[&["heap", "-p", &fixture.pid().to_string()], &words[..]].concat(), DONE);
        let Some(path) = gcore(&fixture, &folder) else { return };
        let path = path.to_str().expect("a path of ours");
        let core = look(&[&["heap", "--core", path], &words[..]].concat(), DONE);
        assert_same(&live, &core, name);
        let held = below_variables(&live);
        assert!(view != "holders" || held.iter().any(|row| row.0.contains("sessions")), "{live}");
        assert_eq!(held, below_variables(&core), "{name}");
        let typed = |document: &Value| {
            let mut typed = document["typed"].clone();
            typed.as_object_mut().map(|typed| typed.remove("took_ms"));
            typed
        };
        assert!(
            view != "types" || live["typed"]["declared"]["blocks"].as_u64() > Some(100),
            "{live}"
        );
        assert_eq!(typed(&live), typed(&core), "{name}");
        signal(&fixture, Signal::SIGCONT);
        fixture.finish();
    }
}

/// Has the kernel write one: what a look tells before, and where it is.
fn kernel_core(launch: Launch, folder: &Folder) -> Option<(Value, PathBuf)> {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").expect("a pattern");
    if pattern.starts_with('|') || pattern.contains('/') || pattern.trim().is_empty() {
        // In CI, too: where cores go is the machine's to say, and no test changes that.
        eprintln!(
            "SKIPPED: the kernel gives cores to {}; sysctl kernel.core_pattern=core",
            pattern.trim()
        );
        return None;
    }
    let mut fixture = launch.folder(&folder.0).start();
    let live = stopped(&mut fixture);
    let pid = fixture.pid().to_string();
    let limited = Command::new("prlimit").args(["--pid", &pid, "--core=unlimited"]).status();
    if !limited.is_ok_and(|status| status.success()) {
        skip("cores cannot be allowed", "apt-get install util-linux");
        return None;
    }
    signal(&fixture, Signal::SIGABRT);
    signal(&fixture, Signal::SIGCONT);
    poll(PATIENCE, || fixture.ended()).expect("an end");
    let mut files = fs::read_dir(&folder.0).expect("a folder of ours").flatten();
    let Some(file) = files.next() else {
        skip("the kernel has written no core", "kernel.core_pattern = core");
        return None;
    };
    Some((live, file.path()))
}

#[test]
fn a_core_by_the_kernel_tells_what_the_live_process_tells() {
    for (name, launch) in launches() {
        let folder = Folder::new("kernel-core");
        let Some((live, path)) = kernel_core(launch, &folder) else { return };
        let core = of_core(&path, DONE);
        assert_same(&live, &core, name);
        assert_sums(&core, name);
    }
}

#[test]
fn a_core_that_was_cut_off_says_what_is_missing() {
    let Some(launch) = Launch::new("classes.cpp") else { return };
    let folder = Folder::new("cut-off");
    let Some((_, path)) = kernel_core(launch, &folder) else { return };
    let whole = fs::metadata(&path).expect("a core").len();
    let file = File::options().write(true).open(&path).expect("a core of ours");
    // The stack is the last that is written of memory.
    for kept in [whole - 8192, whole / 2, whole / 4] {
        file.set_len(kept).expect("a shorter core");
        let words = ["heap", "--core", path.to_str().expect("a path"), "--json", "--unreachable"];
        let outcome = Heapattach::new(words).run();
        let code = outcome.code().expect("an exit status");
        assert!([UNSUPPORTED, INCOMPLETE].contains(&code), "{kept} of {whole}: {outcome:?}");
        let document: Value = serde_json::from_str(&outcome.stdout).expect("a document");
        let missing = document["core"]["cut_off"].as_u64().expect("a number");
        // The last page can be one that the kernel shows in every process.
        let cut = whole - kept;
        let core = &document["core"];
        assert!((cut - 4096..=cut).contains(&missing), "{kept} of {whole}: {core}");
        let why = document["unreachable"]["error"].as_str().expect("a reason");
        assert!(why.contains("not in the core"), "{why}");
        let page = Heapattach::new(["heap", "--core", path.to_str().expect("a path")]).run();
        assert!(page.stdout.contains("the core is cut off"), "{}", page.stdout);
    }
    file.set_len(200).expect("a shorter core");
    let told = of_core(&path, FAILED);
    assert!(told["error"].as_str().is_some_and(|why| why.contains("headers")), "{told}");
}

#[test]
fn a_core_without_the_notes_that_gdb_writes_last_is_told_as_cut_off() {
    let Some(launch) = Launch::new("classes.cpp") else { return };
    let (mut fixture, folder) = (launch.start(), Folder::new("no-notes"));
    stopped(&mut fixture);
    let Some(path) = gcore(&fixture, &folder) else { return };
    let file = File::options().write(true).open(&path).expect("a core of ours");
    file.set_len(64 << 10).expect("a shorter core");
    let told = of_core(&path, INCOMPLETE);
    assert!(told["error"].as_str().is_some_and(|why| why.contains("cut off")), "{told}");
    signal(&fixture, Signal::SIGCONT);
    fixture.finish();
}

#[test]
fn what_is_no_core_is_refused_and_a_program_that_moved_is_found() {
    let Some(launch) = Launch::new("classes.cpp") else { return };
    let (mut fixture, folder) = (launch.start(), Folder::new("moved"));
    let program = fs::read_link(format!("/proc/{}/exe", fixture.pid())).expect("a program");
    let told = of_core(&program, FAILED);
    assert!(told["error"].as_str().is_some_and(|why| why.contains("not a core")), "{told}");
    let live = stopped(&mut fixture);
    let Some(path) = gcore(&fixture, &folder) else { return };
    let copy = folder.0.join("program");
    fs::copy(&program, &copy).expect("a copy");
    let words = ["heap", "--core", path.to_str().expect("a path"), "--exe"];
    let words = [&words[..], &[copy.to_str().expect("a path")]].concat();
    assert_same(&live, &json(&words, DONE), "a copy of the program");
    // Another program than the one that was mapped is not believed.
    let words = [&words[..4], &["/bin/true"]].concat();
    let other = json(&words, DONE);
    let files = other["core"]["files"].as_array().expect("files").iter();
    let whys: Vec<_> = files.filter_map(|file| file["why"].as_str()).collect();
    assert!(whys.contains(&"it is another build"), "{whys:?}");
    signal(&fixture, Signal::SIGCONT);
    fixture.finish();
}

/// Headers, notes and memory, each changed at random.
#[test]
fn any_damage_to_a_core_is_survived() {
    let Some(launch) = Launch::new("classes.cpp") else { return };
    let (mut fixture, folder) = (launch.start(), Folder::new("damaged"));
    stopped(&mut fixture);
    let Some(path) = gcore(&fixture, &folder) else { return };
    signal(&fixture, Signal::SIGCONT);
    fixture.finish();
    let whole = fs::read(&path).expect("a core");
    let damaged = folder.0.join("other");
    let mut random = Random::new(seed());
    let (mut read, rounds) = (0, if is_soak() { 2000 } else { 60 });
    for _ in 0..rounds {
        let mut bytes = whole.clone();
        // Headers and notes are at the beginning; most damage is done there.
        let within = if random.draw().is_multiple_of(4) { bytes.len() as u64 } else { 16 << 10 };
        for _ in 0..=(random.draw() % 40) {
            let at = usize::try_from(random.draw() % within).expect("a place");
            let value = [0, 0xff, 0x7f, 0x80, 1][usize::try_from(random.draw() % 5).expect("one")];
            // The first bytes are what makes it a core.
            if at >= 0x20 {
                bytes[at] = value;
            }
        }
        fs::write(&damaged, &bytes).expect("a file of ours");
        let Ok(core) = CoreFile::open(&damaged, None) else { continue };
        let core = Arc::new(core);
        let Ok(memory) = CoreMemory::of(Arc::clone(&core), &Arc::default()) else { continue };
        let moment = Moment::new(&memory, memory.regions().to_vec(), Vec::new());
        let census = Census::take(&moment, &walkers::ALL);
        let scene = Scene::of_core(&core, 4096);
        read += usize::from(scene.is_ok() && census.allocators.len() < 100);
    }
    assert!(read > 0, "no core of {rounds} could be read");
    println!("{read} of {rounds} damaged cores could be read");
}

/// A large core takes long enough for it; where the command was too fast to say it, it is asked again.
#[test]
fn on_a_terminal_it_is_told_how_much_of_a_core_was_read() {
    let Some(launch) = Launch::new("hammer.c") else { return };
    let (mut fixture, folder) =
        (launch.arg("2").arg("400").arg("grow").start(), Folder::new("large"));
    let resident = || {
        let text = fs::read_to_string(format!("/proc/{}/statm", fixture.pid())).expect("it lives");
        let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        pages.expect("a number") * 4096
    };
    poll(PATIENCE, || (resident() > 100 << 20).then_some(())).expect("a large heap");
    // No thread is in the middle of a call then.
    fixture.pause();
    let Some(path) = gcore(&fixture, &folder) else { return };
    fixture.resume();
    let (begin, mut is_told) = (Instant::now(), false);
    while !is_told && begin.elapsed() < PATIENCE {
        let mut pty = Pty::new();
        let words = ["heap", "--core", path.to_str().expect("a path of ours")];
        let mut running = Heapattach::new(words).arg("--unreachable").terminal(pty.slave()).start();
        poll(PATIENCE, || {
            is_told |= pty.seen().contains("MiB read");
            (!running.is_running()).then_some(())
        });
        running.wait().expect(DONE);
    }
    assert!(is_told, "bytes that were read");
    fixture.assert_well();
    fixture.finish();
}
