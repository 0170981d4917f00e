//! The types of objects: where memory itself tells one, and from there on by what the types say of their
//! pointers. A type that does not agree with the size of the object, or with whether it has pointers, is
//! not believed.

mod by_code;

use heapattach_census::Moment;

use super::{
    class::object_size,
    heap::{Heap, Object, index},
    quick_hash::QuickMap,
    references::{Edge, References, Seed, SeedKind},
    site::{SiteType, Stated},
    span::Span,
    types::{Descriptor, Kind, Slot, Types, What},
};

/// Where the runtime's own structures keep their pointers, in bytes.
const MAP_TABLES: u64 = 16;
const MAP_TABLE_COUNT: u64 = 24;
const TABLE_GROUPS: u64 = 16;
const OLD_BUCKETS: u64 = 24;
const CHAN_BUFFER: u64 = 16;
/// The first release whose maps are tables of groups.
const SWISS: u32 = 24;
/// Small values without pointers share a block of this size.
const TINY: u64 = 16;
/// Different kinds of objects that are told apart.
const MOST_KINDS: usize = 1 << 22;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// One value.
    Value,
    /// Values one behind the other.
    Array,
    /// The bytes of a string.
    Text,
    /// Several small values without pointers.
    Tiny,
    /// The head of a map.
    Map,
    /// Its tables, from go1.24 on.
    Tables,
    /// One of them.
    Table,
    /// What has its keys and values.
    Groups,
    /// A channel.
    Chan,
    /// A function with what it closes over.
    Closure,
}

/// What an object is, and of which type; 0 where that is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectType {
    /// What.
    pub shape: Shape,
    /// The type: of a map, its own.
    pub of: u64,
}

/// The types of all objects.
pub struct Typing {
    /// By object: the number of its kind, or 0.
    own: Vec<u32>,
    kinds: Vec<ObjectType>,
    minor: u32,
}

fn head(span: &Span, minor: u32) -> u64 {
    let has_head = minor >= 22 && span.size > 512 && span.class != 0 && !span.is_plain;
    if has_head { 8 } else { 0 }
}

struct Spread<'a, 'm> {
    moment: &'a Moment<'m>,
    heap: &'a Heap,
    references: &'a References,
    types: &'a Types<'a, 'm>,
    minor: u32,
    typing: Typing,
    numbers: QuickMap<ObjectType, u32>,
    queue: Vec<Object>,
    closures: Vec<Object>,
    /// The type whose values the directory of a map has, once it was seen.
    table_pointer: Option<u64>,
    /// The last type that was found to be another.
    other: u64,
}

/// What is known besides.
pub struct Known<'k> {
    /// What variables lead to whose types are known.
    pub variables: &'k [(Object, Slot)],
    /// What the code states that allocated objects.
    pub stated: &'k dyn Fn() -> Vec<(Object, SiteType)>,
    /// What variables of functions lead to: a pointer into the beginning of a larger object looks like one to it.
    pub on_stacks: &'k [(Object, Slot)],
    /// What variables lead to, and where they lie.
    pub lead: &'k [(Object, u64)],
    /// What the code states that sets variables, and makes closures.
    pub set: &'k dyn Fn(&[u64]) -> Stated,
}

