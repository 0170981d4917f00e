//! What happened, as files of version 1 tell it; none are written any more.
//!
//! Blocks of one size, stack and thread are a *kind*, defined where it first occurs. What happens is
//! a sequence of symbols (a kind was allocated, a kind was freed), and what comes next is
//! guessed from the last seven of them, else from the last three, else from the last one. Two bits
//! tell which guess is right. What was learned in one block is used in the next.

use crate::format::varint::In;
use heapattach_profile::{Change, Kind, RowId, Tick};

/// Guesses of each kind, as a power of two: more would not stay in a cache.
const GUESS_BITS: u32 = 15;

const TICK: u32 = 0;
const RESTORED: u32 = 1;
const MAPPED: u32 = 2;
const MAPPED_UNKEPT: u32 = 3;
const UNMAPPED: u32 = 4;
const REMAINED: u32 = 5;
const UNKEPT: u32 = 6;
const UNKEPT_EXCHANGED: u32 = 7;
/// From here on: kind times three, and what became of it.
const KINDS: u32 = 8;
const EXCHANGED: u32 = 1;
const FREED: u32 = 2;

/// A block of changes has no room for more.
const MOST_KINDS: usize = 1 << 28;

#[derive(Debug)]
struct Guesser {
    tables: [Vec<u32>; GUESSERS],
    /// The last seven, mixed: each shifts the older ones up, and the eighth out.
    mixed: u64,
    last: [u32; 3],
}

/// From how much is guessed: seven, three, one.
const GUESSERS: usize = 3;

impl Guesser {
    fn new() -> Self {
        Self { tables: [(); GUESSERS].map(|()| vec![0; 1 << GUESS_BITS]), mixed: 0, last: [0; 3] }
    }

    fn places(&self) -> [usize; GUESSERS] {
        let [a, b, c] = self.last.map(u64::from);
        let three = a ^ b.rotate_left(21) ^ c.rotate_left(42);
        [self.mixed, three, a].map(|number| {
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - GUESS_BITS);
            usize::try_from(hash).unwrap_or_default()
        })
    }

    /// The symbol, by which guess of it is right.
    fn give(&mut self, guess: u8, literal: impl FnOnce() -> Option<u32>) -> Option<u32> {
        let places = self.places();
        let guess = usize::from(guess);
        let symbol = match self.tables.get(guess) {
            Some(table) => table[places[guess]],
            None => literal()?,
        };
        self.learn(places, symbol);
        Some(symbol)
    }

    fn learn(&mut self, places: [usize; GUESSERS], symbol: u32) {
        self.tables.iter_mut().zip(places).for_each(|(table, place)| table[place] = symbol);
        let [first, second, _] = self.last;
        self.last = [symbol, first, second];
        self.mixed = self.mixed << 9 ^ u64::from(symbol).wrapping_mul(0x9e37_79b1);
    }
}

/// Reads block after block.
#[derive(Debug)]
pub struct Decoder {
    kinds: Vec<Kind>,
    guesser: Guesser,
    last: (u64, u64),
}

impl Default for Decoder {
    fn default() -> Self {
        Self { kinds: Vec::new(), guesser: Guesser::new(), last: (0, 0) }
    }
}

impl Decoder {
    /// Tells the changes of a block, each with its time in ticks, until `tell` has enough. `None` if
    /// they are nonsense, or if the block before was not read; what came before that was told.
    pub fn decode(
        &mut self,
        content: &[u8],
        mut tell: impl FnMut(u64, &Change) -> bool,
    ) -> Option<()> {
        let mut all = In::new(content);
        let mut now = all.number()?;
        let count = all.number()?;
        match usize::try_from(all.number()?).ok()? {
            0 => *self = Self::default(),
            known if known == self.kinds.len() => {}
            _ => return None,
        }
        let definitions = In::new(all.bytes()?);
        let guesses = all.bytes()?;
        let [mut literals, mut details, mut ages] =
            [all.bytes()?, all.bytes()?, all.bytes()?].map(In::new);
        self.define(definitions)?;
        let Self { kinds, guesser, .. } = self;
        if count.div_ceil(4) != guesses.len() as u64 {
            return None;
        }
        let kind_at = |number: u32| kinds.get(number as usize).copied();
        let each = (0..count)
            .zip(guesses.iter().flat_map(|&byte| (0..8).step_by(2).map(move |by| byte >> by & 3)));
        for (_, guess) in each {
            let symbol = guesser.give(guess, || literals.small())?;
            let ticks = Tick::of(now);
            let ago = |from: &mut In<'_>| Some(ticks.minus(from.small()?));
            let change = match symbol {
                TICK => {
                    now = now.checked_add(details.number()?)?;
                    continue;
                }
                RESTORED => {
                    let kind = kind_at(details.small()?)?;
                    Change::Restored { kind, birth: ago(&mut details)?, death: ago(&mut details)? }
                }
                MAPPED | MAPPED_UNKEPT | UNMAPPED | REMAINED => {
                    let (row, bytes) = (RowId(details.small()?), details.number()?);
                    match symbol {
                        UNMAPPED => Change::Unmapped { row, bytes, birth: None },
                        REMAINED => Change::Remained { row, bytes, birth: None },
                        _ => Change::Mapped { row, bytes, kept: symbol == MAPPED },
                    }
                }
                UNKEPT | UNKEPT_EXCHANGED => {
                    let kind = kind_at(details.small()?)?;
                    Change::Allocated { kind, kept: false, exchanged: symbol == UNKEPT_EXCHANGED }
                }
                _ => {
                    let kind = kind_at((symbol - KINDS) / 3)?;
                    match (symbol - KINDS) % 3 {
                        FREED => Change::Freed { kind, birth: ago(&mut ages)? },
                        what => {
                            Change::Allocated { kind, kept: true, exchanged: what == EXCHANGED }
                        }
                    }
                }
            };
            if !tell(now, &change) {
                return Some(());
            }
        }
        Some(())
    }

    fn define(&mut self, mut definitions: In<'_>) -> Option<()> {
        while !definitions.is_empty() {
            let row = RowId(definitions.small()?);
            let (size, interval) = self.last;
            self.last = (definitions.distance(size)?, definitions.distance(interval)?);
            self.kinds.push(Kind::new(row, self.last.0, self.last.1));
        }
        (self.kinds.len() <= MOST_KINDS).then_some(())
    }
}
