//! The tree of names that `mallctl` knows, found in the module; and the settings that it leads to.
//!
//! A named node is five words: 1, its name, the number of its children, these, its function.

use std::{collections::BTreeMap, ops::Range};

use crate::{Image, Moment, RegionKind, Window, counters::statistics::Value};

use super::arch::getter;

const NODE: u64 = 40;
/// No node has more children.
const MOST_CHILDREN: u64 = 200;
/// No name or value is longer.
const LONGEST: usize = 256;
/// How far from other names that of the environment variable is.
const BESIDE: u64 = 128 << 10;
/// Bytes of a module that are looked through.
const MOST_BYTES: u64 = 64 << 20;
/// Settings that say how much of something on a scale of two, and so on, are smaller than this.
const LEAST_ADDRESS: u64 = 1 << 16;

/// The tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controls {
    /// The first child, and their number.
    root: (u64, u64),
}

impl Controls {
    /// In a module.
    pub fn find(moment: &Moment<'_>, image: &Image) -> Option<Self> {
        let mut left = MOST_BYTES;
        tables(moment, image).into_iter().find_map(|range| {
            let end = range.end.min(range.start.saturating_add(left));
            left -= end.saturating_sub(range.start);
            let mut window = Window::new(moment, range.start..end, 1 << 16);
            (range.start..end.saturating_sub(NODE)).step_by(8).find_map(|at| {
                let is_root = window.word(at)? & 0xff == 1
                    && (4..MOST_CHILDREN).contains(&window.word(at + 16)?)
                    && window.word(at + 32)? == 0
                    && image.range.contains(&window.word(at + 8)?)
                    && image.range.contains(&window.word(at + 24)?);
                let root =
                    is_root.then(|| Some((window.word(at + 24)?, window.word(at + 16)?)))??;
                let own = Self { root };
                let has = |name: &str| own.child(moment, root, name).is_some();
                (has("version") && has("opt") && has("arenas")).then_some(own)
            })
        })
    }

    /// The node of that name among children.
    fn child(&self, moment: &Moment<'_>, (at, count): (u64, u64), name: &str) -> Option<u64> {
        let nodes = (0..count.min(MOST_CHILDREN)).map(|index| at + NODE * index);
        nodes.into_iter().find(|node| {
            let own = moment.word(node + 8).and_then(|at| text(moment, at));
            own.is_some_and(|own| own == name)
        })
    }

    fn children(&self, moment: &Moment<'_>, node: u64) -> Option<(u64, u64)> {
        Some((moment.word(node + 24)?, moment.word(node + 16)?))
    }

    /// The value of a name: `arenas.nhbins`.
    pub fn value(&self, moment: &Moment<'_>, image: &Image, name: &str) -> Option<Value> {
        self.of_node(moment, image, self.node(moment, name)?)
    }

    /// Where the variable of a name is.
    pub fn variable(&self, moment: &Moment<'_>, name: &str) -> Option<u64> {
        self.got(moment, self.node(moment, name)?)?.from
    }

    fn node(&self, moment: &Moment<'_>, name: &str) -> Option<u64> {
        let (mut children, mut node) = (self.root, 0);
        for part in name.split('.') {
            node = self.child(moment, children, part)?;
            children = self.children(moment, node)?;
        }
        Some(node)
    }

    /// The environment variable that has settings: builds give it a prefix. It lies among the names.
    pub fn environment(&self, moment: &Moment<'_>) -> Option<String> {
        const NAME: &[u8] = b"MALLOC_CONF\0";
        let near = moment.word(self.child(moment, self.root, "opt")? + 8)?;
        let region = moment.region(near)?.range.clone();
        let from = near.saturating_sub(BESIDE).max(region.start);
        let to = near.saturating_add(BESIDE).min(region.end);
        let bytes = moment.bytes(from, usize::try_from(to - from).ok()?)?;
        // With its prefix, not the end of another string.
        let places = bytes.windows(NAME.len()).enumerate().filter(|(_, own)| *own == NAME);
        let names = places.filter_map(|(at, _)| {
            let start = bytes[..at].iter().rposition(|byte| *byte == 0)? + 1;
            let name = str::from_utf8(&bytes[start..at + NAME.len() - 1]).ok()?;
            let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            (name.len() < LONGEST && name.chars().all(is_name)).then(|| name.to_owned())
        });
        names.min_by_key(String::len)
    }

