//! How many events a second one core takes in, with a million live blocks.

use std::time::Instant;

use heapattach_process::{
    addr::RemoteAddr,
    event::{Event, Origin, StackId, What},
};

use crate::{Limits, Profile, Tick, simulation::Random};

const LIVE: usize = 1 << 20;

/// Which blocks go: any of the million, or, as in most programs, one of the last thousand.
#[derive(Clone, Copy, Debug)]
enum Victims {
    Any,
    Young,
}

/// Frees and allocations in turn.
fn churn(blocks: &mut [(u64, u64)], interval: u64, victims: Victims, by_name: bool) -> Vec<Event> {
    let mut random = Random(1);
    let mut events = Vec::new();
    for stamp in (1u64 << 32..).step_by(2).take(4_000_000) {
        let size = 16 + random.below(64);
        let victim = match victims {
            Victims::Any => random.pick(LIVE),
            Victims::Young => LIVE - 1 - random.pick(1_000),
        };
        let block = &mut blocks[victim];
        let at = RemoteAddr::new(block.0);
        let name = by_name.then_some(block.1);
        block.1 = stamp + 1;
        events.push(Event {
            stamp,
            origin: Origin::default(),
            what: What::Freed { at, block: name },
        });
        let stack = StackId(u32::try_from(1 + random.below(1_000)).expect("small"));
        let what = What::Allocated { at, size, stack, interval };
        events.push(Event { stamp: stamp + 1, origin: Origin::default(), what });
    }
    events
}

#[test]
#[ignore = "a measurement: cargo test --release -p heapattach-profile --lib throughput -- --ignored --nocapture"]
fn events_a_second_at_a_million_live_blocks() {
    let every =
        [(1, Victims::Any, false), (1, Victims::Young, false), (65_536, Victims::Any, true)];
    for (interval, victims, by_name) in every {
        let mut profile = Profile::new(Limits::default(), 1);
        let mut blocks: Vec<_> = (0..LIVE as u64).map(|n| (0x5500_0000_0000 + n * 80, n)).collect();
        let birth = |&(at, stamp): &(u64, u64)| {
            let what =
                What::Allocated { at: RemoteAddr::new(at), size: 48, stack: StackId(1), interval };
            Event { stamp, origin: Origin::default(), what }
        };
        profile.apply(&blocks.iter().map(birth).collect::<Vec<_>>(), Tick(0), &mut ());
        assert_eq!(profile.live_records(), LIVE);
        let events = churn(&mut blocks, interval, victims, by_name);
        let start = Instant::now();
        profile.apply(&events, Tick(0), &mut ());
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!((profile.live_records(), profile.oddities()), (LIVE, Default::default()));
        let rate = events.len() as f64 / seconds / 1e6;
        println!(
            "interval {interval}, {victims:?}, by stamp {by_name}: {rate:.1} million events/s"
        );
    }
}
