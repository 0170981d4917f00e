//! Calls that ask the kernel for memory and hand out neither a block nor a mapping.

use heapattach_abi::{
    form::{Asks, Form},
    kind::HookKind::Chosen,
    ring::Kind,
};

use crate::{
    audit::audit,
    originals::{address, zero},
    placed::{NEVER, Placed},
};

/// Fails as a function that answers an int does: the upper half of the register is not set.
extern "C" fn fails(_: u64, _: u64, _: u64, _: u64) -> u64 {
    0xffff_ffff
}

/// Fails as one that answers a pointer does.
extern "C" fn fails_whole(_: u64, _: u64, _: u64, _: u64) -> u64 {
    u64::MAX
}

/// The end of a heap.
extern "C" fn end(_: u64, _: u64, _: u64, _: u64) -> u64 {
    0x7000
}

type Original = extern "C" fn(u64, u64, u64, u64) -> u64;

/// What a call tells, in a session of rare samples and in one of everything.
fn told(asks: Asks, original: Original, arguments: [u64; 3]) -> Option<(Kind, u64, u64)> {
    let [rare, every] = [NEVER, 1].map(|interval| {
        let placed = Placed::new(interval, 6);
        placed.lead_hook(Chosen.first_hook(), address(original));
        placed.set_second(Chosen.first_hook(), Form { asks, ..Form::default() }.pack());
        let [first, second, third] = arguments;
        let answer = placed.first(Chosen)(first, second, third, 0);
        assert_eq!(answer, original(first, second, third, 0), "the answer is the original's");
        let records = audit(&placed);
        placed.reset(&records);
        let told: Vec<_> = records.iter().map(|r| (r.kind, r.address, r.size)).collect();
        assert!(told.len() <= 1, "{told:?}");
        told.first().copied()
    });
    assert_eq!(rare, every, "{asks:?}");
    rare
}

#[test]
fn the_end_of_a_heap_is_told_where_it_moved() {
    assert_eq!(told(Asks::Break, zero, [0x5000, 0, 0]), Some((Kind::Broke, 0x5000, 0)));
    assert_eq!(told(Asks::Break, fails, [0x5000, 0, 0]), None);
    assert_eq!(told(Asks::Break, zero, [0, 0, 0]), None, "it only asks");
    assert_eq!(told(Asks::MoreBreak, end, [0x1000, 0, 0]), Some((Kind::Broke, 0x8000, 0)));
    let less = 0x1000_u64.wrapping_neg();
    assert_eq!(told(Asks::MoreBreak, end, [less, 0, 0]), Some((Kind::Broke, 0x6000, 0)));
    assert_eq!(told(Asks::MoreBreak, fails_whole, [0x1000, 0, 0]), None);
    assert_eq!(told(Asks::MoreBreak, end, [0, 0, 0]), None, "it only asks");
}

#[test]
fn what_brk_told_is_not_told_again_by_sbrk_which_asked_it() {
    let placed = Placed::new(1, 6);
    let call = |asks, original: Original, first| {
        placed.lead_hook(Chosen.first_hook(), address(original));
        placed.set_second(Chosen.first_hook(), Form { asks, ..Form::default() }.pack());
        placed.first(Chosen)(first, 0, 0, 0);
        let records = audit(&placed);
        placed.reset(&records);
        records.iter().map(|record| record.address).collect::<Vec<_>>()
    };
    assert_eq!(call(Asks::Break, zero, 0x8000), [0x8000]);
    assert_eq!(call(Asks::MoreBreak, end, 0x1000), [0u64; 0], "the end is that of the last brk");
    assert_eq!(
        call(Asks::MoreBreak, end, 0x2000),
        [0x9000],
        "it did not ask the brk that is hooked"
    );
}

#[test]
fn advice_is_told_where_it_frees_pages() {
    for (advice, frees) in [(4, true), (8, true), (9, true), (24, true), (3, false), (14, false)] {
        let expected = frees.then_some((Kind::Discarded, 0x5000, 0x3000));
        assert_eq!(told(Asks::Advice, zero, [0x5000, 0x3000, advice]), expected, "{advice}");
        assert_eq!(told(Asks::Advice, fails, [0x5000, 0x3000, advice]), None);
    }
}
