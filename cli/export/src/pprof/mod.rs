//! `profile.proto`, compressed: what `go tool pprof` and all its relatives read.
//!
//! A sample begins with the call that caused the allocation, as Go's own heap profiles do: else
//! every table is led by `malloc` and `operator new`. Which of them it was is told by the label
//! `allocator`. Names are ours, so that a reader need not have the files; it is told that all
//! mappings have them.
//!
//! Mapped memory has types of its own, `mapped_space` and `mapped_live_space`, and samples of its own: what
//! an allocator maps for its blocks is there too, and added to nothing.
//!
//! No duration is told, as Go's heap profiles tell none: one that has it is taken for what happened
//! in that time (by Parca, say), and what is in use at its end is not. It is among the comments.

#[cfg(test)]
pub mod decoded;
pub mod protobuf;
mod rows;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::HashMap,
    io::{self, BufWriter, IntoInnerError, Write},
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};

use super::{
    harmless,
    joined::joined,
    notes,
    sample::{Amount, REST, Sample, samples},
};
use heapattach_ledger::{Ledger, Location, Metric};
use heapattach_text::quantity;
use protobuf::Message;
pub use rows::{Names, Place, RowProfile, StackRow, TYPES, row_notes, rows, write_rows};

/// Field numbers of `Profile`.
pub mod field {
    pub const SAMPLE_TYPE: u64 = 1;
    pub const SAMPLE: u64 = 2;
    pub const MAPPING: u64 = 3;
    pub const LOCATION: u64 = 4;
    pub const FUNCTION: u64 = 5;
    pub const STRING: u64 = 6;
    pub const TIME_NANOS: u64 = 9;
    pub const DURATION_NANOS: u64 = 10;
    pub const PERIOD_TYPE: u64 = 11;
    pub const PERIOD: u64 = 12;
    pub const COMMENT: u64 = 13;
    pub const DEFAULT_SAMPLE_TYPE: u64 = 14;
}

