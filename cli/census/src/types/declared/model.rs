//! The declared types of all modules of a process, and the pointers in each.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use heapattach_symbols::declared::{
    Declared, Kind, Language, Member, Type, TypeId, Variable, Vector,
};

/// Structures in structures.
const DEEPEST: u32 = 24;
/// Pointers of one type that are followed, elements of arrays in it.
const MOST_SLOTS: usize = 4096;
const MOST_ELEMENTS: u64 = 1024;
/// Parts of one type that are looked at: types that have each other twice are soon more than that.
const MOST_PARTS: u32 = 1 << 16;

/// A pointer in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Where.
    pub offset: u64,
    /// What it leads to, if it says so.
    pub to: Option<TypeId>,
    /// It leads to an array.
    pub array: Option<Array>,
}

/// Where it is said how long an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// How many elements there is room for.
    pub room: u64,
    /// How many there are.
    pub length: u64,
}

/// All of it; variables lie where they are in the process.
#[derive(Debug, Default)]
pub struct Model {
    all: Declared,
    slots: RefCell<HashMap<TypeId, Rc<[Slot]>>>,
    /// By module: its first type, and its language.
    languages: Vec<(u32, Language)>,
}

impl Model {
    /// Adds a module, whose addresses are so much larger in the process.
    pub fn add(&mut self, module: Declared, bias: u64) {
        let first = u32::try_from(self.all.types.len()).unwrap_or(u32::MAX);
        let moved = |of: TypeId| TypeId(of.0.saturating_add(first));
        let members = |all: Vec<Member>| -> Vec<Member> {
            let moved = all.into_iter().map(|member| Member { of: moved(member.of), ..member });
            moved.collect()
        };
        let Declared { types, variables, by_name, missing, language } = module;
        self.languages.push((first, language));
        for Type { name, size, kind } in types {
            let kind = match kind {
                Kind::Pointer(to) => Kind::Pointer(to.map(moved)),
                Kind::Array(of, count) => Kind::Array(moved(of), count),
                Kind::Structure(all) => Kind::Structure(members(all)),
                Kind::Union(all) => Kind::Union(members(all)),
                Kind::Choice(at, all) => Kind::Choice(at, members(all)),
                Kind::Vector(own) => Kind::Vector(Vector { of: moved(own.of), ..own }),
                Kind::Number | Kind::Unknown => kind,
            };
            self.all.types.push(Type { name, size, kind });
        }
        let variables = variables.into_iter().map(|Variable { name, at, of }| Variable {
            name,
            at: at.wrapping_add(bias),
            of: moved(of),
        });
        self.all.variables.extend(variables);
        for (name, of) in by_name {
            self.all.by_name.entry(name).or_insert(moved(of));
        }
        self.all.missing = self.all.missing.or(missing);
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.all.types.is_empty()
    }

