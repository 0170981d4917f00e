//! From what was seen of a stopped target to what a check asks for: which ranges are looked through,
//! and what a pointer in each of them counts for.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use heapattach_injector::moment::{self, Area, Image, Scene};

use heapattach_reach::{Block, Layout, Memory, Piece, Pointer, RootKind, RootSet};

use super::live_heap::LiveHeap;

/// Memory that was kept of the target, as a check looks through it.
pub struct Picture<'a, 't>(pub &'a mut Image<'t>);

impl Memory for Picture<'_, '_> {
    fn read(&mut self, at: u64, buffer: &mut [u8]) {
        self.0.read(at, buffer);
    }

    fn is_over(&self) -> bool {
        self.0.is_late()
    }
}

/// The same, with a word now and then how much of it was looked through.
pub struct Told<'a, 't> {
    picture: Picture<'a, 't>,
    done: u64,
    all: u64,
    next: Instant,
    tell: &'a mut dyn FnMut(u64, u64),
}

/// Between two words.
const PAUSE: Duration = Duration::from_millis(100);

impl<'a, 't> Told<'a, 't> {
    /// Of what this layout has.
    pub fn new(image: &'a mut Image<'t>, of: &Layout, tell: &'a mut dyn FnMut(u64, u64)) -> Self {
        let sizes = of.pieces.iter().map(|piece| piece.range.end.saturating_sub(piece.range.start));
        let all = sizes.fold(0, u64::saturating_add);
        Self { picture: Picture(image), done: 0, all, next: Instant::now(), tell }
    }
}

impl Memory for Told<'_, '_> {
    fn read(&mut self, at: u64, buffer: &mut [u8]) {
        // Some of it is looked at twice.
        self.done = self.done.saturating_add(buffer.len() as u64).min(self.all);
        let now = Instant::now();
        if now >= self.next {
            (self.tell)(self.done, self.all);
            self.next = now + PAUSE;
        }
        self.picture.read(at, buffer);
    }

    fn is_over(&self) -> bool {
        self.picture.is_over()
    }
}

/// The blocks that the dynamic loader asked for.
fn loaders(scene: &Scene, heap: &LiveHeap, blocks: &[Block]) -> Vec<Pointer> {
    let is_loaders = |block: &&Block| {
        let caller = heap.stack(block.stack).first();
        caller.is_some_and(|at| scene.loader.iter().any(|code| code.contains(at)))
    };
    let pointer =
        |block: &Block| Pointer { word: block.at, root: RootKind::Loader, holds_whole: true };
    blocks.iter().filter(is_loaders).map(pointer).collect()
}

/// What is looked through, and what pointers there are, of the kinds that are `wanted`. If every block
/// since the start is known (`is_complete`), what is in none of them is the allocator's, and so it is in
/// `books`, sorted, which allocators mapped for themselves, or of which they know every block.
pub fn layout(
    scene: &Scene,
    wanted: RootSet,
    is_complete: bool,
    books: &[Range<u64>],
    heap: &LiveHeap,
    blocks: &[Block],
) -> Layout {
    let loaders = match wanted.has(RootKind::Loader) {
        true => loaders(scene, heap, blocks),
        false => Vec::new(),
    };
    let root = |kind: RootKind| {
        // What is in no block of a heap that is known as a whole is the allocator's own.
        let means_nothing = kind == RootKind::Heap && is_complete;
        (wanted.has(kind) && !means_nothing).then_some(kind)
    };
    let pieces = |area: &Area| {
        let root = root(area.holder);
        // What follows the variables of a module may be its last ones, or mapped there by chance.
        let may_be = matches!(area.holder, RootKind::Mapped | RootKind::Globals | RootKind::Heap);
        let books = if may_be { books } else { &[] };
        let parts = divide(&area.range, books).into_iter();
        parts.map(move |(range, is_book)| Piece { range, root: root.filter(|_| !is_book) })
    };
    let pointer = |pointer: &moment::Pointer| {
        let root = root(pointer.holder)?;
        Some(Pointer { word: pointer.word, root, holds_whole: pointer.is_whole })
    };
    Layout {
        pieces: scene.areas.iter().flat_map(pieces).collect(),
        pointers: scene.pointers.iter().filter_map(pointer).chain(loaders).collect(),
        code: scene.code.clone(),
        files: scene.files.clone(),
        unaligned: false,
    }
}

/// The parts of a range, each with whether it lies in one of the sorted `books`.
pub(crate) fn divide(range: &Range<u64>, books: &[Range<u64>]) -> Vec<(Range<u64>, bool)> {
    let (mut parts, mut at) = (Vec::new(), range.start);
    let first = books.partition_point(|book| book.end <= range.start);
    for book in books[first..].iter().take_while(|book| book.start < range.end) {
        let (start, end) = (book.start.max(at), book.end.min(range.end));
        parts.push((at..start, false));
        parts.push((start..end, true));
        at = end;
    }
    parts.push((at..range.end, false));
    parts.retain(|(part, _)| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_divided_where_books_begin_and_end() {
        let books = [0..5, 10..20, 20..30, 60..90, 200..300];
        let expected = [(12..20, true), (20..30, true), (30..60, false), (60..80, true)];
        assert_eq!(divide(&(12..80), &books), expected);
        assert_eq!(divide(&(100..110), &books), [(100..110, false)]);
        assert_eq!(divide(&(1..2), &[]), [(1..2, false)]);
    }
}
