//! Methods of Java that allocate memory outside of its heap are named, with the stack that Java sees itself.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use heapattach_ledger::{Ledger, Metric, Runtime};
use heapattach_tests::{
    Folder,
    attached::Attached,
    command::Hooks,
    compile::{fixture, is_there},
    fixture::Launch,
    recorded::Recorded,
    skip::skip,
    truth::whole,
};

use super::{ALL, LEAST_BLOCK, Server, WORK, scripts};

const JAVA: &str = "[java]";
/// The step of the fixture that begins a virtual thread.
const VIRTUAL: u64 = 2;
/// What lies between a method of the fixture and the block.
const LEADS: [&str; 4] = [
    "jdk.internal.misc.Unsafe.allocateMemory0:",
    "jdk.internal.misc.Unsafe.allocateMemory:",
    "sun.misc.Unsafe.allocateMemory:",
    "JavaFrames.held:",
];
/// Interpreted, and compiled by each of the two compilers, and as it comes: flags, and how often all was gone through before.
const WAYS: [(&str, &[&str], &str); 4] = [
    ("interpreted", &["-Xint"], "0"),
    ("compiled quickly", &["-Xcomp", "-XX:TieredStopAtLevel=1"], "0"),
    ("compiled well", &["-XX:-TieredCompilation", "-Xbatch"], "12000"),
    ("as it comes", &[], "3000"),
];