/// A value of each sample.
#[derive(Clone, Copy)]
enum Column {
    /// Blocks and bytes of a metric.
    Blocks(Metric, &'static str),
    /// Bytes of pages.
    Pages(Metric, &'static str),
}

/// A profile, while it is written.
struct Writer<'a, 'w> {
    ledger: &'a Ledger,
    out: BufWriter<GzEncoder<&'w mut dyn Write>>,
    /// By text.
    strings: HashMap<String, u64>,
    /// By a location and how many of its inlined calls are left out. Most have none left out.
    locations: HashMap<(u32, usize), u64>,
    /// By location: whether it was told with all its calls.
    whole: Vec<bool>,
    /// The labels that allocators are, by function.
    allocators: HashMap<u32, Message>,
    /// The labels of threads.
    threads: HashMap<u32, Message>,
    /// For what is put together and written a million times.
    room: Room,
    /// Stacks from this one on are of what was before: less by that much.
    first_before: u32,
    /// Who names code.
    names: Names,
    /// Bytes before they are compressed.
    size: usize,
}

/// Memory that is used again for each sample.
#[derive(Default)]
struct Room {
    locations: Vec<u64>,
    numbers: Vec<u64>,
    sample: Message,
    profile: Message,
}

/// Writes all samples. `metric` is what a reader shows first; if it is none of the four that every
/// reader knows it comes as a fifth, with its blocks.
pub fn write(ledger: &Ledger, metric: Metric, out: &mut dyn Write) -> io::Result<()> {
    write_all(&with_pages(ledger), u32::MAX, metric, out)
}

/// Writes what a slot saw: one of several that follow each other, each of blocks that were born in it alone.
/// What of these is in use at its end is called `survived`, since it is not what the process has in use.
pub fn write_slot(ledger: &Ledger, out: &mut dyn Write) -> io::Result<()> {
    let ledger = with_pages(ledger);
    let mut columns = columns(&ledger, ledger.total.mapped > 0, Metric::Live);
    for column in &mut columns {
        let (Column::Blocks(_, name) | Column::Pages(_, name)) = column;
        *name = match *name {
            "inuse" => "survived",
            "mapped_live" => "mapped_survived",
            "mapped_live_space" => "mapped_survived_space",
            name => name,
        };
    }
    write_columns(&ledger, u32::MAX, Metric::Live, &columns, out)
}

/// Writes what became more and what became less, as `go tool pprof -diff_base` would have it.
pub fn write_difference(
    now: &Ledger,
    base: &Ledger,
    metric: Metric,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (all, first_before) = joined(&with_pages(now), &with_pages(base));
    write_all(&all, first_before, metric, out)
}

/// With its mapped pages in rows of their own, if it has any.
fn with_pages(ledger: &Ledger) -> Cow<'_, Ledger> {
    match ledger.total.mapped {
        0 => Cow::Borrowed(ledger),
        _ => Cow::Owned(ledger.clone().with_all_mapped()),
    }
}

fn write_all(
    ledger: &Ledger,
    first_before: u32,
    metric: Metric,
    out: &mut dyn Write,
) -> io::Result<()> {
    let columns = columns(ledger, ledger.total.mapped > 0, metric);
    write_columns(ledger, first_before, metric, &columns, out)
}

fn write_columns(
    ledger: &Ledger,
    first_before: u32,
    metric: Metric,
    columns: &[Column],
    out: &mut dyn Write,
) -> io::Result<()> {
    let out = BufWriter::new(GzEncoder::new(out, Compression::fast()));
    let mut writer = Writer::new(ledger, first_before, out);
    writer.header(columns, metric)?;
    writer.mappings(|_| true)?;
    writer.functions()?;
    for sample in samples(ledger) {
        writer.sample(&sample, columns)?;
    }
    writer.finish().map(drop)
}

/// What is told of each sample, and what that is called.
fn columns(ledger: &Ledger, has_pages: bool, first: Metric) -> Vec<Column> {
    let is_mapped = ledger.rows.iter().all(|row| ledger.is_mapping(row.stack));
    let is_mapped = is_mapped && !has_pages && !ledger.rows.is_empty();
    let name = |metric: Metric| match (metric, is_mapped) {
        (Metric::Allocated, false) => "alloc",
        (Metric::Live, false) => "inuse",
        (Metric::Allocated, true) => "mapped",
        (Metric::Live, true) => "mapped_live",
        (metric, _) => metric.name(),
    };
    let others = [first].into_iter().filter(|m| !matches!(m, Metric::Allocated | Metric::Live));
    let metrics = [Metric::Allocated, Metric::Live].into_iter().chain(others);
    let blocks = metrics.map(|metric| Column::Blocks(metric, name(metric)));
    let pages = [(Metric::Allocated, "mapped_space"), (Metric::Live, "mapped_live_space")];
    let pages = pages.map(|(metric, name)| Column::Pages(metric, name)).into_iter();
    blocks.chain(pages.filter(|_| has_pages)).collect()
}

impl<'a, 'w> Writer<'a, 'w> {
    fn new(
        ledger: &'a Ledger,
        first_before: u32,
        out: BufWriter<GzEncoder<&'w mut dyn Write>>,
    ) -> Self {
        let whole = vec![false; ledger.locations.len()];
        let strings = HashMap::from([(String::new(), 0)]);
        let (locations, allocators, threads, room) = Default::default();
        let size = 0;
        Self {
            ledger,
            out,
            strings,
            locations,
            whole,
            allocators,
            threads,
            room,
            first_before,
            names: Names::Ours,
            size,
        }
    }

    fn header(&mut self, columns: &[Column], first: Metric) -> io::Result<()> {
        for column in columns {
            let (metric, name) = match *column {
                Column::Pages(_, name) => {
                    self.value_type(field::SAMPLE_TYPE, name, "bytes")?;
                    continue;
                }
                Column::Blocks(metric, name) => (metric, name),
            };
            self.value_type(field::SAMPLE_TYPE, &format!("{name}_objects"), "count")?;
            self.value_type(field::SAMPLE_TYPE, &format!("{name}_space"), "bytes")?;
            if metric == first {
                let default = self.string(&format!("{name}_space"));
                self.put(|profile| profile.number(field::DEFAULT_SAMPLE_TYPE, default))?;
            }
        }
        self.value_type(field::PERIOD_TYPE, "space", "bytes")?;
        let mut comments = notes::all(&self.ledger.about);
        let lasted = Duration::from_millis(self.ledger.about.lasted_ms);
        comments.push(format!("counted for {}", quantity::time(lasted)));
        let comments: Vec<_> =
            comments.iter().map(|note| self.string(&harmless::line(note))).collect();
        let about = &self.ledger.about;
        let (began, every) = (about.began, about.every);
        self.put(|profile| {
            profile.number(field::PERIOD, every.max(1));
            profile.number(field::TIME_NANOS, began.saturating_mul(1_000_000_000));
            profile.numbers(field::COMMENT, comments);
        })
    }

    fn value_type(&mut self, field: u64, kind: &str, unit: &str) -> io::Result<()> {
        let mut message = Message::default();
        message.number(1, self.string(kind));
        message.number(2, self.string(unit));
        self.put(|profile| profile.message(field, &message))
    }

