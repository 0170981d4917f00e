//! Python objects by their type: what a block has as its `ob_type` must be a type in every respect, and the
//! block must be as long as that type says.
//!
//! `type` is the object among the variables of a module that is its own type and is named so. All other
//! types are led to it by their own types (metaclasses), and to `object` by their bases.

use std::collections::HashMap;

use crate::{Block, Moment, Window};

/// Where things are in a type object, since 3.8.
const NAME: u64 = 24;
const BASIC_SIZE: u64 = 32;
const ITEM_SIZE: u64 = 40;
const FLAGS: u64 = 168;
const BASE: u64 = 256;
/// Flags of types.
const INLINE_VALUES: u64 = 1 << 2;
const BEFORE_HEAD: u64 = 3 << 3;
const READY: u64 = 1 << 12;
const COLLECTED: u64 = 1 << 14;
const IS_INT: u64 = 1 << 24;
const IS_TUPLE: u64 = 1 << 26;
const IS_BYTES: u64 = 1 << 27;
const IS_STR: u64 = 1 << 28;
const IS_TYPE: u64 = 1 << 31;
/// What comes before an object that the garbage collector tracks.
const COLLECTOR: u64 = 16;
/// What comes before that of an object with a dictionary or weak references that are kept there.
const KEPT_BEFORE: u64 = 16;
/// A longer name is none.
const LONGEST: usize = 256;
/// So deep metaclasses and bases are followed.
const DEPTH: usize = 64;
/// So many addresses that are none are remembered.
const MOST: usize = 1 << 20;
/// What an allocator may give besides.
const ROUNDING: u64 = 32;
/// References that are certainly no address.
const FEW: u64 = 1 << 16;
/// The largest count of references: that of objects that live for ever.
const MOST_REFERENCES: u64 = 1 << 32;

/// What a type says of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Type {
    basic: u64,
    item: u64,
    flags: u64,
}

/// The types of an interpreter.
pub(super) struct Python<'a, 'm> {
    moment: &'a Moment<'m>,
    root: u64,
    known: HashMap<u64, Option<(Type, String)>>,
}

impl<'a, 'm> Python<'a, 'm> {
    /// Of the interpreter that a moment has, if it has one.
    pub fn find(moment: &'a Moment<'m>) -> Option<Self> {
        let mut python = Self { moment, root: 0, known: HashMap::new() };
        for data in moment.images().iter().flat_map(|image| &image.data) {
            let mut window = Window::new(moment, data.clone(), 1 << 20);
            for part in moment.present(data) {
                let own = (part.start.next_multiple_of(8)..part.end).step_by(8);
                for at in own {
                    if window.word(at + 8) == Some(at) && python.is_root(at) {
                        python.root = at;
                        return Some(python);
                    }
                }
            }
        }
        None
    }

    fn is_root(&self, at: u64) -> bool {
        let name = self.moment.word(at + NAME).and_then(|name| self.name(name));
        let flags = self.moment.word(at + FLAGS).unwrap_or(0);
        let wanted = READY | COLLECTED | IS_TYPE;
        name.as_deref() == Some("type")
            && flags & wanted == wanted
            && self.moment.word(at + ITEM_SIZE) == Some(40)
    }

    /// Where the type of the object in a block is, and how far behind the block's beginning the object is.
    pub fn of(&mut self, window: &mut Window<'_, '_>, block: Block) -> Option<(u64, u64)> {
        [0, COLLECTOR, COLLECTOR + KEPT_BEFORE]
            .into_iter()
            .find_map(|before| Some((self.object(window, block, before)?, before)))
    }

    /// The name of a type that was found.
    pub fn name_of(&self, kind: u64) -> Option<&str> {
        self.known.get(&kind)?.as_ref().map(|(_, name)| name.as_str())
    }

    fn object(&mut self, window: &mut Window<'_, '_>, block: Block, before: u64) -> Option<u64> {
        let rest = block.size.checked_sub(before).filter(|rest| *rest >= 16)?;
        let at = block.at.checked_add(before)?;
        let references = window.word(at)?;
        // What is kept for the next object has no references; nor has what was never finished.
        if references == 0 || references >= MOST_REFERENCES {
            return None;
        }
        if references >= FEW && self.moment.region(references).is_some() {
            return None;
        }
        let address = window.word(at.checked_add(8)?)?;
        let kind = self.kind(address)?;
        if kind.before() != before || !self.fits(window, at, rest, kind) {
            return None;
        }
        let is_linked = before == 0 || self.is_linked(window, at - COLLECTOR);
        is_linked.then_some(address)
    }

