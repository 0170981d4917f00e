//! The variables of functions: which of them lies where in a frame, at the places of the code that are asked for.

use std::{collections::HashMap, fs::File, ops::Range};

use gimli::{AttributeValue, Operation, Unit, constants as dw};

use heapattach_symbols::entries::{Allowance, Bytes, Debug, Entry, Place, Sections};

use super::variables::{Reading, Typed};

/// Variables, at all places together.
const MOST: usize = 1 << 18;
/// Pieces of one.
const MOST_PIECES: usize = 64;

/// A variable of a function, or a part of it, in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// With the function that has it: `main.serve.request`. What was inlined is the function's that it was in.
    pub name: String,
    /// Where it lies, from the end of the frame on.
    range: Range<i64>,
    /// Where that is in the variable.
    within: u64,
    /// Of the variable: by where they lie in it.
    pointers: Vec<Typed>,
}

impl Local {
    /// The pointer of it that lies there, from the end of the frame on.
    pub fn pointer_at(&self, at: i64) -> Option<&Typed> {
        let within = at.checked_sub(self.range.start)?.cast_unsigned();
        let within = within.checked_add(self.within)?;
        self.pointers.iter().find(|pointer| pointer.at == within)
    }
}

/// Those of all places that were asked for.
#[derive(Clone, Debug, Default)]
pub struct Locals {
    by_code: HashMap<u64, Vec<Local>>,
}

impl Locals {
    /// Reads them, at these addresses of the file; none where there is no debug data.
    pub fn read(file: File, mut codes: Vec<u64>) -> Option<Self> {
        codes.sort_unstable();
        codes.dedup();
        let sections = Sections::read_with_places(file, &Allowance::default())?;
        let mut search = Search {
            reading: Reading(Debug::read(&sections)?),
            locals: Self::default(),
            left: MOST,
        };
        for number in 0..search.reading.0.units.len() {
            // What cannot be read of one is not told.
            let _ = search.unit(number, &codes);
        }
        Some(search.locals)
    }

    /// The variable that lies at a place of a frame, counted from its end, where its function goes on at `code`.
    pub fn at(&self, code: u64, at: i64) -> Option<&Local> {
        // What was inlined comes after what it is in.
        self.by_code.get(&code)?.iter().rev().find(|local| local.range.contains(&at))
    }
}

/// A function, or a part of one, with the places in it that were asked for.
struct Scope {
    depth: isize,
    name: String,
    codes: Vec<u64>,
}

struct Search<'s> {
    reading: Reading<'s>,
    locals: Locals,
    left: usize,
}

impl<'s> Search<'s> {
    fn unit(&mut self, number: usize, codes: &[u64]) -> gimli::Result<()> {
        let mut found = Vec::new();
        let debug = &self.reading.0;
        let Some(unit) = debug.units.get(number) else { return Ok(()) };
        let mut entries = unit.entries();
        let mut scopes: Vec<Scope> = Vec::new();
        while let Some(entry) = entries.next_dfs()? {
            let depth = entry.depth();
            while scopes.last().is_some_and(|scope| scope.depth >= depth) {
                scopes.pop();
            }
            let above = scopes.last().filter(|scope| scope.depth == depth - 1);
            match entry.tag() {
                dw::DW_TAG_subprogram => {
                    let codes = self.within(unit, entry, codes)?;
                    if !codes.is_empty() && is_frame(entry) {
                        let name = self.name(unit, entry).unwrap_or_default();
                        scopes.push(Scope { depth, name, codes });
                    }
                }
                dw::DW_TAG_inlined_subroutine | dw::DW_TAG_lexical_block => {
                    let Some(above) = above else { continue };
                    let codes = self.within(unit, entry, &above.codes)?;
                    if !codes.is_empty() {
                        let is_block = entry.tag() == dw::DW_TAG_lexical_block;
                        let own = (!is_block).then(|| self.name(unit, entry)).flatten();
                        let name = own.unwrap_or_else(|| above.name.clone());
                        scopes.push(Scope { depth, name, codes });
                    }
                }
                dw::DW_TAG_variable | dw::DW_TAG_formal_parameter => {
                    if let Some(above) = above {
                        self.variable(unit, entry, above, &mut found)?;
                    }
                }
                _ => {}
            }
        }
        for (code, local) in found.into_iter().take(self.left) {
            self.left -= 1;
            self.locals.by_code.entry(code).or_default().push(local);
        }
        Ok(())
    }

    /// Which of these places are in it; ascending.
    fn within(
        &self,
        unit: &Unit<Bytes<'s>>,
        entry: &Entry<'s>,
        codes: &[u64],
    ) -> gimli::Result<Vec<u64>> {
        let mut own = Vec::new();
        let mut ranges = self.reading.0.dwarf.die_ranges(unit, entry)?;
        while let Some(range) = ranges.next()? {
            let from = codes.partition_point(|code| *code < range.begin);
            own.extend(codes[from..].iter().take_while(|code| **code < range.end));
        }
        own.sort_unstable();
        Ok(own)
    }

