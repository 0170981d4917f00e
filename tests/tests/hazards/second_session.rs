//! What one session makes of a build another one takes from the cache, if it is what it should be.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, UNIX_EPOCH},
};

use heapattach_tests::{
    command::{Heapattach, Hooks},
    fixture::{Fixture, Launch},
    measure::rank,
    real::{conversation::Conversation, installed, programs::PROGRAMS},
    skip::skip,
};

const WINDOW: Duration = Duration::from_millis(100);

/// A folder that no other test uses.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("heapattach-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("room for a folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("our own folder");
        Self(path)
    }

    /// The files, and which each is; but for names, of which each session may ask for others.
    fn files(&self) -> BTreeMap<PathBuf, u64> {
        let entries = fs::read_dir(&self.0).expect("our own folder").filter_map(Result::ok);
        let are_names = |path: PathBuf| fs::read(path).is_ok_and(|b| b.starts_with(b"HANAMES1"));
        let entries = entries.filter(|entry| !are_names(entry.path()));
        entries.map(|e| (e.path(), e.metadata().expect("it is there").ino())).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until what is read of the program may be kept: a file that was changed just now could change once
/// more and bear the same time.
fn settle(pid: i32) {
    let program = fs::metadata(format!("/proc/{pid}/exe")).expect("it runs");
    let changed = UNIX_EPOCH + Duration::from_secs(program.ctime().unsigned_abs() + 1);
    while changed.elapsed().map_or(true, |age| age < Duration::from_secs(3)) {
        thread::sleep(Duration::from_millis(50));
    }
}

/// The rows of all tables of a session.
fn rows(fixture: &mut Fixture, cache: &str, options: &[&str]) -> u64 {
    fixture.advance(1);
    let mut command = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg("--no-record");
    command = command.env("HEAPATTACH_CACHE", cache);
    for option in options {
        command = command.arg(*option);
    }
    let outcome = command.run().expect(0);
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("a report");
    let rows = report["stacks"]["rows"].as_u64().expect("rows");
    assert!(rows > 1000, "hardly any: {rows}");
    rows
}

fn name(path: &Path) -> &str {
    path.to_str().expect("a name of ours")
}

#[test]
fn a_second_session_has_the_same_tables_and_makes_none() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let mut fixture = launch.start();
    settle(fixture.pid());
    let folder = Folder::new("second-session");
    let first = rows(&mut fixture, name(&folder.0), &[]);
    let kept = folder.files();
    // libc and the loader at least.
    assert!(kept.len() >= 2, "{kept:?}");
    assert_eq!(rows(&mut fixture, name(&folder.0), &[]), first);
    assert_eq!(folder.files(), kept, "something was made anew");
    fixture.finish();
}

#[test]
fn files_that_are_not_what_they_should_be_are_made_anew() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let mut fixture = launch.start();
    settle(fixture.pid());
    let folder = Folder::new("damaged-session");
    let first = rows(&mut fixture, name(&folder.0), &[]);
    let kept = folder.files();
    for (number, path) in kept.keys().enumerate() {
        let mut bytes = fs::read(path).expect("a file of ours");
        match number % 3 {
            0 => bytes.truncate(bytes.len() / 2),
            1 => bytes.iter_mut().skip(40).for_each(|byte| *byte ^= 0x55),
            _ => bytes.clear(),
        }
        fs::write(path, bytes).expect("a file of ours");
    }
    assert_eq!(rows(&mut fixture, name(&folder.0), &[]), first);
    let mended = folder.files();
    assert!(mended.keys().eq(kept.keys()), "{mended:?} {kept:?}");
    assert!(mended.values().zip(kept.values()).all(|(now, before)| now != before));
    assert_eq!(rows(&mut fixture, name(&folder.0), &[]), first);
    assert_eq!(folder.files(), mended);
    fixture.finish();
}

#[test]
fn where_there_is_to_be_no_cache_there_is_none() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let mut fixture = launch.start();
    let folder = Folder::new("no-cache-session");
    let first = rows(&mut fixture, "off", &[]);
    assert_eq!(rows(&mut fixture, name(&folder.0), &["--no-cache"]), first);
    assert!(folder.files().is_empty());
    // Others may look into this one.
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).expect("our own folder");
    assert_eq!(rows(&mut fixture, name(&folder.0), &[]), first);
    assert!(folder.files().is_empty());
    assert_eq!(rows(&mut fixture, "/nowhere/at/all", &[]), first);
    fixture.finish();
}

/// Seconds of processor time of one attach with this cache.
fn seconds(pid: i32, cache: &str) -> f64 {
    let command = Heapattach::attach(pid, WINDOW, Hooks::Auto).arg("--no-record");
    let report = command.env("HEAPATTACH_CACHE", cache).run().expect(0).report();
    Duration::from_micros(report.expense.cpu_us).as_secs_f64()
}

fn print_attaches(name: &str, pid: i32) {
    settle(pid);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for turn in 0..5 {
        let folder = Folder::new(&format!("attaches-{name}-{turn}"));
        first.push(seconds(pid, self::name(&folder.0)));
        second.push(seconds(pid, self::name(&folder.0)));
    }
    println!(
        "{name}: {:.3} s of processor time without a cache, {:.3} s the second time (goal 0.03; \
         medians of {})",
        rank(&first, 500),
        rank(&second, 500),
        first.len()
    );
}

/// Processor time of first and second attaches: `cargo test --release --workspace --test hazards --
/// --ignored --nocapture what_a_second`, on a machine that does nothing else.
#[test]
#[ignore = "a measurement: it asserts nothing that a busy machine would not change"]
fn what_a_second_attach_takes() {
    let Some(mut fixture) = Launch::new("steady.c").map(Launch::start) else { return };
    // At rest: what it allocates meanwhile is not what is measured.
    fixture.pause();
    print_attaches("steady", fixture.pid());
    fixture.resume();
    fixture.finish();
    for program in PROGRAMS.iter().filter(|program| ["python3", "node"].contains(&program.name)) {
        if installed(program.file).is_none() {
            skip(&format!("{} is not installed", program.name), program.package);
            continue;
        }
        let mut conversation = Conversation::start(program).expect("it answers");
        print_attaches(program.name, conversation.pid());
        conversation.ask(1).expect("it answers still");
        conversation.finish().expect("it ends");
    }
}
