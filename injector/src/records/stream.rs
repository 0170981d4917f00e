//! What comes out of the target in a session: exact counts, and the events of the rings.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use heapattach_abi::{
    region::{self, pack_interval},
    ring, row,
};
use nix::errno::Errno;

use crate::records::{
    counts::{self, Counts},
    loads::Loads,
    ring::{Call, Intervals, Reader},
    stacks::Stacks,
};
use crate::{options::Options, scripts::Interpreter, unwind::Tables};
use heapattach_process::{
    addr::RemoteAddr,
    event::{Event, StackId},
    generations::Generations,
    memory::Memory,
    proc::{Process, maps},
    python_frame::PythonFrame,
    shared::Shared,
    stack::Stack,
};

/// The side of the stream that looks after it: counts, interval, heartbeat.
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    intervals: Arc<Intervals>,
    records: Option<Records>,
    /// What Python frames are read by, once there is one.
    interpreter: Arc<OnceLock<Interpreter>>,
    /// Rows whose stack was looked for.
    placed: usize,
    /// The interval that new samples are taken with.
    pub interval: u64,
}

/// The side that takes the records out; it may work in a thread of its own.
#[derive(Debug)]
pub struct Records {
    shared: Arc<Shared>,
    reader: Reader,
    stacks: Stacks,
    interpreter: Arc<OnceLock<Interpreter>>,
}

impl Stream {
    /// Of a session that was told these options, with the code of ours that stacks may lead through.
    pub(crate) fn new(
        shared: Shared,
        options: &Options,
        generations: Arc<Generations>,
        own_code: Range<RemoteAddr>,
    ) -> Self {
        let (shared, intervals) = (Arc::new(shared), Arc::new(Intervals::new(options.interval)));
        let reader = Reader::new(options.ring_bits, intervals.clone());
        let interpreter = Arc::default();
        let records = Records {
            shared: shared.clone(),
            reader,
            stacks: Stacks::of(generations, own_code),
            interpreter: Arc::clone(&interpreter),
        };
        let (records, interval) = (Some(records), options.interval);
        Self { shared, intervals, records, interpreter, placed: 0, interval }
    }

    /// Has Python frames read by what is known of this interpreter: before the payload is told to.
    pub(crate) fn read_python(&self, interpreter: Interpreter) {
        // There is only one.
        let _ = self.interpreter.set(interpreter);
    }

    /// The records, once.
    pub fn take_records(&mut self) -> Option<Records> {
        self.records.take()
    }

    /// Whether it lives in memory of the target, and ends with it.
    pub fn is_private(&self) -> bool {
        matches!(*self.shared, Shared::Private(_))
    }

    /// Blocks allocated and freed by class of size.
    ///
    /// # Errors
    /// When the target is gone and the rows with it.
    pub fn flows(&self, memory: &Memory) -> Result<Vec<[u64; 2]>, Errno> {
        counts::flows(&self.shared, memory)
    }

    /// Which sizes requests led to, by class of request; see `counts::sizes`.
    ///
    /// # Errors
    /// When the target is gone and the rows with it.
    pub fn sizes(&self, memory: &Memory) -> Result<Vec<u64>, Errno> {
        counts::sizes(&self.shared, memory)
    }

    /// What was counted up to now.
    ///
    /// # Errors
    /// When the target is gone and its counts with it.
    pub fn counts(&self, memory: &Memory) -> Result<Counts, Errno> {
        Counts::read(&self.shared, memory)
    }

    /// Has new samples taken with another interval, if it is another and there were not too many.
    ///
    /// # Errors
    /// When the target is gone.
    pub fn set_interval(&mut self, memory: &Memory, interval: u64) -> Result<(), Errno> {
        if interval == self.interval {
            return Ok(());
        }
        let Some(number) = self.intervals.add(interval) else { return Ok(()) };
        self.interval = interval;
        self.shared.store(memory, region::INTERVAL, pack_interval(interval, number))
    }

    /// Sets the hooks' deadline forward.
    ///
    /// # Errors
    /// When the target is gone.
    pub fn beat(&self, memory: &Memory, deadline: u64) -> Result<(), Errno> {
        self.shared.store(memory, region::DEADLINE_TSC, deadline)
    }

    /// Publishes unwind tables.
    ///
    /// # Errors
    /// When the target is gone.
    pub(crate) fn publish(
        &self,
        tables: &mut Tables,
        memory: &Memory,
        range: Range<usize>,
    ) -> Result<(), Errno> {
        tables.publish(&self.shared, memory, range)
    }

    /// Tells that the tables are those of the moment at which the loader said this.
    ///
    /// # Errors
    /// When the target is gone.
    pub(crate) fn tell_loads(
        &self,
        loads: &Loads,
        seen: u64,
        memory: &Memory,
        control: RemoteAddr,
    ) -> Result<(), Errno> {
        loads.tell(seen, &self.shared, memory, control)
    }

