//! heaptrack's data, as its recorder writes them after names were found: what
//! `heaptrack_gui` and `heaptrack_print` read.
//!
//! *Temporary* are blocks that lived shortly, as everywhere here, and the file says how shortly.
//! heaptrack's own recordings mean those that the next event of the process frees: anything a
//! second thread does in between makes them count as lasting, and a ledger does not know.
//!
//! The format knows events only, and blocks without weight: see [`made_up_events`]. Two numbers of the
//! reader's are not told by a ledger: who held what between start, peak and end, and the bytes of
//! blocks that did not stay.

mod equal_blocks;
mod made_up_events;
mod schedule;

use std::{
    collections::HashMap,
    fmt::Display,
    io::{self, BufWriter, IntoInnerError, Write},
};

use super::{
    harmless, notes,
    packing::{Packed, Packing},
    sample::{REST, by_stack},
};
use equal_blocks::{Fate, Lot};
use heapattach_ledger::{Ledger, Location, stack_trie::Trie};
use made_up_events::Event;

/// The reader understands the version of heaptrack whose number this is, and this file format.
const VERSION: &str = "v 10400 3";

/// Pages of RSS are told in units of that.
const PAGE: u64 = 4096;

/// Mapped memory of one stack is told in so many pieces at most, and a rest.
const PIECES: u64 = 16;

/// A reader takes less than a second for so many.
const EVENTS: u64 = 4_000_000;

/// Tables are implicit: the n-th line of a kind is the n-th entry, from 1 on.
struct Writer<'a, 'w> {
    ledger: &'a Ledger,
    out: BufWriter<Packed<&'w mut dyn Write>>,
    strings: HashMap<String, u64>,
    /// By index of the location; the one beyond all is [`REST`].
    places: Vec<Option<u32>>,
    /// How many of them are told.
    told: u32,
    /// Places and their callers.
    traces: Trie,
}

/// Writes the story of a ledger.
pub fn write(ledger: &Ledger, packing: Packing, out: &mut dyn Write) -> io::Result<()> {
    // Millions of short lines: they are put together first, and they are alike.
    let out = BufWriter::new(Packed::new(out, packing));
    let places = vec![None; ledger.locations.len() + 1];
    let (strings, traces) = (HashMap::new(), Trie::default());
    let mut writer = Writer { ledger, out, strings, places, told: 0, traces };
    writer.header()?;
    let (mut lots, mut owners) = (Vec::new(), Vec::new());
    for sample in by_stack(ledger) {
        let trace = writer.trace(sample.stack)?;
        let own = equal_blocks::lots(&sample);
        match sample.stack.is_some_and(|stack| ledger.is_mapping(stack)) {
            true => lots.extend(equal_blocks::gather(own, PIECES)),
            false => lots.extend(own),
        }
        owners.resize(lots.len(), trace);
    }
    let fewer = equal_blocks::shorten(&mut lots, EVENTS);
    equal_blocks::keep_below_peak(&mut lots);
    if fewer > 1 {
        writer.line(format_args!(
            "# 1 of {fewer} allocations is written, with the bytes of all, but never more than the peak"
        ))?;
    }
    writer.kinds(&lots, &owners)?;
    writer.line("c 0")?;
    let out = &mut writer.out;
    made_up_events::tell(&lots, &ledger.moments, &mut |event| match event {
        Event::Add(lot) => writeln!(out, "+ {:x}", kind(lot)),
        // What goes through another kind than it came is not taken for temporary.
        Event::Remove(lot) if lots[lot].fate == Fate::Temporary => {
            writeln!(out, "- {:x}", kind(lot))
        }
        Event::Remove(lot) => writeln!(out, "- {:x}", kind(lot) + 1),
        Event::Moment(moment) => {
            writeln!(out, "c {:x}", moment.at_ms)?;
            moment.rss.map_or(Ok(()), |rss| writeln!(out, "R {:x}", rss / PAGE))
        }
    })?;
    writer.line(format_args!("c {:x}", ledger.about.lasted_ms))?;
    writer.out.into_inner().map_err(IntoInnerError::into_error)?.finish()
}

/// The number of the kind of blocks of a lot; the next is its twin. The kind 0 is none: the reader
/// would take some of its blocks for temporary.
fn kind(lot: usize) -> usize {
    1 + 2 * lot
}

impl Writer<'_, '_> {
    fn line(&mut self, line: impl Display) -> io::Result<()> {
        writeln!(self.out, "{line}")
    }

