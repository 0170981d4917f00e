//! Functions of PHP that allocate memory are named, with the stack that PHP sees itself at each
//! allocation; and nothing that PHP has in place of its frames does harm.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use heapattach_ledger::{Ledger, Metric, Row};
use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    compile::{fixture, is_there},
    fixture::Launch,
    real::php_fpm::PhpFpm,
    recorded::Recorded,
    skip::skip,
    truth::whole,
};

/// Everything is recorded.
const ALL: [&str; 3] = ["--all", "--on-full", "wait"];

/// What php_application.php answers.
const ANSWER: &str = "1089 bytes";

const WORK: u64 = 1;
const NONSENSE: u64 = 2;

/// Whether there is a PHP that can be read; a test without one is skipped.
fn has_php() -> bool {
    let is_here = is_there("php");
    if !is_here {
        skip("no PHP here", "apt-get install php-cli");
    }
    is_here
}

/// What a script did, recorded, and what it printed.
fn recorded(script: &Path, options: &[&str], flags: &[&str]) -> (Ledger, String, String) {
    let file = Recorded::new();
    let mut command = Heapattach::new(["run", "-o"]).arg(&file.0);
    command = options.iter().fold(command, |command, option| command.arg(*option));
    command = command.arg("--").arg("php");
    command = flags.iter().fold(command, |command, flag| command.arg(*flag));
    let command = command.arg(script).env("USE_ZEND_ALLOC", "0").limit(Duration::from_secs(60));
    let outcome = command.run().expect(0);
    (file.ledger(), outcome.stdout, outcome.stderr)
}

/// The frames of scripts in a stack, as the fixture writes them.
fn scripts(ledger: &Ledger, stack: u32) -> Vec<String> {
    let own = ledger.calls(stack).filter(|call| {
        let module = ledger.modules.get(call.function.module as usize);
        module.is_some_and(|module| module.path == "[php]")
    });
    own.map(|call| format!("{}:{}", call.function.name, call.line.unwrap_or(0))).collect()
}

/// Each line of the fixture is the stack of a block of that size; blocks of one stack are one row.
fn assert_stacks(ledger: &Ledger, told: &str) {
    let mut expected: BTreeMap<Vec<&str>, (u64, u64)> = BTreeMap::new();
    for line in told.lines() {
        let mut words = line.split(' ');
        let size: u64 = words.next().and_then(|word| word.parse().ok()).expect("a size");
        // A generator that passes on what another one yields is not among the engine's own frames.
        let stack = words.filter(|word| !word.starts_with("delegated:")).collect();
        let (count, bytes) = expected.entry(stack).or_default();
        (*count, *bytes) = (*count + 1, *bytes + size);
    }
    assert!(expected.len() >= 24, "{told}");
    for (stack, (count, bytes)) in expected {
        let rows = ledger.rows.iter().filter(|row| {
            let allocated = whole(row.measure(Metric::Allocated).bytes.value);
            (bytes..bytes + 8 * count).contains(&allocated)
        });
        let found: Vec<_> = rows.map(|row| scripts(ledger, row.stack)).collect();
        assert!(found.iter().any(|found| *found == stack), "{bytes} {stack:?}: {found:?}");
    }
}

#[test]
fn every_block_has_the_stack_that_php_sees() {
    if !has_php() {
        return;
    }
    let (ledger, told, report) = recorded(&fixture("php_frames.php"), &ALL, &[]);
    assert_stacks(&ledger, &told);
    assert!(report.contains("PHP 8.") && report.contains("its functions are named"), "{report}");
    // Its cause is the function, not what the engine does for it.
    let causes = ledger.rows.iter().filter_map(|row| {
        let bytes = whole(row.measure(Metric::Allocated).bytes.value);
        ledger.cause(row.stack).filter(|_| bytes >= 100_000)
    });
    assert!(causes.filter(|call| call.function.name == "hold").count() >= 24);
}

