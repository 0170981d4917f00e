//! PHP, Ruby, Perl, Lua, Java and JavaScript as enemies and as victims: processes of an ordinary user that look like them and whose structures
//! are nonsense, and programs in them whose heapattach is killed while their stacks are read.

use std::{path::Path, thread, time::Duration};

use heapattach_tests::{
    command::{Heapattach, Hooks},
    compile::fixture,
    fixture::Launch,
    real::installed,
    sample::is_soak,
    seed::{Random, seed},
    skip::skip,
    trace::Before,
};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::kills::assert_undone;

/// A virtual machine of Java that has all the memory for its code from the beginning on.
pub const STEADY_JAVA: (&str, &str) = (
    "JDK_JAVA_OPTIONS",
    "-XX:ReservedCodeCacheSize=64m -XX:InitialCodeCacheSize=64m -Xms256m -Xmx256m",
);

/// LuaJIT that writes no code of its own meanwhile.
const STEADY_LUA: (&str, &str) = ("LUA_INIT", "if jit then jit.off() end");

const WINDOW: Duration = Duration::from_millis(400);
const DONE: i32 = 0;
const MOST_MEMORY: u64 = 256 << 20;
/// And for each distinct stack, of which a target has room for a million.
const MOST_A_STACK: u64 = 2 << 10;

/// Programs that look like an interpreter, what they are taken for, and how they lie; frames are walked of each.
const PHP: (&str, &str, &[&str]) = (
    "forged_php.c",
    "PHP 8.2.7",
    &["cycle", "nowhere", "huge", "flood", "changing", "going", "foreign"],
);
const RUBY: (&str, &str, &[&str]) = (
    "forged_ruby.c",
    "Ruby 3.1.2",
    &["endless", "nowhere", "huge", "flood", "changing", "going", "foreign"],
);
const RUBY_2_7: (&str, &str, &[&str]) = (
    "forged_ruby.c",
    "Ruby 2.7.4",
    &[
        "2.7-endless",
        "2.7-nowhere",
        "2.7-huge",
        "2.7-flood",
        "2.7-changing",
        "2.7-going",
        "2.7-foreign",
    ],
);
const PERL: (&str, &str, &[&str]) = (
    "forged_perl.c",
    "Perl 5.36.0",
    &["endless", "nowhere", "huge", "flood", "changing", "going", "foreign"],
);

const JAVA: (&str, &str, &[&str]) = (
    "forged_java.c",
    "the Java virtual machine 17.0.15",
    &["cycle", "nowhere", "huge", "flood", "changing", "going", "endless", "threads"],
);

const LUA: (&str, &str, &[&str]) = (
    "forged_lua.c",
    "Lua 5.4.4",
    &["cycle", "nowhere", "huge", "flood", "changing", "going", "foreign", "codeless", "many"],
);

const LUAJIT: (&str, &str, &[&str]) = (
    "forged_luajit.c",
    "LuaJIT 2.1.0-forged",
    &["cycle", "nowhere", "huge", "flood", "changing", "going", "foreign", "sound"],
);

const JAVASCRIPT: (&str, &str, &[&str]) = (
    "forged_v8.c",
    "Node.js with V8 11.3.244.8",
    &["cycle", "nowhere", "huge", "flood", "changing", "going", "foreign", "many"],
);

