//! Programs are followed through their execs and, with `--follow-forks`, into their children: every
//! process has its own figures, nothing is lost, and nothing behaves as it would not without us.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use heapattach_tests::{
    Folder,
    command::{Heapattach, Outcome},
    compile::Source,
    deadline::{PATIENCE, wait_until},
    report::{Report, fresh_file},
    sample::is_soak,
    seed::{Random, seed},
    skip::skip,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// What one program allocated by its own code: calls of malloc and of free, and bytes.
type Truth = (u64, u64, u64);

fn family() -> Option<PathBuf> {
    Source::new("family.c").build()
}

/// Runs a program with the report in a file; gives the report too.
fn run(options: &[&str], program: &[&str], folder: &Path) -> (Outcome, Report) {
    let file = fresh_file();
    let mut command = Heapattach::new(["run", "--json", "--report"]).arg(&file).folder(folder);
    for argument in options.iter().chain(&["--"]).chain(program) {
        command = command.arg(*argument);
    }
    let outcome = command.run();
    let text = fs::read_to_string(&file).unwrap_or_default();
    let _ = fs::remove_file(&file);
    let report = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("no report ({error}): {text}\n{}", outcome.stderr));
    (outcome, report)
}

fn anywhere() -> PathBuf {
    std::env::temp_dir()
}

/// What the fixture says, by process, program after program.
fn told(output: &str) -> BTreeMap<i32, Vec<Truth>> {
    let mut told: BTreeMap<i32, Vec<Truth>> = BTreeMap::new();
    for line in output.lines().filter_map(|line| line.strip_prefix("truth ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number of the fixture");
        let pid = words[0].parse().expect("a pid");
        told.entry(pid).or_default().push((number(2), number(3), number(4)));
    }
    told
}

/// The same as the report has it.
fn counted(report: &Report, program: &Path) -> BTreeMap<i32, Vec<Truth>> {
    let name = program.file_name().expect("a file").to_string_lossy().into_owned();
    let mut counted: BTreeMap<i32, Vec<Truth>> = BTreeMap::new();
    for one in report.family() {
        assert!(one.error.is_none(), "{:?} in {one:?}", one.error);
        assert!(one.is_complete(), "lost something: {one:?}");
        let bytes = one.bytes_from("malloc", &name);
        let calls = (one.calls_from("malloc", &name), one.calls_from("free", &name), bytes);
        counted.entry(one.pid).or_default().push(calls);
    }
    counted
}

const EXACT: [&str; 3] = ["--all", "--on-full", "wait"];

