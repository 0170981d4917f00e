//! The instructions to find the names of a place.

use std::{fmt::Write as _, fs};

use crate::tests::folder::{BASE, Folder, Mapped, skip};
use heapattach_instruction_count::assert_few;

const FUNCTIONS: u64 = 20;

#[test]
fn names_of_a_place_take_few_instructions() {
    let folder = Folder::new("instructions");
    if !folder.has("gcc") {
        return skip("there is no gcc", "install it");
    }
    let mut source = String::from(
        "int seen;\nstatic inline void add(int n) {\n\
         for (int k = 0; k < n; k++) seen += k * n;\nseen ^= n; }\n",
    );
    for number in 0..FUNCTIONS {
        let _ = writeln!(source, "int f{number}(int n) {{\nadd(n + {number});\nreturn seen; }}");
    }
    fs::write(folder.0.join("f.c"), source).unwrap();
    folder.run("gcc -g -O2 -shared -fPIC -Wl,-z,noseparate-code -o f.so f.c");
    let first = folder.offset_of("f.so", "f0");
    let end = folder.offset_of("f.so", "f19");
    let places = Vec::from_iter((first..end).step_by(7).map(|offset| BASE + offset));
    let mut symbols = folder.mapped("f.so");
    assert_few("a place, named", 17_000, || {
        symbols.prepare(places.iter().copied());
        places.len() as u64
    });
    let inlined = places.iter().filter(|&&place| symbols.calls(place).len() == 2).count();
    assert!(inlined > 10, "{inlined} of {}", places.len());
}
