//! The row of the thread that is running: finding it, counting in it, and the countdown.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heapattach_abi::{control, flow, index, region, region::split_interval, ring, row};

use crate::{arch, cells::Cells, sampling, shared_word::Place};

/// A row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    place: Place,
    /// It is shared by all threads without a row: each change of it must be one instruction.
    is_shared: bool,
}

impl Row {
    /// The row of this thread, made if it has none; the shared one, if there is no room for another.
    /// `pointer` is its stack pointer.
    #[cold]
    #[inline(never)]
    pub(crate) fn of_this_thread(cells: &Cells, pointer: u64) -> Self {
        let thread = arch::thread_pointer();
        let mut entry = cells.index().at(index::bucket(thread) * index::ENTRY_BYTES);
        for _ in 0..index::PROBES {
            let key = entry.word().load(Acquire);
            if key == thread {
                return Self::known(cells, entry.at(8).get());
            }
            // A signal handler of this thread may claim an entry between any two instructions
            // here. The thread then has two, and the sum of their rows is what it did.
            if key == 0 && entry.word().compare_exchange(0, index::CLAIMED, AcqRel, Relaxed).is_ok()
            {
                let new = Self::new(cells, thread, pointer);
                entry.at(8).set(new.place.address());
                // A hook finds by the index only what it may change without locks. In a child that
                // was forked since, it finds nothing: the claim is gone if it came after that, and
                // the child is told from the parent if it came before.
                let is_own = !new.is_shared && cells.is_at_home();
                let key = if is_own { thread } else { 0 };
                let _ = entry.word().compare_exchange(index::CLAIMED, key, AcqRel, Relaxed);
                return new;
            }
            entry = entry.at(index::ENTRY_BYTES);
        }
        Self::known(cells, shared_row(cells).address())
    }

    /// The row that the hook has found for its thread.
    pub(crate) fn own(cells: &Cells, address: u64) -> Self {
        let shared_row = shared_row(cells);
        let place = shared_row.at(address.wrapping_sub(shared_row.address()) as usize);
        Self { place, is_shared: false }
    }

    /// The row with an address from the index or kept by the slow path. The index may have been wiped
    /// since its key was read, by a signal handler that forked: then the shared one will do.
    pub(crate) fn known(cells: &Cells, address: u64) -> Self {
        let shared_row = shared_row(cells);
        let offset = address.wrapping_sub(shared_row.address()) as usize;
        let offset = if offset < row::ROWS * row::ROW_BYTES { offset } else { 0 };
        Self { place: shared_row.at(offset), is_shared: offset == 0 }
    }

    fn new(cells: &Cells, thread: u64, pointer: u64) -> Self {
        let number = cells.region().at(region::ROWS_TAKEN).word().fetch_add(1, Relaxed) + 1;
        if number >= row::ROWS as u64 {
            return Self::known(cells, shared_row(cells).address());
        }
        let place = shared_row(cells).at(number as usize * row::ROW_BYTES);
        let new = Self { place, is_shared: false };
        new.place.at(row::RING).set(ring::ring_of(number as usize) as u64);
        let flow = cells.region().at(region::FLOWS_AT + number as usize * flow::FLOW_BYTES);
        new.place.at(row::FLOW).set(flow.address());
        new.prepare(cells, thread);
        new.place.at(row::STACK_HINT).set(pointer);
        new.place.at(row::KEY).word().store(thread, Release);
        new
    }

    /// Gives it random numbers of its own, and a first distance.
    fn prepare(&self, cells: &Cells, seed: u64) {
        let salt = u64::from(cells.control().at(control::SALT).half().load(Relaxed));
        let state = sampling::mix(seed ^ salt << 32 ^ self.place.address()) | 1;
        self.place.at(row::RANDOM).set(state);
        self.take_interval(cells);
    }

