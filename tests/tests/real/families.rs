//! Families of processes that people run: a server and its workers attached to when they are at
//! work, programs that become others over and over, and Ctrl-C to all of them at once.

use std::{
    fs,
    io::Write,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks, binary},
    compile::{Source, is_there},
    deadline::{PATIENCE, poll, wait_until},
    fixture::Launch,
    real::{StartError, nginx},
    report::{Report, fresh_file},
    sample::is_soak,
    skip::skip,
};
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};

/// Programs that one process becomes, one after the other.
fn programs() -> usize {
    if is_soak() { 200 } else { 50 }
}

/// What that may take on a machine with much else to do.
const BOUND: Duration = Duration::from_secs(120);

fn follow(pid: i32) -> Attached {
    let command = Attached::command(pid, Hooks::Auto).arg("--follow-forks").arg("--no-record");
    Attached::open(command).unwrap_or_else(|why| panic!("{why}"))
}

fn assert_nothing_left(report: &Report) {
    for one in report.family() {
        assert!(one.error.is_none() && one.left.is_empty(), "{one:?}");
    }
}

#[test]
fn an_nginx_at_work_is_followed_to_its_new_workers() {
    let mut server = match nginx::start() {
        Ok(server) => server,
        Err(StartError::Missing(cure)) => return skip("no nginx here", cure),
        Err(StartError::Failed(why)) => panic!("nginx does not start: {why}"),
    };
    let load = nginx::pages(&server);
    let old = server.children();
    let attached = follow(server.pid());
    // New workers take the place of the old ones.
    kill(Pid::from_raw(server.pid()), Signal::SIGHUP).expect("it runs");
    wait_until("new workers", PATIENCE, || {
        let new = server.children();
        new.len() == old.len() && new.iter().all(|worker| !old.contains(worker))
    });
    let then = load.answered();
    wait_until("answers of the new workers", PATIENCE, || load.answered() > then + 200);
    let report = attached.end();
    assert_nothing_left(&report);
    let workers = report.processes.iter().filter(|one| one.parent == server.pid());
    let calls: u64 = workers.map(|worker| worker.calls_of("malloc")).sum();
    assert!(calls > 0, "no new worker was looked at: {report:?}");
    load.finish().unwrap_or_else(|wrong| panic!("nginx answered wrongly: {wrong}"));
    assert!(server.is_alive(), "nginx died");
}

#[test]
fn a_prefork_server_at_work_is_followed_to_its_new_workers() {
    let Some(launch) = Launch::new("prefork.c") else { return };
    let mut fixture = launch.arg("master").start();
    fixture.advance(100);
    let attached = follow(fixture.pid());
    // A worker leaves after some requests, and another comes.
    fixture.advance(400);
    let report = attached.end();
    assert_nothing_left(&report);
    let workers: Vec<_> =
        report.processes.iter().filter(|one| one.parent == fixture.pid()).collect();
    assert!(workers.len() >= 2, "{} new workers were looked at", workers.len());
    assert!(workers.iter().any(|worker| worker.calls_of("malloc") > 0), "{report:?}");
    fixture.assert_well();
    fixture.advance(100);
    fixture.finish();
}

/// Descriptors, and pages of memory, that a process has.
fn holds(pid: i32) -> Option<(usize, u64)> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    let pages = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    Some((files, pages.split(' ').nth(1)?.parse().ok()?))
}

