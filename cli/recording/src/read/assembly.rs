//! A ledger of what a recording says, or of what the process of a session has in memory at its end.

use std::collections::{HashMap, HashSet};

use heapattach_process::python_frame;

use crate::{
    format::rows::{ENDS, Table},
    read::context::Context,
};
use heapattach_ledger::FrameReport;

use crate::names::Code;
use heapattach_ledger::hidden::{self, Hidden, Part};
use heapattach_ledger::{Function, Ledger, Line, Location, Module, Row, Stacks, Thread};
use heapattach_profile::{self, Flow, Sheet};
use heapattach_symbols::UNKNOWN;

/// A stack that has no number in the ledger yet.
const NONE: u32 = u32::MAX;

/// All that a ledger is made of.
#[derive(Debug)]
pub struct Parts<'a> {
    /// What is known besides the sums.
    pub context: Context,
    /// Whose rows they are.
    pub table: &'a Table,
    /// The sums.
    pub sheet: Sheet,
}

/// Makes it.
pub fn assemble(parts: Parts<'_>) -> Ledger {
    let Parts { context: Context { heading, code, threads, moments }, table, mut sheet } = parts;
    sheet.know(heading.about.known());
    let hidden = Hidden::new(&heading.hide_frames);
    let mut ledger = Ledger {
        about: heading.about,
        threads: if threads.is_empty() { vec![Thread::default()] } else { threads },
        peak: sheet.peak(),
        moments,
        stacks: Stacks::of(table.frames.clone()),
        ..Ledger::default()
    };
    let (mut births, mut page_births) = (heading.births, heading.page_births);
    let mut kernel = heading.kernel;
    let parts = parts_of_lines(&code, &hidden);
    let (code, sites) = arranged(code, &table.addresses);
    let mut allocations = [0_u64; ENDS.len()];
    let mut numbers = vec![NONE; table.stacks.len()];
    let mut total = Row::default();
    let known_threads = ledger.threads.len();
    let asking: HashSet<u32> = kernel.iter().map(|(row, _)| *row).collect();
    // Whose memory is used again must come first.
    let rows = sheet.into_rows().into_iter().zip(&table.rows).zip(0_u32..);
    let rows = rows.filter_map(|((row, &(stack, thread)), number)| {
        let is_known = row.is_known();
        // Of what only asked the kernel there is a stack, and no row.
        let is_wanted = is_known || asking.contains(&number);
        let samples = row.heap.samples(Flow::Allocated);
        let thread = Some(u32::from(thread)).filter(|&thread| (thread as usize) < known_threads);
        let row = row_of(row, thread.unwrap_or(0));
        total.merge(&row);
        let told = table.stacks.get(stack as usize).filter(|_| is_wanted)?;
        let end = usize::from(told.end).min(ENDS.len() - 1);
        allocations[end] = allocations[end].saturating_add(samples);
        let number = &mut numbers[stack as usize];
        if *number == NONE {
            *number = u32::try_from(ledger.stacks.count()).unwrap_or(NONE);
            let frames = &table.frames[told.range()];
            let depth = certain(frames, &sites);
            let cause = cause(&frames[..depth], &sites, &parts);
            ledger.stacks.push_part(told.range().start, depth, ENDS[end], cause);
        }
        is_known.then_some(Row { stack: *number, ..row })
    });
    // They are no larger than those they are made of, and take their place: memory for both would
    // be half of all that is needed.
    ledger.rows = rows.collect();
    const {
        assert!(
            size_of::<Row>() <= size_of::<heapattach_profile::Row>(),
            "in the place of the other"
        )
    };
    // The numbers of rows become those of their stacks.
    let renamed = |row: &mut u32| {
        let stack =
            table.rows.get(*row as usize).and_then(|&(stack, _)| numbers.get(stack as usize));
        let stack = stack.copied().filter(|&stack| stack != NONE);
        stack.map(|stack| *row = stack).is_some()
    };
    births.retain_mut(|(row, _)| renamed(row));
    page_births.retain_mut(|(row, _)| renamed(row));
    kernel.retain_mut(|(row, _)| renamed(row));
    ledger.about.pages.retain_mut(|pages| pages.stack.as_mut().is_none_or(renamed));
    (ledger.births, ledger.page_births, ledger.kernel) = (births, page_births, kernel);
    let ends = ENDS.into_iter().zip(allocations);
    ledger.about.ends = ends.filter(|(_, allocations)| *allocations > 0).collect();
    ledger.total = total;
    (ledger.modules, ledger.functions, ledger.locations) =
        (code.modules, code.functions, code.locations);
    ledger
}

