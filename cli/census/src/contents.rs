//! The first bytes of blocks, as far as they can be printed: a hint at what blocks are that say no class. Contents are
//! private: nothing asks for them unless the user does.

use std::{cmp::Reverse, collections::HashMap};

use serde::{Deserialize, Serialize};

use crate::{
    Block, Moment, Sink, State, Walker,
    types::{ClassId, ClassTally},
};

/// Bytes that are told of a block, at most.
pub const MOST: usize = 256;
/// Groups that are told, and blocks of each.
const ROWS: usize = 30;
const EACH: usize = 3;
/// Groups that are kept.
const MOST_GROUPS: usize = 1 << 16;

/// Blocks of one class and size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentsRow {
    /// The class, if they say it.
    pub class: Option<String>,
    /// Usable bytes of each.
    pub size: u64,
    /// They.
    pub blocks: u64,
    /// How some of them begin, those with the lowest addresses.
    pub heads: Vec<String>,
}

/// The first `length` bytes at an address: what cannot be printed is a dot. None if they cannot be read.
pub fn head(moment: &Moment<'_>, at: u64, size: u64, length: usize) -> Option<String> {
    let length = length.min(MOST).min(usize::try_from(size).unwrap_or(MOST));
    let mut bytes = vec![0; length];
    let read = moment.read(at, &mut bytes);
    bytes.truncate(read);
    let print = |byte: &u8| match byte {
        0x20..0x7f => char::from(*byte),
        _ => '.',
    };
    (read > 0).then(|| bytes.iter().map(print).collect())
}

/// How blocks in use begin, of the classes and sizes that have most bytes and of which `counts` says so.
pub fn look(
    moment: &Moment<'_>,
    walkers: &[&dyn Walker],
    length: usize,
    counts: &dyn Fn(Option<&str>, u64) -> bool,
) -> Vec<ContentsRow> {
    let mut groups = Groups { types: ClassTally::new(moment), groups: HashMap::new() };
    for walker in walkers {
        walker.walk(moment, &mut groups);
    }
    let Groups { types, groups } = groups;
    let names = types.into_names();
    let name = |class: ClassId| names.get(usize::try_from(class.0).ok()?).cloned();
    let mut rows: Vec<_> = groups
        .into_iter()
        .map(|((class, size), (blocks, first))| (class.and_then(name), size, blocks, first))
        .filter(|(class, size, ..)| counts(class.as_deref(), *size))
        .collect();
    rows.sort_by(|a, b| {
        let bytes = |row: &(_, u64, u64, _)| Reverse(row.1.saturating_mul(row.2));
        bytes(a).cmp(&bytes(b)).then_with(|| (a.1, &a.0).cmp(&(b.1, &b.0)))
    });
    rows.truncate(ROWS);
    let row = |(class, size, blocks, first): (_, u64, u64, Vec<u64>)| ContentsRow {
        class,
        size,
        blocks,
        heads: first.iter().filter_map(|&at| head(moment, at, size, length)).collect(),
    };
    rows.into_iter().map(row).collect()
}

/// How many blocks, and where the first ones are.
type Group = (u64, Vec<u64>);

struct Groups<'a, 'm> {
    types: ClassTally<'a, 'm>,
    groups: HashMap<(Option<ClassId>, u64), Group>,
}

impl Sink for Groups<'_, '_> {
    fn block(&mut self, block: Block) {
        if block.state != State::Used || block.size == 0 {
            return;
        }
        self.types.block(block);
        let key = (self.types.latest(), block.size);
        if self.groups.len() < MOST_GROUPS || self.groups.contains_key(&key) {
            let (blocks, first) = self.groups.entry(key).or_default();
            *blocks += 1;
            if first.len() < EACH {
                first.push(block.at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    #[test]
    fn a_head_is_as_long_as_asked_and_no_longer_than_its_block() {
        let mut memory = Synthetic::default();
        memory.map(0x10000..0x20000);
        memory.write_bytes(0x10010, b"GET /index\x1b[2J\xff\0");
        let moment = memory.moment();
        assert_eq!(head(&moment, 0x10010, 64, 16).as_deref(), Some("GET /index.[2J.."));
        assert_eq!(head(&moment, 0x10010, 3, 16).as_deref(), Some("GET"));
        assert_eq!(head(&moment, 0x10010, 1 << 20, 1 << 20).map(|head| head.len()), Some(MOST));
        assert_eq!(head(&moment, 0x30000, 64, 16), None);
    }
}
