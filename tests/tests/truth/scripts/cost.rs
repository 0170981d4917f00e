//! What it costs a program in a language of scripts that its heap is sampled, and its frames read.

use std::{fs, path::Path};

use heapattach_tests::{
    attached::Attached,
    command::Hooks,
    compile::{fixture, is_there},
    fixture::{Fixture, Launch},
    real,
    skip::skip,
};

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
