//! Signal handlers that call hooks between any two instructions of a hook.

use std::{cell::Cell, fmt};

use heapattach_abi::{
    kind::HookKind::{
        self, Calloc, Chosen, Free, Malloc, Map, Memalign, New, PosixMemalign, Realloc, Remap,
        Unmap,
    },
    ring::Kind,
    row,
};

use crate::{
    audit::{audit, live_samples},
    originals::{Call, address, zero},
    placed::{Counts, Placed, Record},
    steps::{Stop, interrupt, trace},
};

/// What is known of the thread before the interrupted call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Before {
    /// Nothing: it gets a row.
    Unknown,
    /// It has a row.
    Known,
    /// The next block is a sample.
    Due,
    /// A look at the heartbeat is due.
    Tick,
    /// Rows are used up.
    Shared,
}

/// One call to be interrupted.
struct Scene<'a> {
    placed: &'a Placed,
    before: Before,
    hook: usize,
    arguments: [u64; 4],
}

const INTERVAL: u64 = 4096;

impl Scene<'_> {
    /// What a handler does: gets blocks of all sizes and gives some of them back.
    fn handle(&self) {
        let [malloc, free, realloc]: [Call; 3] =
            [Malloc, Free, Realloc].map(|kind| self.placed.first(kind));
        let small = malloc(16, 0, 0, 0);
        let large = malloc(INTERVAL, 0, 0, 0);
        let moved = realloc(large, INTERVAL + 1, 0, 0);
        free(small, 0, 0, 0);
        free(moved, 0, 0, 0);
        malloc(INTERVAL + 2, 0, 0, 0);
    }

    fn prepare(&self) -> Counts {
        let placed = self.placed;
        if self.before == Before::Shared {
            placed.use_up_rows();
        }
        if !matches!(self.before, Before::Unknown) {
            placed.first(Malloc)(0, 0, 0, 0);
        }
        let row = if self.before == Before::Shared { Some(0) } else { None };
        let row = || row.unwrap_or_else(|| placed.own_row());
        match self.before {
            Before::Due => placed.set_row(row(), row::COUNTDOWN, 0),
            Before::Tick => placed.set_row(row(), row::ROW_TICKS, 0),
            Before::Unknown | Before::Known | Before::Shared => (),
        }
        placed.counts()
    }

    /// Runs the call, interrupted before an instruction if one is given, and checks everything.
    fn run(&self, stop: Option<Stop>, judge: &impl Fn(&[Record], bool)) -> Vec<Stop> {
        let placed = self.placed;
        // A sample that the call may free.
        let block = placed.first(Malloc)(INTERVAL, 0, 0, 0);
        if self.before == Before::Unknown {
            placed.fill_index(0);
        }
        let mut truth = self.prepare();
        let mut arguments = self.arguments;
        if arguments[0] == BLOCK {
            arguments[0] = block;
        }
        let hook = placed.hook(self.hook);
        let (stops, reached) = match stop {
            Some(stop) => (vec![], interrupt(placed, hook, arguments, stop, &|| self.handle())),
            None => (trace(placed, hook, arguments), false),
        };
        let mut add = |hook: usize, bytes: u64| {
            let count = truth.entry(hook).or_default();
            count.calls += 1;
            count.bytes += bytes;
        };
        let kind = HookKind::of_hook(self.hook).unwrap();
        add(
            self.hook,
            match kind {
                Free => 0,
                Malloc | New => arguments[0],
                Calloc => arguments[0] * arguments[1],
                Realloc | Memalign | Map | Unmap | Chosen => arguments[1],
                PosixMemalign | Remap => arguments[2],
            },
        );
        if reached {
            for size in [16, INTERVAL, INTERVAL + 2] {
                add(Malloc.first_hook(), size);
            }
            add(Realloc.first_hook(), INTERVAL + 1);
            [0, 0].into_iter().for_each(|size| add(Free.first_hook(), size));
        }
        assert_eq!(placed.counts(), truth, "{self:?}, {stop:?}");
        let records = audit(placed);
        judge(&records, reached);
        placed.reset(&records);
        stops
    }

    /// Interrupts at every instruction in turn; how many there are.
    fn sweep(&self, judge: impl Fn(&[Record], bool)) -> usize {
        let unreached = Cell::new(0);
        let stops = self.run(None, &judge);
        for stop in stops.iter().filter(|stop| stop.is_early()) {
            let judge = |records: &[Record], reached: bool| {
                unreached.set(unreached.get() + usize::from(!reached));
                judge(records, reached);
            };
            self.run(Some(*stop), &judge);
        }
        // Blocks differ from call to call, and so may the way through the table.
        assert!(unreached.get() * 10 <= stops.len(), "{self:?}: {} not reached", unreached.get());
        stops.len()
    }
}

impl fmt::Debug for Scene<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = HookKind::of_hook(self.hook);
        write!(f, "{kind:?} {:x?}, {:?}", self.arguments, self.before)
    }
}

