//! Text as gperftools' heap profiler writes it: what jeprof and google-pprof read.
//!
//! It begins with names: neither tool then needs the program, nor looks names up itself, which goes
//! wrong where code is not mapped as its file is laid out.

use std::{
    collections::BTreeMap,
    io::{self, BufWriter, Write},
};

use super::{
    harmless, notes,
    sample::{Amount, REST, Sample, by_stack},
};
use heapattach_ledger::{Ledger, Location, Memory, Metric};

/// Between the calls of one address, the innermost last.
const INLINED: &str = "--";

/// Writes what is in use and what was allocated.
pub fn write(ledger: &Ledger, out: &mut dyn Write) -> io::Result<()> {
    write_all(ledger, true, out)
}

/// The same without names: for readers that ask for them by address.
///
/// # Errors
/// Only those of `out`.
pub fn write_addresses(ledger: &Ledger, out: &mut dyn Write) -> io::Result<()> {
    let ledger = ledger.clone().of(Memory::All);
    write_all(&ledger, false, out)
}

fn write_all(ledger: &Ledger, has_names: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut sums = [Amount::default(); 2];
    for sample in by_stack(ledger) {
        let more = [Metric::Live, Metric::Allocated].map(|metric| sample.amount(metric));
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.plus(more));
    }
    let [live, allocated] = sums;
    let mut out = BufWriter::new(out);
    // The readers print these as warnings.
    for gap in notes::gaps(&ledger.about) {
        writeln!(out, "%warn {}", harmless::line(&gap))?;
    }
    if has_names {
        names(ledger, &mut out)?;
    }
    write!(out, "heap profile: ")?;
    write_amounts(live, allocated, &mut out)?;
    writeln!(out, " @ heapprofile")?;
    for sample in by_stack(ledger) {
        write_sample(ledger, &sample, &mut out)?;
    }
    writeln!(out, "\nMAPPED_LIBRARIES:")?;
    for module in ledger.modules.iter().filter(|module| module.path.starts_with('/')) {
        let (start, end) = (module.start, module.end);
        let offset = module.offset_of_start();
        let path = harmless::line(&module.path);
        writeln!(out, "{start:08x}-{end:08x} r-xp {offset:08x} 00:00 0 {path}")?;
    }
    out.flush()
}

/// By address.
fn names(ledger: &Ledger, out: &mut dyn Write) -> io::Result<()> {
    let name = |location: &Location| {
        let calls = location.lines.iter().rev();
        let names = calls.map(|line| &ledger.functions[line.function as usize].name);
        let names: Vec<_> = names.map(|name| apart(&harmless::line(name))).collect();
        names.join(INLINED)
    };
    let named = ledger.locations.iter().map(|location| (location.address, name(location)));
    let mut names: BTreeMap<u64, String> = named.collect();
    names.insert(rest(ledger), REST.to_owned());
    writeln!(out, "--- symbol")?;
    names.iter().try_for_each(|(address, name)| writeln!(out, "{address:#x} {name}"))?;
    writeln!(out, "---")
}

/// A name without two dashes in a row: those are the separator.
fn apart(name: &str) -> String {
    let mut apart = String::with_capacity(name.len());
    for c in name.chars() {
        if c == '-' && apart.ends_with('-') {
            apart.push(' ');
        }
        apart.push(c);
    }
    apart
}

/// An address that no code has, for what has no stack.
fn rest(ledger: &Ledger) -> u64 {
    let used = |address| ledger.locations.iter().any(|location| location.address == address);
    (1..=u64::MAX).find(|address| !used(*address)).unwrap_or(1)
}

fn write_sample(ledger: &Ledger, sample: &Sample, out: &mut dyn Write) -> io::Result<()> {
    let (live, allocated) = (sample.amount(Metric::Live), sample.amount(Metric::Allocated));
    if live == Amount::default() && allocated == Amount::default() {
        return Ok(());
    }
    write_amounts(live, allocated, out)?;
    write!(out, " @")?;
    match sample.stack {
        None => write!(out, " {:#x}", rest(ledger))?,
        Some(stack) => {
            for &location in ledger.stacks.get(stack).map_or(&[][..], |stack| stack.locations) {
                write!(out, " {:#x}", ledger.locations[location as usize].address)?;
            }
        }
    }
    writeln!(out)
}

fn write_amounts(live: Amount, allocated: Amount, out: &mut dyn Write) -> io::Result<()> {
    let [a, b, c, d] = [live.blocks, live.bytes, allocated.blocks, allocated.bytes];
    write!(out, "{a}: {b} [{c}: {d}]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;
    use heapattach_profile::Sum;

    fn text(ledger: &Ledger) -> String {
        let mut text = Vec::new();
        write(ledger, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn addresses_alone_begin_with_the_sums() {
        let mut text = Vec::new();
        write_addresses(&sample::ledger(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("heap profile: 1010: 104960 "), "{text}");
    }

    #[test]
    fn names_stacks_and_mappings_are_told() {
        let expected = "\
--- symbol
0x1 [stacks not kept]
0x401100 grow_list--make_node
0x402200 main
0x403300 work<int>(std::string const&)
0x700000001234 malloc
---
heap profile: 1010: 104960 [71510: 1256960] @ heapprofile
1000: 64000 [1500: 96000] @ 0x700000001234 0x401100 0x402200
10: 40960 [10: 40960] @ 0x700000001234 0x402200
0: 0 [70000: 1120000] @ 0x700000001234 0x403300

MAPPED_LIBRARIES:
00400000-00410000 r-xp 00000000 00:00 0 /usr/bin/list
700000000000-700000010000 r-xp 00000000 00:00 0 /usr/lib/libc.so.6
";
        assert_eq!(text(&sample::ledger()), expected);
    }

    #[test]
    fn no_name_can_forge_a_section_or_a_call() {
        let mut ledger = sample::ledger();
        ledger.functions[3].name = "operator--\n---\n1: 1 [1: 1] @ 0x1".to_owned();
        ledger.modules[0].path = "/a\n/b".to_owned();
        let text = text(&ledger);
        assert!(text.contains("0x402200 operator- - - - - 1: 1 [1: 1] @ 0x1\n"), "{text}");
        assert!(text.contains(" 0 /a /b\n"));
        assert_eq!(text.matches("\n---\n").count(), 1);
    }

    #[test]
    fn losses_are_warnings_and_what_has_no_stack_has_an_address_of_its_own() {
        let mut ledger = sample::ledger();
        ledger.about.loss.stacks = 5;
        ledger.locations[3].address = 1;
        ledger.total.add(Metric::Live, &Sum::exact(100, 3));
        let text = text(&ledger);
        assert!(text.starts_with("%warn 5 call stacks found no room: "));
        assert!(text.contains("0x2 [stacks not kept]\n"));
        assert!(text.contains("\n3: 300 [0: 0] @ 0x2\n"));
    }
}
