//! Where a thread may not make a call of its allocator's: in the loader, in a signal handler, on a stack that is not its
//! own, in the middle of a fork.

use heapattach_tests::{fixture::Launch, trace::Before};

use super::trim::{applied, apply};

const DONE: i32 = 0;
const FAILED: i32 = 1;
const REMEDY: &str = "arena-max=3";
/// Steps of `listed.c`.
const IN_LOADER: u64 = 2;
const IN_HANDLER: u64 = 3;
const ON_SMALL_STACK: u64 = 4;
const NOWHERE: u64 = 5;
const USUAL: u64 = 6;
const IN_FORK: u64 = 8;

#[test]
fn a_thread_that_comes_where_no_program_may_call_anything_makes_no_call() {
    let Some(launch) = Launch::new("listed.c") else { return };
    let mut fixture = launch.start();
    for (step, why) in [
        (NOWHERE, "no thread of the target came"),
        (IN_LOADER, "in the loader"),
        (IN_HANDLER, "in signal handlers only"),
        (ON_SMALL_STACK, "bytes of a stack of its own"),
        (IN_FORK, "was starting a thread or forking at every look"),
    ] {
        fixture.step(step, 0);
        let before = Before::of(&mut fixture).loose();
        let told = applied(&apply(fixture.pid(), REMEDY, None).expect(FAILED));
        let error = told["error"].as_str().unwrap_or_default();
        assert!(error.contains(why), "`{why}` is not in {error}");
        before.assert_equal(&mut fixture, &format!("after it was refused ({why})"));
    }
    fixture.step(USUAL, 0);
    let told = applied(&apply(fixture.pid(), REMEDY, None).expect(DONE));
    assert_eq!(told["setting_after"], REMEDY, "{told}");
    fixture.finish();
}
