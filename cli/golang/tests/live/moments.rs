//! The profile of a program under load, beside what it tells of itself at the same collection, bucket by bucket.
//!
//! A thousand moments take some minutes:
//!
//! ```text
//! cargo test -p heapattach-golang --test live -- --ignored --nocapture a_thousand_moments
//! ```

use heapattach_golang::Go;
use heapattach_process::memory::Memory;

use super::{
    compiler::{Build, Compiler},
    teller::{Buckets, Running, Teller, active, at_moment},
};

/// Goroutines that allocate meanwhile.
const LOAD: u32 = 4;
/// Moments of a short test, and of all releases together.
const FEW: usize = 20;
const MANY: usize = 1000;
/// So many are not at rest, for each that is: on a busy machine that goroutine may wait for long.
const PATIENCE: usize = 50;

/// Holds so many moments to the truth; how many buckets were equal.
fn hold(compiler: &Compiler, moments: usize) -> usize {
    let stripped = Build { flags: &["-ldflags=-s -w"], ..Build::default() };
    let file = compiler.build("moments.go", &stripped).expect("it compiles");
    let mut teller = Teller::start(&file, LOAD);
    teller.tell();
    let process = teller.process();
    let found = at_moment(&process, |moment| {
        let go = Go::find(moment).expect("it is Go").expect("its functions");
        go.profile(moment, &|_| None).expect("it is known")
    });
    let mut profile = found;
    let memory = Running(Memory::open(&process).expect("it is ours"));
    let (mut buckets, mut number, mut restless) = (0, 0, 0);
    while number < moments {
        let told = teller.tell();
        let reading = profile.read(&memory).expect("it comes to rest");
        // The goroutine that ended the collection may move what was counted only after it was told.
        if teller.tell_again().buckets != told.buckets {
            restless += 1;
            assert!(restless <= PATIENCE * moments, "its own profile never comes to rest");
            continue;
        }
        number += 1;
        let own = active(&reading);
        let differ = |all: &Buckets, other: &Buckets| {
            let all = all.iter().filter(|(key, counts)| other.get(*key) != Some(counts));
            all.map(|(key, counts)| format!("{key:x?} {counts:?}")).collect::<Vec<_>>()
        };
        let release = &compiler.release;
        let differences = (differ(&own, &told.buckets), differ(&told.buckets, &own));
        assert_eq!(differences, (Vec::new(), Vec::new()), "{release}, moment {number}");
        assert_eq!(reading.rate, told.figures["MemProfileRate"], "{release}");
        assert_eq!(reading.odd, 0, "{release}");
        buckets += own.len();
    }
    buckets
}

#[test]
fn a_profile_under_load_is_what_the_program_tells_at_the_same_collection() {
    let Some(compiler) = Compiler::all().pop() else { return };
    assert!(hold(&compiler, FEW) > FEW);
}

#[test]
#[ignore = "a thousand collections under load: minutes"]
fn a_thousand_moments_of_all_releases_are_what_the_programs_tell() {
    let all = Compiler::all();
    for compiler in &all {
        let moments = MANY.div_ceil(all.len().max(1));
        let buckets = hold(compiler, moments);
        println!("{}: {moments} moments, {buckets} buckets, all equal", compiler.release);
    }
}