    /// The first mapping is taken for the program itself.
    fn mappings(&mut self, is_used: impl Fn(usize) -> bool) -> io::Result<()> {
        let modules = self.ledger.modules.iter().enumerate().filter(|(index, _)| is_used(*index));
        let (programs, others): (Vec<_>, Vec<_>) =
            modules.partition(|(_, module)| is_program(&module.path));
        for (index, module) in programs.into_iter().chain(others) {
            let mut message = Message::default();
            let is_left_out = self.names.leaves_out(module);
            let own = |address: u64| {
                if is_left_out { address.saturating_sub(module.bias) } else { address }
            };
            message.number(1, id(index));
            message.number(2, own(module.start));
            message.number(3, own(module.end));
            message.number(4, module.offset_of_start());
            message.number(5, self.string(&harmless::line(&module.path)));
            message.number(6, self.string(&module.build_id));
            // Functions, files, lines, inlined calls are told.
            if !is_left_out {
                (7..=10).for_each(|known| message.number(known, 1));
            }
            self.put(|profile| profile.message(field::MAPPING, &message))?;
        }
        Ok(())
    }

    fn functions(&mut self) -> io::Result<()> {
        for (index, function) in self.ledger.functions.iter().enumerate() {
            self.function(id(index), &function.name, &function.file)?;
        }
        self.function(id(self.ledger.functions.len()), REST, "")
    }

    fn function(&mut self, id: u64, name: &str, file: &str) -> io::Result<()> {
        let name = self.string(&harmless::line(name));
        let file = if file.is_empty() { 0 } else { self.string(&harmless::line(file)) };
        let mut message = Message::default();
        message.number(1, id);
        message.number(2, name);
        message.number(3, name);
        message.number(4, file);
        self.put(|profile| profile.message(field::FUNCTION, &message))
    }

    fn sample(&mut self, sample: &Sample, columns: &[Column]) -> io::Result<()> {
        let has_pages = columns.iter().any(|column| matches!(column, Column::Pages(..)));
        let is_pages = has_pages && sample.stack.is_some_and(|s| self.ledger.is_mapping(s));
        let amount = |metric: Metric, is_told: bool| match is_told {
            true => sample.amount(metric),
            false => Amount::default(),
        };
        let mut room = std::mem::take(&mut self.room);
        room.numbers.clear();
        for column in columns {
            match *column {
                Column::Blocks(metric, _) => {
                    let Amount { bytes, blocks } = amount(metric, !is_pages);
                    room.numbers.extend([blocks, bytes]);
                }
                Column::Pages(metric, _) => room.numbers.push(amount(metric, is_pages).bytes),
            }
        }
        let written = match room.numbers.iter().all(|number| *number == 0) {
            true => Ok(()),
            false => self.told_sample(sample, &mut room),
        };
        self.room = room;
        written
    }

    /// Writes a sample of these numbers.
    fn told_sample(&mut self, sample: &Sample, room: &mut Room) -> io::Result<()> {
        let Room { locations, numbers, sample: message, profile } = room;
        self.stack(sample.stack, locations)?;
        message.clear();
        message.numbers(1, locations.iter().copied());
        // Numbers with a sign are written as what they are to the processor.
        let is_before = sample.stack.is_some_and(|stack| stack >= self.first_before);
        let signed = |number: u64| if is_before { number.wrapping_neg() } else { number };
        message.numbers(2, numbers.iter().copied().map(signed));
        message.fields(self.thread(sample.thread));
        if let Some(allocator) = sample.stack.and_then(|stack| self.allocator(stack)) {
            message.fields(allocator);
        }
        profile.clear();
        profile.message(field::SAMPLE, message);
        self.size += profile.as_bytes().len();
        self.out.write_all(profile.as_bytes())
    }

    /// The labels of a thread.
    fn thread(&mut self, number: u32) -> &Message {
        if !self.threads.contains_key(&number) {
            let mut labels = Message::default();
            if let Some(thread) = self.ledger.threads.get(number as usize).filter(|t| t.tid != 0) {
                let name = self.string(&harmless::line(&thread.name));
                self.label(&mut labels, "thread", name);
                let mut label = Message::default();
                label.number(1, self.string("thread_id"));
                label.number(3, u64::from(thread.tid.unsigned_abs()));
                labels.message(3, &label);
            }
            self.threads.insert(number, labels);
        }
        &self.threads[&number]
    }

    fn label(&mut self, labels: &mut Message, key: &str, text: u64) {
        let mut label = Message::default();
        label.number(1, self.string(key));
        label.number(2, text);
        labels.message(3, &label);
    }

