//! How the work to name places grows with the modules of a program: instructions at a number and at four times
//! that.

use crate::{Known, Piece, Symbols};
use heapattach_instruction_count::count;

const BASE: u64 = 0x7000_0000_0000;
const SIZE: u64 = 1 << 20;

/// Instructions to take in so many modules, and to name so many places in one of them.
fn cost(modules: u64, places: u64) -> [u64; 2] {
    let known = |number: u64| {
        let start = BASE + number * SIZE;
        let pieces = vec![Piece { start, end: start + SIZE / 2, file_offset: 0 }];
        Known { path: format!("/nowhere/{number:04}.so"), pieces, ..Known::default() }
    };
    let known: Vec<Known> = (0..modules).map(known).collect();
    let mut symbols = None;
    let taken = count(|| symbols = Some(Symbols::of(&known)));
    let mut symbols = symbols.unwrap();
    let first = BASE + modules / 2 * SIZE;
    let places: Vec<u64> = (0..places).map(|number| first + number * 16).collect();
    let named = count(|| symbols.prepare(places.iter().copied()));
    assert!(places.iter().all(|&place| !symbols.calls(place).is_empty()));
    [taken, named]
}

/// For each module, and for each place: what is done once for all of these is in no difference.
fn slopes(modules: u64) -> [u64; 2] {
    let [taken, few] = cost(modules, 32);
    [taken / modules, (cost(modules, 96)[1] - few) / 64]
}

#[test]
fn a_place_takes_as_many_instructions_in_a_program_of_four_times_as_many_modules() {
    let (few, many) = (slopes(25), slopes(100));
    for (what, few, many) in
        [("a module, taken in", few[0], many[0]), ("a place, named", few[1], many[1])]
    {
        println!("{what}: {few} instructions, {many} with four times the modules");
        assert!(many <= few + few / 4, "{what}: {many} instead of {few}");
    }
}
