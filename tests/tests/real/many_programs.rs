//! Programs that a Debian server runs, each attached to, recorded and checked while it answers
//! questions: every answer is the same as before, and nothing is different afterwards.
//!
//! `HEAPATTACH_PROGRAM=perl` picks one of them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use heapattach_tests::{
    command::{Heapattach, Hooks, Outcome},
    deadline::{PATIENCE, poll, wait_until},
    hazard::cycles,
    real::{
        Load, Server, StartError,
        conversation::Conversation,
        installed, memcached, nginx,
        programs::{PROGRAMS, Program},
        redis, rocks,
    },
    seed::{Random, seed},
    skip::skip,
};

use crate::cycle::{assert_as_before, one_cycle, settled};

const DONE: i32 = 0;

/// Asks on until `done`; what heapattach does meanwhile is not to be noticed.
fn ask_until<T>(conversation: &mut Conversation, work: impl FnOnce() -> T + Send) -> T
where
    T: Send,
{
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let result = catch_unwind(AssertUnwindSafe(work));
            is_done.store(true, Ordering::SeqCst);
            result
        });
        let mut asked = Ok(());
        while !is_done.load(Ordering::SeqCst) && asked.is_ok() {
            asked = conversation.ask(1);
        }
        let result = worker.join().expect("its panic is caught");
        asked.unwrap_or_else(|error| panic!("an answer: {error}"));
        result.unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    })
}

/// All cycles of one program.
fn try_one(program: &Program, random: &mut Random) -> String {
    let mut conversation = Conversation::start(program)
        .unwrap_or_else(|error| panic!("{} does not answer: {error}", program.name));
    let before = settled(conversation.pid());
    let mut attached = 0;
    let cycles = cycles().div_ceil(4);
    for _ in 0..cycles {
        let pid = conversation.pid();
        let meanwhile =
            &mut |work: &(dyn Fn() -> Outcome + Sync)| ask_until(&mut conversation, work);
        attached += u64::from(one_cycle(pid, meanwhile, random));
        conversation.ask(1).unwrap_or_else(|error| panic!("after: {error}"));
    }
    assert_as_before(conversation.pid(), &before, |line| program.is_own_doing(line));
    conversation.finish().unwrap_or_else(|error| panic!("its end: {error}"));
    match attached {
        0 => format!("{}: nothing to hook, as was said", program.name),
        n => format!("{}: {n} times", program.name),
    }
}

#[test]
fn programs_of_a_server_answer_as_before() {
    let only = std::env::var("HEAPATTACH_PROGRAM").ok();
    let seed = seed();
    let mut random = Random::new(seed);
    let (mut told, mut wrong) = (Vec::new(), Vec::new());
    for program in PROGRAMS.iter().filter(|p| only.as_deref().is_none_or(|only| only == p.name)) {
        if installed(program.file).is_none() {
            skip(
                &format!("{} is not installed", program.name),
                &format!("apt-get install {}", program.package),
            );
            continue;
        }
        match catch_unwind(AssertUnwindSafe(|| try_one(program, &mut random))) {
            Ok(line) => told.push(line),
            Err(cause) => {
                let text = cause.downcast_ref::<String>().cloned().unwrap_or_default();
                wrong.push(format!("{}: {text}", program.name));
            }
        }
    }
    println!("{}; seed {seed}", told.join(", "));
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n----\n"));
}

/// What its clients ask.
type Clients = fn(&Server) -> Load;

/// All cycles of one server, all of whose clients ask on meanwhile.
fn try_server(name: &str, server: &Server, load: Clients, random: &mut Random) -> String {
    // The workers of one that has some, else itself.
    let pid = server.children().first().copied().unwrap_or(server.pid());
    let answers = |load: &Load| {
        let then = load.answered();
        wait_until("answers", PATIENCE, || load.answered() > then);
    };
    let warm = load(server);
    answers(&warm);
    warm.finish().unwrap_or_else(|wrong| panic!("{name} answered wrongly before: {wrong}"));
    let before = settled(pid);
    let load = load(server);
    for _ in 0..cycles().div_ceil(4) {
        assert!(one_cycle(pid, &mut |work| work(), random), "{name}: nothing to hook");
        answers(&load);
    }
    let asked = load.finish().unwrap_or_else(|wrong| panic!("{name} answered wrongly: {wrong}"));
    // The server upon RocksDB writes its values to other files now and then.
    assert_as_before(pid, &before, |line| line.contains("/values/"));
    format!("{name}: {asked} requests")
}