impl Typing {
    /// Finds them, from what memory tells and from variables whose types are known; for the rest, from what the code
    /// states of sampled objects.
    pub fn of<'m>(
        moment: &Moment<'m>,
        heap: &Heap,
        references: &References,
        types: &Types<'_, 'm>,
        seeds: &[Seed],
        known: &Known<'_>,
        minor: u32,
    ) -> Self {
        let typing = Self { own: vec![0; heap.slots()], kinds: Vec::new(), minor };
        let (numbers, queue, closures, table_pointer, other) = Default::default();
        let mut spread = Spread {
            moment,
            heap,
            references,
            types,
            minor,
            typing,
            numbers,
            queue,
            closures,
            table_pointer,
            other,
        };
        let is_head = |seed: &&Seed| matches!(seed.by, SeedKind::Head(_));
        let mut directories = Vec::new();
        for seed in references.seeds.iter().filter(is_head) {
            match spread.is_table_pointer(seed.of) {
                true => directories.push(*seed),
                false => spread.seed(seed),
            }
        }
        let others = references.seeds.iter().chain(seeds).filter(|seed| !is_head(seed));
        others.for_each(|seed| spread.seed(seed));
        known.variables.iter().for_each(|(object, slot)| spread.lead(*object, slot));
        spread.follow();
        (known.stated)().into_iter().for_each(|(object, of)| spread.state(object, of));
        spread.follow();
        spread.by_code(known);
        known.on_stacks.iter().for_each(|(object, slot)| spread.lead(*object, slot));
        spread.follow();
        // Of maps that nothing with a type leads to.
        directories.iter().for_each(|seed| spread.seed(seed));
        spread.follow();
        spread.typing
    }

    /// What an object is.
    pub fn get(&self, object: Object) -> Option<ObjectType> {
        let number = self.own.get(index(object))?;
        self.kinds.get(index(*number).checked_sub(1)?).copied()
    }

    /// The number of what an object is; those of one kind have the same, 0 is unknown.
    pub fn number(&self, object: Object) -> u32 {
        self.own.get(index(object)).copied().unwrap_or(0)
    }

    /// What has that number.
    pub fn kind(&self, number: u32) -> Option<ObjectType> {
        self.kinds.get(index(number).checked_sub(1)?).copied()
    }

    /// Bytes of an object before its value: the type that the runtime notes there.
    pub fn head(&self, span: &Span) -> u64 {
        head(span, self.minor)
    }

    /// How many there are.
    pub fn kinds(&self) -> usize {
        self.kinds.len()
    }
}

impl Spread<'_, '_> {
    /// What the types that were found lead to.
    fn follow(&mut self) {
        while let Some(object) = self.queue.pop() {
            let Some(kind) = self.typing.get(object) else { continue };
            let references = self.references;
            match kind.shape {
                Shape::Value | Shape::Array => self.values(object, kind.of),
                Shape::Map => self.map(object, kind.of),
                Shape::Tables => {
                    for edge in references.edges(object) {
                        self.assign(*edge, ObjectType { shape: Shape::Table, of: kind.of });
                    }
                }
                Shape::Table => self.groups_at(object, TABLE_GROUPS, kind.of),
                Shape::Groups => self.groups(object, kind.of),
                Shape::Chan => {
                    for edge in references.edges(object) {
                        if edge.offset() == CHAN_BUFFER
                            && let Some(of) =
                                self.types.get(kind.of).and_then(|of| self.types.element(&of))
                        {
                            self.assign(*edge, ObjectType { shape: Shape::Array, of: of.at });
                        }
                    }
                }
                Shape::Closure => self.closures.push(object),
                Shape::Text | Shape::Tiny => {}
            }
        }
    }

    /// The code that allocated an object states its type.
    fn state(&mut self, object: Object, of: SiteType) {
        let (what, of) = match of {
            SiteType::Value(of) => (What::One, of),
            SiteType::Array(of) => (What::Many, of),
            SiteType::Text => (What::Text, 0),
            // Heads, tables and buffers are told apart by what leads to them.
            SiteType::Map(_)
            | SiteType::Chan(_)
            | SiteType::Bytes
            | SiteType::Runes
            | SiteType::String
            | SiteType::Slice
            | SiteType::Number => return,
        };
        self.lead(object, &Slot { offset: 0, what, of });
    }

    fn seed(&mut self, seed: &Seed) {
        let Some(of) = self.types.get(seed.of) else { return };
        match seed.by {
            SeedKind::Head(from) => {
                let room = self.heap.span_of(seed.object).size - u64::from(from);
                let is_one = of.size * 2 > room;
                let shape = if is_one { Shape::Value } else { Shape::Array };
                self.set(seed.object, ObjectType { shape, of: of.at });
            }
            SeedKind::Interface => self.of_interface(seed.object, &of),
        }
    }

