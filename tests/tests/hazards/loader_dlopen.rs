//! `--loader dlopen`: the hazards again, with the target loading the hooks by itself; and what it
//! takes for that, or makes it refuse.

use std::{fs, time::Duration};

use heapattach_tests::{
    attached::{Attached, INTERRUPTED},
    command::{Heapattach, Hooks},
    compile::{Source, is_there},
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    hazard::Hazard,
    page::Word,
    sample::points,
    seed::{Random, seed},
    skip::skip,
    survey::{Survey, name},
    trace::Before,
    truth::{EXACT, MARK, ROUND, accounts, assert_exact, told},
};
use nix::sys::signal::Signal;

const DLOPEN: &str = "--loader=dlopen";
const WINDOW: Duration = Duration::from_millis(20);
/// What the target's map calls the hooks.
const OBJECT: &str = "heapattach-payload";
const USAGE: i32 = 2;
const REFUSED: i32 = 3;
const UNSUPPORTED: i32 = 4;
const LEFT: i32 = 7;
/// Steps of `listed.c`.
const LIST: u64 = 1;
const IN_LOADER: u64 = 2;
const IN_HANDLER: u64 = 3;
const ON_SMALL_STACK: u64 = 4;
const NOWHERE: u64 = 5;
const USUAL: u64 = 6;
const FORKED: u64 = 7;

fn hazard(name: &str, fixture: Fixture, hooks: Hooks) -> Hazard {
    Hazard::new(&format!("{name}, dlopen"), fixture, hooks).arg(DLOPEN).loose()
}

fn attach(fixture: &Fixture) -> Heapattach {
    Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg(DLOPEN)
}

fn session(fixture: &mut Fixture) -> Attached {
    Attached::start(Attached::command(fixture.pid(), Hooks::Auto).arg(DLOPEN), fixture)
}

fn maps(fixture: &Fixture) -> String {
    fs::read_to_string(format!("/proc/{}/maps", fixture.pid())).unwrap_or_default()
}

fn hammer(threads: &str, largest: &str) -> Option<Fixture> {
    Some(Launch::new("hammer.c")?.arg(threads).arg(largest).start())
}

// ---- hazards ----------------------------------------------------------------------------------

fn four_threads_twenty_times(hooks: Hooks) {
    let Some(fixture) = hammer("4", "2000") else { return };
    hazard("4 threads", fixture, hooks).cycles(20).run();
}

fn one_thread(hooks: Hooks) {
    let Some(fixture) = hammer("1", "400") else { return };
    hazard("1 thread", fixture, hooks).run();
}

fn modules_loaded_and_unloaded_in_a_loop(hooks: Hooks) {
    let Some(launch) = Launch::new("dlopen_loop.c") else { return };
    let Some(plugin) = Source::new("loop_plugin.c").build() else { return };
    let launch = launch.arg(plugin).arg("libz.so.1").arg("libresolv.so.2").arg("libm.so.6");
    // It spends nearly all its time in the loader, where it may not be called by others.
    let hazard = hazard("dlopen/dlclose loop", launch.start(), hooks).warm_up(20);
    hazard.may_refuse(&[REFUSED], "at every look").may_leave("at every look").run();
}

fn fork_and_exec_storm(hooks: Hooks) {
    let Some(launch) = Launch::new("fork_storm.c") else { return };
    hazard("fork/exec storm", launch.start(), hooks).warm_up(10).run();
}

fn timer_signals_with_an_allocating_handler(hooks: Hooks) {
    let Some(allocator) = Source::new("safe_allocator.c").build() else { return };
    let storm = Source::new("signal_storm.c").flag(&allocator.to_string_lossy());
    let Some(launch) = Launch::of(&storm) else { return };
    hazard("2 kHz signal storm", launch.start(), hooks).warm_up(100).run();
}

fn sigtrap_blocked_and_handled(hooks: Hooks) {
    let Some(launch) = Launch::new("trap.c") else { return };
    hazard("SIGTRAP blocked and handled", launch.start(), hooks).warm_up(20).run();
}

heapattach_tests::hazards![
    four_threads_twenty_times,
    one_thread,
    modules_loaded_and_unloaded_in_a_loop,
    fork_and_exec_storm,
    timer_signals_with_an_allocating_handler,
    sigtrap_blocked_and_handled,
];

