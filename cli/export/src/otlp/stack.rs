//! Stacks of a ledger in the dictionary.

use std::collections::HashMap;

use heapattach_ledger::{Ledger, Line, Location, Module};

use super::{dictionary::Dictionary, text};
use crate::{
    harmless,
    pprof::{Names, protobuf::Message},
    sample::REST,
};

/// The locations of a ledger that are in the dictionary: a million stacks lead through some thousand of them.
pub struct Places<'a> {
    ledger: &'a Ledger,
    names: Names,
    /// By location, with all its calls; 0 is not known yet.
    whole: Vec<u64>,
    /// By a location and how many of its inlined calls are left out.
    parts: HashMap<(u32, usize), u64>,
}

impl<'a> Places<'a> {
    /// None yet.
    pub fn new(ledger: &'a Ledger, names: Names) -> Self {
        Self { ledger, names, whole: vec![0; ledger.locations.len()], parts: HashMap::new() }
    }

    /// A stack, from the cause outwards; without a number it is that of what found no place among the rows.
    pub fn stack(&mut self, dictionary: &mut Dictionary, stack: Option<u32>) -> u64 {
        let mut told = Message::default();
        let Some(stack) = stack else {
            let mut line = Message::default();
            line.number(1, function(dictionary, REST, ""));
            let mut place = Message::default();
            place.message(3, &line);
            told.numbers(1, [dictionary.location(&place)]);
            return dictionary.stack(&told);
        };
        let ledger = self.ledger;
        let cause = ledger.stacks.get(stack).map_or(0, |stack| stack.cause as usize);
        // Where there is nothing but allocators nothing is left out.
        let mut skip = if ledger.calls(stack).nth(cause).is_some() { cause } else { 0 };
        let locations = ledger.stacks.get(stack).map_or(&[][..], |stack| stack.locations);
        let mut indices = Vec::with_capacity(locations.len());
        for &at in locations {
            let Some(location) = ledger.locations.get(at as usize) else { continue };
            if skip >= location.lines.len() {
                skip -= location.lines.len();
                continue;
            }
            indices.push(self.place(dictionary, at, skip));
            skip = 0;
        }
        told.numbers(1, indices);
        dictionary.stack(&told)
    }

    /// A location without so many of its calls.
    fn place(&mut self, dictionary: &mut Dictionary, at: u32, skip: usize) -> u64 {
        let location = &self.ledger.locations[at as usize];
        // Of inlined calls, too, only who names them knows which there are.
        let is_left_out = self.names.leaves_out(&self.ledger.modules[location.module as usize]);
        let skip = if is_left_out { 0 } else { skip };
        let known = match skip {
            0 => &mut self.whole[at as usize],
            _ => self.parts.entry((at, skip)).or_default(),
        };
        if *known == 0 {
            let lines = if is_left_out { &[][..] } else { &location.lines[skip..] };
            *known = place(dictionary, self.ledger, location, lines);
        }
        *known
    }
}

fn place(dictionary: &mut Dictionary, ledger: &Ledger, location: &Location, of: &[Line]) -> u64 {
    let mut place = Message::default();
    place.number(1, mapping(dictionary, &ledger.modules[location.module as usize]));
    // An address within the call, not behind it.
    place.number(2, location.address.saturating_sub(1));
    for Line { function: number, line } in of {
        let known = &ledger.functions[*number as usize];
        let mut told = Message::default();
        told.number(1, function(dictionary, &known.name, &known.file));
        told.number(2, u64::from(line.unwrap_or(0)));
        place.message(3, &told);
    }
    dictionary.location(&place)
}

fn function(dictionary: &mut Dictionary, name: &str, file: &str) -> u64 {
    let mut function = Message::default();
    let name = dictionary.text(&harmless::line(name));
    function.number(1, name);
    function.number(2, name);
    if !file.is_empty() {
        function.number(3, dictionary.text(&harmless::line(file)));
    }
    dictionary.function(&function)
}

fn mapping(dictionary: &mut Dictionary, module: &Module) -> u64 {
    let mut mapping = Message::default();
    mapping.number(1, module.start);
    mapping.number(2, module.end);
    mapping.number(3, module.offset_of_start());
    mapping.number(4, dictionary.text(&harmless::line(&module.path)));
    if !module.build_id.is_empty() {
        let build = text(&harmless::line(&module.build_id));
        let attribute = dictionary.attribute("process.executable.build_id.gnu", &build);
        mapping.numbers(5, [attribute]);
    }
    dictionary.mapping(&mapping)
}
