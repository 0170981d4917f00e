//! What every program and server is to bear: it is attached to and recorded, the recording is reported, and it
//! is checked; afterwards it is as it was.

use std::{thread, time::Duration};

use heapattach_tests::{
    command::{Heapattach, Hooks, Outcome},
    deadline::{PATIENCE, poll},
    fingerprint::{Fingerprint, Scope, diff_within},
    report::fresh_file,
    seed::Random,
};

/// Nothing can be hooked in it, and that is said.
const UNSUPPORTED: i32 = 4;
/// Attached to, recorded and checked.
const DONE: i32 = 0;
/// A check may find leaks, or that too much is not known to say so.
const CHECKED: [i32; 3] = [DONE, 6, 23];

fn now(pid: i32) -> Fingerprint {
    Fingerprint::of(pid).expect("a living process can be read")
}

/// When the program waits for the next question: just after an answer a shell has signals blocked that it
/// allows a little later.
pub fn settled(pid: i32) -> Fingerprint {
    let mut last = now(pid);
    let same = poll(PATIENCE, || {
        thread::sleep(Duration::from_millis(20));
        let print = now(pid);
        let has_changed = !diff_within(&last, &print, Scope::Loose).is_empty();
        last = print;
        (!has_changed).then_some(())
    });
    assert!(same.is_some(), "process {pid} does not come to rest");
    last
}

pub fn assert_as_before(pid: i32, before: &Fingerprint, is_own: impl Fn(&str) -> bool) {
    let trace = || {
        let mut trace = diff_within(before, &now(pid), Scope::Loose);
        trace.retain(|line| !is_own(line));
        trace
    };
    let clean = poll(PATIENCE, || trace().is_empty().then_some(()));
    assert!(clean.is_some(), "bears a trace:\n{}", trace().join("\n"));
}

/// Runs a command while the program works, of which the result is looked at here.
pub type Meanwhile<'a> = &'a mut dyn FnMut(&(dyn Fn() -> Outcome + Sync)) -> Outcome;

/// Attaches, records, checks; answers whether there was anything to hook.
pub fn one_cycle(pid: i32, meanwhile: Meanwhile<'_>, random: &mut Random) -> bool {
    let window = Duration::from_millis(random.between(20, 200));
    let hooks = if random.between(0, 3) == 0 { Hooks::Slots } else { Hooks::Auto };
    let file = fresh_file();
    let all = random.between(0, 2) == 0;
    let outcome = meanwhile(&|| {
        let attach = Heapattach::attach(pid, window, hooks).arg("-o").arg(&file);
        if all { attach.arg("--all").run() } else { attach.run() }
    });
    let code = outcome.code();
    assert!([Some(DONE), Some(UNSUPPORTED)].contains(&code), "{code:?}: {}", outcome.stderr);
    if code == Some(UNSUPPORTED) {
        return false;
    }
    let report = outcome.report();
    assert_eq!(report.target, "restored", "{report:?}");
    assert!(report.left.is_empty(), "{:?}", report.left);
    Heapattach::new(["report"]).arg(&file).run().expect(DONE);
    let _ = std::fs::remove_file(&file);
    let check = meanwhile(&|| {
        Heapattach::new([
            "check",
            "-p",
            &pid.to_string(),
            "--duration",
            "100ms",
            "--json",
            "--max-pause=60s",
        ])
        .target(pid)
        .run()
    });
    let code = check.code().unwrap_or(-1);
    assert!(CHECKED.contains(&code), "check: {code}: {}", check.stderr);
    assert_eq!(check.report().target, "restored", "check: {}", check.stderr);
    true
}
