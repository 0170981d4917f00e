//! What is done with a cell: a look under load, an exact session, a sampled one; then there is no
//! trace of them, and the program ends with its right result. Some are run from their start, too.

use std::time::Duration;

use super::{
    Cell, Expected,
    axes::{Allocator, Language, Loader, Namespace},
    build::{launch, words},
    rows,
};
use crate::{
    attached::Attached,
    command::{Heapattach, Hooks},
    fixture::Fixture,
    report::{Range, Report, Site},
    skip::skip,
    trace::Before,
    truth::{Accounts, EXACT, MARK, ROUND, accounts, assert_exact, run, told},
};

/// How long the look under load lasts.
const WINDOW: Duration = Duration::from_millis(100);
const SAMPLED: [&str; 3] = ["--every=8KiB", "--on-full=wait", "--hide-frames=none"];
/// The intervals hold the truth 95 times of 100; three times as wide they always do, unless they
/// are wrong.
const WIDER: f64 = 3.0;
/// The functions of `pools.c`.
const POOL: [&str; 2] = ["--hook=pool_take=alloc:size=arg2", "--hook=pool_give=free:ptr=arg2"];
/// C++'s runtime has memory for what is thrown, which is in no account.
const THROWN: &str = "__cxa_allocate_exception";

/// Whether the cell could be tried.
///
/// # Panics
/// If it does not come out as expected.
pub fn hold(cell: &Cell, seed: u64) -> bool {
    let Some(launch) = launch(cell, seed) else { return false };
    let Some(mut fixture) = launch.start_if_allowed() else {
        skip(&format!("{cell}: no such namespace here"), "run as root, with user namespaces");
        return false;
    };
    if let Expected::Refused(row) = cell.expected {
        is_refused(cell, row, &mut fixture);
    } else {
        is_exact(cell, seed, &mut fixture);
    }
    fixture.finish();
    // What is done before and after the work is in no account of all, but in none of a place.
    if cell.expected == Expected::Exact && cell.loader == Loader::Map {
        is_exact_from_its_start(cell, seed);
    }
    true
}

/// The same program from its first instruction to its last.
fn is_exact_from_its_start(cell: &Cell, seed: u64) {
    let Some(words) = words(cell, seed) else { return };
    let pool = if cell.allocator == Allocator::Pool { &POOL[..] } else { &[] };
    let options = [&EXACT[..], pool].concat();
    let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let (outcome, report) = run(&options, words[0].as_ref(), &arguments);
    assert_exact(&format!("run of {cell}, seed {seed}"), &report, &accounts(&outcome.stdout));
}

fn is_exact(cell: &Cell, seed: u64, fixture: &mut Fixture) {
    // Everything that is done at first use has been.
    fixture.step(ROUND, 0);
    told(fixture);
    let before = Before::of(fixture).loose();
    under_load(cell, fixture);
    let (report, truth) = session(cell, fixture, &EXACT);
    let what = format!("{cell}, seed {seed}");
    if cell.expected == Expected::Exact {
        assert_exact(&what, &report, &truth);
    } else {
        assert_exact_in_all(&what, &report, &truth);
    }
    let (report, truth) = session(cell, fixture, &SAMPLED);
    let by_name = cell.expected == Expected::Exact;
    assert_sampled(&what, &report, &truth, by_name);
    before.assert_equal(fixture, &format!("({what})"));
}

/// One that hooks do not come to: it is refused, or its runtime tells.
fn is_refused(cell: &Cell, row: &str, fixture: &mut Fixture) {
    let row = rows::find(row);
    // Its threads have begun: with musl they do so with all signals blocked.
    if cell.language != Language::Go {
        fixture.step(ROUND, 0);
    }
    let before = Before::of(fixture).loose();
    let command = options(cell, Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto));
    let mut command = command.start();
    // The program of Go works by itself all the time.
    while cell.language != Language::Go && command.is_running() {
        fixture.step(ROUND, 0);
    }
    let outcome = command.wait();
    assert_eq!(outcome.code(), row.outcome.code(), "{cell}: {}", outcome.stderr);
    for words in row.says {
        assert!(outcome.stderr.contains(words), "`{words}` is not in {}", outcome.stderr);
    }
    assert_ne!(outcome.report().target, "altered", "{cell}");
    let mut trace = before.trace(fixture);
    // A runtime of its own starts threads when it likes to.
    trace.retain(|line| cell.language != Language::Go || !line.starts_with("thread "));
    assert!(trace.is_empty(), "a trace after a refusal ({cell}): {trace:?}");
}