    /// All settings that can be told.
    pub fn settings(&self, moment: &Moment<'_>, image: &Image) -> BTreeMap<String, Value> {
        let opt = self.child(moment, self.root, "opt");
        let Some((at, count)) = opt.and_then(|node| self.children(moment, node)) else {
            return BTreeMap::new();
        };
        let nodes = (0..count.min(MOST_CHILDREN)).map(|index| at + NODE * index);
        let settings = nodes.filter_map(|node| {
            let name = text(moment, moment.word(node + 8)?)?;
            Some((name, self.of_node(moment, image, node)?))
        });
        settings.collect()
    }

    fn got(&self, moment: &Moment<'_>, node: u64) -> Option<getter::Got> {
        let function = moment.word(node + 32)?;
        let is_code = moment.region(function).is_some_and(|region| region.executable);
        is_code.then(|| getter::get(moment, function))?
    }

    fn of_node(&self, moment: &Moment<'_>, image: &Image, node: u64) -> Option<Value> {
        let got = self.got(moment, node)?;
        Some(match got.bytes {
            1 => Value::Flag(got.word != 0),
            4 => Value::Number(i64::from(u32::try_from(got.word).ok()?)),
            _ if got.word >= LEAST_ADDRESS && image.range.contains(&got.word) => {
                Value::Text(text(moment, got.word)?)
            }
            _ => Value::Number(got.word.cast_signed()),
        })
    }
}

/// Where tables of addresses can lie: what the loader made read-only, right before the variables; in the
/// program itself, which may lie where it was linked to, other constants and variables too.
fn tables(moment: &Moment<'_>, image: &Image) -> Vec<Range<u64>> {
    let own = |region: &&crate::Region| {
        region.readable
            && region.kind == RegionKind::File
            && !region.executable
            && image.range.start <= region.range.start
            && region.range.end <= image.range.end
    };
    let regions = moment.regions().iter().filter(own);
    let (mut constant, variable): (Vec<_>, Vec<_>) = regions.partition(|region| !region.writable);
    constant.reverse();
    let is_program = moment.images().first().is_some_and(|first| first.range == image.range);
    if !is_program {
        let first = image.data.first().map_or(0, |data| data.start);
        constant.retain(|region| region.range.end == first);
    }
    let all = constant.into_iter().chain(variable);
    all.flat_map(|region| moment.present(&region.range)).collect()
}

/// A string of a program.
fn text(moment: &Moment<'_>, at: u64) -> Option<String> {
    let mut bytes = [0; LONGEST];
    let length = moment.read(at, &mut bytes);
    let end = bytes.get(..length)?.iter().position(|byte| *byte == 0)?;
    let bytes = bytes.get(..end)?;
    let is_plain = bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
    is_plain.then(|| String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use crate::synthetic::Synthetic;

    use super::*;

    /// Names lead to a function each, which answers its own number.
    fn memory() -> Synthetic {
        let mut memory = Synthetic::default();
        memory.region(0x40_0000..0x41_0000, RegionKind::File, "/program");
        memory.regions[0].executable = true;
        memory.region(0x41_0000..0x42_0000, RegionKind::File, "/program");
        memory.regions[1].file_offset = 0x1_0000;
        let names = ["", "version", "opt", "arenas", "narenas"];
        for (at, name) in (0x41_8000..).step_by(16).zip(names) {
            memory.write_bytes(at, name.as_bytes());
        }
        let mut node = |at: u64, name: u64, count: u64, children: u64, function: u64| {
            let words = [1, 0x41_8000 + 16 * name, count, children, function];
            (at..).step_by(8).zip(words).for_each(|(at, word)| memory.write(at, word));
        };
        node(0x41_0040, 0, 4, 0x41_1000, 0);
        node(0x41_1000, 1, 0, 0, 0x40_0000);
        node(0x41_1028, 2, 1, 0x41_2000, 0);
        node(0x41_1050, 3, 0, 0, 0);
        node(0x41_1078, 4, 0, 0, 0);
        node(0x41_2000, 4, 0, 0, 0x40_0000);
        // cmp qword [r8],4; jne over; mov dword [rcx],7; xor eax,eax; over: ret
        let code = [0x49, 0x83, 0x38, 0x04, 0x75, 0x08, 0xc7, 0x01, 7, 0, 0, 0, 0x31, 0xc0, 0xc3];
        memory.write_bytes(0x40_0000, &code);
        memory
    }

    #[test]
    fn settings_are_found_by_the_names_of_the_tree() {
        let memory = memory();
        let moment = memory.moment();
        let image = &moment.images()[0];
        let controls = Controls::find(&moment, image).unwrap();
        let settings = controls.settings(&moment, image);
        assert_eq!(settings, BTreeMap::from([("narenas".to_owned(), Value::Number(7))]));
        assert_eq!(controls.value(&moment, image, "version"), Some(Value::Number(7)));
        assert_eq!(controls.value(&moment, image, "opt.nothing"), None);
    }
}
