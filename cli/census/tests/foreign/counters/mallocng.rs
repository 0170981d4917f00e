//! musl: blocks that are told are those that a walk finds.

use std::process::Command;

use heapattach_census::{Answer, Walker, counters::AllocatorKind, walkers::Mallocng};

use crate::program::{build, walk};

use super::told::Told;

#[test]
fn blocks_in_use_are_those_of_a_walk() {
    let Some(program) = build("musl-gcc", "own_numbers.c", &["-static"]) else { return };
    let told = Told::start(Command::new(program).args(["4", "40000"]));
    let own = told.read(AllocatorKind::Mallocng);
    let mut blocks = Vec::new();
    let Answer::Walked(walk) = walk(told.child.0.id().cast_signed(), &Mallocng, &mut blocks) else {
        panic!("{} finds none", Mallocng.name());
    };
    // A slot with another group in it is none of a block's.
    let told = own.total("blocks") + own.total("mapped.count");
    let groups = own.total("groups");
    let found = walk.bytes().used_blocks;
    assert!(
        (found..=found + groups).contains(&told) && found > 10_000,
        "{told}, {found}, {groups}"
    );
    assert!(own.unknown.is_empty(), "{:?}", own.unknown);
}
