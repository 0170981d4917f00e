//! The classic leaks of Go programs, while they leak: the first screen of a look at the heap, or of a session, says what
//! it is and where.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use heapattach_tests::{
    command::Heapattach,
    deadline::{PATIENCE, wait_until},
    toolchain::{go_by, go_releases, go_with_c},
};

struct Leaking(Child);

impl Leaking {
    fn start(program: &Path, mode: &str) -> Self {
        let mut command = Command::new(program);
        let mut child = command.arg(mode).stdout(Stdio::piped()).spawn().expect("just built");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), "ready");
        Self(child)
    }

    fn screen(&self, words: &[&str]) -> String {
        let pid = self.0.id().to_string();
        let words = words.iter().map(|word| if *word == "PID" { pid.as_str() } else { word });
        Heapattach::new(words).run().expect(0).stdout
    }

    fn heap(&self) -> String {
        self.screen(&["heap", "-p", "PID", "--color", "never"])
    }

    fn session(&self) -> String {
        self.screen(&["-p", "PID", "--duration", "2s", "--no-record"])
    }
}

impl Drop for Leaking {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program of the newest release, and of the oldest.
fn programs() -> Option<[PathBuf; 2]> {
    let all = go_releases();
    let program = |compiler: &(String, PathBuf)| go_by(compiler, "classics.go", &[]);
    Some([program(all.last()?), program(all.first()?)])
}

/// Looks until one line begins so and has all of these, or there is no more patience: it goes on leaking.
fn wait_for(what: &str, look: impl Fn() -> String, head: &str, words: &[&str]) {
    let mut text = String::new();
    wait_until(what, PATIENCE, || {
        text = look();
        let is_such =
            |line: &str| line.starts_with(head) && words.iter().all(|word| line.contains(word));
        let found = text.lines().any(is_such);
        if !found {
            eprintln!("{what}, not yet {head} {words:?}:\n{text}");
        }
        found
    });
}

#[test]
fn a_look_at_the_heap_names_each_classic_leak_and_its_kind() {
    let Some([newest, oldest]) = programs() else { return };
    let unneeded = "the only pointer to";
    let leaks: [(&str, &[&str], &str, &[&str]); 6] = [
        ("array", &[], "EXCESS", &["main.heads", "slices of", unneeded]),
        ("map", &[], "EXCESS", &["main.cache", "1 map with 1 of", "does not shrink"]),
        ("channel", &[], "LEAKED", &["wait for ever in main.waitForAnswer, started by main.ask"]),
        ("pool", &[], "EXCESS", &["main.buffers", "slices of 0 B in all", unneeded]),
        ("finalizer", &[], "EXCESS", &["$finalizer", "with finalizers on cycles", "never frees"]),
        // From go1.23 on the runtime frees such timers.
        ("timer", &["oldest"], "KEPT BY", &["runtime.allp", "timers. ([]*runtime.timer)"]),
    ];
    for (mode, only, head, words) in leaks {
        for (name, program) in [("newest", &newest), ("oldest", &oldest)] {
            if only.is_empty() || only.contains(&name) {
                let leaking = Leaking::start(program, mode);
                wait_for(&format!("{name} {mode}"), || leaking.heap(), head, words);
            }
        }
    }
}

#[test]
fn a_session_names_the_line_of_each_classic_leak() {
    let Some([newest, oldest]) = programs() else { return };
    let leaks: [(&str, &PathBuf, &str, &[&str]); 5] = [
        ("array", &newest, "VERDICT", &["main.keepHead (classics.go:"]),
        ("finalizer", &newest, "VERDICT", &["main.cycleWithFinalizer (classics.go:"]),
        ("pool", &newest, "VERDICT", &["main.usePool (classics.go:"]),
        ("timer", &oldest, "VERDICT", &["time.NewTimer (sleep.go:"]),
        ("channel", &newest, "NOT SEEN", &[]),
    ];
    for (mode, program, head, words) in leaks {
        let leaking = Leaking::start(program, mode);
        wait_for(mode, || leaking.session(), head, words);
        let text = leaking.session();
        match mode {
            // What calls the library is in the row.
            "timer" => assert!(text.contains("time.After (sleep.go:"), "{text}"),
            "channel" => {
                assert!(text.contains("stacks of goroutines: "), "{text}");
                assert!(text.contains("when this began"), "{text}");
            }
            _ => {}
        }
        assert!(mode != "timer" || text.contains("main.pollWithTimeout (classics.go:"), "{text}");
    }
}

#[test]
fn a_session_of_a_program_that_leaks_in_c_names_the_function_of_c() {
    let Some(program) = go_with_c("classics_c.go") else { return };
    let leaking = Leaking::start(&program, "c");
    wait_for("c", || leaking.session(), "VERDICT", &["keep_in_c"]);
}
