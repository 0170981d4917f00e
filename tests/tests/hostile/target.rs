//! Processes of an ordinary user that attack the heapattach of root that attaches to them: root's
//! files stay as they are, its heapattach comes to an end within bounds, the machine's other processes
//! are left alone, and the target, if it is honest enough to live on, is as it was.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks, Outcome, binary},
    fixture::{Fixture, Launch},
    page::Word,
    report::Report,
    skip::skip,
};
use nix::sys::signal::{Signal, kill};

const WINDOW: Duration = Duration::from_millis(10);
const DONE: i32 = 0;
const FAILED: i32 = 1;
const REFUSED: i32 = 3;

/// What the hostile process can do most to heapattach's own memory, and to its processor time.
const MOST_MEMORY: u64 = 256 << 20;
const MOST_CPU: u64 = 20_000_000;

/// Attempts at what succeeds by chance.
fn attempts() -> usize {
    let cycles = std::env::var("HEAPATTACH_CYCLES").ok().and_then(|text| text.parse().ok());
    cycles.unwrap_or(10_usize).max(5) * 2
}

/// A folder that the user of the hostile process can write, gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("heapattach-hostile-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a folder for temporary files");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("it is ours");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The attack, under way; `None` where it cannot be made here, which is said.
fn attack(arguments: &[&str]) -> Option<Fixture> {
    if !nix::unistd::geteuid().is_root() {
        skip("only root can be attacked by another user", "run the tests as root");
        return None;
    }
    let launch = Launch::new("hostile_target.c")?;
    let launch = arguments.iter().fold(launch, |launch, argument| launch.arg(argument));
    let fixture = launch.start_if_allowed();
    if fixture.is_none() {
        skip(
            &format!("the attack {arguments:?} is not possible here"),
            "run as root, on Linux 5.11",
        );
    }
    fixture
}

fn attach(fixture: &Fixture) -> Outcome {
    Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg("--no-record").run()
}

/// Panics unless it came to an end of its own, within bounds.
fn assert_sound(outcome: &Outcome) {
    let said = format!("{:?}\n{}\n{}", outcome.status, outcome.stdout, outcome.stderr);
    assert!(outcome.code().is_some_and(|code| code != 101), "{said}");
    assert!(!outcome.stderr.contains("panicked"), "{said}");
    assert!(!outcome.stderr.contains("died"), "{said}");
    let expense = outcome.report().expense;
    assert!(expense.memory < MOST_MEMORY, "{} bytes: {said}", expense.memory);
    assert!(expense.cpu_us < MOST_CPU, "{} us of processor time: {said}", expense.cpu_us);
}

/// A file of root's that is not to be touched.
struct Victim {
    path: PathBuf,
    text: String,
    stamp: (u64, i64, i64),
}

