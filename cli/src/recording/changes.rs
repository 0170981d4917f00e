//! What happened, in the order it happened, in a fraction of a byte each where a program repeats
//! itself.
//!
//! Blocks of one size, stack and thread are a *kind*, defined where it first occurs. So that what
//! happens is a sequence of few different symbols (a kind was handed out, a kind was given back),
//! and what comes next is guessed from the last three, else from the last one alone. Two bits tell
//! whether a guess was right; they are mostly the same, and compression makes next to nothing of
//! them. Addresses are not kept: which block it was that was given back is known by then, and what
//! is told of it is when it was handed out.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
};

use super::wire::{In, Out};
use crate::profile::{Change, Journal, Kind, RowId, Tick};

/// A block of changes is closed when it is so large.
pub const ENOUGH: usize = 1 << 20;

/// Guesses by the last three symbols, and by the last one.
const GUESSES: usize = 1 << 15;

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

/// Kinds of one block of changes at most.
const KINDS_LIMIT: usize = 1 << 28;

#[derive(Debug)]
struct Guesser {
    by_three: Vec<u32>,
    by_one: Vec<u32>,
    last: [u32; 3],
}

/// How a symbol was guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guess {
    ByThree = 0,
    ByOne = 1,
    Wrong = 2,
}

impl Guesser {
    fn new() -> Self {
        Self { by_three: vec![0; GUESSES], by_one: vec![0; GUESSES], last: [0; 3] }
    }

    fn places(&self) -> (usize, usize) {
        let [a, b, c] = self.last.map(u64::from);
        let three = a ^ b.rotate_left(21) ^ c.rotate_left(42);
        let hash = |number: u64| {
            let product = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 49;
            usize::try_from(product).unwrap_or(0) % GUESSES
        };
        (hash(three), hash(a))
    }

    fn take(&mut self, symbol: u32) -> Guess {
        let (three, one) = self.places();
        let guess = if self.by_three[three] == symbol {
            Guess::ByThree
        } else if self.by_one[one] == symbol {
            Guess::ByOne
        } else {
            Guess::Wrong
        };
        self.learn(three, one, symbol);
        guess
    }

    fn give(&mut self, guess: u8, literal: impl FnOnce() -> Option<u32>) -> Option<u32> {
        let (three, one) = self.places();
        let symbol = match guess {
            0 => self.by_three[three],
            1 => self.by_one[one],
            2 => literal()?,
            _ => return None,
        };
        self.learn(three, one, symbol);
        Some(symbol)
    }

    fn learn(&mut self, three: usize, one: usize, symbol: u32) {
        self.by_three[three] = symbol;
        self.by_one[one] = symbol;
        let [first, second, _] = self.last;
        self.last = [symbol, first, second];
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

    /// About how many bytes it has by now.
    pub fn len(&self) -> usize {
        let columns = [&self.definitions, &self.literals, &self.details, &self.ages];
        self.guesses.len() + columns.iter().map(|out| out.0.len()).sum::<usize>()
    }

    /// The content of a block.
    pub fn finish(self) -> Vec<u8> {
        let mut out = Out::default();
        out.number(self.begin);
        out.number(self.count);
        out.number(self.kinds.len() as u64);
        for column in [self.definitions, Out(self.guesses), self.literals, self.details, self.ages]
        {
            out.bytes(&column.0);
        }
        out.0
    }

    fn put(&mut self, symbol: u32) {
        let guess = self.guesser.take(symbol);
        let shift = self.count % 4 * 2;
        if shift == 0 {
            self.guesses.push(0);
        }
        if let Some(last) = self.guesses.last_mut() {
            *last |= (guess as u8) << shift;
        }
        self.count += 1;
        if guess == Guess::Wrong {
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

/// Tells the changes of a block, each with its time in ticks, until `tell` has enough. `None` if
/// they are nonsense; what came before that was told.
pub fn decode(content: &[u8], mut tell: impl FnMut(u64, &Change) -> bool) -> Option<()> {
    let mut all = In::new(content);
    let mut now = all.number()?;
    let count = all.number()?;
    let kinds = usize::try_from(all.number()?).ok()?;
    let definitions = In::new(all.bytes()?);
    let guesses = all.bytes()?;
    let [mut literals, mut details, mut ages] =
        [all.bytes()?, all.bytes()?, all.bytes()?].map(In::new);
    let kinds = define(definitions, kinds)?;
    if count.div_ceil(4) != guesses.len() as u64 {
        return None;
    }
    let kind_at = |number: u32| kinds.get(number as usize).copied();
    let mut guesser = Guesser::new();
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
                    what => Change::Allocated { kind, kept: true, exchanged: what == EXCHANGED },
                }
            }
        };
        if !tell(now, &change) {
            return Some(());
        }
    }
    Some(())
}

fn define(mut definitions: In<'_>, count: usize) -> Option<Vec<Kind>> {
    let mut kinds = Vec::new();
    let mut last = (0, 0);
    while !definitions.is_empty() && kinds.len() < KINDS_LIMIT {
        let row = RowId(definitions.small()?);
        last = (definitions.distance(last.0)?, definitions.distance(last.1)?);
        kinds.push(Kind::new(row, last.0, last.1));
    }
    (kinds.len() == count).then_some(kinds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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

    proptest! {
        #[test]
        fn what_happened_is_told_as_it_happened(changes in changes()) {
            let mut told = Vec::new();
            let whole = decode(&encoded(&changes), |now, change| { told.push((now, *change)); true });
            prop_assert_eq!(whole, Some(()));
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
        let bytes =
            super::super::block::encode(super::super::block::Content::Changes, &encoder.finish());
        assert!(bytes.unwrap().len() < 4_000, "of 400 thousand events");
    }
}
