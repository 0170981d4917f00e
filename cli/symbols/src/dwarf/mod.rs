//! Functions, lines and inlined calls, out of DWARF.

pub(crate) mod reader;
pub(crate) mod split;
pub(crate) mod units;

use std::{fmt, fs::File, sync::Arc};

use addr2line::{Context, LookupContinuation, LookupResult};
use gimli::RunTimeEndian;
use object::Object;

use crate::demangle::{demangle, is_mangled};
use crate::files::surroundings::Surroundings;
use crate::{
    dwarf::{
        reader::{Meter, Reader},
        split::SplitDwarf,
    },
    files::{
        debug_file,
        elf::{Elf, Source},
    },
    names::Names,
    printable::printable,
};

/// More calls inlined into each other are cut.
const CALLS_LIMIT: usize = 256;

/// One call of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The function that calls, demangled.
    pub function: Option<Arc<str>>,
    /// In which source file.
    pub file: Option<Arc<str>>,
    /// On which line.
    pub line: Option<u32>,
    /// Whether the name is whole: that of a local function of C++ lacks namespace and class.
    pub is_whole: bool,
}

/// The texts of one module's calls.
#[derive(Debug, Default)]
pub struct CallNames {
    /// Function names, mangled.
    pub functions: Names,
    /// Paths of source files.
    pub files: Names,
}

/// The debug information of one module. Its units are parsed when first asked for, and only those
/// read that hold the addresses it is read for, if they can be told.
pub struct Dwarf {
    context: Context<Reader>,
    split: SplitDwarf,
    meter: Arc<Meter>,
    part: Option<Part>,
    /// Whether all that was asked for is in the file itself.
    is_of_file: bool,
}

/// What must be known where not all units were read.
struct Part {
    /// For these addresses the others are of no use; sorted.
    addresses: Vec<u64>,
    file: Arc<File>,
    around: Surroundings,
}

impl fmt::Debug for Dwarf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dwarf").field("meter", &self.meter).finish_non_exhaustive()
    }
}

impl Dwarf {
    /// Reads what is needed for `addresses`, which are sorted, or may be; all if there are none.
    /// `None` if the file has no debug information, or none that can be used.
    pub fn read(
        source: &Source,
        elf: &Elf<'_>,
        around: &Surroundings,
        addresses: &[u64],
    ) -> Option<Self> {
        elf.section_by_name(".debug_info")?;
        let read_part = || Self::read_part(source, elf, around, addresses);
        let part = (!addresses.is_empty()).then(read_part).flatten();
        part.or_else(|| {
            let meter = Arc::new(Meter::default());
            let sections = load(source, elf, around, &meter, is_of_use)?;
            Self::with(sections, elf, around, meter)
        })
    }

    fn read_part(
        source: &Source,
        elf: &Elf<'_>,
        around: &Surroundings,
        addresses: &[u64],
    ) -> Option<Self> {
        let meter = Arc::new(Meter::default());
        meter.begin();
        let table = load(source, elf, around, &meter, |id| id == gimli::SectionId::DebugAranges)?;
        let table = table.debug_aranges;
        let units = units::read(source, elf, &around.allowance, &table, addresses)?;
        let others = |id| {
            is_of_use(id)
                && ![gimli::SectionId::DebugInfo, gimli::SectionId::DebugAranges].contains(&id)
        };
        let sections = load(source, elf, around, &meter, others)?;
        let sections = units::only(sections, units, endian(elf), &meter);
        if !units::are_complete(&sections).ok()? {
            return None;
        }
        let (addresses, around) = (addresses.to_vec(), around.clone());
        let part = Part { addresses, file: source.file(), around };
        let all = Self::with(sections, elf, &part.around, meter)?;
        Some(Self { part: Some(part), ..all })
    }

    fn with(
        mut sections: gimli::Dwarf<Reader>,
        elf: &Elf<'_>,
        around: &Surroundings,
        meter: Arc<Meter>,
    ) -> Option<Self> {
        if let Some(common) = debug_file::find_common(elf, around)
            && let Some(elf) = common.elf()
            && let Some(common) = load(&common, &elf, around, &meter, is_of_use)
        {
            sections.set_sup(common);
        }
        meter.begin();
        let context = Context::from_dwarf(sections).ok()?;
        let split = SplitDwarf::new(around, endian(elf), &meter);
        Some(Self { context, split, meter, part: None, is_of_file: true })
    }