fn row_of(row: heapattach_profile::Row, thread: u32) -> Row {
    Row {
        stack: 0,
        thread,
        heap: row.heap,
        mapped: row.pages.mapped,
        mapped_live: row.pages.live,
        sizes: row.sizes,
        lifetimes: row.lifetimes,
        reallocated: row.exchanged,
    }
}

/// What is to be known of an address that a call returns to.
#[derive(Clone, Copy)]
struct Site {
    /// Which location it had, if any.
    location: Option<u32>,
    /// Whether that is in code.
    is_code: bool,
    /// Whether it stands for a Python frame.
    is_python: bool,
}

/// The code with its locations in the order of these addresses, and what is to be known of each.
fn arranged(mut code: Code, addresses: &[u64]) -> (Code, Vec<Site>) {
    let mut locations: Vec<Option<Location>> = Vec::with_capacity(addresses.len());
    let found: Vec<_> = addresses.iter().map(|&address| code.find(address)).collect();
    let sites = addresses.iter().zip(found).map(|(&address, location)| {
        let site = Site {
            location,
            is_code: location.is_some_and(|found| code.is_code(found)),
            is_python: python_frame::number_at(address).is_some(),
        };
        // No stack leads to an address without a location; it has a place all the same.
        let location = location.and_then(|found| code.locations.get_mut(found as usize));
        locations.push(location.map(std::mem::take));
        site
    });
    let sites = sites.collect();
    let nowhere = nowhere(&mut code, locations.iter().any(Option::is_none));
    let locations = locations.into_iter().map(|found| found.unwrap_or_else(|| nowhere.clone()));
    let locations = locations.collect();
    code.locations = locations;
    (code, sites)
}

/// A location of nothing; if it is `needed`, there is a function for it.
fn nowhere(code: &mut Code, needed: bool) -> Location {
    if !needed {
        return Location::default();
    }
    if code.modules.is_empty() {
        code.modules.push(Module { path: UNKNOWN.to_owned(), ..Module::default() });
    }
    let index = |len: usize| u32::try_from(len - 1).unwrap_or_default();
    let module = index(code.modules.len());
    let name = UNKNOWN.to_owned();
    code.functions.push(Function { name, module, ..Function::default() });
    let lines = vec![Line { function: index(code.functions.len()), line: None }];
    Location { module, lines, ..Location::default() }
}

/// How many calls are certain: the innermost is; further ones are, as far as they lead to code that
/// calls. So are Python frames, whatever lies between.
fn certain(frames: &[u32], sites: &[Site]) -> usize {
    let all = || frames.iter().map(|&frame| &sites[frame as usize]).enumerate();
    let end = all().position(|(depth, site)| {
        !site.is_python && (site.location.is_none() || depth > 0 && !site.is_code)
    });
    let Some(end) = end else { return frames.len() };
    let python = all().rev().find(|(_, site)| site.is_python);
    end.max(python.map_or(0, |(depth, _)| depth + 1))
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
fn cause(frames: &[u32], sites: &[Site], parts: &[Vec<Part>]) -> u32 {
    let locations = frames.iter().filter_map(|&frame| sites[frame as usize].location);
    let all = locations.flat_map(|location| &parts[location as usize]);
    u32::try_from(hidden::cause(all.copied())).unwrap_or(0)
}
