//! Who holds whom: one pass through memory, in the order of addresses, that finds every word which
//! leads into a block. Nothing else of memory is kept.

use std::ops::Range;

use super::{
    blocks::{Blocks, Hit},
    memory::{Layout, Memory},
    root_place::RootPlace,
    slack::end_of_chunk,
    {RootKind, RootSet},
};

/// So much memory is read at once.
const WINDOW: usize = 256 << 10;
const WORD: u64 = 8;
/// A word that begins in a window ends so far behind it.
const SPILL: usize = 7;

/// Words of roots that lead to the inside of a block, at most; and edges from block to block.
const MOST_INSIDE: usize = 1 << 24;
const MOST_EDGES: usize = 1 << 28;
/// Words of roots that are kept where all are asked for.
const MOST_ROOT_WORDS: usize = 1 << 22;

/// A word of a root that leads into a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootWord {
    /// Where it lies; 0 for what lies in no memory.
    pub at: u64,
    /// The block.
    pub block: u32,
    /// What kind of root.
    pub kind: RootKind,
}

/// What is noted of roots, besides their kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// Nothing.
    Kinds,
    /// By block: where the one lies that says most.
    Best,
    /// Where all of them lie.
    All,
}

/// What holds what.
#[derive(Debug)]
pub struct Graph {
    /// By block: where its edges begin; and where those of the last one end.
    starts: Vec<u32>,
    edges: Vec<Hit>,
    /// By block: the roots that hold its beginning.
    roots: Vec<RootSet>,
    /// By block: the root that says most; empty unless they are asked for.
    places: Vec<RootPlace>,
    /// Roots that lead to the inside of a block.
    inside: Vec<Hit>,
    /// Every word of a root, if they are asked for.
    root_words: Option<Vec<RootWord>>,
    /// Edges that found no room; what they lead to counts as held.
    pub beyond_limit: u64,
    /// Words looked at.
    pub words: u64,
}

struct Scan<'a> {
    blocks: &'a Blocks,
    graph: Graph,
    /// The block whose words come next, or that the next gap ends at.
    current: usize,
    /// Up to here, what is in no block is left over from one.
    slack: u64,
    low: u64,
    length: u64,
    /// Whether pointers may lie at any byte.
    unaligned: bool,
}

impl Graph {
    /// Looks through memory.
    pub fn of(blocks: &Blocks, layout: &Layout, memory: &mut impl Memory, noted: Noted) -> Self {
        let span = blocks.span();
        let graph = Self {
            starts: vec![0],
            edges: Vec::new(),
            roots: vec![RootSet::default(); blocks.len()],
            places: vec![RootPlace::default(); if noted == Noted::Best { blocks.len() } else { 0 }],
            inside: Vec::new(),
            root_words: (noted == Noted::All).then(Vec::new),
            beyond_limit: 0,
            words: 0,
        };
        let length = span.end - span.start;
        let (low, unaligned) = (span.start, layout.unaligned);
        let mut scan = Scan { blocks, graph, current: 0, slack: 0, low, length, unaligned };
        for pointer in &layout.pointers {
            if let Some(hit) = blocks.find(pointer.word) {
                let offset = if pointer.holds_whole { 0 } else { hit.offset };
                scan.graph.add_root(Hit { offset, ..hit }, pointer.root, 0);
            }
        }
        let mut buffer = vec![0; WINDOW + SPILL];
        for piece in &layout.pieces {
            let mut at = piece.range.start.next_multiple_of(WORD);
            let end = piece.range.end & !(WORD - 1);
            let is_made_code = layout.is_made_code(piece.range.start);
            while at < end && !memory.is_over() {
                let left = usize::try_from(end - at).unwrap_or(usize::MAX);
                let length = left.min(WINDOW);
                let spills = is_made_code || unaligned;
                let spill = if spills { SPILL.min(left - length) } else { 0 };
                memory.read(at, &mut buffer[..length + spill]);
                scan.window(at, &buffer[..length + spill], at + length as u64, piece.root);
                if is_made_code {
                    scan.operands(at, &buffer[..length + spill], piece.root);
                }
                at += length as u64;
            }
        }
        scan.close(blocks.len());
        scan.graph
    }

    /// What the words of a block lead to.
    pub fn edges(&self, block: u32) -> &[Hit] {
        let block = block as usize;
        &self.edges[self.starts[block] as usize..self.starts[block + 1] as usize]
    }

    /// By block: the roots that hold its beginning.
    pub fn roots(&self) -> &[RootSet] {
        &self.roots
    }

    /// Roots that lead to the inside of a block.
    pub fn inside(&self) -> &[Hit] {
        &self.inside
    }

    /// Of the roots that hold the beginning of a block the one that says most, and where it lies.
    pub fn root(&self, block: u32) -> Option<(RootKind, u64)> {
        self.places.get(block as usize)?.get()
    }

    /// Every word of a root, if they were asked for.
    pub fn take_root_words(&mut self) -> Vec<RootWord> {
        self.root_words.take().unwrap_or_default()
    }

    fn add_root(&mut self, hit: Hit, kind: RootKind, at: u64) {
        if let Some(words) = &mut self.root_words {
            if words.len() < MOST_ROOT_WORDS {
                return words.push(RootWord { at, block: hit.block, kind });
            }
            self.beyond_limit += 1;
            return self.roots[hit.block as usize].add(kind);
        }
        if hit.offset == 0 {
            self.roots[hit.block as usize].add(kind);
            if let Some(place) = self.places.get_mut(hit.block as usize) {
                place.add(kind, at);
            }
        } else if self.inside.last() == Some(&hit) {
            // Nothing new.
        } else if self.inside.len() < MOST_INSIDE {
            self.inside.push(hit);
        } else {
            self.beyond_limit += 1;
            self.roots[hit.block as usize].add(kind);
        }
    }

