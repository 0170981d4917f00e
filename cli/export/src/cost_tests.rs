//! The instructions that each format takes for a stack, and that they grow no faster than the stacks: a machine
//! that is busy changes no count.

use heapattach_instruction_count::count;
use heapattach_ledger::{EndReason, Function, Ledger, Line, Location, Metric, Module, Row, Thread};
use heapattach_profile::Sum;

use crate::{Format, write};

/// Calls of a stack.
const DEPTH: u32 = 8;
/// Places of code. They are so few that the stacks are what a file is made of.
const PLACES: u32 = 8;

/// Stacks of calls drawn by chance, each with some blocks, of which a third is freed.
fn ledger(stacks: u32) -> Ledger {
    let mut drawn = 3_u64;
    let mut below = |limit: u32| {
        drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        u32::try_from(drawn >> 33).unwrap() % limit
    };
    let module = Module { path: "/opt/a".to_owned(), end: 1 << 20, ..Module::default() };
    let mut ledger = Ledger { modules: vec![module], ..Ledger::default() };
    ledger.threads = vec![Thread::default()];
    for place in 0..PLACES {
        let name = format!("random::function_{place}(int)");
        let file = "/src/random.cc".to_owned();
        ledger.functions.push(Function { name, file, is_named: true, ..Function::default() });
        let (address, lines) =
            (u64::from(place) * 64, vec![Line { function: place, line: Some(7) }]);
        ledger.locations.push(Location { address, offset: address, lines, module: 0 });
    }
    for stack in 0..stacks {
        let locations: Vec<u32> = (0..DEPTH).map(|_| below(PLACES)).collect();
        ledger.stacks.push(&locations, EndReason::Outermost, 0);
        let (size, live) = (u64::from(16 + below(4080)), u64::from(stack % 3 != 0));
        let mut row = Row { stack, ..Row::default() };
        row.set_sums([live, 1, 1 - live, live, 0].map(|blocks| Sum::exact(size, blocks)));
        row.sizes.add(size, 1.0);
        ledger.total.merge(&row);
        ledger.rows.push(row);
    }
    ledger
}

/// The instructions to write a ledger of so many stacks.
fn cost(stacks: u32, write: &impl Fn(&Ledger, &mut Vec<u8>)) -> u64 {
    let (ledger, mut file) = (ledger(stacks), Vec::with_capacity(1 << 20));
    let instructions = count(|| write(&ledger, &mut file));
    assert!(!file.is_empty());
    instructions
}

/// Asserts that each of three times as many stacks takes no more than half as many instructions again as each of
/// few. What is not of a stack is in no difference.
fn assert_steady(name: &str, write: impl Fn(&Ledger, &mut Vec<u8>)) {
    let [begun, few, many] = [2, 6, 18].map(|stacks| cost(stacks, &write));
    let (few, many) = ((few - begun) / 4, (many - few) / 12);
    println!("{name}: {few} instructions a stack, {many} where there are three times as many");
    assert!(many <= few + few / 2, "{name}: {many} instructions instead of {few}");
}

/// Not those whose packer alone takes a million instructions before the first stack, nor those that draw each call.
fn assert_steady_format(format: Format) {
    assert_steady(format.name(), |ledger, file| write(ledger, format, Metric::Live, file).unwrap());
}

#[test]
fn a_stack_takes_as_many_instructions_among_three_times_as_many_in_collapsed() {
    assert_steady_format(Format::Collapsed);
}

#[test]
fn a_stack_takes_as_many_instructions_among_three_times_as_many_in_otlp() {
    assert_steady_format(Format::Otlp);
}

#[test]
fn a_stack_takes_as_many_instructions_among_three_times_as_many_in_json() {
    assert_steady_format(Format::Json);
}