    /// Whether it is the shared one.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    pub(crate) fn address(&self) -> u64 {
        self.place.address()
    }

    pub(crate) fn field(&self, offset: usize) -> Place {
        self.place.at(offset)
    }

    /// Adds to one of its words.
    pub(crate) fn add(&self, offset: usize, value: u64) {
        let place = self.place.at(offset);
        if self.is_shared {
            place.word().fetch_add(value, Relaxed);
        } else {
            arch::add(place, value);
        }
    }

    /// Counts, or takes away, a block of this chunk, with its other word if it is freed.
    pub(crate) fn count_chunk(&self, cells: &Cells, chunk: u64, is_freed: bool, more: u64) {
        let own = match self.place.at(row::FLOW).get() {
            // The shared one's, and what is not told.
            0 => cells.region().at(region::FLOWS_AT),
            _ => cells.region().at(region::FLOWS_AT + self.number(cells) * flow::FLOW_BYTES),
        };
        let at = own.at(flow::class(chunk) * flow::CLASS_BYTES + usize::from(is_freed) * 8);
        if self.is_shared {
            at.word().fetch_add(more, Relaxed);
        } else {
            arch::add(at, more);
        }
    }

    fn number(&self, cells: &Cells) -> usize {
        let offset = self.place.address().wrapping_sub(shared_row(cells).address());
        (offset as usize / row::ROW_BYTES) % row::ROWS
    }

    /// Counts a call that asks for nothing.
    pub(crate) fn count_call(&self, hook: usize) {
        self.add(row::COUNTS + (hook & 63) * row::COUNT_BYTES, 1);
    }

    /// Counts a call.
    pub(crate) fn count(&self, hook: usize, bytes: u64) {
        let at = row::COUNTS + (hook & 63) * row::COUNT_BYTES;
        self.add(at, 1);
        self.add(at + 8, bytes);
    }

    /// Whether the shared row was ever prepared; a thread's own always is.
    fn is_prepared(&self) -> bool {
        !self.is_shared || self.place.at(row::RANDOM).get() != 0
    }

    /// Whether the countdown takes every block.
    pub(crate) fn records_everything(&self) -> bool {
        self.place.at(row::THRESHOLD).get() == 0
    }

    /// Whether a block of this size is to be recorded, given that the countdown does not know of
    /// it yet.
    pub(crate) fn count_down(&self, cells: &Cells, size: u64) -> bool {
        if !self.is_prepared() {
            self.prepare(cells, 0);
        }
        // Not the threshold: that is 0 where every call comes here.
        let (interval, _) = split_interval(self.place.at(row::INTERVAL).get());
        if interval <= 1 || size >= interval {
            return true;
        }
        let countdown = self.place.at(row::COUNTDOWN);
        loop {
            let left = countdown.get();
            let (next, is_sample) = match left.checked_sub(size) {
                Some(next) => (next, false),
                None => (self.distance(), true),
            };
            if !self.is_shared {
                countdown.set(next);
                return is_sample;
            }
            if countdown.word().compare_exchange(left, next, Relaxed, Relaxed).is_ok() {
                return is_sample;
            }
        }
    }

    /// After a sample that the hook itself found: the next distance.
    pub(crate) fn restart(&self) {
        self.place.at(row::COUNTDOWN).set(self.distance());
    }

    /// The number of the interval that the countdown was drawn with.
    pub(crate) fn interval_number(&self) -> u8 {
        split_interval(self.place.at(row::INTERVAL).get()).1
    }

    /// Goes over to the interval of the session, if it has changed. At any moment that does not
    /// depend on the countdown: what is left of it may be thrown away then, as it has no memory.
    pub(crate) fn follow_interval(&self, cells: &Cells) {
        if self.place.at(row::INTERVAL).get() != wanted_interval(cells) {
            self.take_interval(cells);
        }
    }

    #[cold]
    #[inline(never)]
    fn take_interval(&self, cells: &Cells) {
        let wanted = wanted_interval(cells);
        self.place.at(row::INTERVAL).set(wanted);
        self.place.at(row::COUNTDOWN).set(self.distance());
        let (interval, _) = split_interval(wanted);
        let takes_all = interval <= 1 || cells.nests();
        self.place.at(row::THRESHOLD).set(if takes_all { 0 } else { interval });
    }

    /// A random distance to the next sample.
    fn distance(&self) -> u64 {
        let random = self.place.at(row::RANDOM);
        // In the shared row two threads may draw the same number, which does no harm.
        let state = sampling::advance(random.get());
        random.set(state);
        let (interval, _) = split_interval(self.place.at(row::INTERVAL).get());
        sampling::exponential(sampling::mix(state), interval)
    }

    /// The call that the hook was in is over.
    #[inline(always)]
    pub(crate) fn end_call(&self, cells: &Cells) {
        // A child that was forked on the way here shares the row, but the parent is the one to end this.
        if cells.is_at_home() {
            self.follow_interval(cells);
            self.add(row::BUSY, 1_u64.wrapping_neg());
        }
    }

    /// Once in a while: does the reader still give a sign of life? If not, the hooks switch themselves off.
    pub(crate) fn look_at_heartbeat(&self, cells: &Cells) {
        let ticks = self.field(row::ROW_TICKS);
        let left = ticks.get();
        ticks.set(left.wrapping_sub(1) % row::TICKS);
        if left != 0 {
            return;
        }
        let control = cells.control();
        if cells.is_overdue() {
            // First: the reader shall know why.
            control.at(control::EXPIRED).half().store(1, Release);
            control.at(control::ENABLED).half().store(0, Release);
        }
    }
}

/// No allocator can grant more; such a request counts as one of nothing.
pub(crate) fn sane(size: u64) -> u64 {
    if size > i64::MAX as u64 { 0 } else { size }
}

fn wanted_interval(cells: &Cells) -> u64 {
    cells.region().at(region::INTERVAL).get()
}

fn shared_row(cells: &Cells) -> Place {
    cells.region().at(region::ROWS_AT)
}
