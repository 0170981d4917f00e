//! PHP objects by their class: a block that says it is an object, leads to a class with a name and to a table of
//! functions in a module, and has room for the properties of that class.
//!
//! Objects that begin with a part of an extension's own have another form, and are not told.

use std::collections::HashMap;

use heapattach_process::little_endian::u32_at;

use crate::{Block, Moment, RegionKind, Window, walkers};

/// What the low bits of the second half of a counted value say it is.
const KIND: u64 = 0xf;
const OBJECT: u64 = 8;
const STRING: u64 = 6;
/// Where things are in an object; its properties follow.
const CLASS: u64 = 16;
const FUNCTIONS: u64 = 24;
const PROPERTIES: u64 = 40;
/// The bytes of a property.
const PROPERTY: u64 = 16;
const MOST_PROPERTIES: u64 = 1 << 16;
/// A longer name is none.
const LONGEST: u64 = 512;
/// Where the text of a string is.
const TEXT: u64 = 24;
/// So many addresses are remembered.
const MOST: usize = 1 << 20;

/// The classes of a program.
pub(super) struct Php<'a, 'm> {
    moment: &'a Moment<'m>,
    /// By address: the least bytes of an object, and its name.
    classes: HashMap<u64, Option<(u64, String)>>,
    functions: HashMap<u64, bool>,
}

impl<'a, 'm> Php<'a, 'm> {
    /// Of a moment that has a heap of Zend's.
    pub fn find(moment: &'a Moment<'m>) -> Option<Self> {
        let (classes, functions) = (HashMap::new(), HashMap::new());
        walkers::has_zend(moment).then_some(Self { moment, classes, functions })
    }

    /// The class of the object that a block is.
    pub fn of(&mut self, window: &mut Window<'_, '_>, block: Block) -> Option<u64> {
        let room = block.size.checked_sub(PROPERTIES)?;
        let head = window.word(block.at)?;
        // One that is unused has no references; the first word of a free block is an address.
        if head >> 32 & KIND != OBJECT || head << 32 == 0 {
            return None;
        }
        let class = window.word(block.at.checked_add(CLASS)?)?;
        let functions = window.word(block.at.checked_add(FUNCTIONS)?)?;
        let properties = self.class(class)?;
        (properties <= room && self.has_functions(functions)).then_some(class)
    }

    /// The name of a class that was found.
    pub fn name_of(&self, class: u64) -> Option<&str> {
        self.classes.get(&class)?.as_ref().map(|(_, name)| name.as_str())
    }

    /// The bytes of its properties.
    fn class(&mut self, at: u64) -> Option<u64> {
        if let Some(known) = self.classes.get(&at) {
            return known.as_ref().map(|(bytes, _)| *bytes);
        }
        let found = self.look_up(at);
        let bytes = found.as_ref().map(|(bytes, _)| *bytes);
        if self.classes.len() < MOST {
            self.classes.insert(at, found);
            return bytes;
        }
        None
    }

    fn look_up(&self, at: u64) -> Option<(u64, String)> {
        self.moment.region(at).filter(|region| !region.executable && at.is_multiple_of(8))?;
        let words = self.moment.words(at, 5)?;
        let [kind, name, _, _, properties] = words.as_slice() else { return None };
        let properties = properties & u64::from(u32::MAX);
        let is_class = matches!(kind & 0xff, 1 | 2) && properties < MOST_PROPERTIES;
        is_class.then(|| Some((properties * PROPERTY, self.name(*name)?)))?
    }

    /// Text of a string that can be the name of a class; what follows a zero in that of a class without a name
    /// says where it stands.
    fn name(&self, at: u64) -> Option<String> {
        let [head, _, length] = self.moment.words(at, 3)?.try_into().ok()?;
        if head >> 32 & KIND != STRING || !(1..=LONGEST).contains(&length) {
            return None;
        }
        let text = self.moment.bytes(at.checked_add(TEXT)?, usize::try_from(length + 1).ok()?)?;
        let own = text.split(|byte| *byte == 0).next()?;
        let is_letter =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"_\\@".contains(byte) || !byte.is_ascii();
        let is_name = !own.is_empty() && own.iter().all(is_letter) && text.last() == Some(&0);
        is_name.then(|| String::from_utf8(own.to_vec()).ok())?
    }

