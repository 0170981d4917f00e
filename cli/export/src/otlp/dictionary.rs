//! The dictionary of a request: tables whose entries are told once, however many refer to them.
//!
//! The entry 0 of each is empty, and stands for nothing: a field that is missing refers to it.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use crate::pprof::protobuf::Message;

/// The tables, by the number of their field.
#[derive(Default)]
pub struct Dictionary {
    mappings: Table,
    locations: Table,
    functions: Table,
    links: Table,
    texts: Table,
    attributes: Table,
    stacks: Table,
}

/// Entries as they are written, in the order in which they came; the empty one is always there.
///
/// There may be a million stacks: all entries lie in one piece, and what is looked up is their hash.
#[derive(Default)]
struct Table {
    bytes: Vec<u8>,
    /// Where each entry ends, and which one before it has the same hash; 0 is none.
    entries: Vec<(usize, u32)>,
    /// By hash, the last entry that has it.
    last: HashMap<u64, u32>,
    hasher: RandomState,
}

impl Table {
    fn index(&mut self, entry: &[u8]) -> u64 {
        if entry.is_empty() {
            return 0;
        }
        let next = u32::try_from(self.entries.len() + 1).unwrap_or(u32::MAX);
        let last = self.last.entry(self.hasher.hash_one(entry)).or_insert(0);
        let mut known = *last;
        while let Some(at) = known.checked_sub(1) {
            let (end, before) = self.entries[at as usize];
            let begin = at.checked_sub(1).map_or(0, |at| self.entries[at as usize].0);
            if self.bytes[begin..end] == *entry {
                return known.into();
            }
            known = before;
        }
        self.bytes.extend_from_slice(entry);
        self.entries.push((self.bytes.len(), *last));
        *last = next;
        next.into()
    }

    fn put(self, field: u64, out: &mut Message) {
        let Self { bytes, entries, last, .. } = self;
        drop(last);
        out.bytes(field, &[]);
        let mut begin = 0;
        for (end, _) in entries {
            out.bytes(field, &bytes[begin..end]);
            begin = end;
        }
    }
}

impl Dictionary {
    /// A text.
    pub fn text(&mut self, text: &str) -> u64 {
        self.texts.index(text.as_bytes())
    }

    /// An attribute without a unit.
    pub fn attribute(&mut self, key: &str, value: &Message) -> u64 {
        let mut attribute = Message::default();
        attribute.number(1, self.text(key));
        attribute.message(2, value);
        self.attributes.index(attribute.as_bytes())
    }

    /// A mapping.
    pub fn mapping(&mut self, mapping: &Message) -> u64 {
        self.mappings.index(mapping.as_bytes())
    }

    /// A location.
    pub fn location(&mut self, location: &Message) -> u64 {
        self.locations.index(location.as_bytes())
    }

    /// A function.
    pub fn function(&mut self, function: &Message) -> u64 {
        self.functions.index(function.as_bytes())
    }

    /// A stack.
    pub fn stack(&mut self, stack: &Message) -> u64 {
        self.stacks.index(stack.as_bytes())
    }

    /// All of it.
    pub fn finish(self) -> Message {
        let mut all = Message::default();
        self.mappings.put(1, &mut all);
        self.locations.put(2, &mut all);
        self.functions.put(3, &mut all);
        self.links.put(4, &mut all);
        self.texts.put(5, &mut all);
        self.attributes.put(6, &mut all);
        self.stacks.put(7, &mut all);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_one_number_and_entries_come_in_their_order() {
        let mut table = Table::default();
        let told = ["b", "", "a", "b", "ba", "a"].map(|entry| table.index(entry.as_bytes()));
        assert_eq!(told, [1, 0, 2, 1, 3, 2]);
        let mut out = Message::default();
        table.put(1, &mut out);
        assert_eq!(out.as_bytes(), b"\x0a\0\x0a\x01b\x0a\x01a\x0a\x02ba");
    }
}
