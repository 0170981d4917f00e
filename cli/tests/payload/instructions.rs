//! How many instructions a call that is only counted costs.

use heapattach_abi::kind::HookKind;

use crate::{
    originals::sum,
    placed::{NEVER, Placed},
    steps::trace,
};

const MOST: usize = 23;

#[test]
fn a_call_that_is_only_counted_takes_few_instructions() {
    let placed = Placed::new(NEVER, 6);
    placed.lead(HookKind::PosixMemalign, sum);
    for kind in HookKind::ALL {
        let one = || trace(&placed, placed.first(kind), [16; 4]).len();
        let (first, second) = (one(), one());
        println!("{kind:?}: first {first}, then {second} instructions");
        let bound = match kind {
            HookKind::Free
            | HookKind::Malloc
            | HookKind::New
            | HookKind::Memalign
            | HookKind::PosixMemalign => MOST,
            HookKind::Calloc | HookKind::Realloc => MOST + 5,
            HookKind::Chosen => 400,
            // Always recorded.
            HookKind::Map | HookKind::Unmap | HookKind::Remap => 1550,
        };
        assert!((15..=bound).contains(&second), "{kind:?} takes {second}");
    }
}

#[test]
fn a_call_that_is_recorded_takes_a_bounded_number_of_instructions() {
    let placed = Placed::new(1, 6);
    placed.set_most_frames(1);
    for (kind, bound) in [(HookKind::Malloc, 850), (HookKind::Free, 220)] {
        let one = || {
            placed.drain();
            trace(&placed, placed.first(kind), [16; 4]).len()
        };
        let counts = [one(), one(), one(), one()];
        println!("{kind:?}: {counts:?} instructions");
        assert!((100..=bound).contains(&counts[3]), "{kind:?} takes {counts:?}");
    }
}
