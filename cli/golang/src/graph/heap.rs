//! The heap of a Go program at a moment: its objects, by number and by address.

use std::collections::HashMap;

use heapattach_census::Moment;

use super::{
    layout::{Layout, Variables},
    span::{PAGE, Span, Spans, Use},
};

/// Pages of an arena of the table: 64 MiB.
const ARENA_PAGES: usize = 8192;
const ARENA: u64 = PAGE * ARENA_PAGES as u64;

/// The number of a slot: an object, or room for one.
pub type Object = u32;

/// Why a heap cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeapError {
    /// The list of spans cannot be read.
    #[error("the runtime's list of spans cannot be read")]
    Spans,
    /// There is none.
    #[error("the runtime's list of spans names none in use")]
    Empty,
    /// So many spans are impossible that the layout must be wrong.
    #[error("{0} of {1} spans are impossible")]
    Impossible(u64, u64),
}

/// The heap.
#[derive(Debug)]
pub struct Heap {
    /// Spans of objects, ascending.
    pub spans: Vec<Span>,
    /// Spans of stacks.
    pub manual: Vec<Span>,
    /// Spans that are damaged.
    pub impossible: u64,
    /// By arena: by page the number of a span and one more, or 0.
    arenas: HashMap<u64, Box<[u32]>>,
    /// The arena that was asked for last is the likeliest: arenas by their number, from the first on.
    near: Vec<Option<Box<[u32]>>>,
    low: u64,
    /// A bit for each slot.
    allocated: Vec<u64>,
    /// By the number of an object, less its lowest bits: the first span that can have it.
    by_number: Vec<u32>,
    /// Allocated objects as the runtime counts them, and their bytes.
    pub counted: Sum,
}

/// Objects and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Objects.
    pub objects: u64,
    /// Bytes, rounded up to the size class.
    pub bytes: u64,
}

impl Sum {
    /// Adds one object.
    pub fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// So many bits of an object's number do not count in the index.
const GRANULE: u32 = 7;
/// Arenas beyond the first that are looked up without a hash.
const NEAR: u64 = 1 << 14;

impl Heap {
    /// Reads it.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn read(
        moment: &Moment<'_>,
        layout: &Layout,
        variables: &Variables,
    ) -> Result<Self, HeapError> {
        let Spans { all, impossible } =
            Spans::read(moment, layout, variables).ok_or(HeapError::Spans)?;
        let told = all.len() as u64 + impossible;
        if all.is_empty() {
            return Err(HeapError::Empty);
        }
        // A few can be damaged; a wrong layout makes nearly all of them so.
        if impossible * 10 > told {
            return Err(HeapError::Impossible(impossible, told));
        }
        let (spans, manual): (Vec<Span>, Vec<Span>) =
            all.into_iter().partition(|span| span.usage == Use::Objects);
        let slots = spans.last().map_or(0, |span| span.first + span.slots);
        let mut heap = Self {
            low: spans.first().map_or(0, |span| span.base / ARENA),
            spans,
            manual,
            impossible,
            arenas: HashMap::new(),
            near: Vec::new(),
            allocated: vec![0; index(slots).div_ceil(64)],
            by_number: Vec::new(),
            counted: Sum::default(),
        };
        heap.index_pages();
        heap.index_numbers();
        heap.read_allocated(moment);
        Ok(heap)
    }

    fn index_pages(&mut self) {
        for (number, span) in (1..).zip(&self.spans) {
            for page in 0..span.pages {
                let at = span.base + page * PAGE;
                let arena = at / ARENA;
                let fresh = || vec![0; ARENA_PAGES].into_boxed_slice();
                let pages = match usize::try_from(arena - self.low) {
                    Ok(near) if arena - self.low < NEAR => {
                        if self.near.len() <= near {
                            self.near.resize(near + 1, None);
                        }
                        self.near[near].get_or_insert_with(fresh)
                    }
                    _ => self.arenas.entry(arena).or_insert_with(fresh),
                };
                pages[index_in_arena(at)] = number;
            }
        }
    }

    fn index_numbers(&mut self) {
        let mut span = 0;
        for granule in 0..=self.slots() >> GRANULE {
            let first = granule << GRANULE;
            while self.spans.get(span + 1).is_some_and(|next| index(next.first) <= first) {
                span += 1;
            }
            self.by_number.push(u32::try_from(span).unwrap_or(u32::MAX));
        }
    }

    /// Which objects are allocated: those before the free index, and those whose bit is set.
    fn read_allocated(&mut self, moment: &Moment<'_>) {
        for span in &self.spans {
            self.counted.objects += u64::from(span.allocated);
            self.counted.bytes += u64::from(span.allocated) * span.size;
            let mut bits = 0;
            for slot in 0..span.slots {
                if slot & 63 == 0 {
                    let at = span.alloc_bits.saturating_add(u64::from(slot / 8));
                    bits = moment.word(at).unwrap_or(0);
                }
                if slot < span.free_index || bits >> (slot & 63) & 1 != 0 {
                    let number = index(span.first + slot);
                    self.allocated[number / 64] |= 1 << (number % 64);
                }
            }
        }
    }

    /// Slots, allocated or not.
    pub fn slots(&self) -> usize {
        self.spans.last().map_or(0, |span| index(span.first + span.slots))
    }

    /// Whether an object is allocated.
    #[inline]
    pub fn is_allocated(&self, object: Object) -> bool {
        let number = index(object);
        self.allocated.get(number / 64).is_some_and(|bits| bits >> (number % 64) & 1 != 0)
    }

    /// The number of the span that an address lies in.
    #[inline]
    pub fn span_at(&self, at: u64) -> Option<usize> {
        let arena = at / ARENA;
        let pages = match usize::try_from(arena.wrapping_sub(self.low)) {
            Ok(near) if near < self.near.len() => self.near[near].as_ref()?,
            _ if self.arenas.is_empty() => return None,
            _ => self.arenas.get(&arena)?,
        };
        (index(pages[index_in_arena(at)])).checked_sub(1)
    }

    /// The slot that an address leads into, and whether it leads to its beginning.
    #[inline]
    pub fn find(&self, at: u64) -> Option<(Object, bool)> {
        let span = &self.spans[self.span_at(at)?];
        let slot = span.slot(at)?;
        Some((span.first + slot, span.place(slot) == at))
    }

    /// The span of an object.
    pub fn span_of(&self, object: Object) -> &Span {
        let granule = index(object) >> GRANULE;
        let from = self.by_number.get(granule).map_or(0, |span| index(*span));
        let to = self.by_number.get(granule + 1).map_or(self.spans.len(), |span| index(*span) + 1);
        match &self.spans[from..to] {
            [one] => one,
            few => {
                let behind = few.partition_point(|span| span.first <= object);
                &few[behind.saturating_sub(1)]
            }
        }
    }

    /// Where an object lies.
    pub fn place(&self, object: Object) -> u64 {
        let span = self.span_of(object);
        span.place(object - span.first)
    }

    /// Allocated objects and their bytes, by the bits.
    pub fn allocated(&self) -> Sum {
        let mut sum = Sum::default();
        for span in &self.spans {
            let own = (span.first..span.first + span.slots).filter(|one| self.is_allocated(*one));
            let objects = own.count() as u64;
            sum.objects += objects;
            sum.bytes += objects * span.size;
        }
        sum
    }
}

fn index_in_arena(at: u64) -> usize {
    // Less than the pages of an arena.
    usize::try_from(at / PAGE % ARENA_PAGES as u64).unwrap_or(0)
}

/// A number of an object as an index.
pub fn index(object: Object) -> usize {
    object as usize
}
