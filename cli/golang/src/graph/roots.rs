//! What holds objects from outside of the heap: variables, finalizers, and the stacks of goroutines.

use std::ops::Range;

use heapattach_census::Moment;

use super::{
    goroutine::Goroutine,
    heap::{Heap, Object},
    layout::{Field, Layout, Variables},
    objects::{IsPointer, KnownVariables},
    references::{References, Seed, SeedKind},
    types::{Slot, Types, What},
};

/// Blocks of a queue, and specials of a span, that are followed.
const MOST_IN_LIST: usize = 1 << 20;
/// Variables of a module.
const MOST_BYTES: u64 = 1 << 30;
/// So much of a mask or of variables is read at once.
const WINDOW: u64 = 1 << 16;
/// Bytes of a finalizer in the queue, and of the function that it calls.
const QUEUED: u64 = 40;
const MOST_QUEUED: u64 = 101;
/// Where the runtime keeps the size of a sample, and its stack: the count of its addresses, and they.
const SIZE: u64 = 32;
const COUNT: u64 = 40;
const STACK: u64 = 48;
/// The runtime keeps no longer ones.
const LONGEST: u64 = 1024;

/// Where a pointer lies that holds an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Holder {
    /// A variable of the program, by its address.
    Variable(u64),
    /// An object that has a finalizer, which may need what it leads to; and the finalizers themselves.
    Finalizer,
    /// A goroutine, by its number in the list: the address in its stack, or 0 for its registers.
    Stack(u32, u64),
}

/// A pointer from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The object that it leads into.
    pub target: Object,
    /// Whether it leads to its beginning.
    pub is_start: bool,
    /// Where it lies.
    pub holder: Holder,
    /// Whether it is a word of a stack that neither a variable nor the runtime's own map has: what was there before
    /// may have left it, also in what is now the stack of another goroutine.
    pub is_stale: bool,
}

/// An object that a sample of the profile is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The object.
    pub object: Object,
    /// Where the runtime keeps the stack that allocated it.
    pub bucket: u64,
}

impl Sampled {
    /// The size of the objects of its bucket, and the stack that allocated them.
    pub fn size_and_stack(&self, moment: &Moment<'_>) -> Option<(u64, Vec<u64>)> {
        let word = |offset| moment.word(self.bucket.checked_add(offset)?);
        let (size, count) = (word(SIZE)?, word(COUNT)?.min(LONGEST));
        Some((size, moment.words(self.bucket.checked_add(STACK)?, length(count))?))
    }
}

/// What kind of special it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Finalizer,
    Weak,
    Profile,
    Cleanup,
    Other,
}

impl Special {
    /// By its number, which differs between releases.
    fn of(kind: u64, minor: u32) -> Self {
        match (minor, kind) {
            (25.., 2) | (..=24, 1) => Self::Finalizer,
            (25.., 3) | (23..=24, 2) => Self::Weak,
            (25.., 4) | (..=22, 2) | (23..=24, 3) => Self::Profile,
            (25.., 7) | (24, 6) => Self::Cleanup,
            _ => Self::Other,
        }
    }
}

/// All of them, those that say most first.
#[derive(Debug, Default)]
pub struct Roots {
    /// They.
    pub all: Vec<Root>,
    /// What they tell of types.
    pub seeds: Vec<Seed>,
    /// Objects of the sampled profile.
    pub sampled: Vec<Sampled>,
    /// Objects that have a finalizer.
    pub finalized: Vec<Object>,
    /// Bytes of variables that could not be read.
    pub unread: u64,
}

