//! What is kept beyond need, for reasons that are Go's own: maps with far more room than entries, arrays of which one
//! small slice is all that leads there, and cycles with finalizers.
//!
//! Each is a fact of memory, not a guess: counts and lengths are read, and only arrays that nothing else leads to are
//! told. Whether it is a fault is the program's business: a buffer that is to be filled again looks the same.

use std::collections::{HashMap, HashSet};

use heapattach_census::Moment;

use super::{
    cycles,
    heap::{Object, Sum, index},
    objects::{KnownVariables, Objects},
    paths::Paths,
    quick_hash::QuickMap,
    roots::Holder,
    types::{Slot, What},
    typing::{ObjectType, Shape, is_entries},
};

/// Smaller arrays and tables are not looked at.
const LEAST: u64 = 4096;
/// What is in use less often than once in so many is excess.
const PART: u64 = 8;
/// A group of a map has so many entries.
const GROUP: u64 = 8;
/// Parts of one map that are followed.
const MOST_PARTS: usize = 1 << 22;

/// Why it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// Maps do not shrink: `used` entries of so much `room`.
    Map,
    /// A slice or string of `used` bytes leads to arrays of `room` bytes.
    Slice,
    /// Objects with finalizers lead back to themselves: the runtime never frees them. `used` is their number.
    Cycle,
}

/// What is kept so, by one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// Why.
    pub why: Why,
    /// The path to it; all elements of an array are one.
    pub path: Vec<String>,
    /// Maps, slices, or objects with finalizers.
    pub number: u64,
    /// See [`Why`].
    pub used: u64,
    /// See [`Why`].
    pub room: u64,
    /// Tables, arrays, or all that the cycles lead to.
    pub kept: Sum,
}

/// All of it, what keeps most first; `known` tells the types of variables.
pub fn find(
    moment: &Moment<'_>,
    objects: &Objects<'_, '_>,
    paths: &Paths,
    known: KnownVariables<'_>,
) -> Vec<Excess> {
    let mut found = Found { objects, paths, all: HashMap::new(), parts: QuickMap::default() };
    for span in &objects.heap.spans {
        for object in span.first..span.first + span.slots {
            if objects.marks.is_reached(object)
                && let Some(kind) = objects.typing.get(object)
                && kind.shape == Shape::Map
            {
                found.map(moment, object, kind.of);
            }
        }
    }
    found.slices(moment, known);
    for (object, kept) in cycles::with_finalizers(objects) {
        found.add(Why::Cycle, object, (1, 0), kept);
    }
    let mut all: Vec<Excess> = found.by_path().into_values().collect();
    all.sort_by(|a, b| (b.kept.bytes, &a.path).cmp(&(a.kept.bytes, &b.path)));
    all
}

/// A step of a path; the index of an element is of no interest.
fn step(label: &str) -> String {
    let element = label.strip_prefix('[').and_then(|rest| rest.split_once("]. "));
    let is_index = |index: &str| index.starts_with(|first: char| first.is_ascii_digit());
    match element.filter(|(index, _)| is_index(index)) {
        Some((_, rest)) => format!("[...]. {rest}"),
        None => label.to_owned(),
    }
}

/// How many, what of it is used of how much room, and what is kept.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    number: u64,
    used: u64,
    room: u64,
    kept: Sum,
}

impl Counted {
    fn add(&mut self, other: Self) {
        self.number += other.number;
        self.used = self.used.saturating_add(other.used);
        self.room = self.room.saturating_add(other.room);
        self.kept.objects += other.kept.objects;
        self.kept.bytes += other.kept.bytes;
    }
}

struct Found<'o, 'a, 'm> {
    objects: &'o Objects<'a, 'm>,
    paths: &'o Paths,
    /// By the end of a path.
    all: HashMap<(Why, u32), Counted>,
    /// What of a map values of a type are.
    parts: QuickMap<u64, Part>,
}