/// The same programs as versions and builds that are not known: the name that is told, and why.
const OTHERS: [(&str, &str, &str, &str); 15] = [
    (
        "forged_java.c",
        "later",
        "the Java virtual machine 18.0.15",
        "its structures are not known to this heapattach",
    ),
    (
        "forged_java.c",
        "bare",
        "the Java virtual machine 17.0.15",
        "it does not describe itself as releases do",
    ),
    (
        "forged_v8.c",
        "later",
        "Node.js with V8 11.4.244.8",
        "its structures are not known to this heapattach",
    ),
    (
        "forged_v8.c",
        "compressed",
        "Node.js with V8 11.3.244.8",
        "its pointers are compressed: not tried",
    ),
    (
        "forged_v8.c",
        "changed",
        "Node.js with V8 11.3.244.8",
        "what it exports about its structures is not what its version has",
    ),
    ("forged_lua.c", "later", "Lua 5.5.0", "its structures are not known to this heapattach"),
    ("forged_php.c", "later", "PHP 8.5.1", "its structures are not known to this heapattach"),
    ("forged_php.c", "threads", "PHP 8.2.7", "it was built for threads (ZTS)"),
    ("forged_ruby.c", "later", "Ruby 4.0.0", "its structures are not known to this heapattach"),
    (
        "forged_ruby.c",
        "other",
        "Ruby 3.3.0",
        "its functions read frames in a way that is not known",
    ),
    ("forged_ruby.c", "moved", "Ruby 3.1.2", "where it has the state of a thread is not known"),
    ("forged_ruby.c", "2.7-moved", "Ruby 2.7.4", "where it has the state of a thread is not known"),
    ("forged_perl.c", "later", "Perl 5.38.0", "its structures are not known to this heapattach"),
    ("forged_perl.c", "larger", "Perl 5.36.0", "its interpreter is not as large as"),
    ("forged_perl.c", "keyless", "Perl 5.36.0", "where a thread has its interpreter is not known"),
];

fn assert_harmless((file, name, lies): (&str, &str, &[&str])) {
    for how in lies {
        let Some(launch) = Launch::new(file) else { return };
        let mut fixture = launch.arg(how).start();
        let before = Before::of(&mut fixture).loose();
        for all in [&[][..], &["--all"]] {
            let pid = fixture.pid();
            let look = || {
                let command = Heapattach::attach(pid, WINDOW, Hooks::Auto).arg("--no-record");
                let command = all.iter().fold(command, |command, word| command.arg(*word));
                command.run().expect(DONE)
            };
            let mut outcome = look();
            // Pages can be away whenever the stacks are looked at that the report shows.
            for _ in 0..2 {
                if !how.ends_with("going") || outcome.stdout.contains("forged_f") {
                    break;
                }
                outcome = look();
            }
            assert!(!outcome.stderr.contains("panicked"), "{how}: {}", outcome.stderr);
            let (report, expense) = (outcome.report(), outcome.report().expense);
            let told: Value = serde_json::from_str(&outcome.stdout).expect("a report");
            let runtime = &told["runtimes"][0];
            println!(
                "{name} {how} {all:?}: {} KiB, {} ms, {} copying calls",
                expense.memory >> 10,
                expense.cpu_us / 1000,
                told["stacks"]["copying_calls"]
            );
            assert_eq!(runtime["is_named"].as_bool(), Some(true), "{how}: {runtime}");
            assert_eq!(runtime["name"].as_str(), Some(name), "{how}: {runtime}");
            assert_eq!((&*report.target, report.left.len()), ("restored", 0), "{how}: {report:?}");
            // Frames are read, and those of one that is sound for the most part are named: so it is
            // where its pages come and go.
            let of_sound = [
                ("forged_v8.c", "many"),
                ("forged_luajit.c", "sound"),
                ("forged_ruby.c", "flood"),
                ("forged_ruby.c", "2.7-flood"),
            ];
            let is_sound = of_sound.contains(&(file, how)) || how.ends_with("going");
            let is_told = all.is_empty() || !is_sound || outcome.stdout.contains("forged_f");
            assert!(is_told, "{how}: {}", outcome.stdout);
            let stacks = told["stacks"]["distinct"].as_u64().expect("a number");
            let most = MOST_MEMORY + stacks * MOST_A_STACK;
            assert!(expense.memory < most, "{how}: {} bytes, {stacks} stacks", expense.memory);
            fixture.advance(10);
            before.assert_equal(&mut fixture, how);
        }
        fixture.finish();
    }
}

#[test]
fn forged_engines_of_php_cost_little_and_lead_nowhere() {
    assert_harmless(PHP);
}

#[test]
fn forged_machines_of_ruby_cost_little_and_lead_nowhere() {
    assert_harmless(RUBY);
    assert_harmless(RUBY_2_7);
}

#[test]
fn forged_interpreters_of_perl_cost_little_and_lead_nowhere() {
    assert_harmless(PERL);
}

#[test]
fn forged_threads_of_lua_cost_little_and_lead_nowhere() {
    assert_harmless(LUA);
}

