//! Which memory is looked at: blocks of the heap, mapped pages, or both; and who had pages mapped.
//!
//! Views and exports tell sums of blocks. Of mapped memory they tell the same sums: a page of 4 KiB stands
//! where a block does, and each stack that mapped begins with a call that says so ([`MODULE`]). What an
//! allocator maps holds blocks that are told already, and a stack of a thread is rarely used: both are
//! among mapped memory, as the allocator's and the thread's, since who called them is the trigger and not
//! the cause; and neither is ever added to blocks.

use std::collections::HashMap;

use heapattach_profile::{Estimate, Exact, Sum};
use heapattach_text::glob;
use serde::Serialize;

use crate::{EndReason, Function, Ledger, Line, Location, Metric, Module, Row};

/// The module of the calls that stand for a mapping.
pub const MODULE: &str = "[mapped]";
/// What stands where a block does.
const PAGE: u64 = 4096;
/// Functions of the kernel's calls themselves.
const CALLS: [&str; 6] = ["mmap", "mmap64", "__mmap", "__mmap64", "mremap", "__mremap"];
/// By which functions the runtime of Go maps, in a program that has a C library: C's, without a name in a stripped
/// one, and Go's that calls it.
const OF_GO: [&str; 2] = ["x_cgo_mmap", "runtime.callCgoMmap"];
/// Libraries that map what they give away, whose blocks are told nowhere: who called them has it mapped.
const FOR_CALLERS: [&str; 1] = ["libapr-1.so*"];
const OF_THREADS: [&str; 3] = ["pthread_create", "__pthread_create", "allocate_stack"];

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// Blocks of the heap.
    Heap,
    /// Mapped pages, of allocators and of the program itself.
    Mapped,
    /// Pages that the program mapped itself.
    Own,
    /// Blocks, and the pages that the program mapped itself.
    All,
}

/// Who had pages mapped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mapper {
    /// The program: the place that is named called the kernel itself.
    Program,
    /// The creation of a thread, for its stack.
    Thread,
    /// This module, an allocator, a library or a runtime, for the place that is named.
    Module(String),
}

impl Memory {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Heap, Self::Mapped, Self::Own, Self::All];

    /// Its name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Mapped => "mapped",
            Self::Own => "own",
            Self::All => "all",
        }
    }

    /// What is told of it, for a reader who sees nothing else.
    fn words(self) -> &'static str {
        match self {
            Self::Heap => "blocks of the heap",
            Self::Mapped => "mapped memory, in pages of 4 KiB in the place of blocks",
            Self::Own => "pages of 4 KiB that the program mapped itself",
            Self::All => "blocks, and pages of 4 KiB that the program mapped itself",
        }
    }
}

impl Mapper {
    /// What stands for the mapping in a stack of calls.
    fn call(&self) -> String {
        match self {
            Self::Program => MODULE.to_owned(),
            Self::Thread => "[thread stack]".to_owned(),
            Self::Module(module) => format!("[mapped by {module}]"),
        }
    }
}

impl Ledger {
    /// Who had the pages of a stack mapped.
    pub fn mapper(&self, stack: u32) -> Mapper {
        let cause = self.stacks.get(stack).map_or(0, |stack| stack.cause as usize);
        let before = self.calls(stack).take(cause);
        let mut first = self.calls(stack).take(cause.max(OF_GO.len()));
        if first.any(|call| OF_GO.contains(&call.function.name.as_str())) {
            return Mapper::Module("Go".to_owned());
        }
        let is_kernels = |name: &str| CALLS.contains(&name);
        let mut before = before.skip_while(|call| is_kernels(&call.function.name)).peekable();
        let Some(module) = before.peek().map(|call| call.module.path.clone()) else {
            return Mapper::Program;
        };
        let module = module.rsplit('/').next().unwrap_or_default();
        if FOR_CALLERS.iter().any(|rule| glob::matches(rule, module)) {
            return Mapper::Program;
        }
        let is_threads = |name: &str| OF_THREADS.iter().any(|of| name.starts_with(of));
        match before.any(|call| is_threads(&call.function.name)) {
            true => Mapper::Thread,
            false => Mapper::Module(module.to_owned()),
        }
    }