    fn add_edge(&mut self, hit: Hit) {
        if self.edges.len() < MOST_EDGES {
            self.edges.push(hit);
        } else {
            self.beyond_limit += 1;
            self.roots[hit.block as usize].add(RootKind::Heap);
        }
    }
}

impl Scan<'_> {
    /// Looks at a window of a piece, up to `end`; windows come in the order of their addresses.
    fn window(&mut self, start: u64, bytes: &[u8], end: u64, root: Option<RootKind>) {
        let blocks = self.blocks;
        let mut at = start;
        while at < end {
            while let Some(block) = blocks.all().get(self.current)
                && block.end() <= at
            {
                self.current += 1;
                self.close(self.current);
            }
            let block = blocks.all().get(self.current).filter(|block| block.at < end);
            let gap_end = block.map_or(end, |block| block.at.max(at));
            if let Some(kind) = root {
                let from = at.max(self.slack).min(gap_end);
                self.gap(part(bytes, start, from, gap_end), from.next_multiple_of(WORD), kind);
                if self.unaligned {
                    for (word, at) in odd(bytes, start, from..gap_end, u64::MAX) {
                        self.hit(word)
                            .into_iter()
                            .for_each(|hit| self.graph.add_root(hit, kind, at));
                    }
                }
            }
            let Some(block) = block else { return };
            if root == Some(RootKind::Mapped)
                && let [.., word] = part(bytes, start, at, gap_end)
            {
                let end = end_of_chunk(block, u64::from_le_bytes(*word));
                self.slack = end.unwrap_or(self.slack);
            }
            let body_end = block.end().min(end);
            self.body(part(bytes, start, gap_end, body_end));
            if self.unaligned {
                let words = odd(bytes, start, gap_end..body_end, block.end());
                words.for_each(|(word, _)| self.edge(word));
            }
            at = body_end;
        }
    }

    /// Edges up to this block are complete.
    fn close(&mut self, block: usize) {
        let edges = u32::try_from(self.graph.edges.len()).unwrap_or(u32::MAX);
        self.graph.starts.resize(self.graph.starts.len().max(block + 1), edges);
    }

    fn hit(&self, word: &[u8; 8]) -> Option<Hit> {
        let word = u64::from_le_bytes(*word);
        if word.wrapping_sub(self.low) >= self.length { None } else { self.blocks.find(word) }
    }

    fn body(&mut self, words: &[[u8; 8]]) {
        self.graph.words += words.len() as u64;
        words.iter().for_each(|word| self.edge(word));
    }

    /// A word of the current block.
    fn edge(&mut self, word: &[u8; 8]) {
        if let Some(hit) = self.hit(word)
            && hit.block as usize != self.current
        {
            self.graph.add_edge(hit);
        }
    }

    fn gap(&mut self, words: &[[u8; 8]], start: u64, kind: RootKind) {
        self.graph.words += words.len() as u64;
        for (word, at) in words.iter().zip((start..).step_by(8)) {
            if let Some(hit) = self.hit(word)
                && !(kind == RootKind::Heap && self.is_border(hit))
            {
                self.graph.add_root(hit, kind, at);
            }
        }
    }

    /// Pointers in the instructions of code that was made at run time lie at any byte; what holds them is
    /// the code, even if it lies in a block.
    fn operands(&mut self, start: u64, bytes: &[u8], root: Option<RootKind>) {
        let Some(kind) = root else { return };
        for (word, at) in bytes.windows(8).zip(start..) {
            if at % WORD != 0
                && let Some(word) = word.first_chunk()
                && let Some(hit) = self.hit(word)
            {
                self.graph.add_root(hit, kind, at);
            }
        }
    }

    /// Whether it leads to where glibc's next chunk begins. Its head lies before the chunk, and so
    /// in the last bytes of this block; free chunks lead to one another by their heads.
    fn is_border(&self, hit: Hit) -> bool {
        let size = self.blocks.get(hit.block).size;
        let chunk = (size.saturating_add(8)).next_multiple_of(16).max(32);
        hit.offset != 0 && u64::from(hit.offset) == chunk - 16
    }
}

/// The words that begin in a range of bytes that begin at `start`, at no multiple of a word, and end before
/// `limit`.
fn odd(
    bytes: &[u8],
    start: u64,
    range: Range<u64>,
    limit: u64,
) -> impl Iterator<Item = (&[u8; 8], u64)> {
    let offset = |at: u64| usize::try_from(at - start).unwrap_or(0).min(bytes.len());
    let end = offset(range.end).saturating_add(SPILL).min(bytes.len());
    let words = bytes[offset(range.start)..end].windows(8).zip(range.start..);
    let words = words.filter(move |(_, at)| at % WORD != 0 && at.saturating_add(WORD) <= limit);
    words.filter_map(|(word, at)| Some((word.first_chunk()?, at)))
}

/// The whole words from one address up to another, of bytes that begin at `start`.
fn part(bytes: &[u8], start: u64, from: u64, to: u64) -> &[[u8; 8]] {
    let offset = |at: u64| usize::try_from(at - start).unwrap_or(0);
    let from = offset(from.next_multiple_of(WORD)).min(bytes.len());
    let to = offset(to).clamp(from, bytes.len());
    bytes[from..to].as_chunks::<8>().0
}
