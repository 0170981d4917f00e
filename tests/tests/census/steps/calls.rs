//! Calls of malloc that are made of several changes, each looked at in the middle: what is told of the heap is as it was
//! before the call, or as it is after it, or it says that it is not certain.

use std::collections::BTreeMap;

use heapattach_process::proc::Process;
use heapattach_tests::{
    compile::Source,
    fixture::{Fixture, Launch},
    page::Word,
    sample::is_soak,
};

use super::traced::{Traced, code_of_libc, look};

/// In the order of the fixture's numbers.
const CALLS: [&str; 8] = [
    "realloc cuts",
    "realloc grows into the end of the heap",
    "realloc grows into a free block",
    "realloc moves",
    "free consolidates",
    "malloc consolidates",
    "posix_memalign cuts on both sides",
    "realloc maps anew",
];
/// Rounds of all calls in a soak, which looks after each instruction; else one in so many is looked at.
const ROUNDS: usize = 3;
const ONE_IN: usize = 11;
/// Instructions of a call, at most.
const MOST: usize = 200_000;
/// Blocks that are on their way: both of `realloc`, or what is cut off on both sides, and is not in use yet or any more.
const MOST_MOVING: usize = 3;

type Used = BTreeMap<u64, u64>;

/// What was told in the middle of a call.
struct Look {
    at: String,
    used: Used,
    is_exact: bool,
    why: String,
}

/// How often a call was looked at, was told as before or after it, was told with blocks that are on their way, and
/// was doubted; of these, how often since blocks are being merged.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    looks: usize,
    whole: usize,
    moving: usize,
    doubted: usize,
    merging: usize,
    wrong: usize,
}

/// Blocks that are told and are in neither; blocks that are in both and are not told.
fn wrong(before: &Used, after: &Used, used: &Used) -> (Used, Used) {
    let has = |all: &Used, block: (&u64, &u64)| all.get(block.0) == Some(block.1);
    let of = |all: &Used, counts: &dyn Fn((&u64, &u64)) -> bool| -> Used {
        all.iter().filter(|block| counts(*block)).map(|(at, size)| (*at, *size)).collect()
    };
    let strange = of(used, &|block| !has(before, block) && !has(after, block));
    let missing = of(before, &|block| has(after, block) && !has(used, block));
    (strange, missing)
}

/// How many blocks may be wrong, where it is told that small ones are being merged.
fn merging(why: &str) -> Option<usize> {
    let told = why.split_once("up to ").filter(|_| why.contains("was merging"))?.1;
    told.split_once(' ').and_then(|(number, _)| number.parse().ok())
}

fn judge(name: &str, before: &Used, after: &Used, looks: Vec<Look>, sums: &mut Sums) {
    for Look { at, used, is_exact, why } in looks {
        let (strange, missing) = wrong(before, after, &used);
        sums.looks += 1;
        if !is_exact {
            assert!(why.contains("look again"), "{name}, {at}: {why}");
            if let Some(most) = merging(&why) {
                let count = strange.len() + missing.len();
                assert!(count <= most + MOST_MOVING, "{name}, {at}: {count} are wrong, {why}");
                sums.merging += 1;
            }
            sums.doubted += 1;
        } else if strange.is_empty() && missing.is_empty() {
            sums.whole += 1;
        } else {
            let count = strange.len() + missing.len();
            if count <= MOST_MOVING && missing.is_empty() {
                sums.moving += 1;
            } else {
                let many = (strange.len(), missing.len());
                println!("{name}, {at}: {many:?} too many and missing, {why}");
                sums.wrong += 1;
            }
        }
    }
}

/// Steps through one call, which waits for that, and looks at the heap after every so many instructions.
fn through(
    fixture: &Fixture,
    process: &Process,
    call: u64,
    one_in: usize,
) -> (Used, Used, Vec<Look>) {
    let code = code_of_libc(fixture.pid());
    let (worker, waiting) = Traced::all(fixture.pid());
    let used = || look(process, worker.thread(None), &waiting).1;
    let (before, mut looks) = (used(), Vec::new());
    fixture.page().set(Word::Command, call);
    for step in 0..MOST {
        worker.step();
        // The fixture takes it when it is done.
        if fixture.page().get(Word::Command) == 0 {
            return (before, used(), looks);
        }
        let thread = worker.thread(None);
        if code.contains(&thread.code) && step % one_in == 0 {
            let at = format!("libc+{:#x}", thread.code - code.start);
            let (walk, used) = look(process, thread, &waiting);
            let why = format!("{:?}", walk.trust);
            looks.push(Look { at, used, is_exact: walk.is_exact(), why });
        }
    }
    panic!("{} took more than {MOST} instructions", CALLS[place(call)]);
}

fn place(call: u64) -> usize {
    usize::try_from(call).expect("a number") - 1
}

fn stepped(arguments: &[&str]) -> Option<[Sums; CALLS.len()]> {
    let program = Source::new("calls.c").build()?;
    let launch = Launch::program(&program);
    let mut fixture = arguments.iter().fold(launch, |launch, one| launch.arg(one)).start();
    let process = Process::open(fixture.pid()).expect("a process of ours");
    let (rounds, one_in) = if is_soak() { (ROUNDS, 1) } else { (1, ONE_IN) };
    let mut sums = [Sums::default(); CALLS.len()];
    for _ in 0..rounds {
        for call in 1..=CALLS.len() as u64 {
            fixture.wait_for(CALLS[place(call)], |own| own.page().get(Word::Seen) == call);
            let (before, after, looks) = through(&fixture, &process, call, one_in);
            judge(CALLS[place(call)], &before, &after, looks, &mut sums[place(call)]);
        }
    }
    fixture.assert_well();
    fixture.finish();
    for (name, sums) in CALLS.iter().zip(&sums) {
        println!("{name}: {sums:?}");
        assert!(sums.looks > 0, "{name} was not seen");
        assert_eq!(sums.wrong, 0, "{name}: told wrong, and not doubted");
        // What is taken out of a list of small blocks and is not merged yet counts as in use, and that is said.
        assert_eq!(sums.merging > 0, consolidates(name), "{name}: {sums:?}");
    }
    Some(sums)
}

/// Whether a call merges all small blocks: for most of its time.
fn consolidates(name: &str) -> bool {
    name.contains("consolidates")
}

/// One look in so many may be doubted.
const ONE_DOUBT_IN: usize = 20;

fn assert_few(sums: Option<[Sums; CALLS.len()]>) {
    let Some(sums) = sums else { return };
    let sum = |of: &dyn Fn(&Sums) -> usize| sums.iter().map(of).sum::<usize>();
    let (looks, doubted) = (sum(&|sums| sums.looks), sum(&|sums| sums.doubted - sums.merging));
    assert!(doubted * ONE_DOUBT_IN <= looks, "{doubted} of {looks}: {sums:?}");
}

#[test]
fn in_the_middle_of_each_call_the_heap_is_as_before_or_after_it_or_is_doubted() {
    assert_few(stepped(&[]));
}

#[test]
fn so_it_is_in_an_arena_of_a_thread() {
    assert_few(stepped(&["thread"]));
}