    fn header(&mut self) -> io::Result<()> {
        self.line(VERSION)?;
        self.line(format_args!("X {}", harmless::line(&self.ledger.about.command)))?;
        self.line(format_args!("I {PAGE:x} 0"))?;
        for note in notes::all(&self.ledger.about) {
            self.line(format_args!("# {}", harmless::line(&note)))?;
        }
        // heaptrack itself means blocks that the very next event frees.
        let soon = self.ledger.about.temporary_ms;
        self.line(format_args!("# temporary: blocks that lived for less than {soon} ms"))?;
        self.line("A")
    }

    fn string(&mut self, text: &str) -> io::Result<u64> {
        if text.is_empty() {
            return Ok(0);
        }
        let text = harmless::line(text);
        if let Some(&known) = self.strings.get(&text) {
            return Ok(known);
        }
        self.line(format_args!("s {:x} {text}", text.len()))?;
        let index = self.strings.len() as u64 + 1;
        self.strings.insert(text, index);
        Ok(index)
    }

    fn place(&mut self, index: usize, location: Option<&Location>) -> io::Result<u32> {
        if let Some(known) = self.places[index] {
            return Ok(known);
        }
        let ledger = self.ledger;
        let line = match location {
            None => format!("i 0 0 {:x}", self.string(REST)?),
            Some(location) => {
                let module = self.string(&ledger.modules[location.module as usize].path)?;
                let mut line = format!("i {:x} {module:x}", location.address);
                for call in &location.lines {
                    let function = &ledger.functions[call.function as usize];
                    let (name, file) = (self.string(&function.name)?, self.string(&function.file)?);
                    line += &format!(" {name:x} {file:x} {:x}", call.line.unwrap_or(0));
                }
                line
            }
        };
        self.line(line)?;
        self.told += 1;
        self.places[index] = Some(self.told);
        Ok(self.told)
    }

    /// Of the innermost call; callers first.
    fn trace(&mut self, stack: Option<u32>) -> io::Result<u32> {
        let ledger = self.ledger;
        let mut places = Vec::new();
        match stack.and_then(|stack| ledger.stacks.get(stack)) {
            None => places.push(self.place(ledger.locations.len(), None)?),
            Some(stack) => {
                for &index in stack.locations.iter().rev() {
                    let index = index as usize;
                    places.push(self.place(index, Some(&ledger.locations[index]))?);
                }
            }
        }
        let mut told = Ok(());
        let out = &mut self.out;
        let trace = self.traces.walk_and_tell(places.into_iter(), |caller, place| {
            if told.is_ok() {
                told = writeln!(out, "t {place:x} {caller:x}");
            }
        });
        told.map(|()| trace)
    }

    /// See [`kind`].
    fn kinds(&mut self, lots: &[Lot], owners: &[u32]) -> io::Result<()> {
        self.line("a 0 0")?;
        for (lot, owner) in lots.iter().zip(owners) {
            for _ in 0..2 {
                self.line(format_args!("a {:x} {owner:x}", lot.size))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;
    use heapattach_ledger::sample;
    use heapattach_profile::Sum;

    fn text(ledger: &Ledger) -> String {
        let (mut file, mut text) = (Vec::new(), String::new());
        write(ledger, Packing::Gzip, &mut file).unwrap();
        GzDecoder::new(&file[..]).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn the_tables_come_first_and_then_the_story() {
        let mut ledger = sample::ledger();
        ledger.rows.truncate(1);
        ledger.rows[0].set_sums([2, 4, 2, 3, 1].map(|blocks| Sum::exact(100, blocks)));
        ledger.total = ledger.rows[0].clone();
        ledger.moments.drain(1..20);
        let expected = "\
v 10400 3
X list --long
I 1000 0
# heapattach 0.1.0, process 4242
# command: list --long
# every allocation was recorded
# temporary: blocks that lived for less than 1 ms
A
s d /usr/bin/list
s 4 main
s 6 main.c
i 402200 1 2 3 7
s 9 make_node
s 6 list.c
s 9 grow_list
i 401100 1 4 5 c 6 5 28
s 12 /usr/lib/libc.so.6
s 6 malloc
s f malloc/malloc.c
i 700000001234 7 8 9 bb8
t 1 0
t 2 1
t 3 2
a 0 0
a 64 3
a 64 3
a 64 3
a 64 3
a 64 3
a 64 3
c 0
c 0
R 989
+ 5
- 5
+ 1
+ 1
+ 3
c 4e20
R 9ba
- 4
c 4e20
R 9ba
c 4e20
";
        assert_eq!(text(&ledger), expected);
    }

    #[test]
    fn no_name_can_forge_a_line() {
        let mut ledger = sample::ledger();
        ledger.functions[3].name = "main\n+ 1\n".to_owned();
        ledger.about.command = "list\nX again".to_owned();
        let text = text(&ledger);
        assert!(text.contains("s 9 main + 1 \n"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with('X')).count(), 1);
    }
}
