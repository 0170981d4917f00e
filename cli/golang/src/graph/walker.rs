//! The Go heap as an allocator of the census: objects, free slots, free pages, stacks, and what the runtime
//! needs to keep its books.

use std::ops::Range;

use heapattach_census::{
    Answer, Arena, Block, Bytes, Check, Moment, Region, Sink, State, Walk, Walker,
};

use super::{
    heap::Heap,
    layout::{Layout, Variables},
    span::Span,
};

/// The runtime takes memory from the system in arenas of this size.
const ARENA: u64 = 64 << 20;
/// Numbers of the arenas of the walk.
const OBJECTS: u32 = 0;
const STACKS: u32 = 1;

/// The runtime of one process, which was found before.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// The release: `go1.22.10`.
    pub version: String,
    /// Its layout.
    pub layout: Layout,
    /// Its variables.
    pub variables: Variables,
}

impl Walker for Runtime {
    fn name(&self) -> &'static str {
        "go"
    }

    fn walk(&self, moment: &Moment<'_>, sink: &mut dyn Sink) -> Answer {
        let heap = match Heap::read(moment, &self.layout, &self.variables) {
            Ok(heap) => heap,
            Err(error) => return Answer::Refused(error.to_string()),
        };
        let (objects, stacks) = (objects(&heap, sink), stacks(&heap, sink));
        let memory = memory(moment, &heap);
        let books = self.books(moment, &heap, &memory);
        let used = heap.allocated();
        let own: Vec<Range<u64>> = heap.manual.iter().map(range).collect();
        let all: Vec<Range<u64>> = {
            let mut all: Vec<_> = heap.spans.iter().map(range).chain(own.iter().cloned()).collect();
            all.sort_unstable_by_key(|range| range.start);
            all
        };
        let top = without(&memory, &all);
        let mut objects = Arena {
            name: "objects".to_owned(),
            memory: without(&memory, &own),
            bytes: objects,
            ..Arena::default()
        };
        objects.bytes.top = sum(&top);
        objects.top = top;
        let whole = sum(&objects.memory);
        objects.bytes.books = whole.saturating_sub(objects.bytes.all());
        objects.system = Some(whole);
        let stacks = Arena {
            name: "stacks of goroutines, and buffers of the runtime".to_owned(),
            system: Some(stacks.used),
            memory: own,
            bytes: stacks,
            ..Arena::default()
        };
        let runtime = Arena {
            name: "books of the runtime".to_owned(),
            bytes: Bytes { books: sum(&books), ..Bytes::default() },
            system: Some(sum(&books)),
            books,
            ..Arena::default()
        };
        let mut walk = Walk {
            layout: format!("{}, a heap of spans", self.version),
            arenas: vec![objects, stacks, runtime],
            ..Walk::default()
        };
        // A thread that was stopped in the middle of an allocation has told one of the two.
        let slack = moment.threads().len() as u64;
        let (found, told) = (used.objects, heap.counted.objects);
        walk.check(
            Some(OBJECTS),
            Check { what: "objects, and the counts of their spans", found, told, slack },
        );
        if heap.impossible > 0 {
            walk.doubt(Some(OBJECTS), format!("{} spans are damaged", heap.impossible));
        }
        Answer::Walked(walk)
    }
}

impl Runtime {
    /// Anonymous memory outside of the heap that the runtime's own structures lie in.
    fn books(&self, moment: &Moment<'_>, heap: &Heap, memory: &[Range<u64>]) -> Vec<Range<u64>> {
        let fields = &self.layout.span;
        let list = fields.allspans.place(self.variables.mheap);
        let (first, count) = (moment.word(list).unwrap_or(0), moment.word(list + 8).unwrap_or(0));
        let arenas = moment.word(fields.arenas.place(self.variables.mheap)).unwrap_or(0);
        let mut known = vec![first, arenas];
        known.extend((0..count.min(1 << 26)).filter_map(|index| moment.word(first + index * 8)));
        known.extend(heap.spans.iter().flat_map(|span| [span.alloc_bits, span.specials]));
        let mut numbers: Vec<u64> = heap.spans.iter().map(|span| span.base / ARENA).collect();
        numbers.dedup();
        for number in numbers {
            let index = (number + (1 << 47) / ARENA) * 8;
            known.push(arenas.wrapping_add(index));
            known.extend(moment.word(arenas.wrapping_add(index)));
        }
        known.sort_unstable();
        let is_books = |region: &&Region| {
            let from = known.partition_point(|at| *at < region.range.start);
            let is_known = known.get(from).is_some_and(|at| region.range.contains(at));
            is_known && region.is_private_memory() && !memory.contains(&region.range)
        };
        let all = moment.regions().iter().filter(is_books);
        // What belongs to the program file is told as that.
        let in_image = |region: &&Region| {
            let mut images = moment.images().iter();
            !images.any(|image| image.range.contains(&region.range.start))
        };
        all.filter(in_image).map(|region| region.range.clone()).collect()
    }
}

/// Objects and free slots.
fn objects(heap: &Heap, sink: &mut dyn Sink) -> Bytes {
    let mut bytes = Bytes::default();
    for span in &heap.spans {
        for slot in 0..span.slots {
            let is_used = heap.is_allocated(span.first + slot);
            let state = if is_used { State::Used } else { State::Free };
            bytes.add(state, span.size);
            sink.block(Block {
                at: span.place(slot),
                size: span.size,
                state,
                arena: OBJECTS,
                class: u32::from(span.class),
            });
        }
    }
    bytes
}

/// Spans that the runtime frees itself.
fn stacks(heap: &Heap, sink: &mut dyn Sink) -> Bytes {
    let mut bytes = Bytes::default();
    for span in &heap.manual {
        let size = span.end() - span.base;
        bytes.add(State::Used, size);
        sink.block(Block { at: span.base, size, state: State::Used, arena: STACKS, class: 0 });
    }
    bytes
}

fn range(span: &Span) -> Range<u64> {
    span.base..span.end()
}

/// The memory of the arenas: the mappings that have a span.
fn memory(moment: &Moment<'_>, heap: &Heap) -> Vec<Range<u64>> {
    let mut starts: Vec<u64> =
        heap.spans.iter().chain(&heap.manual).map(|span| span.base).collect();
    starts.sort_unstable();
    let has_span = |region: &&Region| {
        let from = starts.partition_point(|at| *at < region.range.start);
        region.is_private_memory() && starts.get(from).is_some_and(|at| region.range.contains(at))
    };
    moment.regions().iter().filter(has_span).map(|region| region.range.clone()).collect()
}

/// What of these ranges is in none of those; both ascend.
fn without(ranges: &[Range<u64>], those: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut rest = Vec::new();
    for range in ranges {
        let mut at = range.start;
        let first = those.partition_point(|other| other.end <= range.start);
        for other in those[first..].iter().take_while(|other| other.start < range.end) {
            if other.start > at {
                rest.push(at..other.start);
            }
            at = at.max(other.end);
        }
        if at < range.end {
            rest.push(at..range.end);
        }
    }
    rest
}

fn sum(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_ranges_is_what_no_other_covers() {
        let (ranges, those) = ([0..100, 200..300], [10..20, 20..30, 90..210, 290..400]);
        assert_eq!(without(&ranges, &those), [0..10, 30..90, 210..290]);
        assert_eq!(without(&ranges, &[]), ranges);
    }
}
