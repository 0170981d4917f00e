//! PHP as servers run it: a worker of php-fpm in a request has what PHP counts, after it nothing of it is left,
//! and while requests are answered no leak is told.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use heapattach_tests::{
    command::Heapattach,
    deadline::{PATIENCE, poll},
    real::php_fpm::PhpFpm,
};
use nix::{sys::stat::Mode, unistd::mkfifo};
use serde_json::Value;

use crate::php::{BETWEEN, allocator};

const DONE: i32 = 0;
/// What PHP has of its own heap when it waits for a request.
const AT_REST: u64 = 1 << 20;
/// What the script answers without a pipe.
const ANSWER: &str = "5000 347500";
const SCRIPT: &str = "under_fpm.php";

fn look(server: &PhpFpm) -> Value {
    let pid = server.worker.to_string();
    let outcome = Heapattach::new(["heap", "-p", &pid, "--json"]).run().expect(DONE);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn a_worker_has_what_php_counts_in_a_request_and_nothing_of_it_afterwards() {
    let Some(server) = PhpFpm::start(&[]) else { return };
    let pipe = server.folder.0.join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
    let mut answer = server.request(SCRIPT, &[("WAIT_FOR", pipe.to_str().expect("a name"))]);
    let end = fs::File::options().write(true).open(&pipe).expect("it is read");
    let said = answer.text(|body| body.ends_with('\n'));
    let truth: Value =
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let document = look(&server);
    let zend = allocator(&document, "zend").expect("its heap");
    assert_eq!((&zend["is_exact"], &zend["doubts"]), (&true.into(), &Value::Array(Vec::new())));
    let arena = &zend["arenas"][0];
    assert_eq!(arena["system"], truth["real"]);
    let (used, told) = (number(&arena["used"]), number(&truth["used"]));
    assert!(used.abs_diff(told) <= BETWEEN, "{used} found, {told} told by PHP");
    let rows = |document: &Value| document["classes"].as_array().cloned().unwrap_or_default();
    for (name, wanted) in truth["own"].as_object().expect("own classes") {
        let rows = rows(&document);
        let row = rows.iter().find(|row| row["name"] == name.as_str());
        let row = row.unwrap_or_else(|| panic!("{name} in {rows:?}"));
        assert_eq!((&row["blocks"], &row["language"]), (wanted, &"php".into()), "{name}");
    }
    drop(end);
    answer.finish();
    let rest = poll(PATIENCE, || {
        let document = look(&server);
        let used = number(&allocator(&document, "zend")?["arenas"][0]["used"]);
        (used < AT_REST).then_some(document)
    });
    let rest = rest.expect("all of a request is freed at its end");
    assert!(
        rows(&rest)
            .iter()
            .all(|row| !row["name"].as_str().is_some_and(|name| name.starts_with("Shop")))
    );
}

#[test]
fn no_leak_is_told_while_requests_are_answered() {
    let Some(server) = PhpFpm::start(&[]) else { return };
    let is_over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut answered = 0;
            while !is_over.load(Ordering::Relaxed) {
                let answer = server.request(SCRIPT, &[]).text(|_| false);
                assert_eq!(answer, ANSWER);
                answered += 1;
            }
            answered
        });
        let pid = server.worker.to_string();
        let check = ["check", "-p", &pid, "--duration", "2s", "--fail-on", "definite"];
        let outcome = Heapattach::new(check).run();
        is_over.store(true, Ordering::Relaxed);
        let answered = client.join().expect("all answers are right");
        println!("{answered} requests");
        assert!(answered > 10, "{answered}");
        outcome
    });
    outcome.expect(DONE);
    assert_eq!(server.request(SCRIPT, &[]).text(|_| false), ANSWER);
}
