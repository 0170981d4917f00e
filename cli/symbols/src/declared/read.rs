//! Reads types from variables and wanted names down.

use std::{
    collections::{HashMap, VecDeque},
    time::Instant,
};

use gimli::{Unit, constants as dw};

use crate::entries::{Bytes, Debug, Entry, Place, Sections, number};

use super::{
    Declared, Kind, Language, Member, Type, TypeId, Variable,
    index::{Index, Missing, Named},
};

/// Names of other names, and qualifiers.
const DEEPEST: u32 = 32;
/// Members of a structure, elements of an array; more are none of a program.
const MOST_MEMBERS: u32 = 1 << 14;
const MOST_ELEMENTS: u64 = 1 << 32;

/// What may be read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Entries of debug data.
    pub entries: u64,
    /// Types, and variables.
    pub types: usize,
    /// Until when.
    pub end: Instant,
}

/// What the sections of a module declare; `wanted` are structures that are read, too.
pub fn read<'n>(
    sections: &Sections,
    wanted: impl IntoIterator<Item = &'n str>,
    limits: &Limits,
) -> Option<Declared> {
    let debug = Debug::read(sections)?;
    let index = Index::of(&debug, limits);
    let mut reading = Reading {
        debug: &debug,
        index: &index,
        all: Declared { missing: index.missing.map(Missing::words), ..Declared::default() },
        numbers: HashMap::new(),
        alike: HashMap::new(),
        waiting: VecDeque::new(),
        limits,
    };
    for (name, at, of) in &index.variables {
        let of = reading.number(*of, 0);
        reading.all.variables.push(Variable { name: name.clone(), at: *at, of });
    }
    for name in wanted {
        if let Some(named) = index.named.get(name).filter(|named| !named.is_several) {
            let of = reading.number(named.place, 0);
            reading.all.by_name.insert(name.to_owned(), of);
        }
    }
    reading.finish();
    // What is linked to every program comes first, and is in C or assembler.
    let mut languages = debug.units.iter().filter_map(language).map(named);
    let first = languages.find(|language| *language != Language::C);
    reading.all.language = first.unwrap_or_default();
    Some(reading.all)
}

pub(super) struct Reading<'d, 's> {
    pub(super) debug: &'d Debug<'s>,
    pub(super) index: &'d Index,
    all: Declared,
    numbers: HashMap<Place, TypeId>,
    /// Structures of one name, size and members, which every unit has anew.
    alike: HashMap<(String, u64, u64), TypeId>,
    waiting: VecDeque<(Place, TypeId)>,
    limits: &'d Limits,
}