impl Roots {
    /// What leads from variables whose types are known: from those of the program, and from those of functions. These come
    /// before the other words of their stacks then: what both lead to is rather called by a variable. `in_interface`: the
    /// type that an interface tells whose first word lies there.
    pub fn know(
        &mut self,
        known: KnownVariables<'_>,
        is_pointer: IsPointer<'_>,
        in_interface: &dyn Fn(u64) -> Option<u64>,
    ) -> [Vec<(Object, Slot)>; 2] {
        let is_stack = |root: &Root| matches!(root.holder, Holder::Stack(..));
        let first = self.all.iter().position(is_stack).unwrap_or(self.all.len());
        let of = |root: &Root| match root.holder {
            Holder::Variable(at) | Holder::Stack(_, at) if at != 0 => known(at),
            Holder::Variable(_) | Holder::Stack(..) | Holder::Finalizer => None,
        };
        let (mut in_variables, mut on_stacks) = (Vec::new(), Vec::new());
        for root in self.all[..first].iter().filter(|root| root.is_start) {
            in_variables.extend(of(root).map(|slot| (root.target, slot)));
        }
        // Those of one goroutine follow each other.
        let mut others = Vec::new();
        for mut root in self.all.drain(first..) {
            let slot = of(&root);
            let (number, at) = match root.holder {
                Holder::Stack(number, at) => (number, at),
                Holder::Variable(_) | Holder::Finalizer => (0, 0),
            };
            root.is_stale = at != 0 && slot.is_none() && !is_pointer(at);
            others.push(((number, slot.is_none()), root));
            if let Some(mut slot) = slot.filter(|_| root.is_start) {
                if slot.what == What::Held {
                    slot.of = at.checked_sub(8).and_then(in_interface).unwrap_or(0);
                }
                on_stacks.push((root.target, slot));
            }
        }
        others.sort_by_key(|(key, _)| *key);
        self.all.extend(others.into_iter().map(|(_, root)| root));
        [in_variables, on_stacks]
    }
}

struct Search<'a, 'm> {
    moment: &'a Moment<'m>,
    layout: &'a Layout,
    heap: &'a Heap,
    types: &'a Types<'a, 'm>,
    roots: Roots,
}

impl Roots {
    /// Finds them.
    pub fn of<'m>(
        moment: &Moment<'m>,
        layout: &Layout,
        variables: &Variables,
        heap: &Heap,
        types: &Types<'_, 'm>,
        references: &References,
        goroutines: &[Goroutine],
    ) -> Self {
        let mut search = Search { moment, layout, heap, types, roots: Self::default() };
        search.modules(variables);
        for span in 0..heap.spans.len() {
            search.specials(span, references);
        }
        search.queues(variables);
        for (number, goroutine) in (0..).zip(goroutines) {
            search.goroutine(number, goroutine);
        }
        search.roots
    }
}

impl Search<'_, '_> {
    fn add(&mut self, word: u64, holder: Holder) -> Option<Object> {
        let (target, is_start) = self.heap.find(word)?;
        if !self.heap.is_allocated(target) {
            return None;
        }
        self.roots.all.push(Root { target, is_start, holder, is_stale: false });
        is_start.then_some(target)
    }

    fn modules(&mut self, variables: &Variables) {
        let fields = &self.layout.module;
        let moment = self.moment;
        let (data_mask, bss_mask) = (
            (fields.data, fields.edata, fields.data_mask, fields.data_mask_bits),
            (fields.bss, fields.ebss, fields.bss_mask, fields.bss_mask_bits),
        );
        let mut at = variables.module;
        for _ in 0..self.types.modules.types.len() {
            for (from, to, mask, bits) in [data_mask, bss_mask] {
                let read = |field: Field| field.read(moment, at);
                if let (Some(from), Some(to), Some(mask), Some(bits)) =
                    (read(from), read(to), read(mask), read(bits))
                    && from <= to
                    && to - from <= MOST_BYTES
                {
                    self.variables(from..to, mask, bits);
                }
            }
            at = fields.next.read(moment, at).unwrap_or(0);
        }
    }

    /// Variables, of which a bit each says whether a word is a pointer.
    fn variables(&mut self, range: Range<u64>, mask: u64, bits: u64) {
        let words = bits.min((range.end - range.start) / 8);
        let mut done = 0;
        while done < words {
            let here = (words - done).min(WINDOW);
            let part = range.start + done * 8;
            let masks = self.moment.words(mask.saturating_add(done / 8), length(here.div_ceil(64)));
            let values = self.moment.words(part, length(here));
            let (Some(masks), Some(values)) = (masks, values) else {
                self.roots.unread += here * 8;
                done += here;
                continue;
            };
            let mut before = [0; 2];
            for (number, value) in (0..).zip(values) {
                let [second, first] = before;
                before = [first, value];
                let is_pointer =
                    masks.get(length(number / 64)).copied().unwrap_or(0) >> (number % 64);
                if is_pointer & 1 == 0 || value == 0 {
                    continue;
                }
                let at = part + number * 8;
                if let Some(object) = self.add(value, Holder::Variable(at))
                    && !self.types.holds_type(second)
                {
                    self.seed(first, object);
                }
            }
            done += here;
        }
    }

