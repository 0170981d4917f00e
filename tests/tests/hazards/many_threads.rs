//! What a stop costs by the number of threads, and that it is refused beforehand where it would take too
//! long.

use std::time::Duration;

use heapattach_tests::{
    command::{Heapattach, Hooks},
    fixture::{Fixture, Launch},
    measure::Busy,
    trace::Before,
};

const WINDOW: Duration = Duration::from_millis(10);
const DONE: i32 = 0;
const REFUSED: i32 = 3;
const FEW: u32 = 500;
/// So many times as many threads.
const TIMES: u32 = 8;
/// No limit, as the machine may be busy.
const ANY_STOP: &str = "--max-stop=1h";

fn target(threads: u32) -> Option<Fixture> {
    Some(Launch::new("many_threads.c")?.arg(threads.to_string()).start())
}

/// Calls of the engine and processor time of one attach and detach.
#[derive(Clone, Copy, Debug)]
struct Cost {
    calls: f64,
    cpu_us: f64,
}

fn cost(threads: u32) -> Option<Cost> {
    let mut fixture = target(threads)?;
    // Nothing is tried twice because of a thread in the middle of something.
    fixture.pause();
    let mut least: Option<Cost> = None;
    for _ in 0..3 {
        let attach = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg(ANY_STOP);
        let outcome = attach.fault("count").run().expect(DONE);
        let stops = outcome.report().stops;
        assert!(stops.iter().all(|stop| stop.threads >= u64::from(threads)), "{stops:?}");
        let calls = outcome.stderr.lines().find_map(|line| {
            let (_, rest) = line.split_once("faults: ")?;
            rest.split_once(" calls")?.0.parse().ok()
        });
        let calls: f64 = calls.unwrap_or_else(|| panic!("no count in {}", outcome.stderr));
        #[allow(clippy::cast_precision_loss)]
        let cpu_us = outcome.report().expense.cpu_us as f64;
        let least = least.get_or_insert(Cost { calls, cpu_us });
        *least = Cost { calls: least.calls.min(calls), cpu_us: least.cpu_us.min(cpu_us) };
    }
    fixture.resume();
    fixture.finish();
    least
}

#[test]
fn a_stop_costs_by_the_number_of_threads_and_no_more() {
    let (Some(few), Some(many)) = (cost(FEW), cost(FEW * TIMES)) else { return };
    println!("{FEW} threads: {few:?}, {} threads: {many:?}", FEW * TIMES);
    let times = f64::from(TIMES);
    // What every session costs besides is in both.
    assert!(many.calls < few.calls * times * 1.05, "{few:?} became {many:?}");
    // Processor time is not exact; with a pass that is quadratic it would be 64 times as much.
    assert!(many.cpu_us < few.cpu_us * times * 2.0, "{few:?} became {many:?}");
}

#[test]
fn a_stop_that_would_take_too_long_is_refused_beforehand() {
    let Some(mut fixture) = target(1000) else { return };
    let before = Before::of(&mut fixture).loose();
    let pid = fixture.pid().to_string();
    let attach = |more: &[&str]| {
        let command = Heapattach::new(["-p", &pid, "--json", "--max-stop", "1ms"]);
        more.iter().fold(command, |command, word| command.arg(*word)).fault("count").run()
    };
    let check = Heapattach::new(["check", "-p", &pid, "--max-stop", "1ms"]).fault("count");
    let outcomes = [
        attach(&[]),
        attach(&["--hooks", "slots"]),
        attach(&["--loader", "dlopen"]),
        attach(&["--follow-forks"]),
        check.run(),
    ];
    for outcome in outcomes {
        let told = outcome.expect(REFUSED).stderr;
        assert!(told.contains("threads would take about"), "{told}");
        assert!(told.contains("at most 1 ms (--max-stop)"), "{told}");
        assert!(told.contains("(target: untouched)"), "{told}");
        assert!(told.contains("faults: 0 calls"), "something was done to the target: {told}");
    }
    before.assert_equal(&mut fixture, "after it was refused");
    fixture.finish();
}

#[test]
fn doctor_tells_the_stop_that_a_refusal_is_about() {
    let Some(mut fixture) = target(1000) else { return };
    // At rest: else its threads are themselves the load that makes a stop longer.
    fixture.pause();
    let pid = fixture.pid().to_string();
    let told = Heapattach::new(["doctor", "-p", &pid, "--json"]).run().expect(DONE).stdout;
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let stop = told["stop_ms"].as_f64().expect("a number");
    // 30 us a thread on a quiet machine, and more by what others want of it.
    assert!(stop >= 30.0, "{told}");
    let text = Heapattach::new(["doctor", "-p", &pid]).run().expect(DONE).stdout;
    let line = text.lines().find(|line| line.contains("threads would be stopped"));
    let line = line.unwrap_or_else(|| panic!("no such line: {text}"));
    assert!(line.contains("twice, for about") && line.contains("--max-stop"), "{line}");
    fixture.resume();
    fixture.finish();
}

/// Processes that want a processor, beside which a target at rest is stopped, too.
const BESIDE: usize = 10;

/// Stops by the number of threads: of a target at rest, of one that is busy, and of one at rest beside ten
/// busy processes:
/// `cargo test --release --workspace --test hazards -- --ignored --nocapture stops_by`, on a machine
/// that does nothing else.
#[test]
#[ignore = "a measurement: it asserts nothing that a busy machine would not change"]
fn stops_by_the_number_of_threads() {
    println!(
        "threads  at rest  beside  attach ms (median, most)  detach ms (median, most)  foreseen ms"
    );
    for (threads, is_at_rest, beside) in [100, 1000, 5000, 20_000]
        .into_iter()
        .flat_map(|threads| [(threads, true, 0), (threads, false, 0), (threads, true, BESIDE)])
    {
        let Some(mut fixture) = target(threads) else { return };
        if is_at_rest {
            fixture.pause();
        }
        let busy = Busy::processes(beside);
        let (mut stops, mut foreseen): ([Vec<f64>; 2], f64) = Default::default();
        for _ in 0..9 {
            let pid = fixture.pid().to_string();
            let told = Heapattach::new(["doctor", "-p", &pid, "--json"]).run().expect(DONE).stdout;
            let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
            foreseen = told["stop_ms"].as_f64().expect("a number");
            let attach = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg(ANY_STOP);
            for stop in attach.arg("--no-record").run().expect(DONE).report().stops {
                assert!(stop.threads >= u64::from(threads), "{stop:?}");
                stops[usize::from(stop.why == "detach")].push(stop.stopped_us / 1e3);
            }
        }
        drop(busy);
        let [attach, detach] = stops.map(|mut all| {
            all.sort_by(f64::total_cmp);
            (all[all.len() / 2], all[all.len() - 1])
        });
        let [(a, most_a), (d, most_d)] = [attach, detach];
        println!(
            "{threads:7}  {is_at_rest:7}  {beside:6}  {a:10.1} {most_a:13.1}  {d:11.1} {most_d:12.1}  {foreseen:10.1}"
        );
        if is_at_rest {
            fixture.resume();
        }
        fixture.finish();
    }
}