    /// The label of what the cause of a stack called for memory.
    fn allocator(&mut self, stack: u32) -> Option<&Message> {
        let cause = self.skipped(stack);
        let function = self.ledger.functions_of(stack).nth(cause.checked_sub(1)?)?;
        if !self.allocators.contains_key(&function) {
            let name = &self.ledger.functions[function as usize].name;
            let (mut label, text) = (Message::default(), self.string(&harmless::line(name)));
            self.label(&mut label, "allocator", text);
            self.allocators.insert(function, label);
        }
        self.allocators.get(&function)
    }

    /// How many calls of a stack are allocators; none if all are.
    fn skipped(&self, stack: u32) -> usize {
        let cause = self.ledger.stacks.get(stack).map_or(0, |stack| stack.cause as usize);
        if self.ledger.calls(stack).nth(cause).is_some() { cause } else { 0 }
    }

    /// The locations of a stack, from the cause outwards; nothing else is left in `ids`.
    fn stack(&mut self, stack: Option<u32>, ids: &mut Vec<u64>) -> io::Result<()> {
        ids.clear();
        let ledger = self.ledger;
        let Some(stack) = stack else {
            let rest = id(ledger.locations.len());
            let lines = [(id(ledger.functions.len()), 0)];
            ids.push(self.location((u32::MAX, 0), rest, None, &lines)?);
            return Ok(());
        };
        let mut skip = self.skipped(stack);
        for &index in ledger.stacks.get(stack).map_or(&[][..], |stack| stack.locations) {
            let location = &ledger.locations[index as usize];
            if skip >= location.lines.len() {
                skip -= location.lines.len();
                continue;
            }
            // Of inlined calls, too, only who names them knows which there are.
            let is_left_out = self.names.leaves_out(&ledger.modules[location.module as usize]);
            if is_left_out {
                skip = 0;
            }
            // Most have been told.
            if skip == 0 && self.whole[index as usize] {
                ids.push(u64::from(index) + 1);
                continue;
            }
            let lines = if is_left_out { &[][..] } else { &location.lines[skip..] };
            let lines: Vec<_> = lines
                .iter()
                .map(|line| (u64::from(line.function) + 1, u64::from(line.line.unwrap_or(0))))
                .collect();
            // Beyond those of whole locations, and of the one for what has none.
            let next = id(ledger.locations.len() + 1 + self.locations.len());
            let id = if skip == 0 { u64::from(index) + 1 } else { next };
            ids.push(self.location((index, skip), id, Some(location), &lines)?);
            self.whole[index as usize] |= skip == 0;
            skip = 0;
        }
        Ok(())
    }

    /// Writes a location when it is first met.
    fn location(
        &mut self,
        key: (u32, usize),
        id: u64,
        location: Option<&Location>,
        lines: &[(u64, u64)],
    ) -> io::Result<u64> {
        if let Some(&known) = self.locations.get(&key) {
            return Ok(known);
        }
        self.locations.insert(key, id);
        let mut message = Message::default();
        message.number(1, id);
        if let Some(location) = location {
            message.number(2, u64::from(location.module) + 1);
            // An address within the call, not behind it.
            let address = location.address.saturating_sub(1);
            let module = &self.ledger.modules[location.module as usize];
            let bias = if self.names.leaves_out(module) { module.bias } else { 0 };
            message.number(3, address.saturating_sub(bias));
        }
        for &(function, number) in lines {
            let mut line = Message::default();
            line.number(1, function);
            line.number(2, number);
            message.message(4, &line);
        }
        self.put(|profile| profile.message(field::LOCATION, &message))?;
        Ok(id)
    }

    fn string(&mut self, text: &str) -> u64 {
        if let Some(&known) = self.strings.get(text) {
            return known;
        }
        let next = self.strings.len() as u64;
        self.strings.insert(text.to_owned(), next);
        next
    }

    fn put(&mut self, add: impl FnOnce(&mut Message)) -> io::Result<()> {
        let mut message = Message::default();
        add(&mut message);
        self.size += message.as_bytes().len();
        self.out.write_all(message.as_bytes())
    }

    /// Texts come last, when all are known. Answers the size before it is compressed.
    fn finish(mut self) -> io::Result<usize> {
        let mut strings: Vec<_> = std::mem::take(&mut self.strings).into_iter().collect();
        strings.sort_by_key(|(_, index)| *index);
        for (text, _) in strings {
            self.put(|profile| profile.bytes(field::STRING, text.as_bytes()))?;
        }
        let size = self.size;
        self.out.into_inner().map_err(IntoInnerError::into_error)?.finish()?.flush()?;
        Ok(size)
    }
}

/// 0 is not an identity.
fn id(index: usize) -> u64 {
    index as u64 + 1
}

/// Whether a module looks like a program rather than a library or a piece of the kernel.
pub fn is_program(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    path.starts_with('/') && !name.ends_with(".so") && !name.contains(".so.")
}
