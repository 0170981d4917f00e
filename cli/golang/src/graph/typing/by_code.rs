//! Types that only the code states: of what variables lead to that have no known type, and of what closures lead to.

use std::collections::HashMap;

use super::{Known, MAP_TABLES, OLD_BUCKETS, Spread, head};
use crate::graph::{
    class::object_size,
    heap::Object,
    quick_hash::QuickSet,
    types::{Descriptor, Slot, What},
};

/// What was found leads to closures that were not known before.
const ROUNDS: usize = 3;
/// The head of a map, in every release; where it has the third of its pointers, before go1.24.
const MAP_SIZE: u64 = 48;
const MAP_EXTRA: u64 = 40;
/// The head of a channel, which its values may follow.
const CHAN_SIZE: u64 = 96;
/// The first release with types before objects.
const WITH_HEADS: u32 = 22;

impl Spread<'_, '_> {
    /// Finds them.
    pub(super) fn by_code(&mut self, known: &Known<'_>) {
        let mut types: HashMap<u64, u64> = HashMap::new();
        let mut looked = QuickSet::default();
        for _ in 0..ROUNDS {
            let is_unknown = |(object, _): &&(Object, u64)| self.typing.number(*object) == 0;
            let variables: Vec<(Object, u64)> =
                known.lead.iter().filter(is_unknown).copied().collect();
            let begin = |object: &Object| {
                let at = self.heap.place(*object) + head(self.heap.span_of(*object), self.minor);
                Some((*object, self.moment.word(at)?))
            };
            let closures: Vec<(Object, u64)> = self.closures.iter().filter_map(begin).collect();
            let places = variables.iter().chain(&closures).map(|(_, place)| *place);
            let wanted: Vec<u64> = places.filter(|place| looked.insert(*place)).collect();
            if wanted.is_empty() {
                break;
            }
            let told = (known.set)(&wanted);
            for (object, at) in variables {
                if let Some(slot) = told.variables.get(&at).filter(|slot| self.agrees(object, slot))
                {
                    self.lead(object, slot);
                }
            }
            types.extend(told.closures);
            for (object, function) in closures {
                let of = types.get(&function).and_then(|of| self.types.get(*of));
                if let Some(of) = of.filter(|of| self.is_one(object, of)) {
                    self.values(object, of.at);
                }
            }
            self.follow();
        }
    }

    /// Whether an object can be what a pointer of this kind leads to: also where its own pointers are.
    fn agrees(&self, object: Object, slot: &Slot) -> bool {
        let span = self.heap.span_of(object);
        let of = || self.types.get(slot.of);
        match slot.what {
            What::One | What::Many => of().is_some_and(|of| self.has_its_pointers(object, &of)),
            What::Map => {
                let own = [MAP_TABLES, OLD_BUCKETS, MAP_EXTRA];
                let mut edges = self.references.edges(object).iter();
                span.size == MAP_SIZE && edges.all(|edge| own.contains(&edge.offset()))
            }
            What::Chan => span.size >= CHAN_SIZE,
            What::Text => span.is_plain,
            What::Func | What::Held | What::Unknown => false,
        }
    }

    fn is_one(&self, object: Object, of: &Descriptor) -> bool {
        let (span, has_pointers) = (self.heap.span_of(object), of.pointer_bytes > 0);
        let size = object_size(of.size, has_pointers, self.minor >= WITH_HEADS);
        size == span.size && self.has_its_pointers(object, of)
    }

    fn has_its_pointers(&self, object: Object, of: &Descriptor) -> bool {
        let from = head(self.heap.span_of(object), self.minor);
        let flat = self.types.flat(of);
        let size = of.size.max(1);
        let is_own =
            |offset: u64| offset.checked_sub(from).is_some_and(|own| flat.at(own % size).is_some());
        flat.is_cut || self.references.edges(object).iter().all(|edge| is_own(edge.offset()))
    }
}