    /// An interface that has a value of a type leads to an object.
    fn of_interface(&mut self, object: Object, of: &Descriptor) {
        if !of.is_direct {
            return self.value(object, of);
        }
        // It has the value itself, which is a pointer.
        let flat = self.types.flat(of);
        if let [slot] = &flat.slots[..]
            && slot.what != What::Held
        {
            self.lead(object, slot);
        }
    }

    /// A pointer of a known kind leads to an object.
    fn lead(&mut self, object: Object, slot: &Slot) {
        let of = || self.types.get(slot.of);
        match slot.what {
            What::One => {
                if let Some(of) = of() {
                    self.value(object, &of);
                }
            }
            What::Many => {
                if let Some(of) = of().filter(|of| self.is_array(object, of)) {
                    self.set(object, ObjectType { shape: Shape::Array, of: of.at });
                }
            }
            What::Text if self.heap.span_of(object).is_plain => {
                self.set(object, ObjectType { shape: Shape::Text, of: 0 });
            }
            What::Map => self.set(object, ObjectType { shape: Shape::Map, of: slot.of }),
            What::Chan => self.set(object, ObjectType { shape: Shape::Chan, of: slot.of }),
            What::Func => self.set(object, ObjectType { shape: Shape::Closure, of: slot.of }),
            What::Held => {
                if let Some(of) = of() {
                    self.of_interface(object, &of);
                }
            }
            What::Text | What::Unknown => {}
        }
    }

    fn value(&mut self, object: Object, of: &Descriptor) {
        let span = self.heap.span_of(object);
        let has_pointers = of.pointer_bytes > 0;
        if has_pointers == span.is_plain || of.size == 0 {
            return;
        }
        if !has_pointers && of.size < TINY && span.size == TINY {
            self.set(object, ObjectType { shape: Shape::Tiny, of: 0 });
        } else if object_size(of.size, has_pointers, self.minor >= 22) == span.size {
            self.set(object, ObjectType { shape: Shape::Value, of: of.at });
        }
    }

    fn is_array(&self, object: Object, of: &Descriptor) -> bool {
        let span = self.heap.span_of(object);
        (of.pointer_bytes > 0) != span.is_plain && of.size > 0 && of.size <= span.size
    }

    fn assign(&mut self, edge: Edge, kind: ObjectType) {
        if edge.is_to_start() {
            self.set(edge.target, kind);
        }
    }

    fn set(&mut self, object: Object, kind: ObjectType) {
        if self.typing.number(object) != 0 || !self.heap.is_allocated(object) {
            return;
        }
        let next = u32::try_from(self.typing.kinds.len() + 1).unwrap_or(0);
        let number = *self.numbers.entry(kind).or_insert(next);
        if number == next {
            if self.typing.kinds.len() >= MOST_KINDS {
                return;
            }
            self.typing.kinds.push(kind);
        }
        self.typing.own[index(object)] = number;
        self.queue.push(object);
    }

    /// What the values of an object lead to.
    fn values(&mut self, object: Object, of: u64) {
        let Some(of) = self.types.get(of).filter(|of| of.size > 0) else { return };
        let flat = self.types.flat(&of);
        if flat.slots.is_empty() {
            return;
        }
        let span = self.heap.span_of(object);
        let from = head(span, self.minor);
        let references = self.references;
        for edge in references.edges(object).iter().filter(|edge| edge.is_to_start()) {
            let Some(offset) = edge.offset().checked_sub(from) else { continue };
            if let Some(slot) = flat.at(offset % of.size) {
                self.lead(edge.target, slot);
                if self.typing.number(edge.target) == 0 && self.is_node(slot) {
                    self.value(edge.target, &of);
                }
            }
        }
    }

    /// Whether it leads to what begins like a node of a `sync.Map`, from go1.24 on: an inner node, as the one that has it,
    /// or an entry, which is smaller.
    fn is_node(&self, slot: &Slot) -> bool {
        let name = || self.types.name(&self.types.get(slot.of)?);
        slot.what == What::One && name().is_some_and(|name| name.starts_with("sync.node["))
    }