impl Victim {
    fn new(folder: &Folder) -> Self {
        let path = folder.0.join("victim");
        let text = "of root alone\n".repeat(100);
        fs::write(&path, &text).expect("room for a small file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let stamp = Self::stamp(&path);
        Self { path, text, stamp }
    }

    fn stamp(path: &Path) -> (u64, i64, i64) {
        let found = fs::metadata(path).expect("it is still there");
        (found.len(), found.mtime(), found.mtime_nsec())
    }

    fn assert_untouched(&self) {
        assert_eq!(Self::stamp(&self.path), self.stamp, "the victim was written to");
        assert_eq!(fs::read_to_string(&self.path).expect("readable"), self.text);
    }
}

#[test]
fn a_file_put_in_the_place_of_ours_is_not_touched() {
    let folder = Folder::new("swap");
    let victim = Victim::new(&folder);
    let path = victim.path.to_str().expect("a path of ours");
    let Some(mut fixture) = attack(&["swap", path]) else { return };
    let mut refused = 0;
    for loader in ["map", "dlopen"] {
        for _ in 0..attempts() {
            let outcome = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto);
            let outcome = outcome.arg("--no-record").arg(format!("--loader={loader}")).run();
            victim.assert_untouched();
            assert_sound(&outcome);
            if outcome.stderr.contains("is not the file in memory that was just made there") {
                refused += 1;
                assert_eq!(outcome.code(), Some(FAILED), "{}", outcome.stderr);
                assert_eq!(outcome.report().target, "restored");
            }
            fixture.advance(1);
        }
    }
    eprintln!("{refused} times the attack came in time, of {}", 2 * attempts());
    let came = fixture.page().get(Word::Seen);
    assert!(came > 0, "no file was ever exchanged: the attack does not work");
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn a_file_of_ours_that_is_shrunk_and_sealed_ends_nothing() {
    let Some(mut fixture) = attack(&["shrink"]) else { return };
    for _ in 0..attempts() {
        assert_sound(&attach(&fixture));
        fixture.advance(1);
    }
    fixture.assert_well();
    fixture.finish();
}

/// The command without the right to follow the kernel's own links to mapped files: it has to go by
/// their names.
fn attach_by_names(pid: i32) -> Output {
    let without = "-sys_admin,-checkpoint_restore";
    let mut command = Command::new("setpriv");
    command.args([&format!("--bounding-set={without}"), &format!("--inh-caps={without}")]);
    let command = command.arg(binary()).args(["-p", &pid.to_string()]);
    let command = command.args(["--duration", "10ms", "--json", "--no-record"]);
    command.stdin(Stdio::null()).output().expect("setpriv, of util-linux")
}

/// A filter of our own, as sandboxes have it, that knows no pidfd_getfd: the region then is memory of
/// the target's, and no file is taken over at all.
#[test]
fn without_pidfd_getfd_no_file_is_taken_over() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let mut fixture = launch.start();
    let script = "import ctypes, os, struct, sys\n\
        code = [(0x20, 0, 0, 0), (0x15, 0, 1, 438), (0x06, 0, 0, 0x50026), (0x06, 0, 0, 0x7fff0000)]\n\
        filters = b''.join(struct.pack('HBBI', *line) for line in code)\n\
        room = ctypes.create_string_buffer(filters)\n\
        program = ctypes.create_string_buffer(struct.pack('H6xQ', len(code), ctypes.addressof(room)))\n\
        libc = ctypes.CDLL(None)\n\
        assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0\n\
        os.execv(sys.argv[1], sys.argv[1:])\n";
    let mut command = Command::new("python3");
    let command =
        command.args(["-c", script]).arg(binary()).args(["-p", &fixture.pid().to_string()]);
    let command = command.args(["--duration", "300ms", "--json", "--no-record", "--all"]);
    let output = command.stdin(Stdio::null()).output().expect("python3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(DONE), "{said}");
    let report: Report = serde_json::from_slice(&output.stdout).expect("a report");
    assert!(report.calls() > 0 && report.target == "restored", "{report:?}");
    let links = fs::read_dir(format!("/proc/{}/fd", fixture.pid())).expect("it runs");
    let names = links.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    assert!(!names.into_iter().any(|name| name.starts_with("/memfd:heapattach")), "left open");
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn no_fifo_is_opened_in_the_place_of_a_mapped_file() {
    let folder = Folder::new("exchange");
    let text = folder.0.to_str().expect("a path of ours");
    let Some(mut fixture) = attack(&["exchange", text]) else { return };
    for _ in 0..attempts() {
        assert_sound(&attach(&fixture));
        let output = attach_by_names(fixture.pid());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(DONE), "{said}");
        // The fixture is told by the kernel of every open.
        fixture.assert_well();
    }
    assert!(fixture.page().get(Word::Seen) > 0, "nothing was exchanged");
    fixture.finish();
}

#[test]
fn no_fifo_is_opened_in_a_file_tree_that_the_target_made() {
    let folder = Folder::new("root");
    let text = folder.0.to_str().expect("a path of ours");
    let Some(mut fixture) = attack(&["root", text]) else { return };
    assert_sound(&attach(&fixture).expect(DONE));
    let output = attach_by_names(fixture.pid());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(DONE), "{said}");
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn no_fifo_is_opened_behind_mounts_that_the_target_made() {
    let folder = Folder::new("mounts");
    let text = folder.0.to_str().expect("a path of ours");
    let Some(mut fixture) = attack(&["mounts", text]) else { return };
    let map = || fs::read_to_string(format!("/proc/{}/mountinfo", fixture.pid()));
    let before = map().expect("it runs");
    let outcome = attach(&fixture).expect(DONE);
    assert_sound(&outcome);
    assert_eq!(outcome.report().target, "restored", "{}", outcome.stderr);
    let output = attach_by_names(fixture.pid());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(DONE), "{said}");
    assert_eq!(map().expect("it runs"), before);
    fixture.advance(1);
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn a_write_lease_on_a_mapped_file_does_not_hold_us() {
    let folder = Folder::new("lease");
    let text = folder.0.to_str().expect("a path of ours");
    let Some(mut fixture) = attack(&["lease", text]) else { return };
    // The kernel takes a lease away from a holder that does not give it up, after 45 s for each open.
    // Now only after longer than any command may take here: one that waits for it hangs.
    let Some(_patience) = KernelsPatience::raised() else {
        return skip(
            "the kernel's patience with leases cannot be set",
            "run outside of a container",
        );
    };
    assert_sound(&attach(&fixture).expect(DONE));
    assert!(is_leased(&folder.0.join("library.so")), "there was no lease");
    fixture.assert_well();
    fixture.finish();
}

/// How long leases are waited for on this machine; as it was with the end of the test.
struct KernelsPatience(String);

impl KernelsPatience {
    const FILE: &str = "/proc/sys/fs/lease-break-time";

