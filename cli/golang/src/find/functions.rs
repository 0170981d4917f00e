//! The functions of a Go program: the runtime needs their names and where they begin, and so no program is
//! without them.

use std::ops::Range;

use heapattach_census::{Image, Moment, Region, RegionKind};
use heapattach_process::little_endian::{u32_at, u64_at};

/// How the table begins: since go1.20, and before.
const MAGICS: [u32; 2] = [0xffff_fff1, 0xffff_fff0];
/// Its head: a byte each of padding, then the least size of an instruction and that of a pointer.
const SIZES: [u8; 4] = [0, 0, 1, 8];
const HEAD: usize = 72;
/// So much is read at once.
const WINDOW: u64 = 1 << 20;
/// More functions no program has, nor a longer name.
const MOST: u64 = 10_000_000;
const LONGEST: usize = 512;
/// A segment that is loaded.
const LOADED: u64 = 1;
/// No function of the runtime is larger.
const LARGEST_FUNCTION: u64 = 1 << 20;

/// The functions.
#[derive(Clone, Debug)]
pub struct Functions {
    /// Where the runtime's data of the module is.
    pub module: u64,
    /// Code, from the first function to behind the last.
    pub text: Range<u64>,
    /// By function: where it begins, behind the text, where its name is, and where its head.
    all: Vec<(u32, u32, u32)>,
    names: u64,
    /// What the last is counted from, and what its own tables are.
    heads: u64,
    tables: u64,
}

/// The table of a module.
struct Table {
    at: u64,
    count: u64,
    names: u64,
    tables: u64,
    functions: u64,
}

impl Functions {
    /// Finds the table, and what tells the runtime of it.
    pub fn find(moment: &Moment<'_>, image: &Image) -> Option<Self> {
        let regions: Vec<&Region> = moment
            .regions()
            .iter()
            .filter(|region| image.range.contains(&region.range.start))
            .collect();
        let is_file = |region: &&&Region| region.kind == RegionKind::File && region.readable;
        for region in regions.iter().filter(is_file) {
            for table in tables(moment, region) {
                let data = regions.iter().filter(|region| region.readable && !region.executable);
                let module = data.filter_map(|region| module(moment, region, &table)).next();
                if let Some(functions) =
                    module.and_then(|module| Self::read(moment, &table, module))
                {
                    return Some(functions);
                }
            }
        }
        None
    }

