//! What happened, in the order it happened, in a fraction of a byte each where a program repeats
//! itself.
//!
//! Blocks of one size, stack and thread are a *kind*, defined where it first occurs. So that what
//! happens is a sequence of few different symbols (a kind was handed out, a kind was given back),
//! and what comes next is guessed from the last seven of them, else from the last three, else from
//! the last one alone. Two bits tell which guess was right; they are mostly the same, and compression
//! makes next to nothing of them. What was learned in one block of changes is used in the next, so
//! that they have to be read in their order. Addresses are not kept: which block it was that was given back is known by then, and what
//! is told of it is when it was handed out.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
};

use super::wire::{In, Out};
use crate::profile::{Change, Journal, Kind, RowId, Tick};

/// A block of changes is closed when it is so large.
const ENOUGH: usize = 1 << 20;

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
const ALLOCATED: u32 = 0;
const EXCHANGED: u32 = 1;
const FREED: u32 = 2;

/// So many kinds are known at once; with more, everything is learned anew.
const KINDS_LIMIT: usize = 1 << 20;
/// A block of changes that begins anew may exceed the limit by as much as it has room for.
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
/// No guess was right.
const WRONG: u8 = 3;

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

    /// Which guess of a symbol is right.
    fn take(&mut self, symbol: u32) -> u8 {
        let places = self.places();
        let mut guesses = self.tables.iter().zip(places).map(|(table, place)| table[place]);
        let right = guesses.position(|guess| guess == symbol);
        self.learn(places, symbol);
        right.and_then(|right| u8::try_from(right).ok()).unwrap_or(WRONG)
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

/// A hash that is quick, and that nobody outside can foresee.
#[derive(Clone, Debug)]
struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        let [low, high] = [product, product >> 64]
            .map(|half| u64::try_from(half & u128::from(u64::MAX)).unwrap_or_default());
        self.0 = low ^ high;
    }
}

impl BuildHasher for Quick {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        self.clone()
    }
}

/// Changes on their way out.
#[derive(Debug)]
pub struct Encoder {
    begin: u64,
    now: u64,
    kinds: HashMap<Kind, u32, Quick>,
    definitions: Out,
    guesses: Vec<u8>,
    literals: Out,
    details: Out,
    ages: Out,
    guesser: Guesser,
    count: u64,
    /// Kinds that were known before this block.
    known: usize,
    /// Size and interval of the last definition.
    last: (u64, u64),
}

impl Encoder {
    /// Changes from this time on, in ticks since counting began.
    pub fn new(begin: u64) -> Self {
        let seed = RandomState::new().hash_one(0_u64);
        let (definitions, literals, details, ages) = Default::default();
        Self {
            begin,
            now: begin,
            kinds: HashMap::with_hasher(Quick(seed)),
            definitions,
            guesses: Vec::new(),
            literals,
            details,
            ages,
            guesser: Guesser::new(),
            count: 0,
            known: 0,
            last: (0, 0),
        }
    }

    /// What follows happened at this time.
    pub fn set_now(&mut self, now: u64) {
        if now > self.now {
            self.put(TICK);
            self.details.number(now - self.now);
            self.now = now;
        }
    }

    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether it is time to close the block.
    pub fn is_much(&self) -> bool {
        self.len() >= ENOUGH
    }

    /// About how many bytes it has by now.
    fn len(&self) -> usize {
        let columns = [&self.definitions, &self.literals, &self.details, &self.ages];
        self.guesses.len() + columns.iter().map(|out| out.0.len()).sum::<usize>()
    }

    /// The content of a block; more may follow.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = Out::default();
        out.number(self.begin);
        out.number(self.count);
        out.number(self.known as u64);
        let columns = [&mut self.definitions.0, &mut self.guesses, &mut self.literals.0];
        for column in columns.into_iter().chain([&mut self.details.0, &mut self.ages.0]) {
            out.bytes(column);
            column.clear();
        }
        // Whoever reads takes a block without known kinds for one that begins anew.
        if self.kinds.is_empty() || self.kinds.len() > KINDS_LIMIT {
            *self = Self::new(self.now);
        }
        (self.begin, self.count, self.known) = (self.now, 0, self.kinds.len());
        out.0
    }

    fn put(&mut self, symbol: u32) {
        let guess = self.guesser.take(symbol);
        let shift = self.count % 4 * 2;
        if shift == 0 {
            self.guesses.push(0);
        }
        if let Some(last) = self.guesses.last_mut() {
            *last |= guess << shift;
        }
        self.count += 1;
        if guess == WRONG {
            self.literals.number(symbol.into());
        }
    }

    fn number_of(&mut self, kind: &Kind) -> u32 {
        let next = u32::try_from(self.kinds.len()).unwrap_or(u32::MAX);
        let Self { kinds, definitions, last, .. } = self;
        *kinds.entry(*kind).or_insert_with(|| {
            let (size, interval) = (kind.size, u64::from(kind.interval()));
            definitions.number(kind.row.0.into());
            definitions.distance(last.0, size);
            definitions.distance(last.1, interval);
            *last = (size, interval);
            next
        })
    }

    fn put_kind(&mut self, kind: &Kind, what: u32) {
        let number = self.number_of(kind);
        self.put(KINDS + number * 3 + what);
    }

    fn put_pages(&mut self, symbol: u32, row: RowId, bytes: u64) {
        self.put(symbol);
        self.details.number(row.0.into());
        self.details.number(bytes);
    }

    fn age(&self, birth: Tick) -> u64 {
        Tick::of(self.now).since(birth).into()
    }
}

