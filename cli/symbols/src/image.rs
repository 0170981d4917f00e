//! All that is known of one module's file, from the file itself and from its debug file.

use std::{fs::File, sync::Arc};

use heapattach_process::proc::build_id::BuildId;
use object::Object;

use crate::files::surroundings::Surroundings;
use crate::files::{
    debug_data, debug_file,
    elf::{self, Elf, Segment, Source},
    symbol_table::{Named, SymbolTable, Table},
};
use crate::{
    demangle::demangle,
    dwarf::{Call, CallNames, Dwarf},
};

/// A module's names.
#[derive(Debug)]
pub struct Image {
    segments: Vec<Segment>,
    tables: Tables,
    /// Where the tables are not whole.
    part: Option<Part>,
    dwarf: Option<Dwarf>,
    build_id: Option<BuildId>,
    names: CallNames,
    /// Whether names came from its file and its debug file alone so far.
    is_of_file: bool,
}

/// What its symbol tables name.
#[derive(Debug)]
struct Tables {
    symbols: SymbolTable,
    /// Empty unless they were asked for.
    variables: SymbolTable,
    /// Whether there are names of more than what other modules may call.
    has_all: bool,
    /// Whether they name more than the addresses that they were read for.
    are_whole: bool,
}

/// What must be known where only the names of some addresses were read.
#[derive(Debug)]
struct Part {
    /// They are sorted.
    addresses: Vec<u64>,
    file: Arc<File>,
    around: Surroundings,
}

impl Tables {
    /// The full tables of a file; those of functions for `addresses`, or all if there are none.
    fn of_file(source: &Source, elf: &Elf<'_>, around: &Surroundings, addresses: &[u64]) -> Self {
        let symbols = functions(source, elf, Table::Full, around, addresses);
        let variables = variables(source, elf, Table::Full, around);
        let (has_all, are_whole) = (!symbols.is_empty(), addresses.is_empty());
        Self { symbols, variables, has_all, are_whole }
    }

    /// Where the module has no full table: what it exports, and what is packed into it.
    fn complete(
        &mut self,
        source: &Source,
        elf: &Elf<'_>,
        around: &Surroundings,
        addresses: &[u64],
    ) {
        if self.symbols.is_empty() {
            self.symbols = functions(source, elf, Table::Dynamic, around, addresses);
            if let Some(packed) = debug_data::read(source, elf, &around.allowance)
                && let Some(elf) = packed.elf()
            {
                self.symbols.add(functions(&packed, &elf, Table::Full, around, addresses));
                self.has_all = true;
            }
        }
        if self.variables.is_empty() {
            self.variables = variables(source, elf, Table::Dynamic, around);
        }
    }
}

impl Part {
    /// All tables of the module.
    fn whole(self) -> Option<Tables> {
        let source = Source::again(&self.file)?;
        let elf = source.elf()?;
        let mut tables = Tables::of_file(&source, &elf, &self.around, &[]);
        if tables.symbols.is_empty()
            && let Some(debug) = debug_file::find(&elf, &self.around)
            && let Some(elf) = debug.elf()
        {
            tables = Tables::of_file(&debug, &elf, &self.around, &[]);
        }
        tables.complete(&source, &elf, &self.around, &[]);
        Some(tables)
    }
}

fn functions(
    source: &Source,
    elf: &Elf<'_>,
    table: Table,
    around: &Surroundings,
    addresses: &[u64],
) -> SymbolTable {
    match addresses {
        [] => SymbolTable::read(source, elf, table, Named::Code, &around.allowance),
        _ => SymbolTable::read_near(source, elf, table, addresses, &around.allowance),
    }
}

fn variables(source: &Source, elf: &Elf<'_>, table: Table, around: &Surroundings) -> SymbolTable {
    match around.has_variables {
        true => SymbolTable::read(source, elf, table, Named::Data, &around.allowance),
        false => SymbolTable::default(),
    }
}

impl Image {
    /// Reads the module in `file`, and the debug file it names, if that lies below a root.
    /// `None` if it is not an ELF file. What lies at `offsets` in it will be asked for.
    pub fn read(file: File, around: &Surroundings, offsets: &[u64]) -> Option<Self> {
        let source = Source::new(file)?;
        let elf = source.elf()?;
        let segments = elf::segments(&elf);
        let addresses = offsets.iter().filter_map(|&at| address_of(&segments, at));
        Self::read_near(&source, around, addresses.collect())
    }