#[test]
fn a_cache_of_compiled_scripts_changes_nothing() {
    if !has_php() {
        return;
    }
    let flags = ["-d", "opcache.enable_cli=1", "-d", "opcache.file_update_protection=0"];
    let (ledger, told, _) = recorded(&fixture("php_frames.php"), &ALL, &flags);
    assert_stacks(&ledger, &told);
}

#[test]
fn functions_are_not_named_where_that_is_not_wanted() {
    if !has_php() {
        return;
    }
    let options = [&ALL[..], &["--scripts", "off"]].concat();
    let (ledger, ..) = recorded(&fixture("php_frames.php"), &options, &[]);
    assert!(ledger.rows.iter().all(|row| scripts(&ledger, row.stack).is_empty()));
}

/// Bytes of stacks whose innermost function of a script is this one, and how many stacks that are.
fn below(ledger: &Ledger, function: &str) -> (u64, usize) {
    let own = |row: &&Row| {
        scripts(ledger, row.stack).first().is_some_and(|name| name.starts_with(function))
    };
    let rows: Vec<_> = ledger.rows.iter().filter(own).collect();
    let bytes = rows.iter().map(|row| whole(row.measure(Metric::Allocated).bytes.value)).sum();
    (bytes, rows.len())
}

#[test]
fn frames_that_are_nonsense_do_no_harm() {
    // The fixture spoils structures of this version.
    let told = Command::new("php").args(["-r", "echo PHP_VERSION;"]).output();
    let is_known = told.is_ok_and(|told| told.stdout.starts_with(b"8.2"));
    if !is_known {
        return skip("no PHP 8.2 here", "apt-get install php-cli");
    }
    let script = fixture("php_nonsense.php");
    let mut fixture = Launch::program(Path::new("php")).arg(script).start();
    let file = Recorded::new();
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("-o").arg(&file.0);
    let command = ALL.iter().fold(command, |command, option| command.arg(*option));
    let attached = Attached::start(command, &mut fixture);
    fixture.step(NONSENSE, 0);
    fixture.step(WORK, 0);
    attached.end();
    let ledger = file.ledger();
    // Of the frame that is whole, and what led to it costs frames.
    let (bytes, stacks) = below(&ledger, "spoiled:");
    assert!(bytes >= 32 * 15_000 && stacks >= 2, "{bytes} in {stacks} stacks");
    let sound = ledger.rows.iter().find(|row| {
        whole(row.measure(Metric::Allocated).bytes.value) >= 10 * 16_000
            && scripts(&ledger, row.stack).first().is_some_and(|name| name.starts_with("sound:"))
    });
    let sound = sound.expect("all of it has one stack");
    assert_eq!(scripts(&ledger, sound.stack), ["sound:53", "work:59", "{main}:66"]);
    fixture.finish();
}

#[test]
fn a_worker_of_php_fpm_under_load_names_the_line_that_leaks() {
    let Some(server) = PhpFpm::start(&["extension=ffi", "ffi.enable=1"]) else { return };
    let script = fixture("php_application.php");
    let text = fs::read_to_string(&script).expect("a fixture");
    let line = text.lines().position(|line| line.contains("/* the leak */")).expect("a leak") + 1;
    let is_over = AtomicBool::new(false);
    let (outcome, answered) = thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut answered = 0_u64;
            while !is_over.load(Relaxed) {
                assert_eq!(server.request("php_application.php", &[]).text(|_| false), ANSWER);
                answered += 1;
            }
            answered
        });
        let pid = server.worker.to_string();
        let session = ["-p", &pid, "--duration", "4s", "--every", "16KiB", "--no-record"];
        let outcome = Heapattach::new(session).limit(Duration::from_secs(60)).run();
        is_over.store(true, Relaxed);
        (outcome, client.join().expect("all answers are right"))
    });
    let told = outcome.expect(0).stdout;
    println!("{answered} requests answered\n{told}");
    // The page is folded to its width.
    let words: Vec<_> = told.split_whitespace().collect();
    let place = format!("Sessions::open (php_application.php:{line})");
    assert!(words.join(" ").contains(&place), "no {place}: {told}");
    assert_eq!(server.request("php_application.php", &[]).text(|_| false), ANSWER);
}
