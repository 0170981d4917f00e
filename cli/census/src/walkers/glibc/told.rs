//! Gives the blocks to the sink, and sums up what each arena has.

use crate::{Arena, Block, Sink, State};

use super::{HEAD, Heap, chunks::Mark, thread_caches::Caches};

/// What is a chunk's own of its bytes: its size. Of a block in use the word behind it is the block's.
const OWN: u64 = 8;

impl Heap {
    /// All blocks, in the order of addresses in each segment.
    pub fn tell(&mut self, caches: &Caches, sink: &mut dyn Sink) {
        let mut arenas: Vec<Arena> = self
            .arenas
            .iter()
            .enumerate()
            .map(|(index, books)| {
                let name = if index == 0 { "main".to_owned() } else { format!("arena {index}") };
                let (at, system) = (books.range.start, Some(books.system));
                let own = books.range.clone();
                Arena { name, at, system, books: vec![own], ..Arena::default() }
            })
            .collect();
        for segment in &self.chunks.segments {
            let Some(arena) = usize::try_from(segment.arena).ok().and_then(|i| arenas.get_mut(i))
            else {
                continue;
            };
            let mut told = 0;
            for chunk in segment.all() {
                // A cache is the allocator's.
                let Some(state) = state(chunk.mark) else { continue };
                let size = chunk.size - OWN;
                arena.bytes.add(state, size);
                told += size;
                let (at, arena) = (chunk.at + HEAD, segment.arena);
                sink.block(Block { at, size, state, arena, class: 0 });
            }
            arena.memory.push(segment.whole.clone());
            let index = usize::try_from(segment.arena).unwrap_or(0);
            let top = self.arenas[index].top.clone().filter(|top| top.start == segment.range.end);
            let top = top.map(|top| top.start..top.end.min(segment.whole.end).max(top.start));
            arena.top.extend(top.clone());
            let top = top.map_or(0, |top| top.end - top.start);
            arena.bytes.top += top;
            let whole = segment.whole.end - segment.whole.start;
            arena.bytes.books += whole.saturating_sub(told + top);
        }
        if !self.chunks.mapped.is_empty() {
            arenas.push(self.tell_mapped(arenas.len(), sink));
        }
        self.walk.arenas = arenas;
        if caches.orphaned > 0 {
            let note = format!("{} caches are of threads that are no more", caches.orphaned);
            self.walk.notes.push(note);
        }
    }

    /// The chunks with mappings of their own: they belong to no arena.
    fn tell_mapped(&self, index: usize, sink: &mut dyn Sink) -> Arena {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let mut arena = Arena { name: "mapped".to_owned(), ..Arena::default() };
        arena.system = self.parameters.map(|parameters| parameters.mapped_bytes);
        for chunk in &self.chunks.mapped {
            let Some(state) = state(chunk.mark) else { continue };
            let (at, size) = (chunk.at + HEAD, chunk.usable);
            arena.bytes.add(state, size);
            arena.bytes.books += chunk.total.saturating_sub(size);
            arena.memory.push(chunk.base..chunk.base + chunk.total);
            sink.block(Block { at, size, state, arena: number, class: 0 });
        }
        arena
    }
}

fn state(mark: Mark) -> Option<State> {
    match mark {
        Mark::Used => Some(State::Used),
        Mark::Free | Mark::Fast => Some(State::Free),
        Mark::Cached => Some(State::Cached),
        Mark::Cache => None,
    }
}