    /// What an entry stands for: that of what was inlined is elsewhere.
    fn origin(&self, unit: &Unit<Bytes<'s>>, entry: &Entry<'s>) -> Option<Place> {
        self.reading.0.place(unit, entry.attr_value(dw::DW_AT_abstract_origin)?)
    }

    fn name(&self, unit: &Unit<Bytes<'s>>, entry: &Entry<'s>) -> Option<String> {
        let debug = &self.reading.0;
        debug.name(unit, entry).or_else(|| {
            let (unit, entry) = debug.entry(self.origin(unit, entry)?)?;
            debug.name(unit, &entry)
        })
    }

    fn type_of(&self, unit: &Unit<Bytes<'s>>, entry: &Entry<'s>) -> Option<Place> {
        let debug = &self.reading.0;
        debug.type_of(unit, entry).or_else(|| {
            let (unit, entry) = debug.entry(self.origin(unit, entry)?)?;
            debug.type_of(unit, &entry)
        })
    }

    fn variable(
        &self,
        unit: &Unit<Bytes<'s>>,
        entry: &Entry<'s>,
        scope: &Scope,
        found: &mut Vec<(u64, Local)>,
    ) -> gimli::Result<()> {
        let Some(value) = entry.attr_value(dw::DW_AT_location) else { return Ok(()) };
        let (Some(name), Some(of)) = (self.name(unit, entry), self.type_of(unit, entry)) else {
            return Ok(());
        };
        let debug = &self.reading.0;
        let mut places = Vec::new();
        let mut add = |codes: &[u64], expression: gimli::Expression<Bytes<'s>>| {
            if places.len() > MOST {
                return;
            }
            let pieces = pieces(expression, unit, debug.size(of, 0));
            places.extend(codes.iter().map(|code| (*code, pieces.clone())));
        };
        if let AttributeValue::Exprloc(expression) = value {
            add(&scope.codes, expression);
        } else if let Some(mut list) = debug.dwarf.attr_locations(unit, value)? {
            while let Some(entry) = list.next()? {
                let codes = &scope.codes;
                let from = codes.partition_point(|code| *code < entry.range.begin);
                let to = codes.partition_point(|code| *code < entry.range.end);
                add(codes.get(from..to).unwrap_or_default(), entry.data);
            }
        }
        // The compiler's own name of a variable that escaped: the frame has a pointer to it.
        let name = format!("{}.{}", scope.name, name.strip_prefix('&').unwrap_or(&name));
        for (code, pieces) in places {
            if pieces.is_empty() || found.len() >= self.left {
                continue;
            }
            let mut pointers = Vec::new();
            self.reading.flatten(of, 0, 0, &mut Vec::new(), &mut pointers);
            for (within, range) in pieces {
                let (name, pointers) = (name.clone(), pointers.clone());
                found.push((code, Local { name, range, within, pointers }));
            }
        }
        Ok(())
    }
}

/// Whether variables are found from the end of the frame on, as the compiler of Go has it.
fn is_frame(entry: &Entry<'_>) -> bool {
    match entry.attr_value(dw::DW_AT_frame_base) {
        Some(AttributeValue::Exprloc(expression)) => {
            expression.0.slice() == [dw::DW_OP_call_frame_cfa.0]
        }
        _ => false,
    }
}

/// The parts of a variable that lie in the frame: where in the variable, and where from the end of the frame on.
fn pieces<'s>(
    expression: gimli::Expression<Bytes<'s>>,
    unit: &Unit<Bytes<'s>>,
    size: u64,
) -> Vec<(u64, Range<i64>)> {
    let mut operations = expression.operations(unit.encoding());
    let (mut pieces, mut at, mut within) = (Vec::new(), None, 0_u64);
    let range = |at: i64, bytes: u64| Some(at..at.checked_add(i64::try_from(bytes).ok()?)?);
    while let Ok(Some(operation)) = operations.next() {
        match operation {
            Operation::FrameOffset { offset } => at = Some(offset),
            Operation::CallFrameCFA => at = Some(0),
            Operation::Piece { size_in_bits, .. } if pieces.len() < MOST_PIECES => {
                let bytes = size_in_bits / 8;
                let own = at.take().and_then(|at| range(at, bytes));
                pieces.extend(own.map(|range| (within, range)));
                within = within.saturating_add(bytes);
            }
            // In a register, or computed.
            Operation::Register { .. } => at = None,
            _ => return Vec::new(),
        }
    }
    if within == 0 {
        pieces.extend(at.and_then(|at| range(at, size)).map(|range| (0, range)));
    }
    pieces
}
