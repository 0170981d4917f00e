//! Functions that throw, and those whose arguments are in other places.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heapattach_abi::{
    form::Form,
    kind::HookKind::{self, Chosen, Free, New},
    ring::Kind,
};

use crate::{
    audit::audit,
    originals::{address, zero},
    placed::{Placed, Record},
};

fn told(placed: &Placed) -> Vec<(Kind, u64, u64)> {
    let records = audit(placed);
    placed.reset(&records);
    records.iter().map(|r: &Record| (r.kind, r.address, r.size)).collect()
}

fn placed_with(form: Form) -> Placed {
    let placed = Placed::new(1, 6);
    placed.set_second(Chosen.first_hook(), form.pack());
    placed
}

static THROWN: AtomicU64 = AtomicU64::new(0);

/// Stands for what throws; it notes what it was called with.
extern "C" fn throw(size: u64, align: u64, third: u64, _: u64) -> u64 {
    THROWN.store(size << 32 | align << 16 | third, Relaxed);
    0x77
}

#[test]
fn what_throws_is_called_from_no_frame_of_ours() {
    let placed = Placed::new(1, 6);
    placed.lead_hook(New.first_hook(), address(throw));
    let new = placed.first(New);
    // Where the other form has a block, it is not called at all.
    placed.set_second(New.first_hook(), address(crate::originals::allocate));
    THROWN.store(0, Relaxed);
    let block = new(48, 16, 3, 0);
    assert_eq!(told(&placed), [(Kind::Allocated, block, 48)]);
    assert_eq!(THROWN.load(Relaxed), 0);
    // Where that has none, it is jumped to with the same arguments, and nothing is told.
    placed.set_second(New.first_hook(), address(zero));
    assert_eq!(new(48, 16, 3, 0), 0x77);
    assert_eq!(placed.counts()[&New.first_hook()].calls, 1);
    assert_eq!(told(&placed), []);
    assert_eq!(THROWN.load(Relaxed), 48 << 32 | 16 << 16 | 3);
}

#[test]
fn a_size_may_be_any_argument_or_the_product_of_two() {
    for (form, size) in [
        (Form { size: 1, ..Form::default() }, 10),
        (Form { size: 3, ..Form::default() }, 30),
        (Form { size: 4, ..Form::default() }, 40),
        (Form { size: 2, times: 3, ..Form::default() }, 600),
    ] {
        let placed = placed_with(form);
        let block = placed.first(Chosen)(10, 20, 30, 40);
        assert_eq!(told(&placed), [(Kind::Allocated, block, size)], "{form:?}");
    }
}

#[test]
fn a_block_may_be_given_back_by_any_argument() {
    for (number, block) in [(1, 10), (2, 20), (3, 30), (4, 40)] {
        let placed = placed_with(Form { block: number, ..Form::default() });
        placed.first(Chosen)(10, 20, 30, 40);
        assert_eq!(placed.counts()[&Chosen.first_hook()].calls, 1);
        let [(Kind::Freed, at, _)] = told(&placed)[..] else { panic!("one free of {number}") };
        assert_eq!(at, block);
    }
}

#[test]
fn an_exchange_that_fails_is_taken_back() {
    let placed = placed_with(Form { block: 2, size: 3, ..Form::default() });
    let block = placed.first(Chosen)(7, 0, 64, 0);
    let other = placed.first(Chosen)(7, block, 128, 0);
    placed.lead(Chosen, zero);
    placed.set_second(Chosen.first_hook(), Form { block: 2, size: 3, ..Form::default() }.pack());
    placed.first(Chosen)(7, other, 256, 0);
    let kinds: Vec<Kind> = told(&placed).iter().map(|(kind, _, _)| *kind).collect();
    let (allocated, exchanged) = (Kind::Allocated, Kind::Reallocated);
    assert_eq!(kinds, [allocated, Kind::Freed, exchanged, Kind::Freed, Kind::Restored]);
}

#[test]
fn a_sample_of_a_pool_is_known_until_it_is_given_back_to_it() {
    const INTERVAL: u64 = 1 << 12;
    let placed = Placed::new(INTERVAL, 6);
    let [first, second] = [Chosen.first_hook(), Chosen.first_hook() + 1];
    placed.set_second(first, Form { size: 2, ..Form::default() }.pack());
    placed.set_second(second, Form { block: 2, ..Form::default() }.pack());
    let block = placed.hook(first)(1, 4 * INTERVAL, 0, 0);
    placed.hook(second)(1, block, 0, 0);
    placed.first(Free)(block, 0, 0, 0);
    let kinds: Vec<(Kind, u64)> = told(&placed).iter().map(|(kind, at, _)| (*kind, *at)).collect();
    assert_eq!(kinds, [(Kind::Allocated, block), (Kind::FreedSample, block)]);
    assert_eq!(HookKind::of_hook(second), Some(Chosen));
}
