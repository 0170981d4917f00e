//! How much of what servers do in languages of scripts is our doing while their heaps are sampled: of the moments at which
//! `perf` looks at them, those in our code, or in the kernel for our code. Differences of processor time are lost among
//! what single measurements differ by; a share of thousands of moments is not.

use std::{ops::Range, path::Path, process::Command, time::Duration};

use heapattach_test_folder::Folder;
use heapattach_tests::{
    command::Heapattach,
    compile::{fixture, is_there},
    deadline::{PATIENCE, wait_until},
    real::{installed, php_fpm::PhpFpm},
    skip::skip,
};

use super::{
    Server,
    lua_servers::{ask_haproxy, ask_nginx, haproxy, nginx},
    php::ask_fpm,
    server::while_asked,
};

/// So many are at least looked at.
const MOMENTS: f64 = 4000.0;
/// Looks of so many seconds, until there are enough.
const SECONDS: &str = "3";
/// Other addresses are the kernel's.
const USER: Range<u64> = 0..1 << 47;

/// Our code in a process: it lies right before what is shared with heapattach, but for variables. What the process
/// itself compiles meanwhile is not ours.
fn code(pid: u32) -> Range<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    let ranges = maps.lines().filter_map(|line| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some((number(start)?..number(end)?, line))
    });
    let ranges: Vec<_> = ranges.collect();
    let shared = ranges.iter().position(|(_, line)| line.contains("/memfd:heapattach"));
    let before = ranges[..shared.expect("what is shared")].iter().rev();
    let code = before.take(3).find(|(_, line)| line.contains(" r-x"));
    code.expect("our code").0.clone()
}

/// Of moments at which `perf` looked for some seconds: how many there are, and how many of them are of this code.
fn look(perf: &Path, pid: u32, ours: &Range<u64>) -> (f64, f64) {
    let folder = Folder::new("share");
    let file = folder.0.join("moments");
    let run = |arguments: &[&str]| {
        let output = Command::new(perf).args(arguments).output().expect("perf");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (pid, file) = (pid.to_string(), file.to_string_lossy());
    let how = ["record", "-q", "-e", "cpu-clock", "-F", "2999", "-g", "-p", &pid, "-o", &file];
    run(&[&how[..], &["--", "sleep", SECONDS]].concat());
    let told = run(&["script", "-i", &file, "-F", "ip"]);
    let (mut all, mut own) = (0.0, 0.0);
    for moment in told.split("\n\n") {
        let addresses = moment.lines().filter_map(|line| line.split_whitespace().next());
        let addresses = addresses.filter_map(|text| u64::from_str_radix(text, 16).ok());
        let mut code = addresses.filter(|at| USER.contains(at));
        all += 1.0;
        own += f64::from(code.next().is_some_and(|at| ours.contains(&at)));
    }
    (all, own)
}

/// Our share of a process that is asked all the time is not certainly more than so many hundredths: one of a thousand runs
/// fails where it is just as much.
fn assert_share(what: &str, pid: u32, most: f64, ask: impl Fn(u64) + Sync) {
    let Some(perf) = installed("perf") else {
        return skip("no perf here", "apt-get install linux-perf");
    };
    let number = pid.to_string();
    let mut session = Heapattach::new(["-p", &number, "--no-record", "--json"])
        .target(pid.cast_signed())
        .limit(PATIENCE + Duration::from_secs(60))
        .start();
    let ((all, own), asked) = while_asked(ask, || {
        wait_until("the attach", PATIENCE, || session.talk().contains("attached to"));
        let ours = code(pid);
        let (mut all, mut own) = (0.0, 0.0);
        while all < MOMENTS {
            let (more, ours) = look(&perf, pid, &ours);
            assert!(session.is_running() && more > 10.0, "{what}: {more} moments");
            (all, own) = (all + more, own + ours);
        }
        session.signal(nix::sys::signal::Signal::SIGINT);
        (all, own)
    });
    let told: serde_json::Value =
        serde_json::from_str(&session.wait().expect(130).stdout).expect("a report");
    let share = own / all;
    let error = (share * (1.0 - share) / all).sqrt();
    let functions = told["functions"].as_array().expect("functions");
    let calls: u64 = functions.iter().filter_map(|one| one["calls"].as_u64()).sum();
    println!(
        "{what}: {:.2} % (± {:.2}) of {all} moments are ours; {asked} answers, {calls} calls",
        share * 100.0,
        error * 100.0
    );
    assert!(own > 0.0, "{what}: nothing is ours, which cannot be");
    assert!((share - 3.1 * error) * 100.0 <= most, "{what}: {share}");
}

/// The same of a script that is a server itself.
fn assert_share_of_script(interpreter: &str, script: &str, cure: &str, most: f64) {
    if !is_there(interpreter) {
        return skip(script, cure);
    }
    let server = Server::start(interpreter, &fixture(script));
    assert_share(script, server.pid(), most, server.client());
}

#[test]
fn samples_of_a_server_of_ruby_take_little_of_its_time() {
    assert_share_of_script("ruby", "ruby_server.rb", "apt-get install ruby", 3.0);
}

/// It calls `malloc` and `free` so often that to count these takes more than all the rest.
#[test]
fn samples_of_a_server_of_perl_take_little_of_its_time() {
    assert_share_of_script("perl", "perl_server.pl", "apt-get install perl", 5.0);
}

#[test]
fn samples_of_a_server_of_java_take_little_of_its_time() {
    let cure = "apt-get install default-jdk-headless";
    assert_share_of_script("java", "JavaServer.java", cure, 3.0);
}

#[test]
fn samples_of_a_server_of_javascript_take_little_of_its_time() {
    assert_share_of_script("node", "javascript_server.js", "apt-get install nodejs", 3.0);
}

#[test]
fn samples_of_a_worker_of_php_fpm_take_little_of_its_time() {
    let Some(server) = PhpFpm::start(&["extension=ffi", "ffi.enable=1"]) else { return };
    let pid = server.worker.cast_unsigned();
    assert_share("php_application.php", pid, 3.0, |_| ask_fpm(&server));
}

#[test]
fn samples_of_haproxy_with_lua_take_little_of_its_time() {
    let folder = Folder::new("haproxy");
    let Some((running, socket)) = haproxy(&folder.0) else { return };
    assert_share("haproxy", running.pid(), 3.0, |number| ask_haproxy(&socket, number));
}

#[test]
fn samples_of_nginx_with_lua_take_little_of_its_time() {
    let folder = Folder::new("nginx");
    let Some((running, socket)) = nginx(&folder.0) else { return };
    assert_share("nginx", running.pid(), 3.0, |number| ask_nginx(&socket, number));
}