    /// Whether what comes before an object is the collector's: nothing, or links that lead back.
    fn is_linked(&self, window: &mut Window<'_, '_>, head: u64) -> bool {
        let Some((next, previous)) = window.pair(head) else { return false };
        let (next, previous) = (next & !3, previous & !3);
        match (next, previous) {
            (0, 0) => true,
            (0, _) | (_, 0) => false,
            (next, previous) => {
                next.checked_add(8)
                    .and_then(|at| self.moment.word(at))
                    .is_some_and(|word| word & !3 == head)
                    && self.moment.word(previous).is_some_and(|word| word & !3 == head)
            }
        }
    }

    /// Whether an object of this type has this length.
    fn fits(&self, window: &mut Window<'_, '_>, at: u64, rest: u64, kind: Type) -> bool {
        let count = (rest >= 24).then(|| window.word(at + 16)).flatten();
        if kind.flags & IS_STR != 0 {
            let state = (rest >= 40).then(|| window.word(at + 32)).flatten();
            let (Some(count), Some(state)) = (count, state) else { return false };
            let (is_compact, width) = (state >> 5 & 1 == 1, state >> 2 & 7);
            let own = count.checked_add(1).and_then(|count| count.checked_mul(width));
            return match is_compact {
                true => matches!(width, 1 | 2 | 4) && own.is_some_and(|own| own <= rest - 40),
                false => kind.basic <= rest,
            };
        }
        if kind.flags & (IS_TUPLE | IS_BYTES) != 0 {
            let items = count.and_then(|count| count.checked_mul(kind.item));
            let own = items.and_then(|items| items.checked_add(kind.basic));
            return own.is_some_and(|own| own <= rest);
        }
        if kind.flags & IS_INT != 0 || kind.item > 0 || kind.flags & INLINE_VALUES != 0 {
            return kind.basic <= rest;
        }
        rest.checked_sub(kind.basic).is_some_and(|more| more < ROUNDING)
    }

    /// The type at an address, if it is one.
    fn kind(&mut self, address: u64) -> Option<Type> {
        if address == 0 || !address.is_multiple_of(8) {
            return None;
        }
        if let Some(known) = self.known.get(&address) {
            return known.as_ref().map(|(kind, _)| *kind);
        }
        let found = self.look_up(address);
        let kind = found.as_ref().map(|(kind, _)| *kind);
        if self.known.len() < MOST || found.is_some() {
            self.known.insert(address, found);
        }
        kind
    }

    fn look_up(&self, address: u64) -> Option<(Type, String)> {
        self.moment.region(address).filter(|region| region.writable && !region.executable)?;
        let mut meta = self.moment.word(address.checked_add(8)?)?;
        for depth in 0.. {
            if meta == self.root {
                break;
            }
            let flags = self.moment.word(meta.checked_add(FLAGS)?)?;
            if depth == DEPTH || flags & IS_TYPE == 0 {
                return None;
            }
            meta = self.moment.word(meta.checked_add(8)?)?;
        }
        let word = |offset: u64| self.moment.word(address.checked_add(offset)?);
        let (basic, item, flags) = (word(BASIC_SIZE)?, word(ITEM_SIZE)?, word(FLAGS)?);
        let is_one = flags & READY != 0 && (16..1 << 20).contains(&basic) && item < 1 << 20;
        if !is_one || !self.has_bases(address) {
            return None;
        }
        Some((Type { basic, item, flags }, self.name(word(NAME)?)?))
    }

    /// Whether its bases end at `object`.
    fn has_bases(&self, address: u64) -> bool {
        let mut at = address;
        for _ in 0..DEPTH {
            let Some(base) = at.checked_add(BASE).and_then(|at| self.moment.word(at)) else {
                return false;
            };
            if base == 0 {
                let name = at.checked_add(NAME).and_then(|at| self.moment.word(at));
                let name = name.and_then(|name| self.name(name));
                return name.as_deref() == Some("object");
            }
            at = base;
        }
        false
    }

    fn name(&self, at: u64) -> Option<String> {
        let mut bytes = vec![0; LONGEST];
        let read = self.moment.read(at, &mut bytes);
        let end = bytes[..read].iter().position(|&byte| byte == 0).filter(|end| *end > 0)?;
        bytes.truncate(end);
        let name = String::from_utf8(bytes).ok()?;
        let is_name = |c: char| !c.is_control() && !c.is_whitespace();
        name.chars().all(is_name).then_some(name)
    }
}

