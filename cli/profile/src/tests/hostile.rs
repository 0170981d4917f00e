//! Hostile records cause no panic, and use no more memory than was allowed.

use heapattach_process::{
    addr::RemoteAddr,
    event::{Event, Origin, StackId, What},
};
use proptest::prelude::*;

use crate::{Flow, Limits, Profile, Tick};

/// Numbers that meet each other, and those that break arithmetic.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..40u64, 2 => (0..40u64).prop_map(|n| n * 4096),
        1 => (0..3u64).prop_map(|n| u64::MAX - n * 4095), 1 => any::<u64>()]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let stack = || prop_oneof![0..20u32, any::<u32>()].prop_map(StackId);
    let at = || number().prop_map(RemoteAddr::new);
    let what = prop_oneof![
        4 => (at(), number(), stack(), number())
            .prop_map(|(at, size, stack, interval)| What::Allocated { at, size, stack, interval }),
        2 => (at(), prop::option::of(number())).prop_map(|(at, block)| What::Freed { at, block }),
        2 => (at(), number(), stack())
            .prop_map(|(at, length, stack)| What::Mapped { at, length, stack }),
        2 => (at(), number(), stack()).prop_map(|(at, length, stack)| {
            What::Unmapped { at, length, stack }
        }),
        2 => number().prop_map(|announced| What::Restored { announced }),
    ];
    let event =
        (number(), what).prop_map(|(stamp, what)| Event { stamp, origin: Origin::default(), what });
    // The order of the stamps is a promise of the reader, and this is no place to rely on it.
    let ordered = any::<bool>();
    (prop::collection::vec(event, 0..300), ordered).prop_map(|(mut events, ordered)| {
        if ordered {
            (0u64..).zip(&mut events).for_each(|(stamp, event)| event.stamp = stamp);
        }
        events
    })
}

proptest! {
    #[test]
    fn no_sequence_of_events_breaks_the_profile_or_its_limits(events in events()) {
        let limits = Limits { blocks: 7, ranges: 5, rows: 4 };
        let mut profile = Profile::new(limits, 1);
        for event in &events {
            profile.apply(std::slice::from_ref(event), Tick(0), &mut ());
            prop_assert!(profile.live_records() <= limits.blocks);
            prop_assert!(profile.mappings().len() <= limits.ranges);
        }
        for flow in [Flow::Allocated, Flow::Freed, Flow::Live] {
            let sites = profile.sites_by(flow);
            prop_assert!(sites.len() <= limits.rows + 1);
            for tally in sites.iter().map(|site| &site.heap).chain([&profile.heap()]) {
                let measure = tally.measure(flow);
                for e in [measure.bytes, measure.count] {
                    prop_assert!(e.low <= e.value && e.value <= e.high, "{:?}", e);
                    prop_assert!(e.low >= 0.0 && e.high.is_finite(), "{:?}", e);
                }
            }
        }
        prop_assert!(profile.peak().value >= 0.0);
    }
}