    /// The same for these addresses.
    fn read_near(source: &Source, around: &Surroundings, mut addresses: Vec<u64>) -> Option<Self> {
        let elf = source.elf()?;
        let segments = elf::segments(&elf);
        addresses.sort_unstable();
        addresses.dedup();
        let mut dwarf = Dwarf::read(source, &elf, around, &addresses);
        let mut tables = Tables::of_file(source, &elf, around, &addresses);
        if (dwarf.is_none() || tables.symbols.is_empty())
            && let Some(debug) = debug_file::find(&elf, around)
            && let Some(elf) = debug.elf()
        {
            dwarf = dwarf.or_else(|| Dwarf::read(&debug, &elf, around, &addresses));
            if tables.symbols.is_empty() {
                tables = Tables::of_file(&debug, &elf, around, &addresses);
            }
        }
        tables.complete(source, &elf, around, &addresses);
        let build_id = BuildId::new(elf.build_id().ok().flatten().unwrap_or_default());
        drop(elf);
        let part = match tables.are_whole {
            true => None,
            false => Some(Part { addresses, file: source.file(), around: around.clone() }),
        };
        let (names, is_of_file) = (CallNames::default(), true);
        Some(Self { segments, tables, part, dwarf, build_id, names, is_of_file })
    }

    /// Reads it anew, with what is at these places too, if only a part was read and they are not in it.
    /// Whether that was so.
    pub fn extend(&mut self, offsets: &[u64]) -> bool {
        let part = self.part.as_ref().map(|part| (&part.file, &part.around, &part.addresses));
        let part = part.or_else(|| self.dwarf.as_ref()?.part());
        let Some((file, around, known)) = part else { return false };
        let addresses = offsets.iter().filter_map(|&at| self.address_of(at));
        let mut addresses: Vec<u64> =
            addresses.filter(|address| known.binary_search(address).is_err()).collect();
        if addresses.is_empty() {
            return false;
        }
        addresses.extend(known);
        let Some(source) = Source::again(file) else { return false };
        let Some(more) = Self::read_near(&source, around, addresses) else { return false };
        *self = Self { is_of_file: self.is_of_file, ..more };
        true
    }

    /// The identity of its build.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// What it has no names for.
    pub fn lacks(&self) -> Option<&'static str> {
        match (&self.dwarf, self.tables.has_all) {
            (Some(_), _) => None,
            (None, true) => Some("no source lines, no inlined calls"),
            (None, false) => Some("no debug symbols"),
        }
    }

    /// Whether its names came from its file and its debug file alone.
    pub fn is_of_file(&self) -> bool {
        self.is_of_file
    }

    /// The address the file states for what lies at `file_offset`.
    pub fn address_of(&self, file_offset: u64) -> Option<u64> {
        address_of(&self.segments, file_offset)
    }

    /// Whether a file is still open.
    pub fn holds_file(&self) -> bool {
        self.part.is_some() || self.dwarf.as_ref().is_some_and(Dwarf::holds_file)
    }

    /// Whether units of its debug information were left out.
    #[cfg(test)]
    pub fn reads_part_of_units(&self) -> bool {
        self.dwarf.as_ref().is_some_and(Dwarf::holds_file)
    }

    /// The variable at `address`, and how far in it.
    pub fn variable(&mut self, address: u64) -> Option<(Arc<str>, u64)> {
        let (raw, offset) = self.tables.variables.place(address)?;
        Some((self.names.functions.get(raw, demangle), offset))
    }

    /// The calls at `address`, the innermost first. Never empty.
    pub fn calls(&mut self, address: u64) -> Vec<Call> {
        let is_for = |part: &Part| part.addresses.binary_search(&address).is_ok();
        if let Some(part) = self.part.take_if(|part| !is_for(part))
            && let Some(whole) = part.whole()
        {
            self.tables = whole;
        }
        let (dwarf, names) = (self.dwarf.as_mut(), &mut self.names);
        let mut calls = dwarf.map(|dwarf| dwarf.calls(address, names)).unwrap_or_default();
        self.is_of_file &= self.dwarf.as_ref().is_none_or(Dwarf::is_of_file);
        if calls.is_empty() {
            calls.push(Call::default());
        }
        if let Some(outermost) = calls.last_mut()
            && let Some(raw) = self.tables.symbols.name(address)
        {
            let symbol = self.names.functions.get(raw, demangle);
            let is_whole = symbol.as_bytes() != raw && !outermost.is_whole;
            let is_better = |name: &Arc<str>| is_whole || is_plainer(&symbol, name);
            if outermost.function.as_ref().is_none_or(is_better) {
                outermost.function = Some(symbol);
            }
        }
        calls
    }
}

fn address_of(segments: &[Segment], file_offset: u64) -> Option<u64> {
    segments.iter().find_map(|segment| segment.address_of(file_offset))
}

/// Whether `symbol` is rather what callers know the function by: to glibc's debug information
/// malloc is `__GI___libc_malloc`.
fn is_plainer(symbol: &str, name: &str) -> bool {
    let underscores = |text: &str| text.bytes().take_while(|&byte| byte == b'_').count();
    underscores(symbol) < underscores(name)
}