/// Stands for a block that is a sample.
const BLOCK: u64 = u64::MAX;

fn scenes(place: &Cell<u64>) -> [(HookKind, [u64; 4]); 12] {
    let out = place.as_ptr().expose_provenance() as u64;
    [
        (Free, [BLOCK, 0, 0, 0]),
        (Free, [0x7770, 0, 0, 0]),
        (Malloc, [48, 0, 0, 0]),
        (Malloc, [2 * INTERVAL, 0, 0, 0]),
        (Calloc, [3, 2 * INTERVAL, 0, 0]),
        (Realloc, [BLOCK, 2 * INTERVAL, 0, 0]),
        (Realloc, [BLOCK, 8, 0, 0]),
        (Memalign, [16, 2 * INTERVAL, 0, 0]),
        (PosixMemalign, [out, 16, 2 * INTERVAL, 0]),
        (Map, [0, 4096, 0, 0]),
        (Unmap, [0x7000, 4096, 0, 0]),
        (Remap, [0x7000, 4096, 8192, 1]),
    ]
}

#[test]
fn a_signal_between_any_two_instructions_loses_no_count_and_no_record_of_everything() {
    use Before::{Known, Shared, Tick, Unknown};
    let placed = Placed::new(1, 6);
    // How far a walk gets differs from call to call.
    placed.set_most_frames(1);
    placed.set_deadline(u64::MAX);
    let place = Cell::new(0);
    let mut most = 0;
    for before in [Unknown, Known, Tick, Shared] {
        for (kind, arguments) in scenes(&place) {
            let scene = Scene { placed: &placed, before, hook: kind.first_hook(), arguments };
            // What the calls before tell, the call itself, and the handler.
            let early = 1 + usize::from(before != Unknown);
            let own = if matches!(kind, Realloc | Remap) { 2 } else { 1 };
            let steps = scene.sweep(|records, reached| {
                let handled = if reached { 7 } else { 0 };
                assert_eq!(records.len(), early + own + handled, "{scene:?}: {records:#x?}");
            });
            assert!(steps > 100, "{scene:?}: only {steps} instructions");
            most = most.max(steps);
        }
    }
    println!("at most {most} instructions in one call");
}

#[test]
fn a_signal_between_any_two_instructions_loses_no_count_and_no_sample() {
    use Before::{Due, Known, Shared, Tick, Unknown};
    let placed = Placed::new(INTERVAL, 6);
    // How far a walk gets differs from call to call.
    placed.set_most_frames(1);
    placed.set_deadline(u64::MAX);
    let place = Cell::new(0);
    for before in [Unknown, Known, Due, Tick, Shared] {
        for (kind, arguments) in scenes(&place) {
            let scene = Scene { placed: &placed, before, hook: kind.first_hook(), arguments };
            let is_large = kind != Remap && arguments.contains(&(2 * INTERVAL));
            let steps = scene.sweep(|records, reached| {
                let large = records.iter().filter(|r| {
                    matches!(r.kind, Kind::Allocated | Kind::Reallocated) && r.size >= INTERVAL
                });
                // The block before, that of the call, and those of the handler.
                let expected = 1 + usize::from(is_large) + if reached { 3 } else { 0 };
                assert_eq!(large.count(), expected, "{scene:?}: {records:#x?}");
                // Those that are freed; the small block of the handler may be a sample.
                let freed = records.iter().filter(|r| r.kind == Kind::FreedSample).count();
                let expected = usize::from(arguments[0] == BLOCK) + if reached { 2 } else { 0 };
                let small = records.iter().filter(|r| r.size == 16 && r.kind == Kind::Allocated);
                assert_eq!(freed, expected + small.count(), "{scene:?}: {records:#x?}");
            });
            assert!(steps > 15, "{scene:?}: only {steps} instructions");
        }
    }
}

#[test]
fn a_signal_between_any_two_instructions_of_a_failing_realloc_loses_nothing() {
    for interval in [1, INTERVAL] {
        let placed = Placed::new(interval, 6);
        // How far a walk gets differs from call to call.
        placed.set_most_frames(1);
        // Another hook of the kind, for those of the handler succeed.
        let hook = Realloc.first_hook() + 1;
        placed.lead_hook(hook, address(zero));
        for before in [Before::Unknown, Before::Known, Before::Shared] {
            let scene = Scene { placed: &placed, before, hook, arguments: [BLOCK, 64, 0, 0] };
            let steps = scene.sweep(|records, _| {
                let restored: Vec<_> =
                    records.iter().filter(|r| r.kind == Kind::Restored).collect();
                let [restored] = restored[..] else { panic!("{scene:?}: {records:#x?}") };
                if interval > 1 {
                    let live = live_samples(records);
                    assert!(live.values().any(|address| *address == restored.address), "{scene:?}");
                }
            });
            assert!(steps > 100, "{scene:?}: only {steps} instructions");
        }
    }
}