impl Found<'_, '_, '_> {
    fn add(&mut self, why: Why, object: Object, (used, room): (u64, u64), kept: Sum) {
        if let Some(path) = self.paths.node_of(object) {
            let counted = Counted { number: 1, used, room, kept };
            self.all.entry((why, path)).or_default().add(counted);
        }
    }

    fn by_path(&self) -> HashMap<(Why, Vec<String>), Excess> {
        let mut all: HashMap<(Why, Vec<String>), Counted> = HashMap::new();
        for ((why, path), counted) in &self.all {
            let path = self.paths.labels_of(*path).into_iter().map(step).collect();
            all.entry((*why, path)).or_default().add(*counted);
        }
        let row = |(key, counted): ((Why, Vec<String>), Counted)| {
            let Counted { number, used, room, kept } = counted;
            let (why, path) = key.clone();
            (key, Excess { why, path, number, used, room, kept })
        };
        all.into_iter().map(row).collect()
    }

    /// A map whose head is this object: its count is the first word of it, in all releases.
    fn map(&mut self, moment: &Moment<'_>, object: Object, of: u64) {
        let (objects, types) = (self.objects, self.objects.types);
        let group = types.get(of).and_then(|map| types.group(&map)).map_or(0, |group| group.size);
        let Some(used) = moment.word(objects.heap.place(object)).filter(|_| group > 0) else {
            return;
        };
        let (mut kept, mut room) = (Sum::default(), 0);
        let (mut parts, mut seen) = (vec![object], HashSet::new());
        while let Some(part) = parts.pop() {
            for edge in objects.references.edges(part) {
                let Some(kind) = objects.typing.get(edge.target) else { continue };
                // Entries of another map are below its head, which is no part of this one.
                let part = self.part(kind);
                let is_full = seen.len() >= MOST_PARTS;
                if part == Part::None || is_full || !seen.insert(edge.target) {
                    continue;
                }
                parts.push(edge.target);
                if part == Part::Entries {
                    let size = objects.heap.span_of(edge.target).size;
                    kept.add(size);
                    // A power of two of groups, and what the size class or buckets for collisions add.
                    room += (size / group).checked_ilog2().map_or(0, |power| GROUP << power);
                }
            }
        }
        if kept.bytes >= LEAST && used.saturating_mul(PART) < room {
            self.add(Why::Map, object, (used, room), kept);
        }
    }

    /// What of a map such an object is.
    fn part(&mut self, kind: ObjectType) -> Part {
        let types = self.objects.types;
        match kind.shape {
            Shape::Groups => Part::Entries,
            Shape::Tables | Shape::Table => Part::Tables,
            // The runtime notes the types of large ones itself.
            Shape::Array | Shape::Value => *self.parts.entry(kind.of).or_insert_with(|| {
                let name = types.get(kind.of).and_then(|of| types.name(&of)).unwrap_or_default();
                match name.as_str() {
                    "maps.table" | "*maps.table" => Part::Tables,
                    name if is_entries(name) => Part::Entries,
                    _ => Part::None,
                }
            }),
            Shape::Text | Shape::Tiny | Shape::Map | Shape::Chan | Shape::Closure => Part::None,
        }
    }

    /// Large objects that one pointer alone leads to, which is that of a slice or a string.
    fn slices(&mut self, moment: &Moment<'_>, known: KnownVariables<'_>) {
        let objects = self.objects;
        let mut is_large = vec![false; objects.heap.slots()];
        for span in objects.heap.spans.iter().filter(|span| span.size >= LEAST) {
            is_large[index(span.first)..index(span.first + span.slots)].fill(true);
        }
        let mut only: HashMap<Object, Option<Pointer>> = HashMap::new();
        let mut note = |target: Object, pointer: Pointer| {
            if is_large[index(target)] {
                only.entry(target).and_modify(|one| *one = None).or_insert(Some(pointer));
            }
        };
        for root in &objects.roots.all {
            note(root.target, Pointer::Root(root.holder));
        }
        for object in 0..u32::try_from(objects.heap.slots()).unwrap_or(u32::MAX) {
            if objects.marks.is_reached(object) {
                for edge in objects.references.edges(object) {
                    note(edge.target, Pointer::Object(object, edge.offset()));
                }
            }
        }
        for (object, pointer) in only {
            let Some((at, slot)) = pointer.and_then(|one| self.slot(one, known)) else { continue };
            let size = objects.heap.span_of(object).size;
            if let Some(used) = self.used(moment, at, slot)
                && used.saturating_mul(PART) < size
            {
                let mut kept = Sum::default();
                kept.add(size);
                self.add(Why::Slice, object, (used, size), kept);
            }
        }
    }

    /// Where a pointer lies, and what it is by its type.
    fn slot(&self, pointer: Pointer, known: KnownVariables<'_>) -> Option<(u64, Slot)> {
        let objects = self.objects;
        match pointer {
            Pointer::Root(Holder::Variable(at)) => Some((at, known(at)?)),
            Pointer::Root(Holder::Finalizer | Holder::Stack(..)) => None,
            Pointer::Object(object, offset) => {
                let kind = objects.typing.get(object)?;
                if !matches!(kind.shape, Shape::Value | Shape::Array) {
                    return None;
                }
                let of = objects.types.get(kind.of).filter(|of| of.size > 0)?;
                let head = objects.typing.head(objects.heap.span_of(object));
                let place = offset.checked_sub(head)? % of.size;
                let slot = *objects.types.flat(&of).at(place)?;
                Some((objects.heap.place(object).checked_add(offset)?, slot))
            }
        }
    }

    /// Bytes that a slice or a string has by its length, which is the word behind the pointer.
    fn used(&self, moment: &Moment<'_>, at: u64, slot: Slot) -> Option<u64> {
        let size = match slot.what {
            What::Many => self.objects.types.get(slot.of)?.size,
            What::Text => 1,
            What::One | What::Held | What::Map | What::Chan | What::Func | What::Unknown => {
                return None;
            }
        };
        moment.word(at.checked_add(8)?)?.checked_mul(size)
    }
}

/// What of a map an object is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    None,
    /// What leads to entries.
    Tables,
    Entries,
}

/// The one pointer that leads to an object.
#[derive(Clone, Copy)]
enum Pointer {
    Root(Holder),
    Object(Object, u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_an_array_are_one_and_keys_of_a_map_are_no_elements() {
        assert_eq!(step("[3]. ([]uint8)"), "[...]. ([]uint8)");
        assert_eq!(step("[10+]. (*main.T)"), "[...]. (*main.T)");
        assert_eq!(step("$mapval. (*main.T)"), "$mapval. (*main.T)");
        assert_eq!(step("[]. x"), "[]. x");
    }
}
