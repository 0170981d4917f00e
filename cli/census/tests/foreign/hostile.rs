//! Heaps whose books were overwritten: every walk ends, soon and without a panic.

use std::{
    collections::BTreeMap,
    ops::Range,
    time::{Duration, Instant},
};

use heapattach_census::{Answer, Block, Memory, Moment, Region, Thread, Walk, Walker};

const PAGE: u64 = 4096;
/// A walk takes some milliseconds here.
const MOST_TIME: Duration = Duration::from_secs(30);

/// Memory as it was, with some words changed.
pub struct Changed {
    parts: Vec<(u64, Vec<u8>)>,
    words: BTreeMap<u64, u64>,
    regions: Vec<Region>,
    threads: Vec<Thread>,
}

impl Changed {
    /// A copy of all memory that is private or of variables.
    pub fn copy(memory: &dyn Memory, regions: Vec<Region>, threads: Vec<Thread>) -> Self {
        let writable = regions.iter().filter(|region| region.writable && region.readable);
        let mut parts = Vec::new();
        for part in writable.flat_map(|region| memory.present(&region.range)) {
            let mut bytes = vec![0; usize::try_from(part.end - part.start).unwrap()];
            let read = memory.read(part.start, &mut bytes);
            bytes.truncate(read);
            parts.push((part.start, bytes));
        }
        Self { parts, words: BTreeMap::new(), regions, threads }
    }

    fn part(&self, at: u64) -> Option<&(u64, Vec<u8>)> {
        let index = self.parts.partition_point(|(start, _)| *start <= at);
        let part = self.parts.get(index.checked_sub(1)?)?;
        (at < part.0 + part.1.len() as u64).then_some(part)
    }
}

impl Memory for Changed {
    fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            let from = at.saturating_add(done as u64);
            let Some((start, bytes)) = self.part(from) else { break };
            let offset = usize::try_from(from - start).unwrap();
            let length = (bytes.len() - offset).min(buffer.len() - done);
            buffer[done..done + length].copy_from_slice(&bytes[offset..offset + length]);
            done += length;
        }
        let end = at.saturating_add(done as u64);
        for (word, value) in self.words.range(at.saturating_sub(7)..end) {
            for (own, byte) in (*word..).zip(value.to_le_bytes()) {
                if (at..end).contains(&own) {
                    buffer[usize::try_from(own - at).unwrap()] = byte;
                }
            }
        }
        done
    }

    fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let parts = self.parts.iter().map(|(start, bytes)| *start..start + bytes.len() as u64);
        let parts = parts.map(|part| part.start.max(range.start)..part.end.min(range.end));
        parts.filter(|part| part.start < part.end).collect()
    }
}

struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below.max(1)
    }

    /// A word of one of these ranges.
    fn place(&mut self, ranges: &[Range<u64>]) -> u64 {
        let range = &ranges[usize::try_from(self.next(ranges.len() as u64)).unwrap()];
        (range.start + self.next(range.end - range.start)) & !7
    }
}

/// Walks with words changed: those of books, and those that are not zero among the variables.
pub fn assert_bounded(mut changed: Changed, walker: &dyn Walker, walk: &Walk, blocks: &[Block]) {
    let regions = changed.regions.clone();
    let mapped: u64 = regions.iter().map(Region::bytes).sum();
    let private: Vec<_> =
        regions.iter().filter(|r| r.is_private_memory()).map(|r| r.range.clone()).collect();
    let books = places_of_books(&changed, walk, blocks);
    assert!(books.len() > 100, "{} words of books", books.len());
    let mut chance = Chance(0x1234_5678_9abc_def1);
    let mut answers = BTreeMap::<&str, u32>::new();
    for round in 0..400 {
        changed.words.clear();
        for _ in 0..1 + chance.next(1 << (round % 12)) {
            let at = books[usize::try_from(chance.next(books.len() as u64)).unwrap()];
            let mut old = [0; 8];
            changed.read(at, &mut old);
            let old = u64::from_le_bytes(old);
            let other = books[usize::try_from(chance.next(books.len() as u64)).unwrap()];
            let word = match chance.next(9) {
                0 => 0,
                1 => u64::MAX,
                2 => old ^ 1 << chance.next(64),
                3 => old.wrapping_add(8 << chance.next(20)),
                4 => chance.place(&private),
                5 => other,
                6 => at,
                7 => chance.next(u64::MAX),
                _ => old.rotate_left(16),
            };
            changed.words.insert(at, word);
        }
        let moment = Moment::new(&changed, regions.clone(), changed.threads.clone());
        let mut blocks = Vec::new();
        let before = Instant::now();
        let answer = walker.walk(&moment, &mut blocks);
        let took = before.elapsed();
        assert!(took < MOST_TIME, "round {round} took {took:?}");
        assert!(blocks.len() as u64 <= mapped / 8, "round {round}: {} blocks", blocks.len());
        let answer = match answer {
            Answer::Absent => "absent",
            Answer::Refused(_) => "refused",
            Answer::Walked(walk) if walk.is_exact() => "exact",
            Answer::Walked(_) => "inexact",
        };
        *answers.entry(answer).or_default() += 1;
    }
    eprintln!("{answers:?}");
    assert!(answers.contains_key("inexact"), "{answers:?}");
}

/// Words that are not zero outside of blocks.
fn places_of_books(changed: &Changed, walk: &Walk, blocks: &[Block]) -> Vec<u64> {
    let mut memory: Vec<_> = walk.arenas.iter().flat_map(|arena| arena.memory.clone()).collect();
    memory.sort_by_key(|range| range.start);
    let mut places = Vec::new();
    for (start, bytes) in &changed.parts {
        let (words, _) = bytes.as_chunks::<8>();
        for (at, word) in (*start..).step_by(8).zip(words) {
            let index = memory.partition_point(|range| range.end <= at);
            let is_heap = memory.get(index).is_some_and(|range| range.start <= at);
            if *word != [0; 8] && (!is_heap || at % PAGE < 64 || !is_in_block(blocks, at)) {
                places.push(at);
            }
        }
    }
    places
}

fn is_in_block(blocks: &[Block], at: u64) -> bool {
    let index = blocks.partition_point(|block| block.at <= at);
    index.checked_sub(1).is_some_and(|index| at < blocks[index].at + blocks[index].size)
}
