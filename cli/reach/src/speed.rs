//! How long a check takes; asked for by name, since it says nothing in a debug build.

use std::time::Instant;

use super::{Block, Blocks, Layout, Memory, Piece, RootKind, check};

const HEAP: u64 = 0x5555_0000_0000;
const ROOTS: u64 = 0x7000_0000_0000;
const BLOCKS: u64 = 1_000_000;
const STEP: u64 = 112;

/// A heap of words in one piece, and one word of roots.
struct Flat(Vec<u8>);

impl Memory for Flat {
    fn read(&mut self, at: u64, buffer: &mut [u8]) {
        buffer.fill(0);
        if at == ROOTS {
            buffer[..8].copy_from_slice(&HEAP.to_le_bytes());
        } else if let Ok(from) = usize::try_from(at.wrapping_sub(HEAP))
            && let Some(bytes) = self.0.get(from..)
        {
            let length = buffer.len().min(bytes.len());
            buffer[..length].copy_from_slice(&bytes[..length]);
        }
    }
}

#[test]
#[ignore = "measures: cargo test --release -p heapattach-reach --lib speed -- --ignored --nocapture"]
fn a_million_blocks_within_a_second() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes = vec![0; usize::try_from(BLOCKS * STEP).unwrap()];
    for block in 0..BLOCKS {
        for word in 0..12 {
            // A third points to a random place in the heap, two of twelve to the beginning of a block.
            let place = usize::try_from(block * STEP + word * 8).unwrap();
            let value = match word {
                0 | 5 => HEAP + random() % BLOCKS * STEP,
                1 => HEAP + random() % (BLOCKS * STEP),
                _ => random(),
            };
            bytes[place..place + 8].copy_from_slice(&value.to_le_bytes());
        }
    }
    let block = |number| Block { at: HEAP + number * STEP, size: 96, stack: 0 };
    let told: Vec<_> = (0..BLOCKS).map(block).collect();
    let pieces = vec![
        Piece { range: HEAP..HEAP + BLOCKS * STEP, root: None },
        Piece { range: ROOTS..ROOTS + 8, root: Some(RootKind::Stacks) },
    ];
    let layout = Layout { pieces, ..Layout::default() };
    let since = Instant::now();
    let blocks = Blocks::new(told);
    let checked = check(&blocks, &layout, &mut Flat(bytes), 0);
    let took = since.elapsed();
    println!("{} words of {BLOCKS} blocks: {took:?}, {:?}", checked.words, checked.findings.sums);
    assert!(took.as_secs() < 1, "{took:?}");
}
