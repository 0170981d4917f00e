//! The dictionary of a request: tables whose entries are told once, however many refer to them.
//!
//! The entry 0 of each is empty, and stands for nothing: a field that is missing refers to it.

use std::collections::HashMap;

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
#[derive(Default)]
struct Table(HashMap<Vec<u8>, u64>);

impl Table {
    fn index(&mut self, entry: Vec<u8>) -> u64 {
        if entry.is_empty() {
            return 0;
        }
        let next = self.0.len() as u64 + 1;
        *self.0.entry(entry).or_insert(next)
    }

    fn put(self, field: u64, out: &mut Message) {
        let mut entries: Vec<_> = self.0.into_iter().collect();
        entries.sort_unstable_by_key(|(_, index)| *index);
        out.bytes(field, &[]);
        entries.iter().for_each(|(entry, _)| out.bytes(field, entry));
    }
}

impl Dictionary {
    /// A text.
    pub fn text(&mut self, text: &str) -> u64 {
        self.texts.index(text.as_bytes().to_vec())
    }

    /// An attribute without a unit.
    pub fn attribute(&mut self, key: &str, value: &Message) -> u64 {
        let mut attribute = Message::default();
        attribute.number(1, self.text(key));
        attribute.message(2, value);
        self.attributes.index(attribute.into_bytes())
    }

    /// A mapping.
    pub fn mapping(&mut self, mapping: Message) -> u64 {
        self.mappings.index(mapping.into_bytes())
    }

    /// A location.
    pub fn location(&mut self, location: Message) -> u64 {
        self.locations.index(location.into_bytes())
    }

    /// A function.
    pub fn function(&mut self, function: Message) -> u64 {
        self.functions.index(function.into_bytes())
    }

    /// A stack.
    pub fn stack(&mut self, stack: Message) -> u64 {
        self.stacks.index(stack.into_bytes())
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
