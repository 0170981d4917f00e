//! What an attach and a detach take grows in proportion to threads, modules and processes, by the calls of the engine: these
//! do not depend on how fast a machine is. (What records, names and reports take is bounded by instructions, in tests that
//! stand with their code.)

use std::time::Duration;

use nix::sys::signal::Signal;

use heapattach_tests::{
    Folder,
    attached::{Attached, INTERRUPTED},
    command::{Heapattach, Hooks},
    compile::Source,
    fixture::{Fixture, Launch},
};

const WINDOW: Duration = Duration::from_millis(100);
/// Of each kind so many, then four and sixteen times as many.
const FEW: u64 = 20;
/// The second step may take more calls than four times the first one by so many hundredths, and a tenth of a call each:
/// threads that run need one more look now and then. In proportion to the square it were four times as many.
const STEADY: u64 = 80;
/// A step in the children of the server.
const SERVE: u64 = 1;

/// Calls of the engine with few, more and most of these: what one more takes does not grow. One module more takes none, and
/// is read; the processor time of that is told, and not judged.
fn assert_linear(what: &str, calls: impl Fn(u64) -> Option<u64>) {
    let Some(all) = [FEW, 4 * FEW, 16 * FEW].map(&calls).into_iter().collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let [few, more, most] = all[..] else { unreachable!("three of them") };
    let (first, second) = (more.saturating_sub(few), most.saturating_sub(more));
    println!(
        "{what}: {few}, {more} and {most} calls of {FEW}, {} and {}; one more: {:.1}, then {:.1}",
        4 * FEW,
        16 * FEW,
        each(first, 3 * FEW),
        each(second, 12 * FEW)
    );
    assert!(few > 0, "{what}: none was told");
    assert!(second * 100 <= 4 * first * (100 + STEADY) + 10 * 12 * FEW, "{what}: {all:?}");
}

fn each(calls: u64, of: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    let (calls, of) = (calls as f64, of as f64);
    calls / of
}

/// The calls of an attach, and the detach after it.
fn calls_of(mut fixture: Fixture) -> u64 {
    fixture.advance(3);
    let attach = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto);
    let outcome = attach.limit(Duration::from_secs(120)).fault("trace").run().expect(0);
    fixture.advance(3);
    fixture.finish();
    println!("{} ms of processor time", outcome.report().expense.cpu_us / 1000);
    outcome.calls().len() as u64
}

#[test]
fn a_thread_more_takes_as_many_calls_among_many() {
    assert_linear("threads", |count| {
        Some(calls_of(Launch::new("many_threads.c")?.arg(count.to_string()).start()))
    });
}

#[test]
fn a_module_more_takes_as_many_calls_among_many() {
    let Some(plugin) = Source::new("loop_plugin.c").build() else { return };
    assert_linear("modules", |count| {
        let folder = Folder::new("growth");
        let launch = Launch::new("crowded.c")?.arg("modules").arg(count.to_string());
        Some(calls_of(launch.arg(&plugin).arg(&folder.0).start()))
    });
}

#[test]
fn a_process_more_takes_as_many_calls_among_many() {
    let Some(plugin) = Source::new("loop_plugin.c").build() else { return };
    assert_linear("processes", |count| {
        let folder = Folder::new("growth");
        let launch = Launch::new("fork_server.c")?.arg(&plugin).arg("2").arg(&folder.0);
        let mut fixture = launch.start();
        let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--follow-forks");
        let command = command.arg("--max-processes=4000").arg("--no-record").folder(&folder.0);
        let session = Attached::start(command.fault("trace"), &mut fixture);
        fixture.step(SERVE, count);
        let session = session.into_command();
        session.signal(Signal::SIGINT);
        let outcome = session.wait().expect(INTERRUPTED);
        fixture.finish();
        Some(outcome.calls().len() as u64)
    });
}