    /// Whether a stack stands for mapped pages.
    pub fn is_mapping(&self, stack: u32) -> bool {
        let first = self.stacks.get(stack).and_then(|stack| stack.locations.first().copied());
        let location = first.and_then(|first| self.locations.get(first as usize));
        let module = location.and_then(|location| self.modules.get(location.module as usize));
        module.is_some_and(|module| module.path == MODULE)
    }

    /// Bytes of pages that the program mapped itself, and of these the ones that are mapped still.
    pub fn own_mapped(&self) -> [u64; 2] {
        let own = self.rows.iter().filter(|row| row.mapped > 0);
        let own = own.filter(|row| self.mapper(row.stack) == Mapper::Program);
        own.fold([0, 0], |[mapped, live], row| {
            [mapped.saturating_add(row.mapped), live.saturating_add(row.mapped_live)]
        })
    }

    /// The ledger as that of one kind of memory.
    pub fn of(mut self, memory: Memory) -> Self {
        match memory {
            Memory::Heap => {}
            Memory::All => self.add_mapped(|mapper| *mapper == Mapper::Program),
            Memory::Mapped | Memory::Own => {
                self.forget_blocks();
                let before = self.rows.len();
                self.add_mapped(|mapper| memory == Memory::Mapped || *mapper == Mapper::Program);
                self.rows.drain(..before);
            }
        }
        if memory != Memory::Heap {
            self.about.part.push(memory.words().to_owned());
            // It counts blocks.
            self.moments.iter_mut().for_each(|moment| moment.flow = None);
        }
        if matches!(memory, Memory::Mapped | Memory::Own) {
            // Every call is recorded, however rarely blocks are.
            self.about.every = 1;
        }
        self.rows.iter_mut().chain([&mut self.total]).for_each(|row| {
            (row.mapped, row.mapped_live) = (0, 0);
        });
        self
    }

    /// The ledger with blocks as they are and all mapped pages beside them, in rows of stacks that
    /// [`Ledger::is_mapping`] knows.
    pub fn with_all_mapped(mut self) -> Self {
        self.add_mapped(|_| true);
        self
    }

    fn forget_blocks(&mut self) {
        self.rows.retain(|row| row.mapped > 0);
        for row in self.rows.iter_mut().chain([&mut self.total]) {
            let Row { stack, thread, mapped, mapped_live, .. } = *row;
            *row = Row { stack, thread, mapped, mapped_live, ..Row::default() };
        }
        self.births.clear();
        (self.peak, self.course) = Default::default();
        for moment in &mut self.moments {
            (moment.live, moment.allocated, moment.blocks) = (0.0, 0.0, 0.0);
            moment.ends = None;
        }
    }

    /// Adds rows for the pages of those mappers that are wanted.
    fn add_mapped(&mut self, wants: impl Fn(&Mapper) -> bool) {
        let is_all = wants(&Mapper::Thread);
        let mut marks = Marks::default();
        let mut stacks: HashMap<u32, Option<u32>> = HashMap::new();
        let (mut more, mut all) = (Vec::new(), Row::default());
        for at in 0..self.rows.len() {
            let Row { stack, thread, mapped, mapped_live: live, .. } = self.rows[at];
            if mapped == 0 {
                continue;
            }
            let of_pages = *stacks.entry(stack).or_insert_with(|| {
                let mapper = self.mapper(stack);
                wants(&mapper).then(|| marks.begin(self, stack, &mapper))
            });
            let Some(stack) = of_pages else { continue };
            let mut row = Row { stack, thread, ..Row::default() };
            // Of the peak nothing is known by stack: what is there in the end was there at its own.
            let sums = [live, mapped, mapped.saturating_sub(live), live, 0];
            Metric::ALL.into_iter().zip(sums).for_each(|(m, bytes)| row.set(m, &pages(bytes)));
            all.merge(&row);
            more.push(row);
        }
        self.rows.append(&mut more);
        let part = part(all.sum(Metric::Live), self.total.mapped_live)
            .or_else(|| part(all.sum(Metric::Allocated), self.total.mapped));
        self.total.heap.merge(&all.heap);
        let peak = all.measure(Metric::Peak).bytes.value;
        let Estimate { value, low, high } = self.peak;
        self.peak = Estimate { value: value + peak, low: low + peak, high: high + peak };
        for moment in &mut self.moments {
            // In the course of time it is known in all only.
            let own = moment.own_mapped.filter(|_| !is_all).map(whole);
            let mapped = own.unwrap_or(whole(moment.mapped) * part.unwrap_or(0.0));
            moment.live += mapped;
            if let Some(ends) = &mut moment.ends {
                ends.live.iter_mut().for_each(|end| *end += mapped);
            }
        }
    }
}