#[test]
fn forged_machines_of_luajit_cost_little_and_lead_nowhere() {
    assert_harmless(LUAJIT);
}

#[test]
fn forged_machines_of_java_cost_little_and_lead_nowhere() {
    assert_harmless(JAVA);
}

#[test]
fn forged_objects_of_javascript_cost_little_and_lead_nowhere() {
    assert_harmless(JAVASCRIPT);
}

#[test]
fn versions_that_are_not_known_are_refused_by_name() {
    for (file, how, name, why) in OTHERS {
        let Some(launch) = Launch::new(file) else { return };
        let fixture = launch.arg(how).start();
        let command = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg("--no-record");
        let outcome = command.arg("--all").run().expect(DONE);
        let told: Value = serde_json::from_str(&outcome.stdout).expect("a report");
        let runtime = &told["runtimes"][0];
        assert_eq!(runtime["name"].as_str(), Some(name), "{how}: {runtime}");
        assert_ne!(runtime["is_named"].as_bool(), Some(true), "{how}: {runtime}");
        assert!(runtime["notes"].to_string().contains(why), "{how}: {runtime}");
        // Nothing of it is read, nor told.
        assert!(!outcome.stdout.contains("forged_f"), "{how}: {}", outcome.stdout);
        fixture.finish();
    }
}

#[test]
fn the_undo_is_done_when_the_command_is_killed_while_stacks_of_perl_are_read() {
    kill_while_stacks_are_read("perl", "perl_load.pl", "apt-get install perl");
}

#[test]
fn the_undo_is_done_when_the_command_is_killed_while_stacks_of_php_are_read() {
    kill_while_stacks_are_read("php", "php_load.php", "apt-get install php-cli");
}

#[test]
fn the_undo_is_done_when_the_command_is_killed_while_stacks_of_ruby_are_read() {
    kill_while_stacks_are_read("ruby", "ruby_load.rb", "apt-get install ruby");
}

#[test]
fn the_undo_is_done_when_the_command_is_killed_while_stacks_of_lua_are_read() {
    kill_while_stacks_are_read("lua5.4", "lua_load.lua", "apt-get install lua5.4");
}

#[test]
fn the_undo_is_done_when_the_command_is_killed_while_stacks_of_java_are_read() {
    kill_while_stacks_are_read("java", "JavaLoad.java", "apt-get install default-jdk-headless");
}

#[test]
fn the_undo_is_done_when_the_command_is_killed_while_stacks_of_javascript_are_read() {
    kill_while_stacks_are_read("node", "javascript_load.js", "apt-get install nodejs");
}

#[test]
fn the_undo_is_done_when_the_command_is_killed_while_stacks_of_luajit_are_read() {
    kill_while_stacks_are_read("luajit", "lua_load.lua", "apt-get install luajit");
}

fn kill_while_stacks_are_read(interpreter: &str, script: &str, cure: &str) {
    if installed(interpreter).is_none() {
        return skip(&format!("no {interpreter} here"), cure);
    }
    let launch = Launch::program(Path::new(interpreter)).arg(fixture(script));
    let launch = launch.env(STEADY_JAVA.0, STEADY_JAVA.1).env(STEADY_LUA.0, STEADY_LUA.1);
    let mut fixture = launch.start();
    fixture.advance(3);
    let (seed, before) = (seed(), Before::of(&mut fixture).loose());
    let mut random = Random::new(seed);
    let times = if is_soak() { 300 } else { 20 };
    for turn in 0..times {
        // The first ones hit the attach, later ones the session and the detach.
        let delay = Duration::from_micros(random.between(0, 400_000));
        let window = Duration::from_millis(random.between(1, 200));
        let command = Heapattach::attach(fixture.pid(), window, Hooks::Auto).arg("--no-record");
        let command = if turn % 2 == 0 { command.arg("--all") } else { command }.start();
        thread::sleep(delay);
        command.signal(Signal::SIGKILL);
        command.wait();
        let when = format!("after a kill {delay:?} from the start ({turn}), seed {seed}");
        assert_undone(&mut fixture, &before, &when);
        fixture.advance(1);
    }
    println!("command killed at {times} random times, undone each time, seed {seed}");
    fixture.finish();
}
