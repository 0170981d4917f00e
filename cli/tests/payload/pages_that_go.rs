//! Calls by which a program loses pages, where what is known to be there is read directly: what is remembered of these
//! pages is forgotten before the call, which waits for threads that read.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use heapattach_abi::{
    copies::{COPY_BYTES, PROOFS, PROVEN},
    form::{Asks, Form},
    kind::HookKind::{self, Chosen, Map, Remap, Unmap},
    python::Order,
    region,
};

use crate::{
    originals::{address, allocate, zero},
    placed::{NEVER, Placed},
};

const PAGE: u64 = 4096;
/// Pages that are remembered; calls take one of them, or more.
const FIRST: u64 = 0x7100_0000_0000 / PAGE;
const PAGES: u64 = 8;
/// Another thread.
const OTHER: u64 = 0x7f00_0000_1000;

const MAP_FIXED: u64 = 16;
const MREMAP_FIXED: u64 = 2;
const READ: u64 = 1;

fn direct() -> Placed {
    let placed = Placed::new(NEVER, 6);
    placed.set_order(Order::Direct, 1);
    placed.set_word(region::LOOKS_USED, 2);
    placed
}

/// Where a page is remembered in a buffer.
fn proof(buffer: usize, page: u64) -> usize {
    let set = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - (PROOFS / 4).trailing_zeros());
    region::COPIES_AT
        + buffer * COPY_BYTES
        + PROVEN
        + 64 * usize::try_from(set).expect("it is small")
}

fn remember(placed: &Placed) {
    for buffer in 0..2 {
        for page in FIRST..FIRST + PAGES {
            placed.set_word(proof(buffer, page), page);
            placed.set_word(proof(buffer, page) + 8, !page);
        }
    }
}

/// Which of the pages are remembered still: the same in both buffers.
fn remembered(placed: &Placed) -> Vec<u64> {
    let is_known = |buffer, page: &u64| placed.word(proof(buffer, *page) + 8) == !page;
    let [one, other] = [0, 1].map(|buffer| {
        let known = (FIRST..FIRST + PAGES).filter(|page| is_known(buffer, page));
        known.map(|page| page - FIRST).collect::<Vec<_>>()
    });
    assert_eq!(one, other);
    one
}

/// What is remembered after a call.
fn after(kind: HookKind, asks: Asks, arguments: [u64; 4]) -> Vec<u64> {
    let placed = direct();
    placed.lead(kind, if matches!(kind, Map | Remap) { allocate } else { zero });
    if kind == Chosen {
        placed.set_second(kind.first_hook(), Form { asks, ..Form::default() }.pack());
    }
    placed.set_word(region::LAST_BREAK, place(6));
    remember(&placed);
    let [first, second, third, last] = arguments;
    placed.first(kind)(first, second, third, last);
    assert_eq!(placed.word(region::PAGES_GO), 0, "{kind:?} {asks:?}");
    remembered(&placed)
}

fn place(page: u64) -> u64 {
    (FIRST + page) * PAGE
}

#[test]
fn pages_that_a_call_takes_are_forgotten_and_no_others() {
    let all: Vec<u64> = (0..PAGES).collect();
    let but = |gone: &[u64]| all.iter().copied().filter(|p| !gone.contains(p)).collect::<Vec<_>>();
    let nothing = Asks::Nothing;
    assert_eq!(after(Unmap, nothing, [place(2), PAGE, 0, 0]), but(&[2]));
    assert_eq!(after(Unmap, nothing, [place(2), PAGE + 1, 0, 0]), but(&[2, 3]));
    assert_eq!(after(Unmap, nothing, [place(2), 0, 0, 0]), all);
    assert_eq!(after(Unmap, nothing, [place(0) - (1 << 30), 1 << 31, 0, 0]), but(&all));
    assert_eq!(after(Unmap, nothing, [place(4), u64::MAX, 0, 0]), but(&[4, 5, 6, 7]));
    assert_eq!(
        after(Map, nothing, [place(2), PAGE, READ, 0]),
        all,
        "it is told where, not ordered"
    );
    assert_eq!(after(Map, nothing, [place(2), 2 * PAGE, READ, MAP_FIXED]), but(&[2, 3]));
    assert_eq!(after(Remap, nothing, [place(2), PAGE, 2 * PAGE, 0]), but(&[2]));
    // Where it is moved to is the fifth argument, which these calls leave as it was: at least its own.
    assert!(!after(Remap, nothing, [place(2), PAGE, PAGE, MREMAP_FIXED]).contains(&2));
    assert_eq!(after(Chosen, Asks::Rights, [place(5), PAGE, 0, 0]), but(&[5]));
    assert_eq!(after(Chosen, Asks::Break, [place(4), 0, 0, 0]), but(&[4, 5]), "up to its end");
    assert_eq!(after(Chosen, Asks::Break, [place(4) + 1, 0, 0, 0]), but(&[4, 5]));
    assert_eq!(after(Chosen, Asks::Advice, [place(5), PAGE, 102, 0]), but(&[5]), "guards");
    assert_eq!(after(Chosen, Asks::Advice, [place(5), PAGE, 4, 0]), all, "zeros can be read");
}

