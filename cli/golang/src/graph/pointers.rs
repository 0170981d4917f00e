//! Which words of an object are pointers: by the bitmap at the end of its span, by the type before or beside
//! it, or, before go1.22, by the bitmap of its arena.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use heapattach_census::Moment;
use heapattach_process::little_endian::u64_at;

use super::{
    layout::{Field, Layout, Variables},
    span::{PAGE, Span},
    types::{Descriptor, Types},
};

/// Objects up to this size have their bits at the end of the span.
const IN_SPAN: u64 = 512;
/// Bytes of such bits a page, and of mark bits that can lie behind them.
const BITS_A_PAGE: u64 = PAGE / 64;
const INLINE_MARKS: u64 = 128;
/// Below, mark bits are never there.
const LEAST_MARKED: u64 = 16;
const ARENA: u64 = 64 << 20;
/// The runtime counts arenas from here.
const ARENA_BASE: u64 = 1 << 47;

/// Where the pointers of a heap are told.
pub struct Pointers<'a, 'm> {
    moment: &'a Moment<'m>,
    types: &'a Types<'a, 'm>,
    way: Way,
    inline_marks: Option<Field>,
    /// The first level of the table of arenas.
    arenas: u64,
    maps: RefCell<HashMap<u64, Rc<ArenaMap>>>,
}

/// How the runtime tells them.
enum Way {
    /// Two bits a word, to go1.19.
    TwoBits(Field),
    /// A bit a word, and where there are no more; go1.20 and go1.21.
    OneBit(Field, Field),
    /// By span and type, from go1.22 on.
    Typed,
}

/// The bitmap of an arena.
#[derive(Debug, Default)]
struct ArenaMap {
    bits: Vec<u8>,
    ends: Vec<u8>,
}

/// Where an object's pointers are told by a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The type.
    pub of: u64,
    /// Where the first value of it begins in the object.
    pub from: u64,
}

impl<'a, 'm> Pointers<'a, 'm> {
    /// Of a moment.
    pub fn new(
        moment: &'a Moment<'m>,
        types: &'a Types<'a, 'm>,
        layout: &Layout,
        variables: &Variables,
    ) -> Option<Self> {
        let span = &layout.span;
        let way = match (layout.minor, span.bitmap, span.no_more_pointers) {
            (22.., _, _) => Way::Typed,
            (20 | 21, Some(bits), Some(ends)) => Way::OneBit(bits, ends),
            (..=19, Some(bits), _) => Way::TwoBits(bits),
            _ => return None,
        };
        let arenas = moment.word(span.arenas.place(variables.mheap))?;
        let maps = RefCell::default();
        Some(Self { moment, types, way, inline_marks: span.inline_marks, arenas, maps })
    }

    /// How the objects of a span are told, whose bytes these are.
    pub fn of_span(&self, span: &Span) -> SpanPointers {
        match self.way {
            Way::Typed if span.size <= IN_SPAN => {
                let marks = if self.has_marks(span) { INLINE_MARKS } else { 0 };
                let bits = span.pages * (PAGE - BITS_A_PAGE) - marks;
                SpanPointers::Bits(bits)
            }
            Way::Typed if span.class != 0 => SpanPointers::Head,
            Way::Typed => SpanPointers::Large(span.large_type),
            Way::OneBit(..) | Way::TwoBits(_) => SpanPointers::Arena,
        }
    }

    fn has_marks(&self, span: &Span) -> bool {
        let Some(field) = self.inline_marks.filter(|_| span.size >= LEAST_MARKED) else {
            return false;
        };
        let page = span.base / PAGE % (ARENA / PAGE);
        let bits = self.arena(span.base).and_then(|arena| {
            let at = field.place(arena) + page / 64 * 8;
            self.moment.word(at)
        });
        bits.is_some_and(|bits| bits >> (page % 64) & 1 != 0)
    }

    /// The runtime's own structure of an arena.
    fn arena(&self, at: u64) -> Option<u64> {
        let index = at.wrapping_add(ARENA_BASE) / ARENA;
        self.moment.word(self.arenas.checked_add(index.checked_mul(8)?)?)
    }