#[test]
fn servers_answer_while_they_are_recorded_and_checked() {
    type Start = fn() -> Result<Server, StartError>;
    let servers: [(&str, Start, Clients); 4] = [
        ("redis", redis::start, redis::load),
        ("nginx", nginx::start, nginx::load),
        ("memcached", memcached::start, memcached::load),
        ("the server upon RocksDB", rocks::start, rocks::load),
    ];
    let seed = seed();
    let mut random = Random::new(seed);
    for (name, start, load) in servers {
        match start() {
            Ok(server) => println!("{}", try_server(name, &server, load, &mut random)),
            Err(StartError::Missing(cure)) => skip(&format!("{name} is not installed"), cure),
            Err(StartError::Failed(why)) => panic!("{name} does not start: {why}"),
        }
    }
    println!("seed {seed}");
}

#[test]
fn a_server_with_two_allocators_answers_while_it_is_looked_at() {
    let server = match rocks::start() {
        Ok(server) => server,
        Err(StartError::Missing(cure)) => return skip("no server upon RocksDB", cure),
        Err(StartError::Failed(why)) => panic!("the server upon RocksDB does not start: {why}"),
    };
    let measure = |server: &Server| rocks::measure(server).unwrap_or_else(|why| panic!("{why}"));
    let pid = server.pid();
    measure(&server);
    let before = settled(pid);
    let load = rocks::load(&server);
    for options in [&[][..], &["--all"], &["--flow"]] {
        let attach = Heapattach::attach(pid, Duration::from_millis(1500), Hooks::Auto);
        let attach = options.iter().fold(attach, |attach, option| attach.arg(*option));
        let report = attach.run().expect(DONE).report();
        assert_eq!(report.target, "restored", "{options:?}: {report:?}");
        for allocator in ["malloc", "_rjem_malloc"] {
            assert!(
                report.calls_of(allocator) > 0
                    || report.functions.iter().any(|f| {
                        f.function.contains(allocator.trim_start_matches('_')) && f.calls > 0
                    }),
                "{options:?}: no calls of {allocator}"
            );
        }
    }
    let answered = load.finish().unwrap_or_else(|wrong| panic!("answered wrongly: {wrong}"));
    println!("the server upon RocksDB answered {answered} requests, all as it should");
    // It writes its values to other files now and then.
    assert_as_before(pid, &before, |line| line.contains("/values/"));
}

/// Throughput and waiting times, attached and not, in turns: a measurement, without a limit that a
/// slow machine could miss, of more rounds with more cycles.
#[test]
fn what_clients_of_a_server_with_two_allocators_notice() {
    let server = match rocks::start() {
        Ok(server) => server,
        Err(StartError::Missing(cure)) => return skip("no server upon RocksDB", cure),
        Err(StartError::Failed(why)) => panic!("the server upon RocksDB does not start: {why}"),
    };
    let measure = || rocks::measure(&server).unwrap_or_else(|why| panic!("{why}"));
    measure();
    let ways: [(&str, Option<&[&str]>); 3] =
        [("alone", None), ("sampled", Some(&[])), ("all", Some(&["--all"]))];
    let mut runs = ways.map(|_| Vec::new());
    for _ in 0..cycles().clamp(2, 20) {
        for ((_, options), runs) in ways.iter().zip(&mut runs) {
            let Some(options) = options else {
                runs.push(measure());
                continue;
            };
            let attach =
                Heapattach::new(["-p", &server.pid().to_string(), "--no-record", "--json"]);
            let attach = options.iter().fold(attach, |attach, option| attach.arg(*option));
            let command = attach.start();
            let is_attached =
                poll(PATIENCE, || command.talk().contains("attached to").then_some(()));
            assert!(is_attached.is_some(), "{}", command.talk());
            runs.push(measure());
            command.signal(nix::sys::signal::Signal::SIGINT);
            assert_eq!(command.wait().report().target, "restored");
        }
    }
    let median = |runs: &[rocks::Run], of: fn(&rocks::Run) -> f64| {
        let mut all: Vec<f64> = runs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    for ((name, _), runs) in ways.iter().zip(&runs) {
        println!(
            "{name}: {:.0} requests a second, p95 {:.3} ms, p99 {:.3} ms (medians of {})",
            median(runs, |run| run.throughput),
            median(runs, |run| run.p95),
            median(runs, |run| run.p99),
            runs.len()
        );
    }
}