impl Type {
    /// The bytes of a block that come before its object.
    fn before(self) -> u64 {
        let collector = if self.flags & COLLECTED == 0 { 0 } else { COLLECTOR };
        let kept = if self.flags & BEFORE_HEAD == 0 { 0 } else { KEPT_BEFORE };
        collector + kept
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{RegionKind, Sink, State, synthetic::Synthetic, types::ClassTally};

    const DATA: u64 = 0x7000_0000_0000;
    const TYPE: u64 = DATA + 0x100;
    const OBJECT: u64 = DATA + 0x300;
    const PLAIN: u64 = DATA + 0x500;
    const CONN: u64 = 0x5555_0000_0400;
    const HEAP: u64 = 0x5555_0000_0000;
    const NAMES: u64 = DATA + 0xf00;

    fn write_type(memory: &mut Synthetic, at: u64, place: u64, name: &[u8], words: [u64; 4]) {
        memory.write_bytes(NAMES + place, name);
        let [basic, item, flags, base] = words;
        let fields = [(0, 1), (8, TYPE), (NAME, NAMES + place), (BASIC_SIZE, basic)];
        let more = [(ITEM_SIZE, item), (FLAGS, flags), (BASE, base)];
        fields.into_iter().chain(more).for_each(|(offset, word)| memory.write(at + offset, word));
    }

    /// An object of 64 bytes with the collector's head at 0x100, one of 32 without at 0x200.
    fn memory() -> Synthetic {
        let mut memory = Synthetic::default();
        memory.region(DATA..DATA + 0x2000, RegionKind::File, "/bin/python3");
        memory.map(HEAP..HEAP + 0x1000);
        let of_types = [880, 40, READY | COLLECTED | IS_TYPE, OBJECT];
        write_type(&mut memory, TYPE, 0, b"type\0", of_types);
        write_type(&mut memory, OBJECT, 16, b"object\0", [16, 0, READY, 0]);
        write_type(&mut memory, PLAIN, 32, b"float\0", [24, 0, READY, OBJECT]);
        write_type(&mut memory, CONN, 48, b"Conn\0", [48, 0, READY | COLLECTED, OBJECT]);
        memory.write(DATA + 0x1000, HEAP + 0x100);
        memory.write(DATA + 0x1008, HEAP + 0x100);
        memory.write(HEAP + 0x100, DATA + 0x1000);
        memory.write(HEAP + 0x108, DATA + 0x1000);
        memory.write(HEAP + 0x110, 1);
        memory.write(HEAP + 0x118, CONN);
        memory.write(HEAP + 0x200, 2);
        memory.write(HEAP + 0x208, PLAIN);
        memory
    }

    fn names(memory: &Synthetic) -> Vec<String> {
        let moment = memory.moment();
        let mut tally = ClassTally::new(&moment);
        for (at, size) in [(0x100, 64), (0x200, 32)] {
            let (at, state) = (HEAP + at, State::Used);
            tally.block(Block { at, size, state, arena: 0, class: 0 });
        }
        tally.finish().into_iter().map(|row| row.name).collect()
    }

    #[test]
    fn objects_have_the_name_of_their_type() {
        assert_eq!(names(&memory()), ["Conn", "float"]);
    }

    #[test]
    fn what_is_not_an_object_in_every_respect_has_no_name() {
        // No references, an address in their place, links that do not lead back, another length, a type that
        // is not ready, one whose type is none, one without a name, one without bases.
        let wrong = [
            (HEAP + 0x110, 0),
            (HEAP + 0x110, HEAP),
            (HEAP + 0x108, HEAP + 0x200),
            (HEAP + 0x100, 0),
            (DATA + 0x1008, 8),
            (CONN + BASIC_SIZE, 8),
            (CONN + BASIC_SIZE, 56),
            (CONN + FLAGS, COLLECTED),
            (CONN + FLAGS, READY),
            (CONN + FLAGS, READY | COLLECTED | BEFORE_HEAD),
            (CONN + 8, PLAIN),
            (CONN + NAME, DATA + 0x1800),
            (CONN + BASE, CONN),
            (CONN + BASE, 0),
        ];
        for (at, word) in wrong {
            let mut memory = memory();
            memory.write(at, word);
            assert_eq!(names(&memory), ["float"], "{at:#x} {word:#x}");
        }
        let mut memory = memory();
        memory.write(TYPE + NAME, NAMES + 16);
        assert_eq!(names(&memory), [""; 0], "without `type` there is no interpreter");
    }

    proptest! {
        #[test]
        fn whatever_the_bytes_are_there_is_an_end(
            changes in prop::collection::vec((0..0x400u64, 0..4u8, any::<u64>()), 1..24),
        ) {
            let mut memory = memory();
            for (place, kind, word) in changes {
                let word = match kind {
                    0 => word,
                    1 => DATA + word % 0x2000,
                    2 => HEAP + word % 0x1000,
                    _ => u64::MAX - word % 64,
                };
                memory.write(if place < 0x200 { HEAP } else { DATA } + place * 8 % 0x1000, word);
            }
            names(&memory);
        }
    }
}
