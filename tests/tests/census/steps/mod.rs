//! glibc's heap after every instruction of calls of malloc, free, calloc, realloc and posix_memalign: whatever they are in
//! the middle of, nearly all looks are exact, and no more blocks than those of the call are told as they were before it. What
//! is doubted is said to be worth another look.

mod calls;
mod traced;

use std::collections::BTreeMap;

use heapattach_process::proc::Process;
use heapattach_tests::{compile::Source, fixture::Launch, sample::is_soak};

use traced::{Traced, code_of_libc, look};

/// Instructions of malloc that are looked at; one in so many is.
const LOOKS: usize = 3000;
const ONE_IN: usize = 7;
/// Instructions that are made, at most.
const MOST: usize = 40_000_000;
/// Of `realloc` two blocks are on their way, and of `posix_memalign` what is cut off on both sides.
const MOST_MOVING: usize = 3;
/// Which blocks are in one of them only, or have another size there.
fn apart(one: &BTreeMap<u64, u64>, other: &BTreeMap<u64, u64>) -> usize {
    let only = |one: &BTreeMap<u64, u64>, other: &BTreeMap<u64, u64>| {
        one.keys().filter(|at| !other.contains_key(at)).count()
    };
    let resized = one.iter().filter(|(at, size)| other.get(at).is_some_and(|own| own != *size));
    only(one, other).max(only(other, one)) + resized.count()
}

/// Looks after every so many instructions within the C library; answers how many looks there were, which were
/// doubted, and why.
fn stepped(arguments: &[&str]) -> Option<(usize, Vec<String>)> {
    let program = Source::new("stepped.c").build()?;
    let launch = Launch::program(&program);
    let mut fixture = arguments.iter().fold(launch, |launch, one| launch.arg(one)).start();
    fixture.advance(2000);
    let pid = fixture.pid();
    let process = Process::open(pid).expect("a process of ours");
    let (worker, waiting) = Traced::all(pid);
    let code = code_of_libc(pid);
    let (looks, one_in) = if is_soak() { (LOOKS * 100, 1) } else { (LOOKS, ONE_IN) };
    let (mut doubts, mut looked, mut inside) = (Vec::new(), 0, 0_usize);
    let mut before: Option<BTreeMap<u64, u64>> = None;
    let mut was_inside = false;
    for _ in 0..MOST {
        worker.step();
        let thread = worker.thread(None);
        let is_inside = code.contains(&thread.code);
        inside += usize::from(is_inside);
        // Where a call ends the heap is what it is to be for the next.
        let is_end = !is_inside && was_inside;
        was_inside = is_inside;
        if !(is_end || is_inside && inside.is_multiple_of(one_in)) {
            continue;
        }
        let at = thread.code;
        let (walk, used) = look(&process, thread, &waiting);
        let place = format!("libc+{:#x}", at.wrapping_sub(code.start));
        if !walk.is_exact() {
            doubts.push(format!("{place}: trust: {:?}", walk.trust));
        }
        match &before {
            _ if is_end => before = Some(used),
            None => {}
            Some(before) if apart(before, &used) > MOST_MOVING => {
                doubts.push(format!("{place}: {} blocks are moving", apart(before, &used)));
            }
            Some(_) => {}
        }
        looked += 1;
        if looked == looks {
            break;
        }
    }
    drop((worker, waiting));
    println!("{looked} looks, {} doubts", doubts.len());
    fixture.assert_well();
    fixture.finish();
    Some((looked, doubts))
}

/// One look in so many may be doubted: a block that `realloc` is cutting in two has no end to be found by, and for a few
/// instructions what is merged is in a list that it does not go on with.
const ONE_DOUBT_IN: usize = 50;

fn assert_few(found: Option<(usize, Vec<String>)>) {
    let Some((looks, doubts)) = found else { return };
    let silent =
        doubts.iter().find(|doubt| doubt.contains("trust") && !doubt.contains("look again"));
    assert_eq!(silent, None);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    doubts.iter().for_each(|doubt| *kinds.entry(doubt.as_str()).or_default() += 1);
    assert!(doubts.len() * ONE_DOUBT_IN <= looks, "{looks} looks: {kinds:#?}");
}

#[test]
fn the_heap_of_one_thread_is_told_after_every_instruction() {
    assert_few(stepped(&[]));
}

#[test]
fn an_arena_of_a_thread_is_told_after_every_instruction() {
    assert_few(stepped(&["thread"]));
}