    fn raised() -> Option<Self> {
        let before = fs::read_to_string(Self::FILE).ok()?;
        fs::write(Self::FILE, "3600").ok()?;
        Some(Self(before))
    }
}

impl Drop for KernelsPatience {
    fn drop(&mut self) {
        let _ = fs::write(Self::FILE, &self.0);
    }
}

fn is_leased(path: &Path) -> bool {
    let inode = fs::metadata(path).expect("it is there").ino();
    let locks = fs::read_to_string("/proc/locks").expect("there is a /proc");
    locks.lines().any(|line| line.contains("LEASE") && line.contains(&format!(":{inode} ")))
}

/// What the kernel says of when a process was started.
fn started(pid: i32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let rest = stat.rsplit_once(") ").expect("a name in brackets").1;
    rest.split(' ').nth(19).expect("field 22").to_owned()
}

fn with_homes(owner: i32, modules: u64, changes: u64, count: u64) -> Option<Fixture> {
    let owned = started(owner);
    let numbers = [modules, changes, count].map(|number| number.to_string());
    let [modules, changes, count] = &numbers;
    attack(&["home", &owner.to_string(), &owned, modules, changes, count])
}

#[test]
fn a_home_that_names_another_process_as_its_owner_blocks_nothing() {
    let Some(mut fixture) = with_homes(1, 10, 10, 1) else { return };
    let pid = fixture.pid();
    let status = Heapattach::new(["status", "--json"]).run().expect(DONE).stdout;
    let rows: serde_json::Value = serde_json::from_str(&status).expect("rows");
    let own = rows.as_array().and_then(|rows| rows.iter().find(|row| row["pid"] == pid));
    let own = own.expect("the home is found: the fixture knows the layout");
    assert_eq!((&own["session"], &own["leftover"]), (&serde_json::Value::Null, &true.into()));
    assert_sound(&Heapattach::detach(pid).run().expect(DONE));
    let again = Heapattach::detach(pid).run().expect(DONE);
    assert!(again.stdout.contains("nothing to clean up"), "{}", again.stdout);
    fixture.advance(1);
    fixture.assert_well();
    fixture.finish();

    let Some(mut fixture) = with_homes(1, 10, 10, 1) else { return };
    assert_sound(&attach(&fixture).expect(DONE));
    fixture.advance(1);
    fixture.finish();
}

#[test]
fn a_session_that_lives_is_respected_until_the_user_says_otherwise() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let mut fixture = launch.start();
    let session = Attached::to(&mut fixture, Hooks::Auto);
    let pid = fixture.pid();
    for outcome in [attach(&fixture), Heapattach::detach(pid).run()] {
        let outcome = outcome.expect(REFUSED);
        for word in ["another heapattach", &session.tracer().to_string(), "--force", "untouched"] {
            assert!(outcome.stderr.contains(word), "not told {word}: {}", outcome.stderr);
        }
    }
    // Its owner stands still and gives nothing back: then the user can.
    let owner = session.tracer();
    kill(owner, Signal::SIGSTOP).expect("a child of a child");
    let report = Heapattach::detach(pid).arg("--force").run().expect(DONE).report();
    assert_eq!((&*report.outcome, &*report.target), ("detached", "restored"));
    kill(owner, Signal::SIGKILL).expect("it is there still");
    let _ = session.into_command().wait();
    fixture.advance(10);
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn large_and_many_homes_cost_little() {
    // As large as one may be, as many as are looked at; then larger; then a crowd.
    for (modules, changes, count) in
        [(1 << 16, 1 << 18, 3), (1 << 22, 1 << 10, 1), (1 << 10, 1 << 24, 1), (10, 10, 3000)]
    {
        let Some(mut fixture) = with_homes(1, modules, changes, count) else { return };
        let outcome = Heapattach::detach(fixture.pid()).run();
        let expense = outcome.report().expense;
        eprintln!(
            "{count} homes of {modules} modules, {changes} changes: {:?}, {} KiB, {} ms",
            outcome.code(),
            expense.memory >> 10,
            expense.cpu_us / 1000
        );
        assert_sound(&outcome);
        fixture.advance(1);
        fixture.assert_well();
        assert_sound(&attach(&fixture));
        fixture.finish();
    }
}

/// A session gives back what children inherited: as many as the target made, and what they made of it.
#[test]
fn forged_homes_of_many_children_cost_little() {
    const HEIRS: u64 = 24;
    let Some(mut fixture) = attack(&["heirs"]) else { return };
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--no-record");
    let session = Attached::start(command, &mut fixture);
    assert_eq!(fixture.step(1, HEIRS), HEIRS, "a child could not forge its home");
    let running = session.into_command();
    running.signal(Signal::SIGINT);
    let outcome = running.wait();
    let report = outcome.report();
    eprintln!(
        "{HEIRS} children: {:?}, {} KiB, {} ms, left {:?}",
        outcome.code(),
        report.expense.memory >> 10,
        report.expense.cpu_us / 1000,
        report.left
    );
    assert_sound(&outcome);
    assert_eq!(report.target, "restored", "{report:?}");
    fixture.advance(1);
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn a_list_of_modules_that_lies_costs_little() {
    for how in ["cycle", "wild", "long", "many"] {
        let Some(mut fixture) = attack(&["links", how]) else { return };
        let outcome = attach(&fixture);
        let expense = outcome.report().expense;
        eprintln!(
            "{how}: {:?}, {} KiB, {} ms",
            outcome.code(),
            expense.memory >> 10,
            expense.cpu_us / 1000
        );
        assert_sound(&outcome);
        assert!(outcome.report().left.is_empty(), "{}", outcome.stderr);
        fixture.advance(1);
        fixture.assert_well();
        fixture.finish();
    }
}

#[test]
fn a_crowd_of_mappings_costs_little() {
    let Some(mut fixture) = attack(&["maps"]) else { return };
    let outcome = attach(&fixture);
    assert_sound(&outcome);
    let status = Heapattach::new(["status"]).run().expect(DONE);
    assert!(!status.stderr.contains("panicked"), "{}", status.stderr);
    fixture.advance(1);
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn what_changes_all_the_time_is_attached_to_or_left_as_it_was() {
    for how in ["dumpable", "setuid", "seccomp", "threads", "forks"] {
        let Some(mut fixture) = attack(&["restless", how]) else { return };
        for _ in 0..attempts() / 4 {
            let outcome = attach(&fixture);
            assert_sound(&outcome);
            let report = outcome.report();
            assert!(report.left.is_empty() && report.target != "altered", "{how}: {report:?}");
            fixture.assert_well();
        }
        fixture.finish();
    }
}
