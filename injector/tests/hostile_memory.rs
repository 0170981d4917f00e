//! Whatever the memory of a target says: an answer or an error, in bounded time and memory, and
//! never a panic.

mod fabric;

use std::time::{Duration, Instant};

use fabric::{Fabric, Found};
use proptest::prelude::*;

/// Generous: these run without optimisation, beside other tests. A loop without a bound is slower.
const DEADLINE: Duration = Duration::from_secs(30);

#[test]
fn without_a_lie_everything_is_found() {
    for gnu_hash in [false, true] {
        let found = Fabric::new(gnu_hash).explore();
        let expected = Found {
            // One module, in either namespace.
            modules: 2,
            definitions: 2,
            slots: 6,
            symbol: Some(0x10_0600),
            home_changes: 2,
            home_modules: 1,
            stub: Some(0x1234),
        };
        assert_eq!(found, expected, "gnu_hash: {gnu_hash}");
    }
}

#[test]
fn a_list_that_names_a_module_twice_is_refused() {
    let fabric = Fabric::new(true);
    // The next one of the first namespace's only entry.
    fabric.set(0x10_4118, 0x10_4140);
    assert_eq!(fabric.explore().modules, 0);
}

#[test]
fn a_list_that_bites_its_tail_is_refused() {
    let fabric = Fabric::new(true);
    fabric.set(0x10_4158, 0x10_4100);
    assert_eq!(fabric.explore().modules, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_lies(
        gnu_hash: bool,
        lies in prop::collection::vec(any::<(u16, u64, u8)>(), 1..12),
    ) {
        let fabric = Fabric::new(gnu_hash);
        for (place, value, how) in lies {
            fabric.lie(place, value, how);
        }
        let start = Instant::now();
        fabric.explore();
        prop_assert!(start.elapsed() < DEADLINE, "took {:?}", start.elapsed());
    }
}