/// The calls that stand for mappings, once they are there.
#[derive(Default)]
struct Marks {
    module: Option<u32>,
    locations: HashMap<String, u32>,
}

impl Marks {
    /// A new stack that begins with the call of a mapper, and its number.
    fn begin(&mut self, ledger: &mut Ledger, stack: u32, mapper: &Mapper) -> u32 {
        let name = mapper.call();
        let location = match self.locations.get(&name) {
            Some(known) => *known,
            None => self.add(ledger, name),
        };
        let told = ledger.stacks.get(stack);
        let (cause, end) = told.map_or((0, EndReason::Unknown), |s| (s.cause, s.end));
        let calls = told.map_or(&[][..], |stack| stack.locations);
        let locations: Vec<u32> = [location].iter().chain(calls).copied().collect();
        let cause = match mapper {
            Mapper::Program => cause.saturating_add(1),
            Mapper::Thread | Mapper::Module(_) => 0,
        };
        ledger.stacks.push(&locations, end, cause);
        number(ledger.stacks.count().saturating_sub(1))
    }

    fn add(&mut self, ledger: &mut Ledger, name: String) -> u32 {
        let module = *self.module.get_or_insert_with(|| {
            ledger.modules.push(Module { path: MODULE.to_owned(), ..Module::default() });
            number(ledger.modules.len() - 1)
        });
        let named = Function { name: name.clone(), module, is_named: true, ..Function::default() };
        ledger.functions.push(named);
        let function = number(ledger.functions.len() - 1);
        // An address that no code has: some readers know calls by it.
        let used = |address| ledger.locations.iter().any(|known| known.address == address);
        let address = (1..=u64::MAX).find(|address| !used(*address)).unwrap_or(1);
        let lines = vec![Line { function, line: None }];
        ledger.locations.push(Location { address, module, offset: 0, lines });
        let location = number(ledger.locations.len() - 1);
        self.locations.insert(name, location);
        location
    }
}

/// Bytes as whole pages.
fn pages(bytes: u64) -> Sum {
    Sum::new(Exact { bytes, count: bytes.div_ceil(PAGE) }, None)
}

/// Which part of all it is.
fn part(some: Sum, all: u64) -> Option<f64> {
    let bytes = some.parts().0.bytes;
    (all > 0 && bytes > 0).then(|| (whole(bytes) / whole(all)).min(1.0))
}

