//! Functions of PHP that allocate memory are named, with the stack that PHP sees itself at each
//! allocation; and nothing that PHP has in place of its frames does harm.

use std::{fs, process::Command, time::Duration};

use heapattach_ledger::Metric;
use heapattach_tests::{
    command::Heapattach,
    compile::{fixture, is_there},
    real::php_fpm::PhpFpm,
    skip::skip,
    truth::whole,
};

use super::{
    ALL, assert_sound, assert_spoiled, assert_stacks, recorded, recorded_nonsense, scripts,
    server::while_asked,
};

const PHP: &str = "[php]";

/// What php_application.php answers.
const ANSWER: &str = "1089 bytes";

/// Whether there is a PHP that can be read; a test without one is skipped.
fn has_php() -> bool {
    let is_here = is_there("php");
    if !is_here {
        skip("no PHP here", "apt-get install php-cli");
    }
    is_here
}

#[test]
fn every_block_has_the_stack_that_php_sees() {
    if !has_php() {
        return;
    }
    let (ledger, told, report) = recorded(&["php"], &fixture("php_frames.php"), &ALL);
    assert_stacks(&ledger, &told, PHP, 24);
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
    let flags = ["php", "-d", "opcache.enable_cli=1", "-d", "opcache.file_update_protection=0"];
    let (ledger, told, _) = recorded(&flags, &fixture("php_frames.php"), &ALL);
    assert_stacks(&ledger, &told, PHP, 24);
}

#[test]
fn functions_are_not_named_where_that_is_not_wanted() {
    if !has_php() {
        return;
    }
    let options = [&ALL[..], &["--scripts", "off"]].concat();
    let (ledger, ..) = recorded(&["php"], &fixture("php_frames.php"), &options);
    assert!(ledger.rows.iter().all(|row| scripts(&ledger, row.stack, PHP).is_empty()));
}

#[test]
fn frames_that_are_nonsense_do_no_harm() {
    // The fixture spoils structures of this version.
    let told = Command::new("php").args(["-r", "echo PHP_VERSION;"]).output();
    let is_known = told.is_ok_and(|told| told.stdout.starts_with(b"8.2"));
    if !is_known {
        return skip("no PHP 8.2 here", "apt-get install php-cli");
    }
    let ledger = recorded_nonsense("php", "php_nonsense.php");
    assert_spoiled(&ledger, PHP, "spoiled", 32 * 15_000);
    assert_sound(&ledger, PHP, &["sound:53", "work:59", "{main}:66"]);
}

/// Its answer has to be right.
pub fn ask_fpm(server: &PhpFpm) {
    assert_eq!(server.request("php_application.php", &[]).text(|_| false), ANSWER);
}

#[test]
fn a_worker_of_php_fpm_under_load_names_the_line_that_leaks() {
    let Some(server) = PhpFpm::start(&["extension=ffi", "ffi.enable=1"]) else { return };
    let script = fixture("php_application.php");
    let text = fs::read_to_string(&script).expect("a fixture");
    let line = text.lines().position(|line| line.contains("/* the leak */")).expect("a leak") + 1;
    let pid = server.worker.to_string();
    let session = ["-p", &pid, "--duration", "4s", "--every", "16KiB", "--no-record"];
    let session = Heapattach::new(session).limit(Duration::from_secs(60));
    let (outcome, answered) = while_asked(|_| ask_fpm(&server), || session.run());
    let told = outcome.expect(0).stdout;
    println!("{answered} requests answered\n{told}");
    // The page is folded to its width.
    let words: Vec<_> = told.split_whitespace().collect();
    let place = format!("Sessions::open (php_application.php:{line})");
    assert!(words.join(" ").contains(&place), "no {place}: {told}");
    assert_eq!(server.request("php_application.php", &[]).text(|_| false), ANSWER);
}