#[test]
fn a_growing_heap() {
    let Some(launch) = Launch::new("hammer.c") else { return };
    let fixture = launch.arg("4").arg("2000").arg("grow").start();
    hazard("4 threads, growing heap", fixture, Hooks::Auto).run();
}

#[test]
fn a_program_of_musl_keeps_what_it_has_loaded_and_is_told_before() {
    if !is_there("musl-gcc") {
        return skip("no musl-gcc here", "apt-get install musl-tools");
    }
    let source = Source::new("hammer.c").compiler("musl-gcc");
    let Some(launch) = Launch::of(&source) else { return };
    let mut fixture = launch.arg("2").arg("400").start();
    fixture.advance(1);
    is_refused(&mut fixture, REFUSED, "never unloads");
    for _ in 0..3 {
        let outcome = attach(&fixture).arg("--force").run().expect(LEFT);
        let report = outcome.report();
        assert!(report.calls() > 0, "{report:?}");
        assert_eq!(report.left.len(), 1, "{:?}", report.left);
        fixture.advance(1);
        // The next one finds it, and loads no other.
        let code = maps(&fixture);
        let code = code.lines().filter(|l| l.contains(OBJECT) && l.contains("r-xp"));
        assert_eq!(code.count(), 1);
    }
    fixture.finish();
}

#[test]
fn a_program_that_sees_no_proc_loads_from_a_folder() {
    let Some(launch) = Launch::new("confined.c") else { return };
    let Some(fixture) = launch.arg("no-proc").start_if_allowed() else {
        return skip("no mount namespaces here", "run as root");
    };
    hazard("no /proc", fixture, Hooks::Auto).warm_up(1000).run();
    let left = fs::read_dir(std::env::temp_dir()).expect("a folder for temporary files");
    let ours = left.flatten().filter(|e| e.file_name().to_string_lossy().contains(OBJECT));
    assert_eq!(ours.count(), 0, "a file is left");
}

// ---- what the loader knows --------------------------------------------------------------------

#[test]
fn the_loader_lists_the_hooks_while_attached_and_not_afterwards() {
    let Some(launch) = Launch::new("listed.c") else { return };
    let mut fixture = launch.start();
    let before = Before::of(&mut fixture).loose();
    fixture.step(LIST, 0);
    let modules = fixture.page().get(Word::Answer);
    for _ in 0..3 {
        let attached = session(&mut fixture);
        fixture.step(LIST, 0);
        assert_eq!(fixture.page().get(Word::Answer), modules + 1);
        let code = maps(&fixture);
        let code = code.lines().find(|l| l.contains(OBJECT) && l.contains("r-xp"));
        assert!(code.is_some(), "{}", maps(&fixture));
        let named = fixture.output();
        assert!(named.contains("module /proc/self/task/"), "{named}");
        attached.end();
        fixture.step(LIST, 0);
        assert_eq!(fixture.page().get(Word::Answer), modules);
        before.assert_equal(&mut fixture, "after the hooks were unloaded");
    }
    fixture.finish();
}

#[test]
fn what_is_recorded_in_full_is_what_the_program_did() {
    let Some(by) = Source::new("comes_by.c").build() else { return };
    let seed = seed();
    for (threads, turns) in [("1", "20000"), ("4", "5000")] {
        let Some(launch) = Launch::new("truth.c") else { return };
        let launch = launch.arg(threads).arg(turns).arg(seed.to_string());
        let mut fixture = launch.env("LD_PRELOAD", &by).start();
        for round in 0..2 {
            fixture.step(ROUND, 0);
            fixture.step(MARK, 0);
            let command = Attached::command(fixture.pid(), Hooks::Auto).arg(DLOPEN);
            let command = EXACT.iter().fold(command, |command, option| command.arg(*option));
            let attached = Attached::start(command, &mut fixture);
            fixture.step(ROUND, 0);
            let report = attached.end();
            let truth = accounts(&told(&mut fixture));
            fixture.assert_well();
            let what = format!("dlopen {threads} {turns} {seed}, round {round}");
            assert_exact(&what, &report, &truth);
        }
        fixture.finish();
    }
}

// ---- refusals ---------------------------------------------------------------------------------

