//! Which objects are reached, and from where: the roots that say most come first, and what they reach is
//! theirs.

use super::{
    heap::{Heap, Object, Sum, index},
    quick_hash::QuickSet,
    references::References,
    roots::Root,
};

/// Not reached.
const NONE: u32 = u32::MAX;
/// Reached by a root: its number, with this bit.
const ROOT: u32 = 1 << 31;

/// What leads to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// Nothing does.
    None,
    /// A root, by its number.
    Root(u32),
    /// Another object.
    Object(Object),
}

/// What is reached.
#[derive(Debug)]
pub struct Marks {
    parents: Vec<u32>,
    /// Objects that are reached, and their bytes.
    pub reached: Sum,
}

impl Marks {
    /// Marks from these roots on, those of the first rank first; a shortest way among those of one rank. What the `last`
    /// objects lead to is theirs only where nothing else does.
    pub fn of(heap: &Heap, references: &References, roots: &[Root], last: &[Object]) -> Self {
        let mut marks = Self { parents: vec![NONE; heap.slots()], reached: Sum::default() };
        let last: QuickSet<Object> = last.iter().copied().collect();
        let mut queue = Vec::new();
        let mut next = Vec::new();
        let mut later = Vec::new();
        for now in 0..RANKS {
            for (number, root) in roots.iter().enumerate().filter(|(_, root)| rank(root) == now) {
                let number = u32::try_from(number).map_or(NONE, |number| number | ROOT);
                marks.reach(root.target, number, &mut queue);
            }
            while !queue.is_empty() {
                for object in queue.drain(..) {
                    if last.contains(&object) {
                        later.push(object);
                        continue;
                    }
                    for edge in references.edges(object) {
                        marks.reach(edge.target, object, &mut next);
                    }
                }
                std::mem::swap(&mut queue, &mut next);
            }
        }
        while !later.is_empty() {
            for object in later.drain(..) {
                for edge in references.edges(object) {
                    marks.reach(edge.target, object, &mut next);
                }
            }
            std::mem::swap(&mut later, &mut next);
        }
        for span in &heap.spans {
            let own = (span.first..span.first + span.slots).filter(|one| marks.is_reached(*one));
            let objects = own.count() as u64;
            marks.reached.objects += objects;
            marks.reached.bytes += objects * span.size;
        }
        marks
    }

    #[inline]
    fn reach(&mut self, object: Object, parent: u32, queue: &mut Vec<Object>) {
        if let Some(own) = self.parents.get_mut(index(object))
            && *own == NONE
        {
            *own = parent;
            queue.push(object);
        }
    }

    /// Whether an object is reached.
    #[inline]
    pub fn is_reached(&self, object: Object) -> bool {
        self.parents.get(index(object)).is_some_and(|parent| *parent != NONE)
    }

    /// What leads to it on a shortest way.
    pub fn parent(&self, object: Object) -> Parent {
        match self.parents.get(index(object)).copied().unwrap_or(NONE) {
            NONE => Parent::None,
            root if root & ROOT != 0 => Parent::Root(root & !ROOT),
            object => Parent::Object(object),
        }
    }
}

/// How many ranks there are.
const RANKS: u8 = 4;

/// Roots of one rank are one.
fn rank(root: &Root) -> u8 {
    use super::roots::Holder::{Finalizer, Stack, Variable};
    match root.holder {
        Variable(_) => 0,
        Finalizer => 1,
        Stack(..) if root.is_stale => RANKS - 1,
        Stack(..) => 2,
    }
}