#[test]
fn every_process_of_a_family_has_its_own_exact_figures() {
    let Some(program) = family() else { return };
    let path = program.to_string_lossy().into_owned();
    for hooks in ["auto", "slots"] {
        let options = [&EXACT[..], &["--follow-forks", "--hooks", hooks]].concat();
        let (outcome, report) = run(&options, &[&path, "tree"], &anywhere());
        assert_eq!(outcome.code(), Some(3), "{}", outcome.stderr);
        let told = told(&outcome.stdout);
        assert_eq!(told.len(), 7, "the fixture tells of its processes: {}", outcome.stdout);
        assert_eq!(counted(&report, &program), told, "by {hooks}");
        let statuses: Vec<_> = report
            .family()
            .iter()
            .map(|one| (one.outcome.clone(), one.exit.as_ref().and_then(|exit| exit.code)))
            .collect();
        let exits = statuses.iter().filter_map(|(_, code)| *code).collect::<Vec<_>>();
        let mut sorted = exits.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [1, 2, 3, 4, 5, 6, 6], "{statuses:?}");
        let children = report.processes.iter().filter(|one| one.parent == report.pid).count();
        assert!(
            children >= 5,
            "{:?}",
            report.processes.iter().map(|p| p.parent).collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_program_that_execs_is_picked_up_before_its_first_allocation() {
    let Some(program) = family() else { return };
    let path = program.to_string_lossy().into_owned();
    let (outcome, report) = run(&EXACT, &[&path, "chain", "10"], &anywhere());
    assert_eq!(outcome.code(), Some(8), "{}", outcome.stderr);
    let told = told(&outcome.stdout);
    assert_eq!(told.values().map(Vec::len).collect::<Vec<_>>(), [11]);
    assert_eq!(counted(&report, &program), told);
    assert!(report.processes.iter().all(|one| one.outcome == "execed"));
    assert_eq!(report.outcome, "exited");
}

#[test]
fn what_a_launcher_starts_is_what_the_report_and_the_named_file_are_about() {
    let Some(program) = family() else { return };
    let folder = Folder::new("launcher");
    let path = program.to_string_lossy().into_owned();
    let script = format!("exec env A=1 {path} second");
    let options = [&EXACT[..], &["-o", "it.heapattach"]].concat();
    let (outcome, report) = run(&options, &["sh", "-c", &script], &folder.0);
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(report.command.contains("second"), "{}", report.command);
    let before: Vec<&str> = report.processes.iter().map(|one| one.command.as_str()).collect();
    assert_eq!(before, [&format!("sh -c {script}"), &format!("env A=1 {path} second")]);
    let file = folder.0.join("it.heapattach");
    let shown = Heapattach::new(["report"]).arg(&file).arg("--view").arg("sites").run().expect(0);
    assert!(shown.stdout.contains("ask"), "not the last program: {}", shown.stdout);
}

#[test]
fn nothing_traces_a_program_that_must_not_be_traced() {
    let script = "grep TracerPid /proc/self/status";
    let options = ["run", "--no-record", "--no-follow-exec", "--", "sh", "-c", script];
    let outcome = Heapattach::new(options).run().expect(0);
    assert_eq!(outcome.stdout, "TracerPid:\t0\n");
}

#[test]
fn short_lived_processes_all_end_as_they_would() {
    let Some(program) = family() else { return };
    let path = program.to_string_lossy().into_owned();
    for options in [&["--follow-forks", "--max-processes", "4000"][..], &[]] {
        let rounds = if is_soak() { 200 } else { 20 };
        let words = [&path, "storm", &rounds.to_string()].map(|word| word.to_string());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (outcome, report) = run(options, &words, &anywhere());
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        assert!(outcome.stdout.ends_with("storm over\n"), "{}", outcome.stdout);
        if options.is_empty() {
            let not = report.not_looked_at.expect("it forked");
            assert!(not.why.contains("--follow-forks"), "{not:?}");
        } else {
            let mut pids: Vec<i32> = report.family().iter().map(|one| one.pid).collect();
            pids.sort_unstable();
            pids.dedup();
            assert_eq!(pids.len(), 1 + rounds * 5);
        }
    }
}

#[test]
fn processes_beyond_the_limit_run_and_are_counted() {
    let Some(program) = family() else { return };
    let path = program.to_string_lossy().into_owned();
    let options = ["--follow-forks", "--max-processes", "3"];
    let (outcome, report) = run(&options, &[&path, "storm", "5"], &anywhere());
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.ends_with("storm over\n"), "{}", outcome.stdout);
    let mut pids: Vec<i32> = report.family().iter().map(|one| one.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 3);
    let not = report.not_looked_at.expect("there were more");
    // Children of those that were let go are not even seen.
    assert!(not.count.is_some_and(|count| count >= 15), "{not:?}");
}

#[test]
fn signals_stops_and_statuses_are_what_they_were() {
    let Some(program) = family() else { return };
    let path = program.to_string_lossy().into_owned();
    for options in [&["--follow-forks"][..], &[], &["--no-follow-exec"]] {
        let (outcome, _) = run(options, &[&path, "signals"], &anywhere());
        assert_eq!(outcome.code(), Some(0), "{options:?}: {}", outcome.stderr);
    }
}

#[test]
fn every_process_leaves_a_recording_named_after_it() {
    let folder = Folder::new("named");
    let options = ["run", "--follow-forks", "--all", "--", "sh", "-c", "ls / | wc -l; exit 4"];
    let outcome = Heapattach::new(options).folder(&folder.0).run().expect(4);
    assert!(outcome.stderr.contains("FAMILY"), "{}", outcome.stderr);
    let names = fs::read_dir(&folder.0).expect("a folder").filter_map(Result::ok);
    let names: Vec<String> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    for program in ["sh.", "ls.", "wc."] {
        let own = names.iter().find(|name| name.starts_with(program));
        let own = own.unwrap_or_else(|| panic!("none of {program}: {names:?}"));
        Heapattach::new(["report"]).arg(folder.0.join(own)).run().expect(0);
    }
}

/// Runs a command plain and followed; both must say the same.
fn compare(folder: &Path, words: &[&str]) -> Option<Report> {
    let plain = Command::new(words[0]).args(&words[1..]).current_dir(folder).output();
    let Ok(plain) = plain else {
        skip(&format!("no {} here", words[0]), "install it");
        return None;
    };
    let (outcome, report) = run(&["--follow-forks"], words, folder);
    assert_eq!(outcome.code(), plain.status.code(), "{words:?}: {}", outcome.stderr);
    assert_eq!(outcome.stdout, String::from_utf8_lossy(&plain.stdout), "{words:?}");
    for one in report.family() {
        assert!(one.error.is_none() && one.left.is_empty(), "{one:?}");
    }
    Some(report)
}

#[test]
fn pipelines_git_make_and_python_do_as_they_do() {
    let folder = Folder::new("tools");
    let git = "git init -q . && for i in 1 2 3; do echo $i > $i; git add .; \
               git -c user.name=a -c user.email=a@b commit -q -m $i; done";
    let made = Command::new("sh").args(["-c", git]).current_dir(&folder.0).status();
    let rules = "all: 1 2 3 4 5 6 7 8\n%: ; @expr $@ + 1 | cat > $@.out\n.PHONY: 1 2 3 4 5 6 7 8\n";
    fs::write(folder.0.join("Makefile"), rules).expect("a file");
    let pool = "import multiprocessing as m\n\
                if __name__ == '__main__':\n \
                m.set_start_method('METHOD')\n \
                with m.Pool(3) as p: print(sum(p.map(abs, range(100))))\n";
    let mut commands = vec![
        vec!["sh", "-c", "ls / | sort -r | (cat; exit 3); echo $?; (exit 5)"],
        vec!["make", "-s", "-j4"],
    ];
    if made.is_ok_and(|status| status.success()) {
        commands.push(vec!["git", "log", "--oneline"]);
        commands.push(vec!["git", "gc", "-q"]);
        commands.push(vec!["git", "fsck"]);
    } else {
        skip("no git here", "apt-get install git");
    }
    for method in ["fork", "spawn", "forkserver"] {
        let name = format!("{method}.py");
        fs::write(folder.0.join(&name), pool.replace("METHOD", method)).expect("a file");
        commands.push(vec!["python3", Box::leak(name.into_boxed_str())]);
    }
    for words in commands {
        if let Some(report) = compare(&folder.0, &words) {
            println!("{words:?}: {} programs", report.family().len());
        }
    }
}

/// One request to a server on the loopback interface.
fn ask(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn a_server_and_its_workers_are_followed_and_left_as_they_were() {
    if Command::new("nginx").arg("-v").output().is_err() {
        return skip("no nginx here", "apt-get install nginx-light");
    }
    let folder = Folder::new("nginx");
    let root = folder.0.display();
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("one").port();
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {root}/{kind}; "))
        .concat();
    let config = format!(
        "daemon off; worker_processes 2; pid {root}/pid; error_log {root}/errors; events {{}} \
         http {{ access_log off; {paths} server {{ listen 127.0.0.1:{port}; \
         location / {{ return 200 hello; }} }} }}"
    );
    let file = folder.0.join("nginx.conf");
    fs::write(&file, config).expect("a file");
    let report = fresh_file();
    let mut command = Heapattach::new(["run", "--follow-forks", "--json", "--report"]);
    command = command.arg(&report).arg("--").arg("nginx").arg("-c").arg(&file);
    let running = command.start();
    let answers = || ask(port).is_some_and(|answer| answer.ends_with("hello"));
    wait_until("the server", PATIENCE, answers);
    let master = fs::read_to_string(folder.0.join("pid")).expect("its pid");
    let master = Pid::from_raw(master.trim().parse().expect("a number"));
    // New workers take the place of the old ones.
    kill(master, Signal::SIGHUP).expect("it runs");
    for _ in 0..200 {
        assert!(answers(), "no answer: {}", running.talk());
    }
    kill(master, Signal::SIGQUIT).expect("it runs");
    let outcome = running.wait().expect(0);
    let text = fs::read_to_string(&report).unwrap_or_default();
    let _ = fs::remove_file(&report);
    let report: Report = serde_json::from_str(&text).expect("a report");
    let workers: Vec<&Report> =
        report.processes.iter().filter(|one| one.parent == report.pid).collect();
    assert!(workers.len() >= 2, "{text}\n{}", outcome.stderr);
    assert!(workers.iter().any(|one| one.calls_of("malloc") > 0), "{text}");
    for one in report.family() {
        assert!(one.error.is_none() && one.left.is_empty(), "{one:?}");
        assert_eq!(one.exit.as_ref().and_then(|exit| exit.code), Some(0), "{one:?}");
    }
}

#[test]
fn the_report_of_a_family_is_about_its_largest_process_and_has_all_by_their_titles() {
    let Some(program) = Source::new("titled_family.c").build() else { return };
    let folder = Folder::new("titles");
    let [begin, end, output] = ["begin", "end", "output"].map(|name| folder.0.join(name));
    let mut family = Command::new(&program)
        .args([&begin, &end])
        .arg("room for the titles")
        .stdout(fs::File::create(&output).expect("a folder of ours"))
        .spawn()
        .expect("it runs");
    let json = format!("--json={}", folder.0.join("report.json").display());
    let command = Heapattach::new(["-p", &family.id().to_string(), "--all", "--follow-forks"]);
    let running = command.arg(json).folder(&folder.0).start();
    wait_until("the attach", PATIENCE, || running.talk().contains("attached to "));
    fs::write(&begin, "").expect("a folder of ours");
    wait_until("the titles", PATIENCE, || fs::read(&output).is_ok_and(|text| !text.is_empty()));
    // Titles are asked for once more when the processes are left.
    running.signal(Signal::SIGINT);
    let outcome = running.wait();
    fs::write(&end, "").expect("a folder of ours");
    assert!(family.wait().expect("a child of ours").success());
    let text = outcome.stdout;
    let line = |start: &str| text.lines().find(|line| line.contains(start)).unwrap_or_default();
    assert!(
        line("process ").contains(" (served: alice), looked at for "),
        "{text}{}",
        outcome.stderr
    );
    for (name, held) in [("alice", "4.8 MiB"), ("bob", "488.3 KiB"), ("carol", "488.3 KiB")] {
        let told = format!(" served: {name}: ");
        assert!(line(&told).contains(&format!(", {held} in use, ")), "{name}: {text}");
    }
    let small = line(" 7 x titled_family");
    assert!(small.contains(": 1000 B in use, "), "{text}");
    // What all have in use by one place, to the byte.
    let sums: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.0.join("report.json")).expect("a report"))
            .expect("JSON");
    let make = &sums["together"][0];
    assert!(
        make["place"].as_str().is_some_and(|place| place.starts_with("make (titled_family.c:"))
    );
    assert_eq!(make["live"]["bytes"]["value"].as_f64(), Some(60.0 * 100_000.0 + 1000.0), "{make}");
    assert_eq!(make["processes"], 4);
    // Every recording is named.
    let files = fs::read_dir(&folder.0).expect("a folder of ours").flatten();
    let files = files.filter_map(|file| file.file_name().into_string().ok());
    let recordings: Vec<_> = files.filter(|name| name.ends_with(".heapattach")).collect();
    assert_eq!(recordings.len(), 10, "{recordings:?}");
    assert!(recordings.iter().all(|name| text.contains(name.as_str())), "{text}");
}

