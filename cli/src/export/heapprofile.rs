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
use crate::ledger::{Ledger, Location, Metric};

/// Between the calls of one address, the innermost last.
const INLINED: &str = "--";

/// Writes what is held and what was asked for.
pub fn write(ledger: &Ledger, out: &mut dyn Write) -> io::Result<()> {
    let samples = by_stack(ledger);
    let sum = |metric| {
        let amounts = samples.iter().map(|sample| sample.amount(metric));
        amounts.fold(Amount::default(), Amount::plus)
    };
    let mut out = BufWriter::new(out);
    // The readers print these as warnings.
    for gap in notes::gaps(&ledger.about) {
        writeln!(out, "%warn {}", harmless::line(&gap))?;
    }
    names(ledger, &mut out)?;
    write!(out, "heap profile: ")?;
    write_amounts(sum(Metric::Live), sum(Metric::Allocated), &mut out)?;
    writeln!(out, " @ heapprofile")?;
    for sample in &samples {
        write_sample(ledger, sample, &mut out)?;
    }
    writeln!(out, "\nMAPPED_LIBRARIES:")?;
    for module in ledger.modules.iter().filter(|module| module.path.starts_with('/')) {
        let (start, end) = (module.start, module.end);
        let offset = start.saturating_sub(module.bias);
        let path = harmless::line(&module.path);
        writeln!(out, "{start:08x}-{end:08x} r-xp {offset:08x} 00:00 0 {path}")?;
    }
    out.flush()
}

/// By address. Readers look for the call before the address that it returns to, and ask for the
/// former, but not where it is the innermost.
fn names(ledger: &Ledger, out: &mut dyn Write) -> io::Result<()> {
    let name = |location: &Location| {
        let calls = location.lines.iter().rev();
        let names = calls.map(|line| &ledger.functions[line.function as usize].name);
        // Spaces are kept, and the separator is kept for us.
        let names: Vec<_> =
            names.map(|name| harmless::line(name).replace(INLINED, "- -")).collect();
        names.join(INLINED)
    };
    let named = ledger.locations.iter().map(|location| (location.address, name(location)));
    let mut names: BTreeMap<u64, String> = named.collect();
    names.insert(rest(ledger), REST.to_owned());
    writeln!(out, "--- symbol")?;
    names.iter().try_for_each(|(address, name)| writeln!(out, "{address:#x} {name}"))?;
    writeln!(out, "---")
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
            for &location in &ledger.stacks[stack as usize].locations {
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