impl Journal for Encoder {
    fn note(&mut self, change: &Change) {
        match *change {
            Change::Allocated { kind, kept: true, exchanged } => {
                self.put_kind(&kind, if exchanged { EXCHANGED } else { ALLOCATED });
            }
            Change::Allocated { kind, kept: false, exchanged } => {
                let number = self.number_of(&kind);
                self.put(if exchanged { UNKEPT_EXCHANGED } else { UNKEPT });
                self.details.number(number.into());
            }
            Change::Freed { kind, birth } => {
                self.put_kind(&kind, FREED);
                self.ages.number(self.age(birth));
            }
            Change::Restored { kind, birth, death } => {
                let number = self.number_of(&kind);
                self.put(RESTORED);
                self.details.number(number.into());
                self.details.number(self.age(birth));
                self.details.number(self.age(death));
            }
            Change::Mapped { row, bytes, kept } => {
                self.put_pages(if kept { MAPPED } else { MAPPED_UNKEPT }, row, bytes);
            }
            Change::Unmapped { row, bytes } => self.put_pages(UNMAPPED, row, bytes),
            Change::Remained { row, bytes } => self.put_pages(REMAINED, row, bytes),
        }
    }
}

/// When the changes of a block begin.
pub fn begin(content: &[u8]) -> Option<u64> {
    In::new(content).number()
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
                        UNMAPPED => Change::Unmapped { row, bytes },
                        REMAINED => Change::Remained { row, bytes },
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::recording::block::{self, Content, Effort};

    fn changes() -> impl Strategy<Value = Vec<(u64, Change)>> {
        let kind = (0..6u32, 0..9u64, 0..3u64)
            .prop_map(|(row, size, interval)| Kind::new(RowId(row), size * size * 9000, interval));
        let row = || (0..9u32).prop_map(RowId);
        let tick = || any::<u32>().prop_map(Tick);
        let change = prop_oneof![
            6 => (kind.clone(), any::<bool>(), any::<bool>())
                .prop_map(|(kind, kept, exchanged)| Change::Allocated { kind, kept, exchanged }),
            6 => (kind.clone(), tick()).prop_map(|(kind, birth)| Change::Freed { kind, birth }),
            1 => (kind, tick(), tick())
                .prop_map(|(kind, birth, death)| Change::Restored { kind, birth, death }),
            1 => (row(), any::<u64>(), any::<bool>())
                .prop_map(|(row, bytes, kept)| Change::Mapped { row, bytes, kept }),
            1 => (row(), any::<u64>()).prop_map(|(row, bytes)| Change::Unmapped { row, bytes }),
            1 => (row(), any::<u64>()).prop_map(|(row, bytes)| Change::Remained { row, bytes }),
        ];
        let steps = prop::collection::vec((0..3u64, change), 0..200);
        steps.prop_map(|steps| {
            let mut now = 1 << 33;
            steps
                .into_iter()
                .map(|(pause, change)| {
                    now += pause * pause;
                    (now, change)
                })
                .collect()
        })
    }

    fn encoded(changes: &[(u64, Change)]) -> Vec<u8> {
        let mut encoder = Encoder::new(1 << 33);
        for (now, change) in changes {
            encoder.set_now(*now);
            encoder.note(change);
        }
        encoder.finish()
    }

    fn decode(bytes: &[u8], tell: impl FnMut(u64, &Change) -> bool) -> Option<()> {
        Decoder::default().decode(bytes, tell)
    }

    proptest! {
        #[test]
        fn what_happened_is_told_as_it_happened(changes in changes()) {
            let mut told = Vec::new();
            let whole = decode(&encoded(&changes), |now, change| { told.push((now, *change)); true });
            prop_assert_eq!(whole, Some(()));
            prop_assert_eq!(told, changes);
        }

        #[test]
        fn blocks_go_on_where_the_one_before_ended(changes in changes(), parts in 1..9usize) {
            let mut encoder = Encoder::new(1 << 33);
            let mut blocks = Vec::new();
            for part in changes.chunks(changes.len().div_ceil(parts).max(1)) {
                for (now, change) in part {
                    encoder.set_now(*now);
                    encoder.note(change);
                }
                blocks.push(encoder.finish());
            }
            let (mut decoder, mut told) = (Decoder::default(), Vec::new());
            for block in &blocks {
                let whole = decoder.decode(block, |now, change| { told.push((now, *change)); true });
                prop_assert_eq!(whole, Some(()));
            }
            prop_assert_eq!(told, changes);
        }

        #[test]
        fn any_bytes_are_survived(changes in changes(), at: prop::sample::Index, by: u8) {
            let mut bytes = encoded(&changes);
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            let mut told = 0;
            let _ = decode(&bytes, |_, _| { told += 1; true });
            prop_assert!(told <= 4 * bytes.len());
        }
    }

    #[test]
    fn a_program_that_repeats_itself_takes_a_quarter_of_a_byte_an_event() {
        let mut encoder = Encoder::new(0);
        for turn in 0..10_000 {
            encoder.set_now(turn / 100);
            let kinds = (1..=20).map(|size| Kind::new(RowId(2), size * 8, 1));
            for kind in kinds {
                encoder.note(&Change::Allocated { kind, kept: true, exchanged: false });
                encoder.note(&Change::Freed { kind, birth: Tick::of(turn / 100) });
            }
        }
        let bytes = block::encode(Content::Changes, &encoder.finish(), Effort::Usual);
        assert!(bytes.unwrap().len() < 4_000, "of 400 thousand events");
    }
}