    /// What the head of a map leads to.
    fn map(&mut self, object: Object, of: u64) {
        if self.minor < SWISS {
            self.groups_at(object, MAP_TABLES, of);
            return self.groups_at(object, OLD_BUCKETS, of);
        }
        let count = self.heap.place(object).checked_add(MAP_TABLE_COUNT);
        match count.and_then(|at| self.moment.word(at)) {
            Some(0) => self.groups_at(object, MAP_TABLES, of),
            Some(_) => {
                for edge in self.references.edges(object) {
                    if edge.offset() == MAP_TABLES && self.is_to_value(object, *edge) {
                        self.set(edge.target, ObjectType { shape: Shape::Tables, of });
                    }
                }
            }
            None => {}
        }
    }

    /// Whether an edge leads to where the value of an object begins, which may have its type before it.
    fn is_to_value(&self, object: Object, edge: Edge) -> bool {
        let word = self.heap.place(object).checked_add(edge.offset());
        let word = word.and_then(|at| self.moment.word(at));
        let begin = self.heap.place(edge.target);
        word == Some(begin + head(self.heap.span_of(edge.target), self.minor))
    }

    /// Whether it is what the directory of a map has many of: a map that leads there tells more than that.
    fn is_table_pointer(&mut self, of: u64) -> bool {
        if self.minor < SWISS || self.table_pointer.is_some() || self.other == of {
            return self.minor >= SWISS && self.table_pointer == Some(of);
        }
        let name = self.types.get(of).and_then(|of| self.types.name(&of));
        if name.is_some_and(|name| name == "*maps.table") {
            self.table_pointer = Some(of);
            return true;
        }
        self.other = of;
        false
    }

    fn groups_at(&mut self, object: Object, offset: u64, of: u64) {
        for edge in self.references.edges(object) {
            if edge.offset() == offset {
                self.assign(*edge, ObjectType { shape: Shape::Groups, of });
            }
        }
    }

    /// What keys and values lead to; before go1.24, also the bucket that follows.
    fn groups(&mut self, object: Object, map: u64) {
        let Some(map) = self.types.get(map).filter(|map| map.kind == Kind::Map) else { return };
        let Some(group) = self.types.group(&map).filter(|group| group.size >= 8) else { return };
        self.values(object, group.at);
        if self.minor < SWISS {
            for edge in self.references.edges(object) {
                if edge.offset() % group.size == group.size - 8 {
                    self.assign(*edge, ObjectType { shape: Shape::Groups, of: map.at });
                }
            }
        }
    }
}

/// How the names of such types begin.
const ENTRIES: [&str; 2] = ["map.group[", "map.bucket["];

/// Whether the type with this name is one that a map keeps its entries in.
pub fn is_entries(name: &str) -> bool {
    ENTRIES.iter().any(|own| name.starts_with(own))
}

/// What is shown of it: as a program writes it.
pub fn name(kind: ObjectType, types: &Types<'_, '_>) -> Option<String> {
    // What a map keeps its entries in has a type of its own, which no program names.
    let own = || {
        let name = types.name(&types.get(kind.of)?)?;
        let rest = ENTRIES.iter().find_map(|own| name.strip_prefix(own));
        Some(rest.map(|rest| format!("map[{rest} (entries)")).unwrap_or(name))
    };
    Some(match kind.shape {
        Shape::Value => own()?,
        Shape::Array => match own()? {
            name if name.ends_with(" (entries)") => name,
            name => format!("[]{name}"),
        },
        Shape::Text => "string (bytes)".to_owned(),
        Shape::Tiny => "small values without pointers".to_owned(),
        Shape::Map => own()?,
        Shape::Tables => format!("{} (directory)", own()?),
        Shape::Table => format!("{} (table)", own()?),
        Shape::Groups => format!("{} (entries)", own()?),
        Shape::Chan => own()?,
        Shape::Closure => own()?,
    })
}
