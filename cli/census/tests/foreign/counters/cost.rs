//! What looks cost: of a heap with many extents, and in a program with many variables of its own, most of which could be
//! addresses.

use std::{fs, process::Command};

use heapattach_census::{
    Live, Moment,
    counters::{self, AllocatorKind},
};

use crate::program::{build, library};

use super::told::Told;

const EXTENTS: &str = "36000";
/// Milliseconds of processor time: of a look after the first, and to find where counters are.
const LOOK: f64 = 10.0;
const ROOTS: f64 = 50.0;
const LOOKS: u32 = 50;

/// Milliseconds that this thread was on a processor.
fn used() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e6
}

/// Finds the counters of that allocator, and reads them again and again; answers what the one and the other took.
fn cost(told: &Told) -> [f64; 2] {
    let process = told.process();
    let live = Live::open(&process).unwrap().without_swap();
    let moment = || Moment::new(&live, Live::regions(&process).unwrap(), Vec::new());
    let began = used();
    let places = counters::find(&moment());
    let found = used() - began;
    let read = || {
        let now = moment();
        let all = places.iter().filter_map(|place| place.read(&now));
        let own = all.into_iter().find(|own| own.allocator == AllocatorKind::Jemalloc).unwrap();
        assert_eq!(own.unknown, [""; 0]);
        assert_eq!(own.stats["narenas"], 1);
        own
    };
    read();
    let began = used();
    for _ in 0..LOOKS {
        read();
    }
    [found, (used() - began) / f64::from(LOOKS)]
}

#[test]
#[ignore = "milliseconds say something on an idle machine only"]
fn looks_cost_little_and_many_variables_are_no_obstacle() {
    let Some(library) = library("libjemalloc.so.2", "libjemalloc2") else { return };
    let Some(archive) = self::library("libjemalloc.a", "libjemalloc-dev") else { return };
    let Some(preloaded) = build("cc", "many_extents.c", &[]) else { return };
    let flags = ["-DVARIABLES=629145600", archive.to_str().unwrap(), "-lm", "-ldl", "-lstdc++"];
    let Some(linked) = build("cc", "many_extents.c", &flags) else { return };
    for (name, program, extents, library) in [
        ("many extents", preloaded, EXTENTS, Some(library)),
        ("many variables", linked, "1000", None),
    ] {
        let mut command = Command::new(program);
        command.arg(extents).env("MALLOC_CONF", "dirty_decay_ms:-1");
        library.map(|library| command.env("LD_PRELOAD", library));
        let [found, look] = cost(&Told::start(&mut command));
        println!("{name}: {found:.1} ms to find counters, {look:.2} ms a look");
        assert!(found <= ROOTS && look <= LOOK, "{name}: {found:.1} ms, {look:.2} ms");
    }
}

#[test]
fn a_program_of_one_arena_is_told_whole() {
    let Some(library) = library("libjemalloc.so.2", "libjemalloc2") else { return };
    let Some(program) = build("cc", "many_extents.c", &[]) else { return };
    let told = Told::start(Command::new(program).arg("100").env("LD_PRELOAD", library));
    cost(&told);
}