    /// Bytes of memory that it takes by now, if that can be known.
    pub fn memory(&self) -> Option<u64> {
        self.shared.memory()
    }

    /// The rings that only one thread writes to, and the thread pointer of the last that did.
    pub fn writers(&self, memory: &Memory) -> Vec<(usize, RemoteAddr)> {
        let rows = counts::rows(&self.shared, memory).unwrap_or(0);
        let key = |row: usize| {
            let at = region::ROWS_AT + row * row::ROW_BYTES + row::KEY;
            Some((row, RemoteAddr::new(self.shared.word(memory, at).ok().filter(|&key| key != 0)?)))
        };
        (1..=rows).filter(|&row| ring::is_own(ring::ring_of(row))).filter_map(key).collect()
    }

    /// Tells new threads where their stacks are, so that frames further up can be read. Only what
    /// cannot become wrong while the thread lives: the kernel's stack of the first thread, and of
    /// others the part below their thread control block, in one piece with it.
    pub fn place_stacks(&mut self, process: &Process, memory: &Memory) {
        let Ok(rows) = counts::rows(&self.shared, memory) else { return };
        if rows <= self.placed {
            return;
        }
        let text = process.read("maps").unwrap_or_default();
        let Ok(maps) = maps::parse(&text) else { return };
        while self.placed < rows {
            let at = region::ROWS_AT + (self.placed + 1) * row::ROW_BYTES;
            let field = |offset| self.shared.word(memory, at + offset).unwrap_or(0);
            let (key, hint) = (field(row::KEY), RemoteAddr::new(field(row::STACK_HINT)));
            if key == 0 || hint.get() == 0 {
                // It is just being made.
                return;
            }
            self.placed += 1;
            let Some(mapping) = maps::covering(&maps, hint) else { continue };
            let end = match mapping.label().as_encoded_bytes() {
                b"[stack]" => mapping.range.end,
                _ if mapping.range.contains(&RemoteAddr::new(key)) && key > hint.get() => {
                    RemoteAddr::new(key)
                }
                _ => continue,
            };
            // The end last: while it is 0 the start means nothing.
            let _ = self.shared.store(memory, at + row::STACK_START, mapping.range.start.get());
            let _ = self.shared.store(memory, at + row::STACK_END, end.get());
        }
    }
}

impl Records {
    /// Tells what has happened since the last time.
    ///
    /// # Errors
    /// When the target is gone and its rings with it.
    pub fn drain(
        &mut self,
        memory: &Memory,
        mut tell: impl FnMut(Event, Call),
    ) -> Result<(), Errno> {
        let Self { shared, reader, stacks, interpreter } = self;
        reader.drain(shared, memory, |event, call| {
            stacks.note(shared, memory, interpreter, call.stack);
            tell(event, call);
        })
    }

    /// The same, once nothing is written any more.
    ///
    /// # Errors
    /// As [`Records::drain`].
    pub fn finish(
        &mut self,
        memory: &Memory,
        mut tell: impl FnMut(Event, Call),
    ) -> Result<(), Errno> {
        let Self { shared, reader, stacks, interpreter } = self;
        reader.finish(shared, memory, |event, call| {
            stacks.note(shared, memory, interpreter, call.stack);
            tell(event, call);
        })
    }

    /// The same up to a moment in which no thread of the target runs: [`Reader::settle`].
    ///
    /// # Errors
    /// As [`Records::drain`].
    pub fn settle(
        &mut self,
        memory: &Memory,
        mut tell: impl FnMut(Event, Call),
    ) -> Result<(), Errno> {
        let Self { shared, reader, stacks, interpreter } = self;
        reader.settle(shared, memory, |event, call| {
            stacks.note(shared, memory, interpreter, call.stack);
            tell(event, call);
        })
    }

    /// Records that threads stood in the middle of at the last moment.
    pub fn unfinished(&self) -> usize {
        self.reader.unfinished()
    }

    /// A stack that an event named.
    pub fn stack(&self, id: StackId) -> Option<&Stack> {
        self.stacks.get(id)
    }

    /// Code that came and went.
    pub fn generations(&self) -> &Arc<Generations> {
        &self.stacks.generations
    }

    /// The Python frames of all stacks, by their numbers.
    pub fn python_frames(&self) -> &[PythonFrame] {
        self.stacks.python.all()
    }

    /// What was counted up to now.
    ///
    /// # Errors
    /// When the target is gone and its counts with it.
    pub fn counts(&self, memory: &Memory) -> Result<Counts, Errno> {
        Counts::read(&self.shared, memory)
    }

    /// Slots of one ring.
    pub fn slots(&self) -> u64 {
        self.reader.slots()
    }

    /// Whether more comes than is taken in.
    pub fn is_behind(&self) -> bool {
        self.reader.is_behind()
    }

    /// Records that were never finished, or make no sense.
    pub fn torn(&self) -> u64 {
        self.reader.torn
    }

    /// Those of them that make none.
    pub fn absurd(&self) -> u64 {
        self.reader.absurd
    }
}