/// Virtual machines that are installed: the program, and what it calls itself.
fn machines() -> Vec<(PathBuf, String)> {
    let own = std::env::var_os("HEAPATTACH_JAVAS").unwrap_or_else(|| "/usr/lib/jvm".into());
    let folders = std::env::split_paths(&own).flat_map(|folder| {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).chain([folder]).collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for folder in folders.filter(|folder| !folder.is_symlink()) {
        let program = folder.join("bin/java");
        let Ok(told) = Command::new(&program).arg("-version").output() else { continue };
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        let version = told.split('"').nth(1).unwrap_or_default().to_owned();
        if folder.join("lib/server/libjvm.so").exists() {
            all.push((program, version));
        }
    }
    assert!(!all.is_empty(), "a javac without a virtual machine");
    all
}

/// The fixture, compiled, and its library in C.
fn compiled(source: &str) -> Option<(Folder, PathBuf)> {
    if !is_there("javac") {
        skip("no javac here", "apt-get install default-jdk-headless");
        return None;
    }
    let folder = Folder::new("java");
    let mut javac = Command::new("javac");
    let javac = javac.arg("-nowarn").arg("-d").arg(&folder.0).arg(fixture(source));
    assert!(javac.output().expect("it is there").status.success(), "{source}");
    let library = folder.0.join("libframes.so");
    let home = fs::canonicalize("/usr/bin/javac").expect("where it is");
    let include = home.ancestors().nth(2).expect("its home").join("include");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-I"])
        .arg(&include)
        .arg("-I")
        .arg(include.join("linux"))
        .arg("-o")
        .arg(&library)
        .arg(fixture("java_frames.c"))
        .status();
    assert!(built.expect("a compiler").success());
    Some((folder, library))
}

/// Each line of the fixture is the stack of a block of that size.
fn assert_stacks(ledger: &Ledger, told: &str, what: &str) -> usize {
    let mut expected: BTreeMap<Vec<String>, (u64, u64)> = BTreeMap::new();
    for line in told.lines() {
        let mut words = line.split(' ');
        let size: u64 = words.next().and_then(|word| word.parse().ok()).expect("a size");
        let (count, bytes) = expected.entry(words.map(str::to_owned).collect()).or_default();
        (*count, *bytes) = (*count + 1, *bytes + size);
    }
    let mut found: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for row in &ledger.rows {
        let bytes = whole(row.measure(Metric::Allocated).bytes.value);
        let frames = scripts(ledger, row.stack, JAVA);
        let is_lead = |frame: &&String| LEADS.iter().any(|lead| frame.starts_with(lead));
        let leads = frames.iter().take_while(is_lead).count();
        if bytes >= LEAST_BLOCK && leads > 0 {
            *found.entry(frames[leads..].to_vec()).or_default() += bytes;
        }
    }
    let mut wrong = 0;
    for (stack, (count, bytes)) in &expected {
        let own = found.get(stack).copied().unwrap_or(0);
        if !(*bytes..=bytes + 32 * count).contains(&own) {
            wrong += 1;
            let like = found.iter().filter(|(_, all)| (*bytes..=bytes + 32 * count).contains(*all));
            println!("{what}: {bytes} {stack:?}: {own}, {:?}", like.collect::<Vec<_>>());
        }
    }
    assert_eq!(wrong, 0, "{what}: of {} stacks", expected.len());
    expected.len()
}

/// What the fixture did at a command, recorded, what it told, and the report.
fn recorded(
    program: &Path,
    flags: &[&str],
    warm: &str,
    (folder, library): (&Folder, &Path),
    (step, options): (u64, &[&str]),
) -> (Ledger, String) {
    let (told, file) = (folder.0.join("told"), Recorded::new());
    let launch = flags.iter().fold(Launch::program(program), |launch, flag| launch.arg(flag));
    let launch = launch.arg("-cp").arg(&folder.0).arg("JavaFrames").arg(warm);
    let mut fixture = launch.arg(library).arg(&told).start();
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("-o").arg(&file.0);
    let command = ALL.iter().chain(options).fold(command, |command, word| command.arg(*word));
    let attached = Attached::start(command, &mut fixture);
    fixture.step(step, 0);
    attached.end();
    fixture.finish();
    (file.ledger(), fs::read_to_string(told).expect("what it told"))
}

#[test]
fn every_block_has_the_stack_that_java_sees() {
    let Some((folder, library)) = compiled("JavaFrames.java") else { return };
    for (program, version) in machines() {
        for (way, flags, warm) in WAYS {
            let from = (&folder, &*library);
            let (ledger, told) = recorded(&program, flags, warm, from, (WORK, &[]));
            let what = format!("{version} {way}");
            let stacks = assert_stacks(&ledger, &told, &what);
            println!("{what}: {stacks} stacks");
            assert!(stacks >= 33, "{what}: {stacks}");
            let name = format!("the Java virtual machine {version}");
            let is_named = |runtime: &Runtime| runtime.name == name && runtime.is_named;
            assert!(ledger.about.runtimes.iter().any(is_named), "{what}: {:?}", ledger.about);
            assert_upcall(&ledger, &what);
        }
    }
}

/// From Java through C to Java: what C does between is told where it is.
fn assert_upcall(ledger: &Ledger, what: &str) {
    let names = ledger.rows.iter().map(|row| {
        ledger.calls(row.stack).map(|call| call.function.name.clone()).collect::<Vec<_>>()
    });
    let through = names.filter(|calls| {
        let at = |name: &str| calls.iter().position(|call| call == name);
        let (hold, back) = (at("JavaFrames.hold"), at("Java_JavaFrames_back"));
        let (outer, main) = (at("JavaFrames.throughC"), at("JavaFrames.main"));
        hold.is_some() && hold < back && back < outer && outer < main
    });
    assert!(through.count() > 0, "{what}");
}

/// The verdict on a server names the line whose memory is never freed, not the library of Java that allocates it.
#[test]
fn the_line_of_a_server_that_leaks_is_named() {
    if !is_there("java") {
        return skip("no java here", "apt-get install default-jdk-headless");
    }
    let script = fixture("JavaServer.java");
    let text = fs::read_to_string(&script).expect("a fixture");
    let line = text.lines().position(|line| line.contains("// the leak")).expect("a leak") + 1;
    let server = Server::start("java", &script);
    let told = server.told_under_load("4s");
    let place = format!("Sessions.open (JavaServer.java:{line})");
    let verdict = told.split(" HEAP ").next().unwrap_or_default();
    assert!(verdict.contains(&place), "no {place}: {told}");
}

/// A virtual thread has its own frames and those of what carries it, and after it has waited as many as are on the stack by then.
#[test]
fn virtual_threads_have_no_frames_that_they_do_not_have() {
    let Some((folder, library)) = compiled("JavaFrames.java") else { return };
    let release = |version: &str| version.split('.').next().and_then(|told| told.parse().ok());
    let have = |(_, version): &(_, String)| release(version).is_some_and(|told: u32| told >= 21);
    let machines: Vec<_> = machines().into_iter().filter(have).collect();
    if machines.is_empty() {
        return eprintln!(
            "SKIPPED: no Java with virtual threads here; a folder of one in HEAPATTACH_JAVAS"
        );
    }
    for (program, version) in machines {
        let from = (&folder, &*library);
        let (ledger, _) = recorded(&program, &[], "0", from, (VIRTUAL, &[]));
        let stack = |size: u64| {
            let of_size = ledger.rows.iter().find(|row| {
                let bytes = whole(row.measure(Metric::Allocated).bytes.value);
                (size..size + 64).contains(&bytes)
            });
            let frames = scripts(&ledger, of_size.expect("a block").stack, JAVA);
            let is_lead = |frame: &String| LEADS.iter().any(|lead| frame.starts_with(lead));
            frames.into_iter().skip_while(is_lead).collect::<Vec<_>>()
        };
        let (all, later) = (stack(300_000), stack(400_000));
        let at = |name: &str| all.iter().position(|frame| frame.starts_with(name));
        let (waits, entered) = (at("JavaFrames.waits:"), at("java.lang.VirtualThread.run:"));
        let carrier = at("java.util.concurrent.ForkJoinWorkerThread.run:");
        assert!(waits == Some(0) && waits < entered && entered < carrier, "{version}: {all:?}");
        assert!(later.first().is_some_and(|frame| frame.starts_with("JavaFrames.waits:")));
        assert_eq!(later[1..], all[1..later.len()], "{version}");
    }
}

#[test]
fn methods_of_java_are_not_named_where_that_is_not_wanted() {
    let Some((folder, library)) = compiled("JavaFrames.java") else { return };
    let from = (&folder, &*library);
    let (ledger, _) = recorded(Path::new("java"), &[], "0", from, (WORK, &["--scripts", "off"]));
    assert!(ledger.rows.iter().all(|row| scripts(&ledger, row.stack, JAVA).is_empty()));
}
