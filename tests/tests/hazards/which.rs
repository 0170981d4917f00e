//! A process can be named by its program, its control group and its container, and from inside one.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
    time::Duration,
};

use heapattach_tests::{
    command::{Heapattach, Outcome, binary},
    compile::Source,
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    skip::skip,
    trace::Before,
};

const REFUSED: i32 = 3;
const USAGE: i32 = 2;

/// A copy of a program under a name that no other process has; removed with the test.
struct Copy(PathBuf);

impl Copy {
    fn of(program: &PathBuf, name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::copy(program, &path).expect("room for a small program");
        Self(path)
    }

    fn name(&self) -> &str {
        self.0.file_name().and_then(|name| name.to_str()).expect("a name of ours")
    }

    fn start(&self) -> Fixture {
        Launch::program(&self.0).start()
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A control group of ours; removed with the test, once no process is in it.
struct Group(PathBuf);

impl Group {
    /// Below a controller that exists with both kinds of groups.
    fn new(name: &str) -> Option<Self> {
        let roots = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"];
        roots.into_iter().find_map(|root| {
            let folder = PathBuf::from(root).join(name);
            fs::create_dir(&folder).ok()?;
            let group = Self(folder);
            group.0.join("cgroup.procs").exists().then_some(group)
        })
    }

    fn take(&self, pid: i32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("our own group");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        poll(PATIENCE, || fs::remove_dir(&self.0).ok());
    }
}

fn looking(which: [&str; 2]) -> Outcome {
    let line = ["--duration", "300ms", "--json", "--all"];
    Heapattach::new(which).arg(line[0]).arg(line[1]).arg(line[2]).arg(line[3]).run()
}

fn assert_attached(outcome: Outcome, fixture: &Fixture) {
    let report = outcome.expect(0).report();
    assert_eq!(report.pid, fixture.pid());
    assert!(report.functions.iter().any(|f| f.function == "malloc" && f.calls > 0), "{report:?}");
}

#[test]
fn a_process_is_found_by_its_name_unless_there_are_two() {
    let Some(program) = Source::new("steady.c").build() else { return };
    let copy = Copy::of(&program, "ha-named");
    let nobody = looking(["--name", copy.name()]).expect(REFUSED);
    assert!(nobody.stderr.contains(copy.name()), "{}", nobody.stderr);

    let first = copy.start();
    assert_attached(looking(["--name", copy.name()]), &first);

    let second = copy.start();
    let unclear = looking(["--name", copy.name()]).expect(USAGE);
    for fixture in [&first, &second] {
        assert!(unclear.stderr.contains(&format!("-p {}", fixture.pid())), "{}", unclear.stderr);
    }
    first.finish();
    second.finish();
}

#[test]
fn a_process_is_found_by_its_control_group_and_its_container() {
    let id = format!("{:064x}", 0xa77a_c4ed_u64 << 24 | u64::from(std::process::id()));
    let id: String = id.chars().rev().collect();
    let name = format!("docker-{id}.scope");
    let Some(group) = Group::new(&name) else {
        return skip("no control group can be made here", "run as root, with a writable cgroup");
    };
    let Some(launch) = Launch::new("steady.c") else { return };
    let fixture = launch.start();
    group.take(fixture.pid());
    assert_attached(looking(["--cgroup", &name]), &fixture);
    assert_attached(looking(["--container", &id[..12]]), &fixture);
    let doctor = Heapattach::new(["doctor", "--container", &id]).run().expect(0);
    assert!(doctor.stdout.contains(&fixture.pid().to_string()), "{}", doctor.stdout);
    fixture.finish();
}

#[test]
fn a_command_inside_the_container_attaches_as_one_outside_does() {
    let Some(launch) = Launch::new("confined.c") else { return };
    let Some(mut fixture) = launch.arg("container").arg("proc").start_if_allowed() else {
        return skip("no container can be made here", "run as root, with user namespaces");
    };
    fixture.advance(10);
    let before = Before::of(&mut fixture).loose();
    let inside = enter(fixture.pid());
    let Some(output) = inside else {
        return skip("no nsenter here", "apt-get install util-linux");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: heapattach_tests::report::Report =
        serde_json::from_slice(&output.stdout).expect("a report as JSON");
    assert_eq!(report.pid, 1, "the pid of its own namespace");
    assert!(report.functions.iter().any(|f| f.function == "malloc" && f.calls > 0), "{report:?}");
    before.assert_equal(&mut fixture, "after a command inside");
    fixture.finish();
}

/// Starts the command as `kubectl debug` and `docker exec --privileged` do: in all namespaces of
/// the target, with the capabilities of its root.
fn enter(pid: i32) -> Option<Output> {
    let pid = pid.to_string();
    let window = Duration::from_millis(300);
    let output = Command::new("nsenter")
        .args(["--target", &pid, "--user", "--mount", "--pid", "--net", "--ipc", "--uts", "--"])
        .arg(binary())
        .args(["-p", "1", "--all", "--json", "--no-record", "--force", "--duration"])
        .arg(format!("{}ms", window.as_millis()))
        .output();
    output.ok()
}