/// The most that heapattach's processes hold until `is_over`.
fn watch(pid: i32, mut is_over: impl FnMut() -> bool) -> (usize, u64) {
    let (mut most, began) = ((0, 0), Instant::now());
    while !is_over() && began.elapsed() < BOUND {
        let own = heapattach_tests::real::children(pid).into_iter().chain([pid]);
        for (files, pages) in own.filter_map(holds) {
            most = (most.0.max(files), most.1.max(pages));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    most
}

/// Descriptors of a session are a few dozens, no matter how often its program has execed before.
const FILES: usize = 200;
/// 400 MiB: what is known of a program that was is kept for the report.
const PAGES: u64 = 100_000;

#[test]
fn a_program_that_becomes_others_over_and_over_is_run_in_bounds() {
    let Some(program) = Source::new("family.c").build() else { return };
    let (report, began, programs) = (fresh_file(), Instant::now(), programs());
    let command = Heapattach::new(["run", "--no-record", "--json", "--report"]).arg(&report);
    let command = command.arg("--").arg(&program).arg("chain").arg(programs.to_string());
    let mut command = command.start();
    let (files, pages) = watch(command.pid(), || !command.is_running());
    let outcome = command.wait();
    assert!(began.elapsed() < BOUND, "took {:?}", began.elapsed());
    assert_eq!(outcome.stdout.lines().count(), programs + 1, "{}", outcome.stdout);
    let text = fs::read_to_string(&report).unwrap_or_default();
    let _ = fs::remove_file(&report);
    let report: Report = serde_json::from_str(&text).expect("a report");
    assert_eq!(outcome.code(), report.exit.as_ref().and_then(|exit| exit.code));
    assert_eq!(report.family().len(), programs + 1);
    assert_nothing_left(&report);
    println!("{programs} programs in {:?}, {files} files, {pages} pages", began.elapsed());
    assert!(files < FILES && pages < PAGES, "{files} files and {pages} pages");
}

/// A shell that becomes a program when it is told to.
fn shell(program: &str) -> Child {
    let script = format!("read line; exec {program}");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null());
    command.spawn().expect("there is a shell")
}

#[test]
fn a_program_that_becomes_others_over_and_over_can_be_attached_to() {
    let Some(program) = Source::new("family.c").build() else { return };
    let programs = programs();
    let plain = Command::new(&program).args(["chain", "0"]).output().expect("it was built");
    let mut shell = shell(&format!("{} chain {programs}", program.display()));
    let pid = i32::try_from(shell.id()).expect("a pid");
    let name = || fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    wait_until("the shell to start", PATIENCE, || name().trim() == "sh");
    // It has its libraries before it reads.
    std::thread::sleep(Duration::from_millis(50));
    let began = Instant::now();
    let command = Attached::command(pid, Hooks::Auto).arg("--no-record");
    let mut command = Attached::open(command).unwrap_or_else(|why| panic!("{why}")).into_command();
    shell.stdin.as_mut().expect("piped").write_all(b"go\n").expect("the shell reads");
    let mut status = None;
    let (files, pages) = watch(command.pid(), || {
        status = status.or(shell.try_wait().expect("a child of ours"));
        status.is_some() && !command.is_running()
    });
    println!("{programs} programs in {:?}, {files} files, {pages} pages", began.elapsed());
    let status = status.unwrap_or_else(|| panic!("hangs: {}", command.talk()));
    assert_eq!(status.code(), plain.status.code());
    assert!(files < FILES && pages < PAGES, "{files} files and {pages} pages");
    // Where the program was when the command looked is a matter of chance: at its end, between two
    // programs, before its libraries were there, or never twice in the same one.
    let outcome = command.wait();
    let is_given_up = outcome.code() == Some(1) && outcome.stderr.contains("changed during each");
    let is_ended = [Some(0), Some(3), Some(4), Some(5)].contains(&outcome.code());
    assert!(is_ended || is_given_up, "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("altered"), "{}", outcome.stderr);
}

#[test]
fn what_cannot_be_looked_at_runs_in_its_family_as_it_would() {
    if !is_there("busybox") {
        return skip("no busybox here", "apt-get install busybox-static");
    }
    let script = "for i in 1 2 3; do echo $i | busybox awk '{ print $1 * 2 }'; done; \
                  busybox sh -c 'i=0; while [ $i -lt 500 ]; do i=$((i+1)); done; exit 7'";
    let plain = Command::new("sh").args(["-c", script]).output().expect("there is a shell");
    let options = ["run", "--follow-forks", "--no-record", "--", "sh", "-c", script];
    let outcome = Heapattach::new(options).run();
    assert_eq!(outcome.code(), plain.status.code(), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, String::from_utf8_lossy(&plain.stdout));
    // By itself, it is refused and not run, as env does with what it cannot run.
    let alone = Heapattach::new(["run", "--no-record", "--", "busybox", "echo", "ran"]).run();
    if alone.code() != Some(0) {
        assert_eq!((alone.code(), &*alone.stdout), (Some(125), ""), "{}", alone.stderr);
        assert!(alone.stderr.contains("no symbol names its allocator"), "{}", alone.stderr);
    }
}

#[test]
fn an_interrupt_of_the_whole_group_ends_the_family_and_the_report_comes() {
    let marker = format!("99{}", std::process::id());
    let script = format!("echo begun; sleep {marker} | sleep {marker}");
    let file = fresh_file();
    let output = fs::File::create(&file).expect("a temporary file");
    let talk = file.with_extension("talk");
    // A shell that starts the tests in the background has them ignore the signal, and so their children.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(binary());
    command.args(["run", "--follow-forks", "--no-record", "--", "sh", "-c", &script]);
    command.stdin(Stdio::null()).stdout(output).process_group(0);
    command.stderr(fs::File::create(&talk).expect("a temporary file"));
    let mut child = command.spawn().expect("the command under test runs");
    let sleepers = || {
        let pids = fs::read_dir("/proc").expect("procfs").filter_map(Result::ok);
        let lines = pids.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| line.ends_with(format!("sleep\0{marker}\0").as_bytes())).count()
    };
    wait_until("the pipeline", PATIENCE, || sleepers() == 2);
    let group = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    killpg(group, Signal::SIGINT).expect("our own group");
    let status = poll(PATIENCE, || child.try_wait().expect("a child of ours"));
    let said = fs::read_to_string(&talk).unwrap_or_default();
    let _ = (fs::remove_file(&file), fs::remove_file(&talk));
    let status = status.unwrap_or_else(|| panic!("hangs: {said}"));
    // The shell was ended by the signal, as it is without us.
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("FAMILY"), "no report: {said}");
    wait_until("the end of all of them", PATIENCE, || sleepers() == 0);
}