    fn seed(&mut self, word: u64, object: Object) {
        if let Some(of) = self.types.of_interface(word) {
            self.roots.seeds.push(Seed { object, of: of.at, by: SeedKind::Interface });
        }
    }

    /// What the runtime notes beside objects of a span.
    fn specials(&mut self, span: usize, references: &References) {
        let (moment, fields) = (self.moment, &self.layout.special);
        let span = self.heap.spans[span];
        let mut at = span.specials;
        for _ in 0..MOST_IN_LIST {
            let Some(kind) = (at != 0).then(|| fields.kind.read(moment, at)).flatten() else {
                break;
            };
            let read =
                |field: Option<Field>| field.and_then(|field| field.read(moment, at)).unwrap_or(0);
            let offset = fields.offset.read(moment, at).unwrap_or(u64::MAX);
            let slot = span.base.checked_add(offset).filter(|at| *at < span.end());
            let object = slot.and_then(|at| Some(span.first + span.slot(at)?));
            match Special::of(kind, self.layout.minor) {
                Special::Finalizer => {
                    self.add(read(Some(fields.finalizer)), Holder::Finalizer);
                    self.roots.finalized.extend(object);
                    for edge in object.map_or(&[][..], |object| references.edges(object)) {
                        let (target, is_start) = (edge.target, edge.is_to_start());
                        let holder = Holder::Finalizer;
                        self.roots.all.push(Root { target, is_start, holder, is_stale: false });
                    }
                }
                Special::Weak => {
                    self.add(read(fields.weak_handle), Holder::Finalizer);
                }
                Special::Cleanup => {
                    for field in [fields.cleanup, fields.cleanup_fn, fields.cleanup_arg] {
                        self.add(read(field), Holder::Finalizer);
                    }
                }
                Special::Profile => {
                    let bucket = read(Some(fields.bucket));
                    if let Some(object) = object.filter(|object| self.heap.is_allocated(*object)) {
                        self.roots.sampled.push(Sampled { object, bucket });
                    }
                }
                Special::Other => {}
            }
            at = fields.next.read(moment, at).unwrap_or(0);
        }
    }

    /// Finalizers and cleanups that wait to be called.
    fn queues(&mut self, variables: &Variables) {
        let (moment, fields) = (self.moment, &self.layout.special);
        let lists = [
            (variables.allfin, fields.queue_count, fields.queue_items, fields.queue_next, QUEUED),
            (
                variables.cleanups,
                fields.cleanup_count,
                fields.cleanup_items,
                fields.cleanup_next,
                8,
            ),
        ];
        for (head, count, items, next, size) in lists {
            let (Some(head), Some(count), Some(items), Some(next)) = (head, count, items, next)
            else {
                continue;
            };
            let mut at = moment.word(head).unwrap_or(0);
            for _ in 0..MOST_IN_LIST {
                let Some(own) = (at != 0).then(|| count.read(moment, at)).flatten() else { break };
                let bytes = (own.min(MOST_QUEUED * QUEUED) * size).min(items.size);
                for word in moment.words(items.place(at), length(bytes / 8)).unwrap_or_default() {
                    self.add(word, Holder::Finalizer);
                }
                at = next.read(moment, at).unwrap_or(0);
            }
        }
    }

    /// Every word of a stack that is in use may be a pointer.
    fn goroutine(&mut self, number: u32, goroutine: &Goroutine) {
        let mut at = goroutine.stack.start;
        while at < goroutine.stack.end {
            let here = (goroutine.stack.end - at).min(WINDOW * 8);
            // A stack whose end is not mapped has nothing there.
            let words = self.moment.words(at, length(here / 8)).unwrap_or_default();
            for (at, word) in (at..).step_by(8).zip(words) {
                if word != 0 {
                    self.add(word, Holder::Stack(number, at));
                }
            }
            at += here;
        }
        for word in goroutine.besides.iter().chain(&goroutine.registers) {
            self.add(*word, Holder::Stack(number, 0));
        }
    }
}

/// A number of words, which is bounded.
fn length(words: u64) -> usize {
    usize::try_from(words).unwrap_or(0)
}