/// Who may be there now was perhaps said not to be.
#[test]
fn pages_that_may_have_come_are_forgotten_too() {
    let all: Vec<u64> = (0..PAGES).collect();
    let rights = after(Chosen, Asks::Rights, [place(5), PAGE, READ, 0]);
    assert_eq!(rights, all.iter().copied().filter(|page| *page != 5).collect::<Vec<_>>());
    let more = after(Chosen, Asks::Break, [place(7), 0, 0, 0]);
    assert_eq!(more, all.iter().copied().filter(|page| *page != 6).collect::<Vec<_>>());
}

/// Where the call below is made, and whether a thread read when it was.
static PLACED: Mutex<Option<Arc<Placed>>> = Mutex::new(None);
static SEEN: AtomicU64 = AtomicU64::new(0);

extern "C" fn note(_: u64, _: u64, _: u64, _: u64) -> u64 {
    let placed = PLACED.lock().expect("no test failed").clone().expect("it is there");
    SEEN.store(placed.word(region::LOOKS_AT + 8), SeqCst);
    0
}

#[test]
fn a_call_that_takes_pages_waits_for_who_reads_even_where_hooks_are_off() {
    // It reads no more, or again at once: this time it knows that pages go.
    let later = [0, region::ONE_LOOK, region::ONE_LOOK | OTHER];
    for (is_enabled, next) in later.into_iter().flat_map(|next| [(true, next), (false, next)]) {
        let placed = Arc::new(direct());
        placed.lead_hook(Unmap.first_hook(), address(note));
        placed.set_patience(0, 1);
        *PLACED.lock().expect("no test failed") = Some(Arc::clone(&placed));
        SEEN.store(u64::MAX, SeqCst);
        placed.set_word(region::LOOKS_AT + 8, OTHER);
        if !is_enabled {
            placed.disable();
        }
        let reader = Arc::clone(&placed);
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(30));
            reader.set_word(region::LOOKS_AT + 8, next);
        });
        placed.first(Unmap)(place(0), PAGE, 0, 0);
        assert_eq!(SEEN.load(SeqCst), next, "it was called too early");
        reading.join().expect("it ends");
        assert_eq!(placed.word(region::NOTHING_DIRECT), 0);
    }
}

/// A thread that was ended in the middle never says that it reads no more.
#[test]
fn who_never_ends_is_waited_for_once_and_nothing_is_read_directly_then() {
    let placed = direct();
    placed.lead_hook(Unmap.first_hook(), address(zero));
    placed.set_word(region::LOOKS_AT + 8, OTHER);
    placed.set_patience(0, 1);
    let began = Instant::now();
    placed.first(Unmap)(place(0), PAGE, 0, 0);
    let first = began.elapsed();
    assert_eq!(placed.word(region::NOTHING_DIRECT), region::IN_VAIN);
    assert_eq!(placed.word(region::PAGES_GO), 0);
    remember(&placed);
    // Thousands of naps, and none.
    let began = Instant::now();
    placed.first(Unmap)(place(1), PAGE, 0, 0);
    assert!(began.elapsed() < first / 2, "{:?}, then {:?}", first, began.elapsed());
    assert!(!remembered(&placed).contains(&1));
}