#[allow(clippy::cast_precision_loss)]
fn whole(bytes: u64) -> f64 {
    bytes as f64
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// `main` maps itself what `malloc` did not.
    fn ledger(is_own: bool) -> Ledger {
        let mut ledger = sample::ledger();
        if is_own {
            let stack = ledger.rows[1].stack;
            ledger.stacks.edit(stack, |stack| {
                stack.locations.remove(0);
                stack.cause = 0;
            });
        }
        ledger
    }

    fn live(ledger: &Ledger) -> (u64, u64) {
        let exact = ledger.total.sum(Metric::Live).parts().0;
        (exact.bytes, exact.count)
    }

    fn names(ledger: &Ledger, row: usize) -> Vec<String> {
        let calls = ledger.calls(ledger.rows[row].stack);
        calls.map(|call| call.function.name.clone()).collect()
    }

    #[test]
    fn pages_of_the_program_are_added_to_blocks_in_stacks_of_their_own() {
        let all = ledger(true).of(Memory::All);
        assert!(all.is_sound());
        assert_eq!(live(&all), (104_960 + (1 << 19), 1010 + 128));
        assert_eq!(names(&all, 3), ["[mapped]", "main"]);
        let told: Vec<bool> = all.rows.iter().map(|row| all.is_mapping(row.stack)).collect();
        assert_eq!(told, [false, false, false, true]);
        assert_eq!(all.cause(all.rows[3].stack).unwrap().function.name, "main");
        assert_eq!((all.total.mapped, all.total.mapped_live), (0, 0), "told once");
        let (rows, total) = (all.rows.iter().map(|row| row.sum(Metric::Allocated)), &all.total);
        let rows: u64 = rows.map(|sum| sum.parts().0.bytes).sum();
        assert_eq!(rows, total.sum(Metric::Allocated).parts().0.bytes);
    }

    #[test]
    fn what_an_allocator_mapped_is_never_added_to_its_blocks() {
        let plain = sample::ledger();
        assert_eq!(plain.mapper(plain.rows[1].stack), Mapper::Module("libc.so.6".to_owned()));
        assert_eq!((plain.own_mapped(), ledger(true).own_mapped()), ([0, 0], [1 << 20, 1 << 19]));
        assert_eq!(live(&plain.clone().of(Memory::All)), live(&plain));
        let mapped = plain.of(Memory::Mapped);
        assert_eq!(live(&mapped), (1 << 19, 128));
        assert_eq!(names(&mapped, 0), ["[mapped by libc.so.6]", "malloc", "main"]);
        let cause = mapped.cause(mapped.rows[0].stack).unwrap();
        assert_eq!(cause.function.name, "[mapped by libc.so.6]", "main is the trigger");
        assert!(mapped.is_sound() && mapped.rows.len() == 1);
    }

    #[test]
    fn a_stack_of_a_thread_is_known_by_what_creates_it() {
        let mut ledger = sample::ledger();
        ledger.functions[0].name = "__pthread_create_2_1".to_owned();
        assert_eq!(ledger.mapper(ledger.rows[1].stack), Mapper::Thread);
        ledger.functions[0].name = "mmap64".to_owned();
        assert_eq!(ledger.mapper(ledger.rows[1].stack), Mapper::Program);
    }

    #[test]
    fn what_gos_runtime_maps_by_c_code_is_gos_without_a_name_of_that_code() {
        let mut ledger = ledger(true);
        let stack = ledger.rows[1].stack;
        assert_eq!(ledger.mapper(stack), Mapper::Program);
        let caller = ledger.calls(stack).next().unwrap().function.name.clone();
        let named = ledger.functions.iter_mut().find(|function| function.name == caller).unwrap();
        named.name = "runtime.callCgoMmap".to_owned();
        assert_eq!(ledger.mapper(stack), Mapper::Module("Go".to_owned()));
    }

    #[test]
    fn the_course_has_the_part_of_what_is_told() {
        let mut plain = ledger(true);
        plain.moments[20].mapped = 1 << 19;
        let before = plain.moments[20].live;
        let [mapped, all, heap] = [Memory::Mapped, Memory::All, Memory::Heap].map(|memory| {
            let told = plain.clone().of(memory);
            (told.moments[20].live, told.peak.value)
        });
        assert_eq!(mapped, (524_288.0, 524_288.0));
        assert_eq!(all, (before + 524_288.0, plain.peak.value + 524_288.0));
        assert_eq!(heap, (before, plain.peak.value));
        let own = plain.clone().of(Memory::Own);
        assert_eq!((own.rows.len(), live(&own)), (1, (1 << 19, 128)));
        assert_eq!(sample::ledger().of(Memory::Own).rows.len(), 0, "the allocator's");
        let both = plain.with_all_mapped();
        assert_eq!(both.total.mapped, 1 << 20, "its own sums stay");
    }
}