    /// Tells each pointer word of an object: its number. `bytes` are the whole span's.
    #[inline]
    pub fn each(
        &self,
        span: &Span,
        how: SpanPointers,
        bytes: &[u8],
        slot: u32,
        mut each: impl FnMut(u64),
    ) {
        let words = span.size / 8;
        match how {
            SpanPointers::Bits(at) => {
                let first = u64::from(slot) * words;
                let mut done = 0;
                while done < words {
                    let word = first + done;
                    let place = at + word / 64 * 8;
                    let bits = place_of(place).and_then(|place| u64_at(bytes, place)).unwrap_or(0);
                    let here = (64 - word % 64).min(words - done);
                    let mut bits = bits >> (word % 64);
                    if here < 64 {
                        bits &= (1 << here) - 1;
                    }
                    while bits != 0 {
                        each(done + u64::from(bits.trailing_zeros()));
                        bits &= bits - 1;
                    }
                    done += here;
                }
            }
            SpanPointers::Head | SpanPointers::Large(_) => {
                let Some(typed) = self.typed(span, how, bytes, slot) else { return };
                match self.types.get(typed.of).and_then(|of| self.types.mask(&of)) {
                    Some(mask) => {
                        mask.words(span.size - typed.from, |word| each(word + typed.from / 8));
                    }
                    // What cannot be told may be anything.
                    None => (typed.from / 8..words).for_each(each),
                }
            }
            SpanPointers::Arena => self.by_arena(span.place(slot), words, each),
        }
    }

    /// The type that an object's pointers are told by, if there is one. The object may be an array of it.
    pub fn typed(&self, span: &Span, how: SpanPointers, bytes: &[u8], slot: u32) -> Option<Typed> {
        let (of, from) = match how {
            SpanPointers::Head => {
                let at = usize::try_from(u64::from(slot) * span.size).ok()?;
                (u64_at(bytes, at)?, 8)
            }
            SpanPointers::Large(of) => (of, 0),
            SpanPointers::Bits(_) | SpanPointers::Arena => return None,
        };
        (of != 0).then_some(Typed { of, from })
    }

    fn by_arena(&self, at: u64, words: u64, mut each: impl FnMut(u64)) {
        let mut map = (u64::MAX, Rc::default());
        for word in 0..words {
            let place = at + word * 8;
            if map.0 != place / ARENA {
                map = (place / ARENA, self.map(place));
            }
            let bit = place / 8 % (ARENA / 8);
            match self.way {
                Way::TwoBits(_) => {
                    let bits = byte(&map.1.bits, bit / 4) >> (bit % 4);
                    if bits & 16 == 0 {
                        break;
                    }
                    if bits & 1 != 0 {
                        each(word);
                    }
                }
                _ => {
                    if byte(&map.1.bits, bit / 8) >> (bit % 8) & 1 != 0 {
                        each(word);
                    }
                    let group = bit / 64;
                    let is_last = byte(&map.1.ends, group / 8) >> (group % 8) & 1 != 0;
                    if bit % 64 == 63 && is_last {
                        break;
                    }
                }
            }
        }
    }

    fn map(&self, at: u64) -> Rc<ArenaMap> {
        let number = at / ARENA;
        if let Some(known) = self.maps.borrow().get(&number) {
            return Rc::clone(known);
        }
        let part = |field: Field| {
            let place = field.place(self.arena(at)?);
            self.moment.bytes(place, usize::try_from(field.size).ok()?)
        };
        let map = match self.way {
            Way::TwoBits(bits) => {
                ArenaMap { bits: part(bits).unwrap_or_default(), ends: Vec::new() }
            }
            Way::OneBit(bits, ends) => {
                let bits = part(bits).unwrap_or_default();
                ArenaMap { bits, ends: part(ends).unwrap_or_default() }
            }
            Way::Typed => ArenaMap::default(),
        };
        let map = Rc::new(map);
        self.maps.borrow_mut().insert(number, Rc::clone(&map));
        map
    }

    /// The types.
    pub fn type_of(&self, at: u64) -> Option<Descriptor> {
        self.types.get(at)
    }
}

/// How the objects of a span are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanPointers {
    /// By bits that lie so far behind its beginning.
    Bits(u64),
    /// By a type in the first word of each.
    Head,
    /// By this type.
    Large(u64),
    /// By the bitmap of the arena.
    Arena,
}

fn byte(bytes: &[u8], at: u64) -> u8 {
    place_of(at).and_then(|at| bytes.get(at)).copied().unwrap_or(0)
}

fn place_of(at: u64) -> Option<usize> {
    usize::try_from(at).ok()
}
