//! The judge of call stacks is judged: what is right it finds right, and every damage wrong.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use heapattach_tests::{
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    oracle::{
        Comparison, Counts, DEEPEST, DEPTH, KINDS, OUTERMOST, Oracle, Places, RecordedStack, Table,
        Truth, parse, write,
    },
    seed::{Random, seed},
};

const WORK: u64 = 1;

/// What a fixture did in one step, seen by the oracle.
struct Witnessed {
    table: Table,
    step: Counts,
    places: Places,
}

fn witness(file: &str) -> Option<Witnessed> {
    let oracle = Oracle::new()?;
    let mut fixture = start(&oracle, file)?;
    let seed = seed();
    println!("{file}, seed {seed}");
    fixture.step(WORK, seed);
    let before = oracle.table(fixture.pid());
    fixture.step(WORK, seed + 1);
    let (table, places) = (oracle.table(fixture.pid()), oracle.places(fixture.pid()));
    fixture.finish();
    let step = table.since(&before);
    Some(Witnessed { table, step, places })
}

fn start(oracle: &Oracle, file: &str) -> Option<Fixture> {
    let [preload, tables] = oracle.environment();
    Some(Launch::new(file)?.env(preload.0, preload.1).env(tables.0, tables.1).start())
}

impl Witnessed {
    /// What heapattach would have to say of the step.
    fn truth(&self) -> Vec<RecordedStack> {
        let stack = |(frames, &allocations): (&Vec<u64>, &u64)| {
            let (end, mut frames) = (OUTERMOST.to_owned(), frames.clone());
            // It sees the oracle call the allocator.
            frames.insert(0, self.table.own.start + 1);
            if frames.len() > DEEPEST {
                frames.truncate(DEEPEST);
                return RecordedStack { allocations, end: DEPTH.to_owned(), frames };
            }
            RecordedStack { allocations, end, frames }
        };
        self.step.iter().map(stack).collect()
    }

    fn compare(&self, recorded: &[RecordedStack]) -> Comparison {
        let truth = Truth { table: &self.table, certain: &self.step, places: &self.places };
        // By way of the file, as in a session.
        let recorded = parse(&write(recorded)).expect("what was just written");
        Comparison::of(&recorded, truth)
    }

    fn knows(&self, stack: &RecordedStack) -> bool {
        stack.end == OUTERMOST && self.table.counts.contains_key(&stack.frames[1..])
    }
}

#[test]
fn what_the_oracle_saw_is_right() {
    for file in ["stacks.c", "stacks.cpp", "stacks.rs"] {
        let Some(witnessed) = witness(file) else { return };
        let comparison = witnessed.compare(&witnessed.truth());
        comparison.assert_good(file, 20_000, 1.0);
        comparison.assert_same_counts(file);
        assert!(comparison.stacks > 500, "{file}: {comparison}");
        assert!(comparison.deepest >= 40, "{file}: {comparison}");
    }
}

#[test]
fn every_damage_to_a_stack_is_found() {
    let Some(witnessed) = witness("stacks.c") else { return };
    let truth = witnessed.truth();
    let all: u64 = truth.iter().map(|stack| stack.allocations).sum();
    let mut random = Random::new(seed());
    let mut draw =
        |below: usize| usize::try_from(random.between(0, below as u64)).expect("below a usize");
    let (mut wrong, mut same) = ([0; KINDS], 0);
    for turn in 0..300 {
        let kind = turn % KINDS;
        let mut damaged = truth.clone();
        let index = draw(damaged.len());
        let stack = &mut damaged[index];
        let at = 1 + draw(stack.frames.len() - 1);
        stack.damage(kind, at);
        let (allocations, known) = (stack.allocations, witnessed.knows(stack));
        let what = format!("damage {kind} at {at} of {:x?}", truth[index]);
        if damaged[index] == truth[index] || damaged[index].frames.len() == 1 {
            continue;
        }
        let comparison = witnessed.compare(&damaged);
        // A recursion less one round is another of the program's own stacks; then the counts tell.
        let right = if known { all } else { all - allocations };
        assert_eq!(comparison.right, right, "{what}: {comparison}");
        assert!(!comparison.differing.is_empty(), "{what}: no difference");
        let causes: u64 = comparison.wrong.values().map(|wrong| wrong.allocations).sum();
        assert_eq!(causes, all - right, "{what}: {comparison}");
        assert_eq!(comparison.judge(all, 1.0).is_ok(), known, "{what}");
        *(if known { &mut same } else { &mut wrong[kind] }) += 1;
    }
    println!("damages found by a wrong stack: {wrong:?}, by counts alone: {same}");
    assert!(wrong.iter().all(|&number| number > 10), "{wrong:?}, {same}");
}

