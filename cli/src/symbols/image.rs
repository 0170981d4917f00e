//! All that is known of one module's file, from the file itself and from its debug file.

use std::{fs::File, sync::Arc};

use heapattach_injector::proc::build_id::BuildId;
use object::Object;

use super::{
    debug_data, debug_file,
    demangle::demangle,
    dwarf::{Call, CallNames, Dwarf},
    elf::{self, Elf, Segment, Source},
    split_dwarf::Surroundings,
    symbol_table::{Named, SymbolTable, Table},
};

/// A module's names.
#[derive(Debug)]
pub struct Image {
    segments: Vec<Segment>,
    symbols: SymbolTable,
    /// Empty unless they were asked for.
    variables: SymbolTable,
    dwarf: Option<Dwarf>,
    /// Whether there are names of more than what other modules may call.
    has_all: bool,
    build_id: Option<BuildId>,
    names: CallNames,
}

impl Image {
    /// Reads the module in `file`, and the debug file it names, if that lies below a root.
    /// `None` if it is no ELF file. What lies at `offsets` in it will be asked for.
    pub fn read(file: File, around: &Surroundings, offsets: &[u64]) -> Option<Self> {
        let allowance = &around.allowance;
        let source = Source::new(file)?;
        let elf = source.elf()?;
        let segments = elf::segments(&elf);
        let addresses = offsets.iter().filter_map(|&at| address_of(&segments, at));
        let mut addresses: Vec<u64> = addresses.collect();
        addresses.sort_unstable();
        addresses.dedup();
        let mut dwarf = Dwarf::read(&source, &elf, around, &addresses);
        let read = |source: &Source, elf: &Elf<'_>, table, named| {
            SymbolTable::read(source, elf, table, named, allowance)
        };
        let mut symbols = read(&source, &elf, Table::Full, Named::Code);
        let variables = |source: &Source, elf: &Elf<'_>, table| match around.has_variables {
            true => read(source, elf, table, Named::Data),
            false => SymbolTable::default(),
        };
        let mut known = variables(&source, &elf, Table::Full);
        if (dwarf.is_none() || symbols.is_empty())
            && let Some(debug) = debug_file::find(&elf, around)
            && let Some(elf) = debug.elf()
        {
            dwarf = dwarf.or_else(|| Dwarf::read(&debug, &elf, around, &addresses));
            if symbols.is_empty() {
                symbols = read(&debug, &elf, Table::Full, Named::Code);
                known = variables(&debug, &elf, Table::Full);
            }
        }
        let mut has_all = !symbols.is_empty();
        if symbols.is_empty() {
            symbols = read(&source, &elf, Table::Dynamic, Named::Code);
            if let Some(packed) = debug_data::read(&source, &elf, allowance)
                && let Some(elf) = packed.elf()
            {
                symbols.add(read(&packed, &elf, Table::Full, Named::Code));
                has_all = true;
            }
        }
        if known.is_empty() {
            known = variables(&source, &elf, Table::Dynamic);
        }
        let build_id = BuildId::new(elf.build_id().ok().flatten().unwrap_or_default());
        let (variables, names) = (known, CallNames::default());
        Some(Self { segments, symbols, variables, dwarf, has_all, build_id, names })
    }

    /// The identity of its build.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// What it has no names for.
    pub fn lacks(&self) -> Option<&'static str> {
        match (&self.dwarf, self.has_all) {
            (Some(_), _) => None,
            (None, true) => Some("no source lines, no inlined calls"),
            (None, false) => Some("no names but of what it exports"),
        }
    }

    /// The address the file states for what lies at `file_offset`.
    pub fn address_of(&self, file_offset: u64) -> Option<u64> {
        address_of(&self.segments, file_offset)
    }

    /// Whether a file is still open.
    pub fn holds_file(&self) -> bool {
        self.dwarf.as_ref().is_some_and(Dwarf::holds_file)
    }

    /// The variable at `address`, and how far in it.
    pub fn variable(&mut self, address: u64) -> Option<(Arc<str>, u64)> {
        let (raw, offset) = self.variables.place(address)?;
        Some((self.names.functions.get(raw, demangle), offset))
    }

    /// The calls at `address`, the innermost first. Never empty.
    pub fn calls(&mut self, address: u64) -> Vec<Call> {
        let (dwarf, names) = (self.dwarf.as_mut(), &mut self.names);
        let mut calls = dwarf.map(|dwarf| dwarf.calls(address, names)).unwrap_or_default();
        if calls.is_empty() {
            calls.push(Call::default());
        }
        if let Some(outermost) = calls.last_mut()
            && let Some(raw) = self.symbols.name(address)
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