    /// Why something may be missing.
    pub fn missing(&self) -> Option<&'static str> {
        self.all.missing
    }

    /// The variables.
    pub fn variables(&self) -> &[Variable] {
        &self.all.variables
    }

    /// The structure of a name.
    pub fn named(&self, name: &str) -> Option<TypeId> {
        self.all.by_name.get(name).copied()
    }

    /// A type.
    pub fn get(&self, of: TypeId) -> Option<&Type> {
        self.all.get(of)
    }

    /// The language of the module that it is of.
    pub fn language(&self, of: TypeId) -> Language {
        let behind = self.languages.partition_point(|(first, _)| *first <= of.0);
        let module = behind.checked_sub(1).and_then(|index| self.languages.get(index));
        module.map_or_else(Language::default, |(_, language)| *language)
    }

    /// Bytes of a value.
    pub fn size(&self, of: TypeId) -> u64 {
        self.all.size(of)
    }

    /// What it is called; empty if it has no name.
    pub fn name(&self, of: TypeId) -> String {
        self.name_within(of, 0)
    }

    fn name_within(&self, of: TypeId, depth: u32) -> String {
        let Some(own) = self.get(of).filter(|_| depth < DEEPEST) else { return String::new() };
        let inner = |of: TypeId| self.name_within(of, depth + 1);
        match own.kind {
            Kind::Pointer(Some(to)) => match inner(to) {
                name if name.is_empty() => name,
                name if name.ends_with('*') => name + "*",
                name => name + " *",
            },
            Kind::Pointer(None) => "void *".to_owned(),
            Kind::Array(of, _) => match inner(of) {
                name if name.is_empty() => name,
                name => name + "[]",
            },
            _ => own.name.clone(),
        }
    }

    /// A number of one byte: what has such an address can be anything.
    pub fn is_byte(&self, of: TypeId) -> bool {
        self.get(of).is_some_and(|own| own.kind == Kind::Number && own.size == 1)
    }

    /// A number.
    pub fn is_number(&self, of: TypeId) -> bool {
        self.get(of).is_some_and(|own| own.kind == Kind::Number)
    }

    /// Whether a pointer to it names what it leads to. The heads of nodes of libstdc++ are of a base class,
    /// and the nodes are longer.
    pub fn names(&self, of: TypeId) -> bool {
        let Some(own) = self.get(of) else { return false };
        match own.kind {
            Kind::Number | Kind::Pointer(_) => true,
            Kind::Structure(_) | Kind::Choice(..) | Kind::Vector(_) => {
                let is_base = own.name.starts_with("std::") && own.name.ends_with("_node_base");
                own.size > 0 && !is_base
            }
            Kind::Array(..) | Kind::Union(_) | Kind::Unknown => false,
        }
    }

    /// Whether a structure ends in elements whose number is not its own: `char text[]`, and the older
    /// `char text[1]`.
    pub fn is_open(&self, of: TypeId) -> bool {
        self.open_end(of).is_some()
    }

    /// Where these elements begin, and their type.
    pub fn open_end(&self, of: TypeId) -> Option<(u64, TypeId)> {
        let Kind::Structure(members) = &self.get(of)?.kind else { return None };
        let last = members.iter().max_by_key(|member| member.offset)?;
        match self.get(last.of)?.kind {
            Kind::Array(element, 0 | 1) => Some((last.offset, element)),
            _ => None,
        }
    }

    /// The pointers of a value; those of unions lead nowhere.
    pub fn slots(&self, of: TypeId) -> Rc<[Slot]> {
        if let Some(known) = self.slots.borrow().get(&of) {
            return Rc::clone(known);
        }
        let mut slots = Vec::new();
        let mut left = MOST_PARTS;
        self.collect(of, 0, 0, &mut left, &mut slots);
        slots.sort_by_key(|slot| slot.offset);
        slots.dedup_by_key(|slot| slot.offset);
        let slots: Rc<[Slot]> = slots.into();
        self.slots.borrow_mut().insert(of, Rc::clone(&slots));
        slots
    }

    fn collect(&self, of: TypeId, base: u64, depth: u32, left: &mut u32, slots: &mut Vec<Slot>) {
        let Some(own) = self.get(of) else { return };
        if depth > DEEPEST || slots.len() >= MOST_SLOTS || *left == 0 {
            return;
        }
        *left -= 1;
        match &own.kind {
            Kind::Pointer(to) => slots.push(Slot { offset: base, to: *to, array: None }),
            Kind::Array(inner, count) => {
                let size = self.size(*inner);
                for index in 0..(*count).min(MOST_ELEMENTS) {
                    if size == 0 || slots.len() >= MOST_SLOTS {
                        return;
                    }
                    let at = base.saturating_add(index.saturating_mul(size));
                    self.collect(*inner, at, depth + 1, left, slots);
                }
            }
            Kind::Structure(members) => members.iter().for_each(|member| {
                self.collect(member.of, base.saturating_add(member.offset), depth + 1, left, slots);
            }),
            // A word of a union that leads somewhere is a pointer that does not say of what.
            Kind::Union(members) => members.iter().for_each(|member| {
                let from = slots.len();
                self.collect(member.of, base.saturating_add(member.offset), depth + 1, left, slots);
                slots[from..].iter_mut().for_each(|slot| slot.to = None);
            }),
            // What others have there is no pointer, nor room of an array.
            Kind::Choice(at, members) => members.iter().for_each(|member| {
                let (from, at) = (slots.len(), base.saturating_add(*at));
                self.collect(member.of, base.saturating_add(member.offset), depth + 1, left, slots);
                for slot in &mut slots[from..] {
                    let says = slot.array.map_or(slot.offset, |array| array.room);
                    slot.to = slot.to.filter(|_| says == at);
                }
            }),
            Kind::Vector(own) => {
                let at = |offset: u64| base.saturating_add(offset);
                let array = Array { room: at(own.room), length: at(own.length) };
                slots.push(Slot { offset: at(own.pointer), to: Some(own.of), array: Some(array) });
            }
            Kind::Number | Kind::Unknown => {}
        }
    }

    /// Whether a value has, so far behind its beginning, a value of another type.
    pub fn has(&self, of: TypeId, offset: u64, inner: TypeId) -> bool {
        self.has_within(of, offset, inner, 0, &mut { MOST_PARTS })
    }

    fn has_within(
        &self,
        of: TypeId,
        offset: u64,
        inner: TypeId,
        depth: u32,
        left: &mut u32,
    ) -> bool {
        if offset == 0 && self.is_same(of, inner) {
            return true;
        }
        let Some(own) = self.get(of).filter(|_| depth < DEEPEST && *left > 0) else {
            return false;
        };
        *left -= 1;
        match &own.kind {
            Kind::Structure(members) | Kind::Union(members) | Kind::Choice(_, members) => {
                members.iter().any(|member| {
                    // An open end goes on behind the last byte.
                    let within = offset.checked_sub(member.offset);
                    let is_in = |within: &u64| {
                        *within < self.size(member.of).max(1)
                            || matches!(
                                self.get(member.of),
                                Some(Type { kind: Kind::Array(_, 0), .. })
                            )
                    };
                    within.filter(is_in).is_some_and(|within| {
                        self.has_within(member.of, within, inner, depth + 1, left)
                    })
                })
            }
            Kind::Array(of, _) => {
                let size = self.size(*of).max(1);
                self.has_within(*of, offset % size, inner, depth + 1, left)
            }
            Kind::Number | Kind::Pointer(_) | Kind::Vector(_) | Kind::Unknown => false,
        }
    }

    /// Whether two types are one: several modules, or units, may have it.
    pub fn is_same(&self, one: TypeId, other: TypeId) -> bool {
        one == other
            || self.get(one).zip(self.get(other)).is_some_and(|(one, other)| {
                !one.name.is_empty() && (&one.name, one.size) == (&other.name, other.size)
            })
            || self.are_same_pointers(one, other)
    }

    fn are_same_pointers(&self, one: TypeId, other: TypeId) -> bool {
        let to = |of| match self.get(of).map(|own| &own.kind) {
            Some(Kind::Pointer(Some(to))) => Some(*to),
            _ => None,
        };
        let (Some(mut one), Some(mut other)) = (to(one), to(other)) else { return false };
        for _ in 0..DEEPEST {
            match (to(one), to(other)) {
                (Some(next), Some(next_other)) => (one, other) = (next, next_other),
                (None, None) => break,
                _ => return false,
            }
        }
        let name = |of| self.get(of).map(|own| (&own.name, own.size));
        one == other
            || name(one) == name(other) && name(one).is_some_and(|(name, _)| !name.is_empty())
    }
}
