//! Which object leads to which: one pass over the heap in the order of addresses, in which each word that the
//! runtime calls a pointer is looked up. Of memory nothing else is kept.

use heapattach_census::Moment;
use heapattach_process::little_endian::u64_at;

use super::{
    heap::{Heap, Object, index},
    pointers::{Pointers, SpanPointers},
    span::Span,
    types::Types,
};

/// So much memory is read at once; a larger span is read alone.
const WINDOW: usize = 1 << 20;
/// No object's pointers are read beyond this.
const MOST_BYTES: u64 = 1 << 32;
/// References that are kept.
const MOST_EDGES: usize = 1 << 28;

/// A pointer in an object that leads to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The object that it leads to.
    pub target: Object,
    /// The number of the word, twice; odd if it leads into the middle of the object.
    place: u32,
}

impl Edge {
    /// Where in the object it lies.
    pub fn offset(self) -> u64 {
        u64::from(self.place >> 1) * 8
    }

    /// Whether it leads to the beginning of the object.
    pub fn is_to_start(self) -> bool {
        self.place & 1 == 0
    }
}

/// A type that memory itself tells of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// The object.
    pub object: Object,
    /// The type.
    pub of: u64,
    /// How it is told.
    pub by: SeedKind,
}

/// How a type is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedKind {
    /// By its own first word, or by its span: it is one of these or an array of them, from this byte on.
    Head(u8),
    /// By an interface that leads to it: the word before the pointer is of this type.
    Interface,
}

/// All references.
#[derive(Debug, Default)]
pub struct References {
    /// By object: where its edges begin; one more at the end.
    starts: Vec<u32>,
    edges: Vec<Edge>,
    /// What is told of types.
    pub seeds: Vec<Seed>,
    /// Pointers to slots that are not allocated.
    pub dangling: u64,
    /// Edges that found no room.
    pub beyond_limit: u64,
    /// Bytes that could not be read.
    pub unread: u64,
}

impl References {
    /// Finds them.
    pub fn of(
        moment: &Moment<'_>,
        heap: &Heap,
        pointers: &Pointers<'_, '_>,
        types: &Types<'_, '_>,
    ) -> Self {
        let mut all = Self::default();
        all.starts.reserve_exact(heap.slots() + 1);
        let mut scan = Scan { heap, pointers, types, all, buffer: Vec::new() };
        let mut at = 0;
        while let Some(span) = heap.spans.get(at) {
            if span.is_plain {
                scan.skip(span);
                at += 1;
                continue;
            }
            let run = run(&heap.spans[at..]);
            scan.run(moment, &heap.spans[at..at + run]);
            at += run;
        }
        scan.all.starts.push(number(scan.all.edges.len()));
        scan.all
    }

    /// Where an object leads to.
    pub fn edges(&self, object: Object) -> &[Edge] {
        let place = index(object);
        match (self.starts.get(place), self.starts.get(place + 1)) {
            (Some(from), Some(to)) => &self.edges[*from as usize..*to as usize],
            _ => &[],
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }
}

/// Spans that can be read in one go: with pointers, and one behind the other.
fn run(spans: &[Span]) -> usize {
    let mut bytes = 0;
    let mut end = spans.first().map_or(0, |span| span.base);
    let fits = |span: &&Span| {
        bytes += span.end() - span.base;
        let follows = span.base == end && !span.is_plain;
        end = span.end();
        follows && bytes <= WINDOW as u64
    };
    spans.iter().take_while(fits).count().max(1)
}

struct Scan<'a, 'm> {
    heap: &'a Heap,
    pointers: &'a Pointers<'a, 'm>,
    types: &'a Types<'a, 'm>,
    all: References,
    buffer: Vec<u8>,
}

impl Scan<'_, '_> {
    fn skip(&mut self, span: &Span) {
        let here = number(self.all.edges.len());
        let length = self.all.starts.len() + index(span.slots);
        self.all.starts.resize(length, here);
    }

    fn run(&mut self, moment: &Moment<'_>, spans: &[Span]) {
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else { return };
        let length = (last.end() - first.base).min(MOST_BYTES);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(usize::try_from(length).unwrap_or(WINDOW), 0);
        let read = moment.read(first.base, &mut buffer);
        self.all.unread += (buffer.len() - read) as u64;
        buffer[read..].fill(0);
        for span in spans {
            let from = usize::try_from(span.base - first.base).unwrap_or(usize::MAX);
            let to = usize::try_from(span.end() - first.base).unwrap_or(usize::MAX);
            let bytes = buffer.get(from..to.min(buffer.len())).unwrap_or(&[]);
            self.span(span, bytes);
        }
        if buffer.len() > WINDOW {
            buffer = Vec::new();
        }
        self.buffer = buffer;
    }

    fn span(&mut self, span: &Span, bytes: &[u8]) {
        let how = self.pointers.of_span(span);
        for slot in 0..span.slots {
            self.all.starts.push(number(self.all.edges.len()));
            let object = span.first + slot;
            if self.heap.is_allocated(object) {
                self.object(span, how, bytes, slot, object);
            }
        }
    }

    #[inline]
    fn object(&mut self, span: &Span, how: SpanPointers, bytes: &[u8], slot: u32, object: Object) {
        // The first word of the value: an interface cannot begin before it.
        let mut first = 0;
        if let Some(typed) = self.pointers.typed(span, how, bytes, slot) {
            first = u64::from(typed.from != 0);
            let by = SeedKind::Head(if typed.from == 0 { 0 } else { 8 });
            self.all.seeds.push(Seed { object, of: typed.of, by });
        }
        let base = usize::try_from(u64::from(slot) * span.size).unwrap_or(usize::MAX);
        let (heap, types, all) = (self.heap, self.types, &mut self.all);
        self.pointers.each(span, how, bytes, slot, |word| {
            let place = usize::try_from(word * 8).ok().and_then(|at| base.checked_add(at));
            let value = place.and_then(|place| u64_at(bytes, place)).unwrap_or(0);
            if value == 0 {
                return;
            }
            if let Some((target, is_start)) = heap.find(value) {
                if !heap.is_allocated(target) {
                    all.dangling += 1;
                } else if all.edges.len() < MOST_EDGES {
                    let number = u32::try_from(word << 1).unwrap_or(u32::MAX - 1);
                    all.edges.push(Edge { target, place: number | u32::from(!is_start) });
                    // The first word of an interface counts as no pointer.
                    if is_start
                        && word > first
                        && let Some(before) = place.and_then(|at| u64_at(bytes, at - 8))
                        && heap.span_at(before).is_none()
                        && let Some(of) = types.of_interface(before)
                        && !(word > 1
                            && place
                                .and_then(|at| u64_at(bytes, at - 16))
                                .is_some_and(|first| types.holds_type(first)))
                    {
                        let by = SeedKind::Interface;
                        all.seeds.push(Seed { object: target, of: of.at, by });
                    }
                } else {
                    all.beyond_limit += 1;
                }
            }
        });
    }
}

/// There are fewer edges than that.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