    /// Where only a part was read: its file, what is around it, and the addresses in it.
    pub fn part(&self) -> Option<(&Arc<File>, &Surroundings, &Vec<u64>)> {
        self.part.as_ref().map(|part| (&part.file, &part.around, &part.addresses))
    }

    /// Whether its file may still be needed.
    pub fn holds_file(&self) -> bool {
        self.part.is_some()
    }

    /// The calls at `address`, the innermost first; empty where nothing is known.
    pub fn calls(&mut self, address: u64, names: &mut CallNames) -> Vec<Call> {
        let is_for = |part: &Part| part.addresses.binary_search(&address).is_ok();
        if self.part.as_ref().is_none_or(is_for) {
            let calls = self.known_calls(address, names);
            if self.part.is_none() || !calls.is_empty() {
                return calls;
            }
        }
        if let Some(Part { file, around, .. }) = self.part.take()
            && let Some(source) = Source::again(&file)
            && let Some(elf) = source.elf()
            && let Some(whole) = Self::read(&source, &elf, &around, &[])
        {
            // What others told before was not in the file.
            let is_of_file = self.is_of_file;
            *self = whole;
            self.is_of_file &= is_of_file;
        }
        self.known_calls(address, names)
    }

    /// Whether nothing that was asked for lay in files beside it.
    pub fn is_of_file(&self) -> bool {
        self.is_of_file
    }

    fn known_calls(&mut self, address: u64, names: &mut CallNames) -> Vec<Call> {
        let mut calls = Vec::new();
        // addr2line adds one to it.
        if address == u64::MAX {
            return calls;
        }
        self.meter.begin();
        let mut lookup = self.context.find_frames(address);
        let found = loop {
            match lookup {
                LookupResult::Output(found) => break found,
                LookupResult::Load { load, continuation } => {
                    self.is_of_file = false;
                    lookup = continuation.resume(self.split.load(&load));
                }
            }
        };
        let Ok(mut frames) = found else { return calls };
        while let Ok(Some(frame)) = frames.next()
            && calls.len() < CALLS_LIMIT
        {
            let name = frame.function.as_ref().and_then(|name| name.raw_name().ok());
            let (file, line) = frame.location.map_or((None, None), |l| (l.file, l.line));
            let is_whole = name.as_ref().is_some_and(|name| is_mangled(name));
            calls.push(Call {
                is_whole,
                function: name.map(|name| names.functions.get(name.as_bytes(), demangle)),
                file: file.map(|file| names.files.get(file.as_bytes(), |_| printable(file))),
                line,
            });
        }
        calls
    }
}

fn load(
    source: &Source,
    elf: &Elf<'_>,
    around: &Surroundings,
    meter: &Arc<Meter>,
    wanted: impl Fn(gimli::SectionId) -> bool,
) -> Option<gimli::Dwarf<Reader>> {
    let load = |id: gimli::SectionId| {
        let name = wanted(id).then_some(id.name());
        let bytes = name.and_then(|name| source.named(elf, name, &around.allowance));
        let bytes = bytes.unwrap_or_default();
        meter.provide(bytes.len());
        Ok::<_, gimli::Error>(Reader::new(bytes, endian(elf), Arc::clone(meter)))
    };
    gimli::Dwarf::load(load).ok()
}

/// The order of bytes.
pub fn endian(elf: &Elf<'_>) -> RunTimeEndian {
    if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big }
}

/// Variables, macros and types are most of DWARF, and no concern of ours.
pub fn is_of_use(id: gimli::SectionId) -> bool {
    use gimli::SectionId as Id;
    matches!(
        id,
        Id::DebugAbbrev
            | Id::DebugAddr
            | Id::DebugAranges
            | Id::DebugInfo
            | Id::DebugLine
            | Id::DebugLineStr
            | Id::DebugRanges
            | Id::DebugRngLists
            | Id::DebugStr
            | Id::DebugStrOffsets
    )
}
