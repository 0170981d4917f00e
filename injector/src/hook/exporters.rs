//! Which modules of a target export functions of certain names: what a program is made of is told by that, also
//! if it is stripped, and not by what its file is called.

use std::collections::HashSet;

use crate::{
    hook::survey::{first_mapping_of, mapping_of},
    module::{find_symbols, symbol_file::SymbolFile, tables::Budget},
    trace::target::Target,
};
use heapattach_process::{
    linker::{Link, LinkError, Rendezvous, static_program},
    proc::maps::{self, Mapping},
    told_loader,
};

/// So much of a module's beginning is read along: its notes are there.
const HEAD: usize = 16_384;
/// More modules are not looked at.
const MOST: usize = 1 << 12;

/// A search that looks at each module once.
#[derive(Clone, Debug)]
pub struct Exporters {
    names: Vec<&'static [u8]>,
    seen: HashSet<Link>,
}

/// A module that was not there before.
#[derive(Clone, Debug, Default)]
pub struct Exporter {
    /// Its path.
    pub path: String,
    /// Whether it is the program itself.
    pub is_program: bool,
    /// The functions that it has, by their numbers in the list of names.
    pub exports: Vec<usize>,
    /// Its first bytes in memory.
    pub head: Vec<u8>,
}

impl Exporters {
    /// A search for these.
    pub fn new(names: Vec<&'static [u8]>) -> Self {
        Self { names, seen: HashSet::new() }
    }

    /// What modules have come since the last time. One that cannot be read just now has nothing.
    pub fn look(&mut self, target: &Target) -> Vec<Exporter> {
        let text = target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).unwrap_or_default();
        let Ok(auxv) = told_loader::auxv(&target.process) else { return Vec::new() };
        let (links, is_static) = match Rendezvous::find(&target.memory, &auxv, &maps) {
            Ok(lists) => (lists.modules(&target.memory).unwrap_or_default(), false),
            Err(LinkError::Static) => {
                let program = static_program(&target.memory, &auxv, &maps);
                (program.into_iter().collect(), true)
            }
            Err(_) => return Vec::new(),
        };
        let new = links.into_iter().take(MOST).filter(|link| !self.seen.contains(link));
        let new: Vec<Link> = new.collect();
        let found = new.iter().filter_map(|link| self.read(target, &maps, link, is_static));
        let found = found.collect();
        self.seen.extend(new);
        found
    }

    fn read(
        &self,
        target: &Target,
        maps: &[Mapping<'_>],
        link: &Link,
        is_static: bool,
    ) -> Option<Exporter> {
        let mapping = mapping_of(maps, link)?;
        let first = first_mapping_of(maps, link).unwrap_or(mapping);
        let exports = if is_static {
            self.of_symbols(target, first)
        } else {
            let found = find_symbols(&target.memory, link, &self.names).unwrap_or_default();
            (0..found.len()).filter(|&number| found[number].is_some()).collect()
        };
        let mut head = vec![0; HEAD];
        let length = target.memory.read_some(first.range.start, &mut head).unwrap_or(0);
        head.truncate(length);
        let path = mapping.label().to_string_lossy().into_owned();
        Some(Exporter { path, is_program: link.is_executable(), exports, head })
    }

    /// What a program without dynamic symbols calls its functions.
    fn of_symbols(&self, target: &Target, mapping: &Mapping<'_>) -> Vec<usize> {
        let mut budget = Budget::default();
        let file = SymbolFile::find(&target.process, &target.memory, mapping, false, &mut budget);
        let symbols = file.iter().flat_map(SymbolFile::functions);
        let number = |name: &[u8]| self.names.iter().position(|wanted| *wanted == name);
        let mut found: Vec<usize> = symbols.filter_map(|symbol| number(symbol.name)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}