/// The program works all the time, from before the attach until after the detach.
fn under_load(cell: &Cell, fixture: &mut Fixture) {
    let command = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg("--every=64KiB");
    let mut command = options(cell, command).start();
    while command.is_running() {
        fixture.step(ROUND, 0);
    }
    let report = command.wait().expect(0).report();
    assert_eq!((&*report.outcome, &*report.target), ("detached", "restored"), "{cell}: {report:?}");
    assert!(report.left.is_empty(), "{cell}: {:?}", report.left);
    fixture.assert_well();
}

/// A session that sees one round from its first call to its last; and what the program says of it.
fn session(cell: &Cell, fixture: &mut Fixture, how: &[&str]) -> (Report, Accounts) {
    fixture.step(MARK, 0);
    let command = options(cell, Attached::command(fixture.pid(), Hooks::Auto));
    let command = how.iter().fold(command, |command, option| command.arg(*option));
    let attached = Attached::start(command, fixture);
    fixture.step(ROUND, 0);
    let report = attached.end();
    let truth = accounts(&told(fixture));
    fixture.assert_well();
    (report, truth)
}

/// What the values of the cell need to be said.
fn options(cell: &Cell, mut command: Heapattach) -> Heapattach {
    if cell.loader == Loader::Dlopen {
        command = command.arg("--loader=dlopen");
        // Docker's filter lets the loader do what it must.
        if cell.namespace == Namespace::Container && cell.expected == Expected::Exact {
            command = command.arg("--force");
        }
    }
    if cell.namespace == Namespace::Container {
        // Where its system calls are filtered a thread that waits for room may not sleep, and so not for
        // long: all of a round has room.
        command = command.arg("--ring=4MiB");
    }
    if cell.allocator == Allocator::Pool {
        command = POOL.iter().fold(command, |command, option| command.arg(*option));
    }
    command
}

fn assert_exact_in_all(what: &str, report: &Report, truth: &Accounts) {
    assert!(report.is_complete(), "{what}: lost {:?}", report.heap.lost);
    assert_eq!((report.heap.every, report.heap.more_sites), (1, 0), "{what}");
    let sum = |of: fn(&Site) -> Range| {
        let own = report.heap.sites.iter().filter(|site| !is_of_exceptions(site));
        own.map(|site| of(site).value).sum::<f64>()
    };
    let got = [
        sum(|site| site.allocated.blocks),
        sum(|site| site.allocated.bytes),
        sum(|site| site.live.blocks),
        sum(|site| site.live.bytes),
    ];
    let wanted = truth.values().fold([0; 4], |sum, account| {
        let one = [account.blocks, account.bytes, account.live, account.live_bytes];
        std::array::from_fn(|at| sum[at] + one[at])
    });
    #[allow(clippy::cast_precision_loss, reason = "small counts")]
    let wanted = wanted.map(|number: u64| number as f64);
    assert_eq!(got, wanted, "{what}: {:#?}", report.heap.sites);
}

fn is_of_exceptions(site: &Site) -> bool {
    site.frames.iter().any(|frame| frame.function.starts_with(THROWN))
}

/// The places together: their bytes lie in the sum of their intervals.
fn assert_sampled(what: &str, report: &Report, truth: &Accounts, by_name: bool) {
    let is_own = |site: &&Site| {
        (!by_name && !is_of_exceptions(site)) || truth.keys().any(|name| site.is_in(name))
    };
    assert!(report.is_complete(), "{what}: lost {:?}", report.heap.lost);
    let (mut value, mut room) = (0.0, 0.0);
    for site in report.heap.sites.iter().filter(is_own) {
        let bytes = site.allocated.bytes;
        value += bytes.value;
        room += (bytes.high - bytes.value).max(bytes.value - bytes.low);
    }
    #[allow(clippy::cast_precision_loss, reason = "small counts")]
    let wanted = truth.values().map(|account| account.bytes).sum::<u64>() as f64;
    assert!(wanted > 0.0, "{what}: the program asked for nothing");
    let off = (value - wanted).abs();
    assert!(off <= WIDER * room, "{what}: {value} +- {room} instead of {wanted}");
}