/// Nothing is done, and the message says what to type.
fn is_refused(fixture: &mut Fixture, code: i32, why: &str) {
    let before = Before::of(fixture).loose();
    let outcome = attach(fixture).run().expect(code);
    assert!(outcome.stderr.contains("--loader map"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(why), "`{why}` is not in {}", outcome.stderr);
    before.assert_equal(fixture, &format!("after it was refused ({why})"));
    assert_ne!(outcome.report().target, "altered");
}

#[test]
fn a_program_that_never_comes_to_a_safe_place_is_refused() {
    let Some(launch) = Launch::new("listed.c") else { return };
    let mut fixture = launch.start();
    for (step, why) in [
        (NOWHERE, "no thread of the target came"),
        (IN_LOADER, "in the loader"),
        (IN_HANDLER, "in signal handlers only"),
        (ON_SMALL_STACK, "bytes of a stack of its own"),
    ] {
        fixture.step(step, 0);
        is_refused(&mut fixture, REFUSED, why);
    }
    fixture.step(USUAL, 0);
    attach(&fixture).run().expect(0);
    fixture.finish();
}

#[test]
fn children_forked_before_it_is_given_up_are_clean_too() {
    let Some(launch) = Launch::new("listed.c") else { return };
    let mut fixture = launch.start();
    fixture.step(FORKED, 0);
    let child = i32::try_from(fixture.page().get(Word::Answer)).expect("a pid");
    let command = attach(&fixture).start();
    fixture.step(FORKED, 0);
    let born = i32::try_from(fixture.page().get(Word::Answer)).expect("a pid");
    command.wait().expect(REFUSED);
    for pid in [child, born] {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        assert!(maps.contains("libc.so"), "{maps}");
        assert!(!maps.contains("memfd:heapattach"), "{maps}");
        let outcome = Heapattach::detach(pid).run().expect(0);
        assert!(outcome.stdout.contains("nothing to clean up"), "{}", outcome.stdout);
    }
    fixture.step(USUAL, 0);
    fixture.finish();
}

#[test]
fn a_named_function_that_the_object_is_too_far_from_is_refused() {
    const NAMED: &str = "--hook=in_handler=free";
    let Some(launch) = Launch::new("listed.c") else { return };
    let mut fixture = launch.start();
    let before = Before::of(&mut fixture).loose();
    let outcome = attach(&fixture).arg(NAMED).run().expect(REFUSED);
    assert!(outcome.stderr.contains("in_handler lies too far"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--loader map"), "{}", outcome.stderr);
    before.assert_equal(&mut fixture, "after it was refused");
    Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg(NAMED).run().expect(0);
    before.assert_equal(&mut fixture, "after it was mapped");
    fixture.finish();
}

#[test]
fn a_family_is_not_loaded_into() {
    let Some(fixture) = hammer("1", "400") else { return };
    let outcome = attach(&fixture).arg("--follow-forks").run().expect(USAGE);
    assert!(outcome.stderr.contains("--loader map"), "{}", outcome.stderr);
    fixture.finish();
}

#[test]
fn a_filtered_program_is_refused() {
    let Some(launch) = Launch::new("confined.c") else { return };
    let Some(mut fixture) = launch.arg("seccomp-kill").start_if_allowed() else {
        return skip("no seccomp here", "run as root");
    };
    is_refused(&mut fixture, REFUSED, "seccomp");
    fixture.finish();
}

#[test]
fn a_program_with_no_folder_to_load_from_is_told_so() {
    let Some(launch) = Launch::new("confined.c") else { return };
    let Some(mut fixture) = launch.arg("no-files").start_if_allowed() else {
        return skip("no mount namespaces here", "run as root");
    };
    is_refused(&mut fixture, REFUSED, "noexec");
    fixture.finish();
}

#[test]
fn a_static_program_is_refused() {
    let Some(launch) = Launch::of(&Source::new("hammer.c").flag("-static")) else { return };
    let mut fixture = launch.arg("1").arg("400").start();
    let outcome = attach(&fixture).run().expect(UNSUPPORTED);
    assert!(outcome.stderr.contains("static") || outcome.stderr.contains("dlopen"));
    fixture.advance(1);
    fixture.finish();
}

#[test]
fn hooks_that_cannot_be_unloaded_are_named_and_can_be_later() {
    let Some(launch) = Launch::new("listed.c") else { return };
    let mut fixture = launch.start();
    let before = Before::of(&mut fixture).loose();
    let attached = session(&mut fixture);
    fixture.step(NOWHERE, 0);
    let command = attached.into_command();
    command.signal(Signal::SIGINT);
    let outcome = command.wait().expect(LEFT);
    assert!(outcome.stdout.contains("shared object"), "{}", outcome.stdout);
    fixture.assert_well();
    Heapattach::detach(fixture.pid()).run().expect(LEFT);
    fixture.step(USUAL, 0);
    Heapattach::detach(fixture.pid()).run().expect(0);
    before.assert_equal(&mut fixture, "after the second detach");
    fixture.finish();
}

// ---- deaths -----------------------------------------------------------------------------------

#[test]
fn the_undo_is_done_when_the_command_is_killed_at_any_time() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let mut fixture = launch.start();
    let (seed, before) = (seed(), Before::of(&mut fixture).loose());
    let mut random = Random::new(seed);
    for turn in 0..15 {
        let delay = Duration::from_micros(random.between(0, 300_000));
        let command = Attached::command(fixture.pid(), Hooks::Auto).arg(DLOPEN).start();
        std::thread::sleep(delay);
        command.signal(Signal::SIGKILL);
        command.wait();
        fixture.advance(1);
        let clean = || before.trace(&mut fixture).is_empty().then_some(());
        if poll(PATIENCE, clean).is_none() {
            let when = format!("after a kill {delay:?} from the start ({turn}), seed {seed}");
            before.assert_equal(&mut fixture, &when);
        }
    }
    fixture.finish();
}

#[test]
fn the_target_survives_the_death_of_its_tracer_and_can_be_cleaned() {
    let Some(fixture) = Launch::new("steady.c").map(Launch::start) else { return };
    let traced = attach(&fixture).fault("trace").run().expect(0);
    fixture.finish();
    let calls = traced.calls();
    let seed = seed();
    let points = points(calls.len() as u64, 60, &mut Random::new(seed));
    let survey = Survey::of("steady.c", points, |fixture, _, n| {
        let _ = attach(fixture).fault(&format!("kill:{n}")).run();
        let goal = fixture.progress() + 100;
        let lives = poll(PATIENCE, || match fixture.ended() {
            Some(_) => Some(false),
            None => (fixture.progress() >= goal).then_some(true),
        });
        if lives != Some(true) {
            let how = if lives.is_none() { "hangs" } else { "died" };
            *fixture = Launch::new("steady.c").expect("compiled before").start();
            panic!("the target {how} after kill:{n}, seed {seed}");
        }
        Heapattach::detach(fixture.pid()).run().expect(0);
    });
    let Some(survey) = survey else { return };
    println!("tracer killed at {} of {} calls, seed {seed}", survey.tried(), calls.len());
    survey.assert_all_well("the tracer is killed, dlopen", |n| name(&calls, n));
}

#[test]
fn an_interrupted_session_unloads_the_hooks() {
    let Some(mut fixture) = hammer("4", "2000") else { return };
    fixture.advance(1);
    let before = Before::of(&mut fixture).loose();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let command = session(&mut fixture).into_command();
        command.signal(signal);
        let outcome = command.wait().expect(INTERRUPTED);
        assert_eq!(outcome.report().target, "restored", "{}", outcome.stderr);
        before.assert_equal(&mut fixture, &format!("after {signal}"));
    }
    fixture.finish();
}

// ---- cost -------------------------------------------------------------------------------------

#[test]
fn the_target_stands_still_for_as_short_as_with_a_mapping() {
    let stops = |arguments: &[&str]| {
        let fixture = hammer("4", "2000")?;
        let hazard = Hazard::new(&format!("{arguments:?}"), fixture, Hooks::Auto).loose();
        let hazard = arguments.iter().fold(hazard, |hazard, argument| hazard.arg(argument));
        let mut times = hazard.run().attach_us().to_vec();
        times.sort_by(f64::total_cmp);
        Some((times.len(), times[times.len() / 2]))
    };
    let (Some((one, map)), Some((many, dlopen))) = (stops(&[]), stops(&[DLOPEN])) else { return };
    println!("{one} stops of {map:.0} us with map, {many} of {dlopen:.0} us with dlopen (medians)");
    assert!(dlopen < 20.0 * map.max(1000.0), "{dlopen} us against {map} us");
}