impl<'s> Reading<'_, 's> {
    /// The number of a type; what it consists of is read later.
    pub(super) fn number(&mut self, place: Place, depth: u32) -> TypeId {
        if let Some(known) = self.numbers.get(&place) {
            return *known;
        }
        let found = self.numbered(place, depth);
        let id = found.unwrap_or_else(|| {
            let unknown = Type { name: String::new(), size: 0, kind: Kind::Unknown };
            self.push(unknown)
        });
        self.numbers.insert(place, id);
        id
    }

    fn push(&mut self, of: Type) -> TypeId {
        if self.all.types.len() >= self.limits.types {
            self.all.missing = Some(Missing::Types.words());
            // The last one stands for what found no room: nothing is known of it.
            if let Some(last) = self.all.types.last_mut() {
                last.kind = Kind::Unknown;
            }
            return TypeId(u32::try_from(self.all.types.len() - 1).unwrap_or(u32::MAX));
        }
        self.all.types.push(of);
        TypeId(u32::try_from(self.all.types.len() - 1).unwrap_or(u32::MAX))
    }

    fn numbered(&mut self, place: Place, depth: u32) -> Option<TypeId> {
        let (unit, entry) = self.debug.entry(place)?;
        match entry.tag() {
            dw::DW_TAG_typedef
            | dw::DW_TAG_const_type
            | dw::DW_TAG_volatile_type
            | dw::DW_TAG_restrict_type
            | dw::DW_TAG_atomic_type => {
                let inner = self.debug.type_of(unit, &entry).filter(|_| depth < DEEPEST)?;
                let of = self.number(inner, depth + 1);
                if entry.tag() == dw::DW_TAG_typedef {
                    self.name_structure(of, self.debug.name(unit, &entry));
                }
                Some(of)
            }
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                self.structure(place, unit, &entry, depth)
            }
            _ => {
                let name = self.debug.name(unit, &entry).unwrap_or_default();
                let size = number(entry.attr(dw::DW_AT_byte_size)).unwrap_or(0);
                let is_pointer = matches!(
                    entry.tag(),
                    dw::DW_TAG_pointer_type
                        | dw::DW_TAG_reference_type
                        | dw::DW_TAG_rvalue_reference_type
                );
                let size = if is_pointer { 8 } else { size };
                let id = self.push(Type { name, size, kind: Kind::Unknown });
                self.waiting.push_back((place, id));
                Some(id)
            }
        }
    }

    /// `typedef struct { ... } name`.
    fn name_structure(&mut self, of: TypeId, name: Option<String>) {
        let own = usize::try_from(of.0).ok().and_then(|index| self.all.types.get_mut(index));
        if let (Some(own), Some(name)) = (own, name)
            && own.name.is_empty()
        {
            own.name = name;
        }
    }

    fn structure(
        &mut self,
        place: Place,
        unit: &Unit<Bytes<'s>>,
        entry: &Entry<'s>,
        depth: u32,
    ) -> Option<TypeId> {
        let own = self.debug.name(unit, entry);
        let name = self.index.whole.get(&place).cloned().or(own).unwrap_or_default();
        if entry.attr(dw::DW_AT_declaration).is_some() {
            // Another unit may describe it.
            let named = self.index.named.get(&name)?;
            let Named { place, is_several, .. } = *named;
            return (!is_several && depth < DEEPEST).then(|| self.number(place, depth + 1));
        }
        let size = number(entry.attr(dw::DW_AT_byte_size))?;
        let key = (name.clone(), size, self.members_alike(unit, entry));
        if !name.is_empty()
            && let Some(known) = self.alike.get(&key)
        {
            return Some(*known);
        }
        let id = self.push(Type { name, size, kind: Kind::Unknown });
        self.alike.insert(key, id);
        self.waiting.push_back((place, id));
        Some(id)
    }

    /// A number for the names and places of members: structures of one name that differ in it are two.
    fn members_alike(&self, unit: &Unit<Bytes<'s>>, entry: &Entry<'s>) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.each_member(unit, entry, &mut |unit, member| {
            number(member.attr(dw::DW_AT_data_member_location)).hash(&mut hasher);
            self.debug.name(unit, member).hash(&mut hasher);
        });
        hasher.finish()
    }

    fn each_member(
        &self,
        unit: &Unit<Bytes<'s>>,
        entry: &Entry<'s>,
        hear: &mut dyn FnMut(&Unit<Bytes<'s>>, &Entry<'s>),
    ) {
        self.each_child(unit, entry, &mut |unit, child| {
            if is_member(child) {
                hear(unit, child);
            }
        });
    }

    /// Those that are entries of their own: with members, as many as there are of these.
    pub(super) fn each_child(
        &self,
        unit: &Unit<Bytes<'s>>,
        entry: &Entry<'s>,
        hear: &mut dyn FnMut(&Unit<Bytes<'s>>, &Entry<'s>),
    ) {
        let Ok(mut tree) = unit.entries_tree(Some(entry.offset())) else { return };
        let Ok(root) = tree.root() else { return };
        let mut children = root.children();
        let mut left = MOST_MEMBERS;
        while let Ok(Some(child)) = children.next() {
            let child = child.entry();
            if left == 0 {
                return;
            }
            left -= u32::from(is_member(child));
            hear(unit, child);
        }
    }

    /// Reads what types consist of, until all are read.
    fn finish(&mut self) {
        while let Some((place, id)) = self.waiting.pop_front() {
            if Instant::now() > self.limits.end {
                self.all.missing = Some(Missing::Time.words());
                return;
            }
            let Some((unit, entry)) = self.debug.entry(place) else { continue };
            let kind = self.kind(place, unit, &entry);
            let Some(index) = usize::try_from(id.0).ok().filter(|at| *at < self.all.types.len())
            else {
                continue;
            };
            self.all.types[index].kind = kind;
        }
    }

    fn kind(&mut self, place: Place, unit: &Unit<Bytes<'s>>, entry: &Entry<'s>) -> Kind {
        let inner = self.debug.type_of(unit, entry);
        match entry.tag() {
            dw::DW_TAG_base_type | dw::DW_TAG_enumeration_type => Kind::Number,
            dw::DW_TAG_pointer_type
            | dw::DW_TAG_reference_type
            | dw::DW_TAG_rvalue_reference_type => Kind::Pointer(self.pointee(unit, inner)),
            dw::DW_TAG_array_type => match inner {
                Some(inner) => Kind::Array(self.number(inner, 0), self.elements(unit, entry)),
                None => Kind::Unknown,
            },
            dw::DW_TAG_union_type => Kind::Union(self.members(unit, entry)),
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type => {
                let is_rust = language(unit) == Some(dw::DW_LANG_Rust);
                let of_rust = is_rust.then(|| self.kind_of_rust(place, unit, entry)).flatten();
                // What another variant part has depends on a number: it names nothing.
                of_rust.unwrap_or_else(|| Kind::Structure(self.members(unit, entry)))
            }
            _ => Kind::Unknown,
        }
    }

    /// What a pointer leads to, if it says so.
    fn pointee(&mut self, unit: &Unit<Bytes<'s>>, inner: Option<Place>) -> Option<TypeId> {
        let of = self.number(inner?, 0);
        let is_number = |place: Place| {
            let (_, entry) = self.debug.entry(place)?;
            Some(entry.tag() == dw::DW_TAG_base_type)
        };
        // Rust has the address of any vector as that of bytes.
        let is_rust = language(unit) == Some(dw::DW_LANG_Rust);
        if is_rust && is_number(inner?) == Some(true) {
            return None;
        }
        Some(of)
    }

    pub(super) fn members(&mut self, unit: &Unit<Bytes<'s>>, entry: &Entry<'s>) -> Vec<Member> {
        let mut places = Vec::new();
        self.each_member(unit, entry, &mut |unit, member| {
            // Fields of bits are numbers; static members lie elsewhere; a virtual base is not at one place.
            let is_bits = member.attr(dw::DW_AT_bit_size).is_some();
            let is_static = member.attr(dw::DW_AT_external).is_some();
            let is_virtual = member.attr(dw::DW_AT_virtuality).is_some();
            if is_bits || is_static || is_virtual {
                return;
            }
            let told = member.attr(dw::DW_AT_data_member_location);
            let offset = if told.is_some() { number(told) } else { Some(0) };
            if let (Some(offset), Some(of)) = (offset, self.debug.type_of(unit, member)) {
                places.push((offset, of));
            }
        });
        let member = |(offset, of)| Member { offset, of: self.number(of, 0) };
        places.into_iter().map(member).collect()
    }

    /// How many elements an array has, of all its dimensions; 0 where that is open.
    fn elements(&self, unit: &Unit<Bytes<'s>>, entry: &Entry<'s>) -> u64 {
        let Ok(mut tree) = unit.entries_tree(Some(entry.offset())) else { return 0 };
        let Ok(root) = tree.root() else { return 0 };
        let (mut children, mut all, mut dimensions) = (root.children(), 1_u64, 0);
        while let Ok(Some(child)) = children.next() {
            let range = child.entry();
            if range.tag() != dw::DW_TAG_subrange_type {
                continue;
            }
            let last = || number(range.attr(dw::DW_AT_upper_bound))?.checked_add(1);
            let count = number(range.attr(dw::DW_AT_count)).or_else(last).unwrap_or(0);
            (all, dimensions) = (all.saturating_mul(count), dimensions + 1);
            if dimensions > 8 {
                return 0;
            }
        }
        if dimensions > 0 && all <= MOST_ELEMENTS { all } else { 0 }
    }
}

fn is_member(entry: &Entry<'_>) -> bool {
    matches!(entry.tag(), dw::DW_TAG_member | dw::DW_TAG_inheritance)
}

fn named(language: gimli::DwLang) -> Language {
    match language {
        dw::DW_LANG_Rust => Language::Rust,
        dw::DW_LANG_C_plus_plus
        | dw::DW_LANG_C_plus_plus_03
        | dw::DW_LANG_C_plus_plus_11
        | dw::DW_LANG_C_plus_plus_14 => Language::Cpp,
        _ => Language::C,
    }
}

fn language(unit: &Unit<Bytes<'_>>) -> Option<gimli::DwLang> {
    let mut entries = unit.entries();
    let root = entries.next_dfs().ok()??;
    match root.attr_value(dw::DW_AT_language)? {
        gimli::AttributeValue::Language(language) => Some(language),
        _ => None,
    }
}
