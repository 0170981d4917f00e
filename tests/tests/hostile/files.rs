//! Files that options name, in folders that other users write to: nothing is written where they want
//! it, nothing is waited for that may never come, and nothing takes more memory than it needs.

use std::{
    fs::{self, File, Permissions},
    io::Write,
    os::{
        fd::AsRawFd,
        unix::fs::{PermissionsExt, lchown, symlink},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use heapattach_tests::{
    command::{Heapattach, Hooks, binary},
    compile::is_there,
    deadline::{PATIENCE, poll, wait_until},
    fixture::Launch,
    skip::skip,
};
use nix::{
    fcntl::OFlag,
    sys::{
        signal::{Signal, kill},
        stat::Mode,
    },
    unistd::{Pid, geteuid, mkfifo, pipe2},
};

const FAILED: i32 = 1;
const USAGE: i32 = 2;
const RUN_FAILED: i32 = 125;
/// An ordinary user.
const NOBODY: u32 = 65534;

/// A folder that all may write to, as `/tmp` is, gone with the test.
struct Shared(PathBuf);

impl Shared {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("heapattach-hostile-files-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("the temporary folder is ours to write");
        fs::set_permissions(&folder, Permissions::from_mode(0o1777)).expect("a folder of ours");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn pipe(&self, name: &str) -> String {
        mkfifo(&self.0.join(name), Mode::S_IRWXU).expect("a folder of ours");
        self.path(name)
    }

    /// A recording of a program that does nothing.
    fn recording(&self) -> String {
        let path = self.path("honest.heapattach");
        Heapattach::new(["run", "-o", &path, "--", "true"]).run().expect(0);
        path
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_link_of_another_user_is_followed_by_no_option_that_writes() {
    if !geteuid().is_root() {
        return skip("only root can give a link away", "run the tests as root");
    }
    let shared = Shared::new();
    let (precious, link, recording) =
        (shared.path("precious"), shared.path("link"), shared.recording());
    fs::write(&precious, "precious").expect("a folder of ours");
    symlink(&precious, &link).expect("a folder of ours");
    lchown(&link, Some(NOBODY), None).expect("we are root");
    let json = format!("--json={link}");
    let commands: [(&[&str], i32); 9] = [
        (&["report", &recording, "-o", &link], FAILED),
        (&["report", &recording, "--format", "pprof", "-o", &link], FAILED),
        (&["diff", &recording, &recording, "-o", &link], FAILED),
        (&["run", "--no-record", "--report", &link, "--", "true"], RUN_FAILED),
        (&["run", "--no-record", "--stacks", &link, "--", "true"], RUN_FAILED),
        (&["run", "--no-record", &json, "--", "true"], RUN_FAILED),
        (&["run", "--force", "-o", &link, "--", "true"], RUN_FAILED),
        (&["check", "--report", &link, "--", "true"], RUN_FAILED),
        (&["check", "--baseline", &link, "--update-baseline", "--", "true"], RUN_FAILED),
    ];
    for (words, status) in commands {
        let outcome = Heapattach::new(words).run().expect(status);
        let said = ["a link of user 65534", "is there already"];
        let is_said = said.iter().any(|said| outcome.stderr.contains(said));
        assert!(is_said, "{words:?}: {}", outcome.stderr);
        assert_eq!(fs::read_to_string(&precious).expect("it is there"), "precious", "{words:?}");
    }
}

/// Where another user knows what the file will be called.
#[test]
fn a_link_of_another_user_is_followed_by_no_file_that_top_makes_in_a_folder() {
    if !geteuid().is_root() {
        return skip("only root can give a link away", "run the tests as root");
    }
    let Some(launch) = Launch::new("steady.c") else { return };
    let (shared, fixture) = (Shared::new(), launch.start());
    let pid = fixture.pid().to_string();
    let (precious, link) = (shared.path("precious"), shared.path(&format!("{pid}.log")));
    fs::write(&precious, "precious").expect("a folder of ours");
    symlink(&precious, &link).expect("a folder of ours");
    lchown(&link, Some(NOBODY), None).expect("we are root");
    let folder = shared.0.to_str().expect("a path of ours");
    let outcome = Heapattach::new(["top", "-p", &pid, "-o", folder, "--once"]).run();
    assert_eq!(fs::read_to_string(&precious).expect("it is there"), "precious");
    let outcome = outcome.expect(FAILED);
    for said in [&*link, "target: untouched"] {
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
    // A file of an earlier session makes room.
    fs::remove_file(&link).expect("it is there");
    fs::write(&link, "an earlier session").expect("a folder of ours");
    Heapattach::new(["top", "-p", &pid, "-o", folder, "--once"]).run().expect(0);
    let log = fs::read_to_string(&link).expect("it is there");
    assert!(!log.contains("an earlier session"), "{log}");
    fixture.finish();
}

/// Which processes are barred stands there, and files are made there under known names.
#[test]
fn the_folder_of_an_agent_is_its_own_or_is_refused() {
    if !geteuid().is_root() {
        return skip("only root can give a folder away", "run the tests as root");
    }
    let shared = Shared::new();
    let at = |name: &str| PathBuf::from(shared.path(name));
    let (precious, state, config) = (at("precious"), at("state"), at("agent.toml"));
    let text = format!(
        "version = 1\nstate = '{}'\n[[rule]]\nname = 'a'\nprocess = 'a'\n",
        state.display()
    );
    fs::write(&config, text).expect("a folder of ours");
    fs::write(&precious, "precious").expect("a folder of ours");
    let allow = || {
        let config = config.to_str().expect("a path of ours");
        Heapattach::new(["agent", "--config", config, "--allow", "none"]).run().expect(FAILED)
    };
    fs::create_dir(&state).expect("a folder of ours");
    for name in ["lock", "state.new"] {
        symlink(&precious, state.join(name)).expect("a folder of ours");
    }
    let refusals = [
        (0o755, Some(NOBODY), "it is a folder of user 65534; need one of user 0"),
        (0o777, Some(0), "others can write to it (its mode is 0777); try chmod go-w"),
        (0o700, Some(0), "lock"),
    ];
    for (mode, owner, said) in refusals {
        fs::set_permissions(&state, Permissions::from_mode(mode)).expect("a folder of ours");
        lchown(&state, owner, None).expect("we are root");
        let outcome = allow();
        assert!(outcome.stderr.contains(said), "{said}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("targets: untouched"), "{}", outcome.stderr);
        assert_eq!(fs::read_to_string(&precious).expect("it is there"), "precious", "{said}");
    }
    fs::remove_file(state.join("lock")).expect("it is there");
    allow();
    assert_eq!(fs::read_to_string(&precious).expect("it is there"), "precious");
    // A link to a folder is one of another user.
    let (link, theirs) = (at("link"), at("theirs"));
    fs::create_dir(&theirs).expect("a folder of ours");
    symlink(&theirs, &link).expect("a folder of ours");
    lchown(&link, Some(NOBODY), None).expect("we are root");
    let text = fs::read_to_string(&config).expect("it is there");
    fs::write(&config, text.replace("/state'", "/link/state'")).expect("a folder of ours");
    let outcome = allow();
    assert!(outcome.stderr.contains("a link of user 65534"), "{}", outcome.stderr);
    assert_eq!(fs::read_dir(&theirs).expect("a folder").count(), 0, "something was made there");
}

#[test]
fn a_named_pipe_is_waited_for_by_no_option() {
    let shared = Shared::new();
    let (pipe, recording) = (shared.pipe("pipe"), shared.recording());
    let mark = shared.path("has-run");
    let json = format!("--json={pipe}");
    let commands: [(&[&str], i32); 10] = [
        (&["report", &pipe], FAILED),
        (&["diff", &recording, &pipe], FAILED),
        (&["report", &recording, "-o", &pipe], FAILED),
        (&["run", "--no-record", "--report", &pipe, "--", "touch", &mark], RUN_FAILED),
        (&["run", "--no-record", "--stacks", &pipe, "--", "touch", &mark], RUN_FAILED),
        (&["run", "--no-record", &json, "--", "touch", &mark], RUN_FAILED),
        (&["run", "-o", &pipe, "--", "touch", &mark], RUN_FAILED),
        (&["check", "--junit", &pipe, "--", "touch", &mark], RUN_FAILED),
        (&["check", "--suppressions", &pipe, "--", "touch", &mark], USAGE),
        (&["check", "--baseline", &pipe, "--", "touch", &mark], USAGE),
    ];
    for (words, status) in commands {
        let outcome = Heapattach::new(words).run().expect(status);
        assert!(outcome.stderr.contains("it is a named pipe"), "{words:?}: {}", outcome.stderr);
        // What cannot be told is known before the program has run for an hour.
        assert!(!Path::new(&mark).exists(), "{words:?}");
    }
}

#[test]
fn a_named_pipe_leaves_a_process_untouched() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let shared = Shared::new();
    let fixture = launch.start();
    let attach = Heapattach::attach(fixture.pid(), Duration::from_millis(50), Hooks::Auto);
    let outcome = attach.arg("--stacks").arg(shared.pipe("pipe")).run().expect(FAILED);
    assert!(outcome.stderr.contains("it is a named pipe"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("target: untouched"), "{}", outcome.stderr);
    fixture.finish();
}

#[test]
fn what_a_shell_passes_as_a_descriptor_is_written_and_read() {
    if !is_there("bash") {
        return skip("no bash here", "apt-get install bash");
    }
    let shared = Shared::new();
    let (out, rules) = (shared.path("out"), shared.path("rules"));
    let command = binary().display().to_string();
    let run = |script: &str| {
        let mut shell = Command::new("bash");
        let output = shell.args(["-c", script]).output().expect("it is there");
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{script}: {talk}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let whole = |path: &str| {
        // The reader that the shell has started is a process of its own.
        let text = || fs::read_to_string(path).ok().filter(|text| text.contains("TARGET"));
        poll(PATIENCE, text).unwrap_or_else(|| panic!("no report came through: {path}"))
    };
    run(&format!("{command} run --no-record --report >(cat > {out}) -- true"));
    whole(&out);
    for name in ["-", "/dev/stdout", "/dev/fd/1"] {
        let said = run(&format!("{command} run --no-record --report {name} -- echo mine"));
        assert!(said.starts_with("mine\n") && said.contains("TARGET"), "{name}: {said}");
    }
    run(&format!("{command} run --no-record --report /dev/null -- true"));
    fs::write(&rules, "leak:x\n").expect("a folder of ours");
    for from in [format!("<(cat {rules})"), format!("/dev/stdin < {rules}")] {
        run(&format!("{command} check --suppressions {from} -- true"));
    }
    let recording = shared.recording();
    let said = run(&format!("{command} report /dev/stdin < {recording}"));
    assert!(said.contains("process"), "{said}");
}

#[test]
fn whoever_waits_for_the_reader_of_a_report_can_end_it() {
    let (reader, writer) = pipe2(OFlag::empty()).expect("descriptors are left");
    let mut full = File::from(writer.try_clone().expect("descriptors are left"));
    // Not a byte more goes into it.
    let length = usize::try_from(
        nix::fcntl::fcntl(&full, nix::fcntl::FcntlArg::F_GETPIPE_SZ).expect("it is a pipe"),
    )
    .expect("a length");
    full.write_all(&vec![0; length]).expect("there is room for that");
    let to = format!("/dev/fd/{}", writer.as_raw_fd());
    // A shell that starts the tests in the background has them ignore the signal, and so their children.
    let mut child = Command::new("env")
        .arg("--default-signal=INT")
        .arg(binary())
        .args(["run", "--no-record", "--report", &to, "--", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command under test runs");
    let pid = child.id();
    let waits = || {
        let where_to = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        where_to.contains("pipe") && where_to.contains("writ")
    };
    wait_until("the report to be waited for", PATIENCE, waits);
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGINT).expect("a child of ours");
    let ended = poll(PATIENCE, || child.try_wait().expect("a child of ours"));
    if ended.is_none() {
        let _ = child.kill();
    }
    assert!(ended.is_some(), "only SIGKILL ends it");
    drop(reader);
}

#[test]
fn no_input_is_larger_than_it_needs_to_be() {
    let shared = Shared::new();
    let large = shared.path("large");
    // No disk is needed to make a file that is large.
    File::create(&large).and_then(|file| file.set_len(1 << 30)).expect("a folder of ours");
    for option in ["--baseline", "--suppressions"] {
        let outcome = Heapattach::new(["check", option, &large, "--", "true"]).run().expect(USAGE);
        assert!(outcome.stderr.contains("it is larger than 16"), "{option}: {}", outcome.stderr);
    }
    let outcome = Heapattach::new(["report", &large]).run().expect(FAILED);
    assert!(outcome.stderr.contains("not a valid recording"), "{}", outcome.stderr);
}