/// Whether a process of this command line is left.
fn is_left(marker: &str) -> bool {
    let pids = fs::read_dir("/proc").expect("procfs").filter_map(Result::ok);
    pids.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok()).any(|line| {
        let line = String::from_utf8_lossy(&line).into_owned();
        line.starts_with(marker)
    })
}

/// The child of this process, if it has one.
fn child_of(pid: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[test]
fn a_family_runs_on_when_the_command_or_its_tracer_is_killed() {
    let Some(built) = family() else { return };
    let (seed, turns) = (seed(), if is_soak() { 100 } else { 12 });
    let mut random = Random::new(seed);
    for turn in 0..turns {
        // Its own name, to see whether one of its processes is left behind.
        let folder = Folder::new(&format!("killed-{turn}"));
        let program = folder.0.join("family");
        fs::copy(&built, &program).expect("a copy");
        let path = program.to_string_lossy().into_owned();
        let words = ["run", "--follow-forks", "--no-record", "--", &path, "storm", "20"];
        let command = Heapattach::new(words).start();
        thread::sleep(Duration::from_micros(random.between(1000, 600_000)));
        let tracer = child_of(command.pid()).filter(|_| turn % 2 == 0);
        let victim = tracer.unwrap_or_else(|| command.pid());
        let _ = kill(Pid::from_raw(victim), Signal::SIGKILL);
        let when = format!("the end after a kill (turn {turn}, seed {seed})");
        let mut began = false;
        wait_until(&when, PATIENCE, || {
            began |= is_left(&path);
            !is_left(&path)
        });
        // If the kill came before the program began, there was nothing to end.
        let output = command.output();
        let talk = command.talk();
        let is_whole = output.ends_with("storm over\n") || !began;
        assert!(is_whole, "turn {turn}, seed {seed}: {output}\n{talk}");
    }
    println!("killed {turns} times, seed {seed}");
}
