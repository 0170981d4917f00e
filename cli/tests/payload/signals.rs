//! Signal handlers that call hooks between any two instructions of a hook.

use std::cell::Cell;

use heapattach_abi::{
    kind::HookKind::{
        self, Calloc, Free, Malloc, Map, Memalign, PosixMemalign, Realloc, Remap, Unmap,
    },
    ring::Kind,
    row,
};

use crate::{
    audit::{audit, live_samples},
    originals::{Call, zero},
    placed::{Counts, Placed},
    steps::interrupt,
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
    kind: HookKind,
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

    /// Interrupts the call before its instruction `at` and checks everything; whether it got there.
    fn run(&self, at: u32, block: u64) -> bool {
        let placed = self.placed;
        let mut truth = self.prepare();
        let mut arguments = self.arguments;
        if arguments[0] == BLOCK {
            arguments[0] = block;
        }
        let hook = placed.first(self.kind);
        let reached = interrupt(hook, arguments, &placed.code(), at, &|| self.handle());
        let mut add = |kind: HookKind, bytes: u64| {
            let count = truth.entry(kind.first_hook()).or_default();
            count.calls += 1;
            count.bytes += bytes;
        };
        add(
            self.kind,
            match self.kind {
                Free => 0,
                Malloc => arguments[0],
                Calloc => arguments[0] * arguments[1],
                Realloc | Memalign | Map | Unmap => arguments[1],
                PosixMemalign | Remap => arguments[2],
            },
        );
        if reached {
            [16, INTERVAL, INTERVAL + 2].into_iter().for_each(|size| add(Malloc, size));
            add(Realloc, INTERVAL + 1);
            [0, 0].into_iter().for_each(|size| add(Free, size));
        }
        assert_eq!(placed.counts(), truth, "{:?} {:?}, step {at}", self.kind, self.before);
        reached
    }

    /// Interrupts at every instruction in turn; how many there are.
    fn sweep(&self, judge: impl Fn(u32, &[crate::placed::Record], bool)) -> u32 {
        let mut at = 0;
        loop {
            // A sample that the call may give back.
            let block = self.placed.first(Malloc)(INTERVAL, 0, 0, 0);
            if self.before == Before::Unknown {
                self.placed.fill_index(0);
            }
            let reached = self.run(at, block);
            let records = audit(self.placed);
            judge(at, &records, reached);
            self.placed.reset(&records);
            if !reached {
                return at;
            }
            at += 1;
        }
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
    placed.set_deadline(u64::MAX);
    let place = Cell::new(0);
    let mut most = 0;
    for before in [Unknown, Known, Tick, Shared] {
        for (kind, arguments) in scenes(&place) {
            let scene = Scene { placed: &placed, before, kind, arguments };
            // What the first call of all and the one before the interrupted one tell, what it
            // tells itself, and what the handler does.
            let early = 1 + usize::from(before != Unknown);
            let own = match kind {
                Realloc | Remap => 2,
                _ => 1,
            };
            // An unmapping that succeeded has told all by its announcement.
            let steps = scene.sweep(|at, records, reached| {
                let handled = if reached { 7 } else { 0 };
                assert_eq!(records.len(), early + own + handled, "{kind:?} {before:?}, step {at}");
            });
            assert!(steps > 100, "{kind:?} {before:?}: only {steps} instructions");
            most = most.max(steps);
        }
    }
    println!("at most {most} instructions in one call");
}

#[test]
fn a_signal_between_any_two_instructions_loses_no_count_and_no_sample() {
    use Before::{Due, Known, Shared, Tick, Unknown};
    let placed = Placed::new(INTERVAL, 6);
    placed.set_deadline(u64::MAX);
    let place = Cell::new(0);
    for before in [Unknown, Known, Due, Tick, Shared] {
        for (kind, arguments) in scenes(&place) {
            let scene = Scene { placed: &placed, before, kind, arguments };
            let is_sample = arguments.iter().any(|word| *word == 2 * INTERVAL);
            let steps = scene.sweep(|at, records, reached| {
                let of = |kind| records.iter().filter(|r| r.kind == kind).count();
                let large = records.iter().filter(|r| {
                    matches!(r.kind, Kind::Allocated | Kind::Reallocated) && r.size >= INTERVAL
                });
                // The first block, that of the call, and those of the handler.
                let expected = 1 + usize::from(is_sample) + if reached { 3 } else { 0 };
                assert_eq!(large.count(), expected, "{kind:?} {before:?}, step {at}");
                let gives_back = arguments[0] == BLOCK;
                let freed = usize::from(gives_back) + if reached { 2 } else { 0 };
                let small = records.iter().filter(|r| r.size == 16).count();
                let freed_too = of(Kind::FreedSample) - freed;
                assert!(freed_too <= small, "{kind:?} {before:?}, step {at}: {records:?}");
            });
            assert!(steps > 15, "{kind:?} {before:?}: only {steps} instructions");
        }
    }
}

#[test]
fn a_signal_between_any_two_instructions_of_a_failing_realloc_loses_nothing() {
    for interval in [1, INTERVAL] {
        let placed = Placed::new(interval, 6);
        for before in [Before::Unknown, Before::Known, Before::Shared] {
            // Another hook of the kind, for the handler's succeed.
            placed.lead_hook(Realloc.first_hook() + 1, crate::originals::address(zero));
            let mut at = 0;
            loop {
                let scene = Scene { placed: &placed, before, kind: Realloc, arguments: [0; 4] };
                let block = placed.first(Malloc)(INTERVAL, 0, 0, 0);
                if before == Before::Unknown {
                    placed.fill_index(0);
                }
                scene.prepare();
                let failing = placed.hook(Realloc.first_hook() + 1);
                let reached =
                    interrupt(failing, [block, 64, 0, 0], &placed.code(), at, &|| scene.handle());
                let records = audit(&placed);
                let restored = records.iter().filter(|r| r.kind == Kind::Restored).count();
                assert_eq!(restored, 1, "{before:?}, step {at}");
                let is_live = live_samples(&records).values().any(|address| *address == block);
                assert!(is_live, "{before:?}, step {at}");
                placed.reset(&records);
                if !reached {
                    break;
                }
                at += 1;
            }
            assert!(at > 100, "only {at} instructions");
        }
    }
}
