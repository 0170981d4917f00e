//! The words relocations filled, in the memory of a process.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    image::{Image, Kind},
    maps::Mapping,
    memory::Memory,
};

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The module it belongs to.
    pub module: String,
    /// How it is filled.
    pub kind: Kind,
    /// With the address of what.
    pub symbol: String,
    /// What it holds; `None` if it cannot be read.
    pub value: Option<u64>,
}

/// An ELF file in memory.
#[derive(Clone, Debug)]
pub(super) struct Module {
    pub(super) path: String,
    /// What to add to the file's addresses.
    pub(super) bias: u64,
    pub(super) image: Arc<Image>,
    /// Its executable parts in memory.
    pub(super) text: Vec<(u64, u64)>,
}

impl Module {
    /// Whether code of this module is at `address`.
    pub(super) fn runs(&self, address: u64) -> bool {
        self.text.iter().any(|&(start, end)| (start..end).contains(&address))
    }

    /// Whether `address` is what this module defines as `symbol`.
    pub(super) fn defines(&self, symbol: &str, address: u64) -> bool {
        let definitions = self.image.definitions.get(symbol).map(Vec::as_slice);
        definitions.unwrap_or_default().iter().any(|d| {
            d.is_indirect && self.runs(address) || d.address.wrapping_add(self.bias) == address
        })
    }
}

/// Finds every ELF file with code in memory.
pub(super) fn modules(task: &Path, maps: &BTreeMap<u64, Mapping>) -> Vec<Module> {
    let mut modules = Vec::new();
    // Mappings of one load of a file follow one another; offset 0 begins another load.
    let mut load: Vec<&Mapping> = Vec::new();
    for mapping in maps.values().filter(|m| m.is_of_file()) {
        if load.last().is_some_and(|l| l.file != mapping.file || mapping.offset == 0) {
            modules.extend(module(task, &load));
            load.clear();
        }
        load.push(mapping);
    }
    modules.extend(module(task, &load));
    modules
}

fn module(task: &Path, load: &[&Mapping]) -> Option<Module> {
    let first = load.first()?;
    let text: Vec<_> =
        load.iter().filter(|m| m.is_executable()).map(|m| (m.start, m.end)).collect();
    if text.is_empty() {
        return None;
    }
    let image = Image::open(&file_of(task, first)).ok()?;
    let bias = first.start.wrapping_sub(image.address_of(first.offset)?);
    Some(Module { path: first.path.clone(), bias, image, text })
}

/// The mapped file itself, even if its path names another file by now.
fn file_of(task: &Path, mapping: &Mapping) -> PathBuf {
    // `map_files` exists for processes only, not for each of their threads.
    let process = task.ancestors().nth(2).unwrap_or(task);
    let direct = process.join(format!("map_files/{:x}-{:x}", mapping.start, mapping.end));
    let by_name = || task.join("root").join(mapping.path.trim_start_matches('/'));
    if direct.exists() { direct } else { by_name() }
}

/// Reads all words of all modules.
pub(super) fn read(memory: &Memory, modules: &[Module]) -> BTreeMap<u64, Slot> {
    let mut slots = BTreeMap::new();
    for module in modules {
        for place in &module.image.places {
            let address = place.address.wrapping_add(module.bias);
            let value = memory.word(address);
            let (module, symbol) = (module.path.clone(), place.symbol.clone());
            slots.insert(address, Slot { module, kind: place.kind, symbol, value });
        }
    }
    slots
}
