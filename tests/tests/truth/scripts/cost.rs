//! What it costs a program in a language of scripts that its heap is sampled, and its frames read.

use std::{fs, path::Path, time::Duration};

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    compile::{fixture, is_there},
    fixture::{Fixture, Launch},
    real,
    skip::skip,
};
use serde_json::Value;

const ROUNDS: usize = 12;
/// Steps of a program between two looks at its processor time.
const STEPS: u64 = 400;

/// Nanoseconds that the threads of a process ran.
fn ran_ns(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    let told = tasks.flatten().filter_map(|task| {
        let told = fs::read_to_string(task.path().join("schedstat")).ok()?;
        told.split(' ').next()?.parse::<u64>().ok()
    });
    told.sum()
}

/// Microseconds that it runs for one step.
fn step_us(fixture: &mut Fixture) -> f64 {
    fixture.advance(5);
    let (ran, done) = (ran_ns(fixture.pid()), fixture.progress());
    fixture.advance(STEPS);
    let (ran, done) = (ran_ns(fixture.pid()) - ran, fixture.progress() - done);
    #[allow(clippy::cast_precision_loss, reason = "a measurement")]
    let us = ran as f64 / done as f64 / 1e3;
    us
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Processor time of the same work as it is, sampled, and sampled without frames of scripts, in turns. On a
/// machine that does nothing else: `cargo test --release --workspace --test truth -- --ignored --nocapture
/// what_samples_cost`.
#[test]
#[ignore = "a measurement: it asserts nothing that a busy machine would not change"]
fn what_samples_cost_programs_of_scripts() {
    let python = real::python().unwrap_or_default();
    let programs = [
        (python.as_path(), "python_load.py", ("PYTHONMALLOC", "pymalloc")),
        (Path::new("php"), "php_load.php", ("USE_ZEND_ALLOC", "1")),
        (Path::new("php"), "php_load.php", ("USE_ZEND_ALLOC", "0")),
        (Path::new("ruby"), "ruby_load.rb", ("RUBYOPT", "")),
        (Path::new("perl"), "perl_load.pl", ("PERL_UNICODE", "")),
        (Path::new("lua5.4"), "lua_load.lua", ("LUA_PATH", ";;")),
        (Path::new("java"), "JavaLoad.java", ("JDK_JAVA_OPTIONS", "-Xmx256m")),
        (Path::new("node"), "javascript_load.js", ("NODE_OPTIONS", "")),
    ];
    println!("program               step us  sampled  without frames of scripts");
    for (program, script, (name, value)) in programs {
        if !is_there(&program.to_string_lossy()) {
            skip(
                script,
                "apt-get install python3 php-cli ruby perl lua5.4 default-jdk-headless nodejs",
            );
            continue;
        }
        let launch = Launch::program(program).arg(fixture(script)).env(name, value);
        let mut fixture = launch.start();
        let [mut plain, mut sampled, mut native]: [Vec<f64>; 3] = Default::default();
        for _ in 0..ROUNDS {
            let one = step_us(&mut fixture);
            plain.push(one);
            for (scripts, told) in [("auto", &mut sampled), ("off", &mut native)] {
                let command = Attached::command(fixture.pid(), Hooks::Auto);
                let command = command.arg("--no-record").arg("--scripts").arg(scripts);
                let attached = Attached::start(command, &mut fixture);
                told.push(step_us(&mut fixture) / one);
                attached.end();
            }
        }
        let what = format!("{script} {value}");
        println!("{what:20} {:8.0} {:8.3} {:8.3}", median(plain), median(sampled), median(native));
        fixture.finish();
    }
}

const WINDOW: Duration = Duration::from_secs(1);

/// Programs, and how many calls of the kernel there may be for a hundred blocks.
const DIRECT: [(&str, &str, (&str, &str), u32); 7] = [
    ("python3", "python_load.py", ("PYTHONMALLOC", "malloc"), 5),
    ("php", "php_load.php", ("USE_ZEND_ALLOC", "0"), 5),
    ("ruby", "ruby_load.rb", ("RUBYOPT", ""), 5),
    ("perl", "perl_load.pl", ("PERL_UNICODE", ""), 5),
    // Which of its threads runs nothing says: words of the native stack are copied where they may lead anywhere.
    ("lua5.4", "lua_load.lua", ("LUA_PATH", ";;"), 40),
    // While one of their threads takes pages away, stacks of the others are copied: two calls each.
    ("java", "JavaLoad.java", ("JDK_JAVA_OPTIONS", "-Xmx256m"), 50),
    ("node", "javascript_load.js", ("NODE_OPTIONS", ""), 50),
];

/// What is known to be there is read directly: by every call that takes pages away it is known what is not.
#[test]
fn frames_of_scripts_are_read_without_the_kernel() {
    let python = real::python().unwrap_or_default();
    for (program, script, (name, value), most) in DIRECT {
        let program = if program == "python3" { &*python } else { Path::new(program) };
        if !is_there(&program.to_string_lossy()) {
            skip(script, "apt-get install python3 php-cli ruby perl lua5.4 default-jdk-headless");
            continue;
        }
        let launch = Launch::program(program).arg(fixture(script)).env(name, value);
        let mut fixture = launch.start();
        fixture.advance(3);
        let command = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto);
        let outcome = command.arg("--no-record").arg("--all").run().expect(0);
        let told: Value = serde_json::from_str(&outcome.stdout).expect("a report");
        let calls = told["stacks"]["copying_calls"].as_u64().expect("a number");
        let blocks = told["heap"]["allocated"]["blocks"]["value"].as_f64().expect("a number");
        println!("{script}: {calls} calls of the kernel for {blocks} blocks");
        assert!(blocks > 1000.0, "{script}: {blocks}");
        let calls = u32::try_from(calls).map_or(f64::MAX, f64::from);
        assert!(calls * 100.0 <= blocks * f64::from(most), "{script}: {calls} for {blocks}");
        fixture.finish();
    }
}
