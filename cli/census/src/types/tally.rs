//! Counts blocks in use by their class, while they stream by.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{Block, Moment, Sink, State, Window};

use super::{Certainty, ClassId, Classes, Language, php::Php, python::Python};

/// So much is read at once.
const WINDOW: usize = 1 << 20;
/// The links of CPython's collector.
const LINKS: u64 = 16;

/// Blocks of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassRow {
    /// The class.
    pub name: String,
    /// Its language.
    pub language: Language,
    /// How it is known.
    pub certainty: Certainty,
    /// Blocks in use that are such an object, or begin with one.
    pub blocks: u64,
    /// Their usable bytes.
    pub bytes: u64,
}

/// The counts.
pub struct ClassTally<'a, 'm> {
    classes: Classes<'a, 'm>,
    python: Option<Python<'a, 'm>>,
    php: Option<Php<'a, 'm>>,
    /// By the address of a type.
    types: HashMap<u64, ClassId>,
    window: Window<'a, 'm>,
    /// By class.
    counts: Vec<(u64, u64)>,
    /// The block whose first word was looked at last.
    latest: Option<ClassId>,
    /// Where the links of the collector are in it.
    links: Option<u64>,
}

impl<'a, 'm> ClassTally<'a, 'm> {
    /// Of a moment.
    pub fn new(moment: &'a Moment<'m>) -> Self {
        Self {
            classes: Classes::new(moment),
            python: Python::find(moment),
            php: Php::find(moment),
            types: HashMap::new(),
            window: Window::new(moment, 0..u64::MAX, WINDOW),
            counts: Vec::new(),
            latest: None,
            links: None,
        }
    }

    /// The class of the block that came last, if it was in use and has one.
    pub fn latest(&self) -> Option<ClassId> {
        self.latest
    }

    /// Where the two words are in it that link it to others for the collector of CPython, and hold nothing.
    pub fn latest_links(&self) -> Option<u64> {
        self.links
    }

    fn python_type(&mut self, block: Block) -> Option<ClassId> {
        let python = self.python.as_mut()?;
        let (kind, head) = python.of(&mut self.window, block)?;
        self.links = head.checked_sub(LINKS).map(|before| block.at + before);
        if let Some(class) = self.types.get(&kind) {
            return Some(*class);
        }
        let class = self.classes.number(Language::Python, python.name_of(kind)?.to_owned());
        self.types.insert(kind, class);
        Some(class)
    }

    fn php_class(&mut self, block: Block) -> Option<ClassId> {
        let php = self.php.as_mut()?;
        let own = php.of(&mut self.window, block)?;
        if let Some(class) = self.types.get(&own) {
            return Some(*class);
        }
        let class = self.classes.number(Language::Php, php.name_of(own)?.to_owned());
        self.types.insert(own, class);
        Some(class)
    }

    /// The names of classes, by their numbers.
    pub fn into_names(self) -> Vec<String> {
        self.classes.into_names()
    }

    /// The classes, those of most bytes first.
    pub fn finish(self) -> Vec<ClassRow> {
        let Self { classes, counts, .. } = self;
        let counted = (0..).map(ClassId).zip(counts).filter(|(_, (blocks, _))| *blocks > 0);
        let row = |(class, (blocks, bytes)): (ClassId, (u64, u64))| ClassRow {
            name: classes.name_of(class).to_owned(),
            language: classes.language_of(class),
            certainty: Certainty::Certain,
            blocks,
            bytes,
        };
        let mut rows: Vec<ClassRow> = counted.map(row).collect();
        rows.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        rows
    }
}

impl Sink for ClassTally<'_, '_> {
    #[inline]
    fn block(&mut self, block: Block) {
        (self.latest, self.links) = (None, None);
        if block.state != State::Used || block.size < 8 {
            return;
        }
        let Some(word) = self.window.word(block.at) else { return };
        let class = self.classes.of(word).or_else(|| self.python_type(block));
        let class = class.or_else(|| self.php_class(block));
        let Some(class) = class else { return };
        self.latest = Some(class);
        let place = class.0 as usize;
        if self.counts.len() <= place {
            self.counts.resize(place + 1, (0, 0));
        }
        let count = &mut self.counts[place];
        *count = (count.0 + 1, count.1 + block.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RegionKind, synthetic::Synthetic};

    const MODULE: u64 = 0x40_0000;
    const HEAP: u64 = 0x80_0000;

    /// A module with a table at 0x100 of a class that is named at 0x300.
    fn memory(offset: u64, name: &[u8]) -> Synthetic {
        let mut memory = Synthetic::default();
        memory.region(MODULE..MODULE + 0x1000, RegionKind::File, "/bin/app");
        memory.region(MODULE + 0x1000..MODULE + 0x2000, RegionKind::File, "/bin/app");
        memory.regions[1].executable = true;
        memory.regions[1].file_offset = 0x1000;
        memory.map(HEAP..HEAP + 0x1000);
        memory.write(MODULE + 0xf0, offset);
        memory.write(MODULE + 0xf8, MODULE + 0x200);
        memory.write(MODULE + 0x100, MODULE + 0x1100);
        memory.write(MODULE + 0x200, MODULE + 0x400);
        memory.write(MODULE + 0x208, MODULE + 0x300);
        memory.write_bytes(MODULE + 0x300, name);
        memory.write(HEAP + 0x10, MODULE + 0x100);
        memory.write(HEAP + 0x50, MODULE + 0x108);
        memory
    }

    fn rows(memory: &Synthetic) -> Vec<ClassRow> {
        let moment = memory.moment();
        let mut tally = ClassTally::new(&moment);
        for (at, state) in [(0x10, State::Used), (0x50, State::Used), (0x10, State::Free)] {
            tally.block(Block { at: HEAP + at, size: 40, state, arena: 0, class: 0 });
        }
        tally.finish()
    }

    #[test]
    fn an_object_in_use_has_the_class_that_its_table_names() {
        let name = "Shape".to_owned();
        let language = Language::Cpp;
        let certainty = Certainty::Certain;
        let expected = [ClassRow { name, language, certainty, blocks: 1, bytes: 40 }];
        assert_eq!(rows(&memory(0, b"5Shape\0")), expected);
    }

    #[test]
    fn what_is_not_quite_a_table_names_nothing() {
        // A part of a larger object, a word that is no name, a name that no compiler writes.
        for (offset, name) in
            [(!7, &b"5Shape\0"[..]), (0, b"hello, world\0"), (0, b"5Sh\0"), (0, b"\0")]
        {
            assert_eq!(rows(&memory(offset, name)), [], "{name:?}");
        }
    }
}