#[test]
fn stacks_that_are_missing_are_missed() {
    let Some(witnessed) = witness("stacks.c") else { return };
    let mut some = witnessed.truth();
    let gone = some.pop().expect("a stack");
    let comparison = witnessed.compare(&some);
    comparison.judge(1, 1.0).expect("what is there is right");
    let differing: Vec<i64> = comparison.differing.iter().map(|(_, by)| *by).collect();
    assert_eq!(differing, [gone.allocations.cast_signed()]);
    some.push(gone);
    some[0].allocations += 1;
    let differing = witnessed.compare(&some).differing;
    assert!(matches!(differing[..], [(_, -1)]), "one too many: {differing:?}");
    assert!(witnessed.compare(&[]).judge(0, 0.0).is_err(), "nothing is not good");
}

#[test]
fn a_module_without_a_right_stack_is_missed() {
    let [libc, own] = [libc::getpid as *const () as u64, deep as *const () as u64];
    let places = Places::read(Path::new("/proc/self/maps")).expect("our own map");
    let module = places.module(libc).expect("a module").to_owned();
    let counts = Counts::from([(vec![own, own], 1000), (vec![libc, own], 100)]);
    let table = Table { own: 0..1, counts: counts.clone(), unnoted: 0 };
    let truth = Truth { table: &table, certain: &counts, places: &places };
    let stack = |frames: &[u64]| RecordedStack {
        allocations: 1000,
        end: OUTERMOST.to_owned(),
        frames: frames.to_vec(),
    };
    let without = Comparison::of(&[stack(&[own, own])], truth);
    assert_eq!(without.missed_modules.iter().collect::<Vec<_>>(), [&module]);
    assert!(without.judge(1, 0.9999).is_err());
    // A wrong stack through it does not count.
    let wrong = Comparison::of(&[stack(&[own, own]), stack(&[libc, libc])], truth);
    assert!(wrong.missed_modules.contains(&module), "{wrong}");
    let with = Comparison::of(&[stack(&[own, own]), stack(&[libc, own])], truth);
    with.judge(2000, 1.0).expect("both are there");
}

/// A table of one stack of this many frames.
fn deep(number: u64) -> Table {
    let counts = Counts::from([((1..=number).collect(), 1)]);
    Table { own: 1000..2000, counts, unnoted: 0 }
}

fn is_right(table: &Table, end: &str, frames: impl Iterator<Item = u64>) -> bool {
    let (certain, places) = (Counts::new(), Places::default());
    let recorded = RecordedStack { allocations: 1, end: end.to_owned(), frames: frames.collect() };
    Comparison::of(&[recorded], Truth { table, certain: &certain, places: &places }).right == 1
}

#[test]
fn only_what_is_too_deep_may_be_cut() {
    let limit = DEEPEST as u64;
    assert!(is_right(&deep(limit), OUTERMOST, 1..=limit));
    assert!(is_right(&deep(limit + 3), DEPTH, 1..=limit));
    assert!(is_right(&deep(limit), DEPTH, (1000..=1000).chain(1..limit)), "one is the oracle's");
    assert!(!is_right(&deep(limit + 3), OUTERMOST, 1..=limit), "it is cut and does not say so");
    assert!(!is_right(&deep(limit + 3), DEPTH, 1..limit), "cut too early");
    assert!(is_right(&deep(limit), DEPTH, 1..=limit), "nobody asks what follows");
    assert!(!is_right(&deep(limit - 1), DEPTH, 1..limit), "there is nothing to cut");
    assert!(!is_right(&deep(limit + 3), DEPTH, (2..=limit + 1).chain([9])), "another stack");
    assert!(!is_right(&deep(limit + 3), "no-rule", 1..=limit), "another reason");
}

#[test]
fn every_process_has_a_table_of_its_own_and_waits_if_told() {
    let Some(oracle) = Oracle::new() else { return };
    // The shell forks for the parentheses.
    let mut command = Command::new("sh");
    command.args(["-c", "(echo $(echo a)); read line; exit 3"]).envs(oracle.environment());
    command.env("HEAPATTACH_ORACLE_HOLD", "1").stdin(Stdio::piped()).stdout(Stdio::null());
    let mut shell = Shell(command.spawn().expect("a shell"));
    let pid = i32::try_from(shell.0.id()).expect("a pid");
    oracle.wait_until_held(pid);
    let table = oracle.table(pid);
    assert!(!table.own.is_empty() && table.counts.is_empty(), "{table:?}");
    oracle.let_go(pid);
    drop(shell.0.stdin.take());
    let status = poll(PATIENCE, || shell.0.try_wait().expect("a child of ours"));
    assert_eq!(status.and_then(|status| status.code()), Some(3), "{status:?}");
    assert!(oracle.noted(pid) > 0 && oracle.pids().len() > 1, "{:?}", oracle.pids());
    let mut sort = Command::new("sort");
    sort.envs(oracle.environment()).stdin(Stdio::null());
    let mut sort = sort.spawn().expect("sort");
    let pid = i32::try_from(sort.id()).expect("a pid");
    assert!(sort.wait().expect("a child of ours").success());
    // It ended by exit, not by _exit as shells do.
    assert!(oracle.places(pid).name(oracle.table(pid).own.start).starts_with("stack_oracle"));
}

struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