    /// With the table that the runtime's data of the module has, whose words 22 and 23 are the text.
    fn read(moment: &Moment<'_>, table: &Table, module: u64) -> Option<Self> {
        let (start, end) = (moment.word(module + 176)?, moment.word(module + 184)?);
        let length = end.checked_sub(start).filter(|length| *length < 1 << 32)?;
        let mut all = Vec::new();
        let mut last = 0;
        for index in 0..table.count {
            let pair = moment.word(table.functions.checked_add(index * 8)?)?;
            let (begin, place) = (u32::try_from(pair & 0xffff_ffff).ok()?, pair >> 32);
            if begin < last || u64::from(begin) > length {
                return None;
            }
            last = begin;
            let head = moment.word(table.functions.checked_add(place)?)?;
            all.push((begin, u32::try_from(head >> 32).ok()?, u32::try_from(place).ok()?));
        }
        let (names, heads, tables) = (table.names, table.functions, table.tables);
        Some(Self { module, text: start..end, all, names, heads, tables })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The name of the function that has an address.
    pub fn name(&self, moment: &Moment<'_>, code: u64) -> Option<String> {
        let offset = code.checked_sub(self.text.start).filter(|_| code < self.text.end)?;
        let behind = self.all.partition_point(|(begin, ..)| u64::from(*begin) <= offset);
        let (_, name, _) = self.all.get(behind.checked_sub(1)?)?;
        name_at(moment, self.names.checked_add(u64::from(*name))?)
    }

    /// Where the function lies that has an address.
    pub fn range(&self, code: u64) -> Option<Range<u64>> {
        let offset = code.checked_sub(self.text.start).filter(|_| code < self.text.end)?;
        let behind = self.all.partition_point(|(begin, ..)| u64::from(*begin) <= offset);
        let (begin, ..) = self.all.get(behind.checked_sub(1)?)?;
        let end =
            self.all.get(behind).map_or(self.text.end, |next| self.text.start + u64::from(next.0));
        Some(self.text.start + u64::from(*begin)..end)
    }

    /// Where the function begins that has an address, where its head is, and where its tables are.
    pub(super) fn head(&self, code: u64) -> Option<(u64, u64, u64)> {
        let offset = code.checked_sub(self.text.start).filter(|_| code < self.text.end)?;
        let behind = self.all.partition_point(|(begin, ..)| u64::from(*begin) <= offset);
        let (begin, _, head) = self.all.get(behind.checked_sub(1)?)?;
        let begin = self.text.start + u64::from(*begin);
        Some((begin, self.heads.checked_add(u64::from(*head))?, self.tables))
    }

    /// Where each of the runtime's own functions lies, by name.
    pub fn of_runtime(&self, moment: &Moment<'_>, mut each: impl FnMut(String, Range<u64>)) {
        let first = u64::from_le_bytes(*b"runtime.");
        for (index, (begin, name, _)) in self.all.iter().enumerate() {
            let at = self.names.saturating_add(u64::from(*name));
            if moment.word(at) != Some(first) {
                continue;
            }
            let start = self.text.start + u64::from(*begin);
            let end = self
                .all
                .get(index + 1)
                .map_or(self.text.end, |(next, ..)| self.text.start + u64::from(*next));
            if let Some(name) = name_at(moment, at).filter(|_| end - start < LARGEST_FUNCTION) {
                each(name, start..end);
            }
        }
    }
}

/// What addresses of a module are shifted by against those of its file, by the head of the file.
pub fn bias(moment: &Moment<'_>, image: &Image) -> u64 {
    let first = image.range.start;
    let word = |offset: u64| moment.word(first.saturating_add(offset)).unwrap_or(0);
    let (headers, count) = (word(32), word(56) & 0xffff);
    for index in 0..count {
        let header = headers.saturating_add(index * 56);
        let (kind, offset) = (word(header) & 0xffff_ffff, word(header.saturating_add(8)));
        if kind == LOADED && offset == 0 {
            return first.wrapping_sub(word(header.saturating_add(16)));
        }
    }
    0
}

/// Every place in a mapping that looks like the head of a table.
fn tables(moment: &Moment<'_>, region: &Region) -> Vec<Table> {
    let mut found = Vec::new();
    let mut at = region.range.start;
    while at < region.range.end {
        let length = (region.range.end - at).min(WINDOW + HEAD as u64);
        let Some(bytes) = usize::try_from(length).ok().and_then(|length| moment.bytes(at, length))
        else {
            return found;
        };
        let window = usize::try_from(length.min(WINDOW)).unwrap_or(0);
        for start in (0..window).step_by(8) {
            let Some(head) = bytes.get(start..start + HEAD) else { break };
            let is_table = u32_at(head, 0).is_some_and(|magic| MAGICS.contains(&magic));
            if is_table && head.get(4..8) == Some(&SIZES) {
                found.extend(table(head, at + start as u64));
            }
        }
        at += WINDOW;
    }
    found
}

fn table(head: &[u8], at: u64) -> Option<Table> {
    let count = u64_at(head, 8).filter(|count| (1..MOST).contains(count))?;
    let parts: Vec<u64> = (32..72).step_by(8).map_while(|place| u64_at(head, place)).collect();
    let [names, units, files, lines, functions] = parts[..] else { return None };
    let is_order = names < units && units < files && files <= lines && lines <= functions;
    let is_near = functions < 1 << 32;
    (is_order && is_near).then(|| {
        let [names, tables, functions] = [names, lines, functions].map(|part| at + part);
        Table { at, count, names, tables, functions }
    })
}

/// Where the runtime's data of the module is: its first word leads to the table, the next to its names.
fn module(moment: &Moment<'_>, region: &Region, table: &Table) -> Option<u64> {
    let mut at = region.range.start;
    while at < region.range.end {
        let length = (region.range.end - at).min(WINDOW + 8);
        let bytes = moment.bytes(at, usize::try_from(length).ok()?)?;
        let (words, _) = bytes.as_chunks::<8>();
        let pairs = words.windows(2).map(|pair| [pair[0], pair[1]].map(u64::from_le_bytes));
        if let Some(index) = pairs.into_iter().position(|pair| pair == [table.at, table.names]) {
            return Some(at + index as u64 * 8);
        }
        at += WINDOW;
    }
    None
}

fn name_at(moment: &Moment<'_>, at: u64) -> Option<String> {
    let mut bytes = [0; LONGEST];
    let read = moment.read(at, &mut bytes);
    let text = bytes.get(..read)?.split(|byte| *byte == 0).next()?;
    let name = str::from_utf8(text).ok()?;
    let is_name = !name.is_empty() && !name.chars().any(char::is_control);
    is_name.then(|| name.to_owned())
}