    /// Whether a table of functions is there, of objects that begin where their blocks do.
    fn has_functions(&mut self, at: u64) -> bool {
        if let Some(known) = self.functions.get(&at) {
            return *known;
        }
        let found = self.is_table(at).unwrap_or(false);
        if self.functions.len() < MOST {
            self.functions.insert(at, found);
        }
        found
    }

    fn is_table(&self, at: u64) -> Option<bool> {
        let in_file = |at| self.moment.region(at).is_some_and(|one| one.kind == RegionKind::File);
        let in_module = self.moment.images().iter().any(|image| image.range.contains(&at));
        let is_code = |at: u64| self.moment.region(at).is_some_and(|region| region.executable);
        let bytes = self.moment.bytes(at, 8)?;
        let functions = self.moment.words(at.checked_add(8)?, 2)?;
        let is_there = at.is_multiple_of(8) && in_module && u32_at(&bytes, 0) == Some(0);
        Some(is_there && functions.iter().all(|at| in_file(*at) && is_code(*at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{State, synthetic::Synthetic};

    const MODULE: u64 = 0x40_0000;
    const HEAP: u64 = 0x80_0000;

    /// An object of a class with two properties, whose name is at 0x200.
    fn memory(name: &[u8]) -> Synthetic {
        let mut memory = Synthetic::default();
        memory.region(MODULE..MODULE + 0x1000, RegionKind::File, "/bin/php");
        memory.region(MODULE + 0x1000..MODULE + 0x2000, RegionKind::File, "/bin/php");
        memory.regions[1].executable = true;
        memory.regions[1].file_offset = 0x1000;
        memory.map(HEAP..HEAP + 0x1000);
        let words = [
            (HEAP, 1 | OBJECT << 32),
            (HEAP + CLASS, HEAP + 0x100),
            (HEAP + FUNCTIONS, MODULE + 0x100),
            (HEAP + 0x100, 2),
            (HEAP + 0x108, HEAP + 0x200),
            (HEAP + 0x120, 2),
            (HEAP + 0x200, 1 | STRING << 32),
            (HEAP + 0x210, name.len() as u64),
            (MODULE + 0x108, MODULE + 0x1100),
            (MODULE + 0x110, MODULE + 0x1200),
        ];
        words.into_iter().for_each(|(at, word)| memory.write(at, word));
        memory.write_bytes(HEAP + 0x218, name);
        memory
    }

    fn class(memory: &Synthetic, size: u64) -> Option<String> {
        let moment = memory.moment();
        let (classes, functions) = (HashMap::new(), HashMap::new());
        let mut php = Php { moment: &moment, classes, functions };
        let mut window = Window::new(&moment, 0..u64::MAX, 4096);
        let block = Block { at: HEAP, size, state: State::Used, arena: 0, class: 0 };
        let class = php.of(&mut window, block)?;
        php.name_of(class).map(str::to_owned)
    }

    #[test]
    fn an_object_has_the_class_that_it_leads_to() {
        assert_eq!(class(&memory(b"Shop\\Conn"), 80).as_deref(), Some("Shop\\Conn"));
        let nameless = memory(b"class@anonymous\0/srv/a.php:3$0");
        assert_eq!(class(&nameless, 80).as_deref(), Some("class@anonymous"));
    }

    #[test]
    fn what_is_not_quite_an_object_has_none() {
        let good = memory(b"Conn");
        assert_eq!(class(&good, 64), None, "no room for its properties");
        let wrong = [
            (HEAP, 1 | STRING << 32),
            (HEAP, OBJECT << 32),
            (HEAP + 0x100, 7),
            (HEAP + 0x120, MOST_PROPERTIES),
            (HEAP + 0x200, 1 | OBJECT << 32),
            (HEAP + 0x210, 3),
            (MODULE + 0x100, 16),
            (MODULE + 0x108, HEAP),
            (HEAP + FUNCTIONS, HEAP + 0x300),
        ];
        for (at, word) in wrong {
            let mut memory = good.clone();
            memory.write(at, word);
            assert_eq!(class(&memory, 80), None, "{at:#x}");
        }
        assert_eq!(class(&memory(b"two words"), 80), None);
    }
}
