//! A ledger of what a recording says.

use std::collections::HashMap;

use heapattach_injector::python;

use super::{
    heading::Heading,
    rows::{ENDS, Stack, Table},
};
use crate::{
    hidden::{self, Hidden, Part},
    ledger::{Ledger, Metric, Moment, Row, Thread},
    naming::Code,
    profile::{self, Flow, Sheet},
    site_report::FrameReport,
};

/// All that a ledger is made of.
#[derive(Debug)]
pub struct Parts<'a> {
    /// What is said in words.
    pub heading: Heading,
    /// The code that stacks lead through.
    pub code: Code,
    /// Whose rows they are.
    pub table: &'a Table,
    /// The threads; rows name them by number.
    pub threads: &'a [Thread],
    /// The sums.
    pub sheet: &'a Sheet,
    /// In the order of time.
    pub moments: Vec<Moment>,
}

/// Makes it.
pub fn assemble(parts: Parts<'_>) -> Ledger {
    let Parts { heading, code, table, threads, sheet, moments } = parts;
    let hidden = Hidden::new(&heading.hide_frames);
    let parts = parts_of_lines(&code, &hidden);
    let mut ledger = Ledger {
        about: heading.about,
        threads: if threads.is_empty() { vec![Thread::default()] } else { threads.to_vec() },
        peak: sheet.peak(),
        moments,
        ..Ledger::default()
    };
    ledger.about.ends.clear();
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    for (row, &(stack, thread)) in sheet.rows.all().iter().zip(&table.rows) {
        if !row.is_known() {
            continue;
        }
        let Some(known) = table.stacks.get(stack as usize) else { continue };
        let end = ENDS[usize::from(known.end).min(ENDS.len() - 1)];
        let ends = ledger.about.ends.entry(end.to_owned()).or_default();
        *ends = ends.saturating_add(row.heap.samples(Flow::Allocated));
        let number = *numbers.entry(stack).or_insert_with(|| {
            let locations = locations(known, &code);
            let cause = cause(&locations, &parts);
            let end = end.to_owned();
            ledger.stacks.push(crate::ledger::Stack { locations, end, cause });
            u32::try_from(ledger.stacks.len() - 1).unwrap_or_default()
        });
        let thread = u32::from(thread);
        let is_known = (thread as usize) < ledger.threads.len();
        ledger.rows.push(row_of(&sheet.finished(row), number, if is_known { thread } else { 0 }));
    }
    ledger.about.ends.retain(|_, allocations| *allocations > 0);
    ledger.total = row_of(&sheet.total(), 0, 0);
    (ledger.modules, ledger.functions, ledger.locations) =
        (code.modules, code.functions, code.locations);
    ledger
}

fn row_of(row: &profile::Row, stack: u32, thread: u32) -> Row {
    let flow = |metric| match metric {
        Metric::Live => Flow::Live,
        Metric::Allocated => Flow::Allocated,
        Metric::Freed => Flow::Freed,
        Metric::Peak => Flow::Peak,
        Metric::Temporary => Flow::Temporary,
    };
    Row {
        stack,
        thread,
        sums: Metric::ALL.map(|metric| row.heap.sum(flow(metric))),
        mapped: row.pages.mapped,
        mapped_live: row.pages.live,
        sizes: row.sizes.clone(),
        lifetimes: row.lifetimes.clone(),
        reallocated: row.exchanged,
    }
}

/// The innermost address is certain; further ones are, as far as they lead to code that calls. So are
/// Python frames, whatever lies between.
fn locations(stack: &Stack, code: &Code) -> Vec<u32> {
    let mut is_certain = true;
    let mut certain = Vec::with_capacity(stack.frames.len());
    for (depth, &address) in stack.frames.iter().enumerate() {
        let location = code.find(address);
        let is_code = location.is_some_and(|at| depth == 0 || code.is_code(at));
        is_certain = python::number_at(address).is_some() || (is_certain && is_code);
        certain.extend(location.filter(|_| is_certain));
    }
    certain
}

/// By location: what parts its calls play.
fn parts_of_lines(code: &Code, hidden: &Hidden) -> Vec<Vec<Part>> {
    let mut known: HashMap<u32, Part> = HashMap::new();
    let mut part = |number: u32, offset: u64| {
        *known.entry(number).or_insert_with(|| {
            let function = &code.functions[number as usize];
            hidden.part(&FrameReport {
                module: code.modules[function.module as usize].path.clone(),
                offset,
                function: function.is_named.then(|| function.name.clone()),
                file: (!function.file.is_empty()).then(|| function.file.clone()),
                ..FrameReport::default()
            })
        })
    };
    let each = code.locations.iter().map(|location| {
        location.lines.iter().map(|line| part(line.function, location.offset)).collect()
    });
    each.collect()
}

/// The first call that is not to be looked past; else the outermost.
fn cause(locations: &[u32], parts: &[Vec<Part>]) -> u32 {
    let all = locations.iter().flat_map(|&location| &parts[location as usize]);
    u32::try_from(hidden::cause(all.copied())).unwrap_or(0)
}
