//! What is likely to happen next, from what has happened: writer and reader learn the same from the
//! same.
//!
//! Most programs repeat themselves. What a block is (whose, of what size) and what becomes of it is
//! a *symbol*; the next is guessed from the last seven, else from the last three, else from the last
//! alone. Where no guess is right it may be that blocks are freed in the order in which they
//! were allocated, or in the opposite one. Else the stack is told, and of that stack the size, or
//! which of the blocks it asked for lately is freed.

use crate::format::{
    coder::{Coder, Odds, choose},
    numbers::Numbers,
    recent::{Recent, Side},
    recent_by_stack::{BLOCKS, Remembered, Shelf},
};

/// Something that happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// One of [`WHATS`] things, of which the model knows the first three.
    pub what: usize,
    /// To whose block, by the number of the row.
    pub row: u32,
    /// The block's size.
    pub size: u64,
    /// When it was allocated, if it is freed.
    pub birth: u32,
}

/// A block is allocated.
pub const ALLOCATED: usize = 0;
/// The same, for an older one.
pub const EXCHANGED: usize = 1;
/// A block is freed.
pub const FREED: usize = 2;

const WHATS: usize = 16;
/// Guesses of each kind, as a power of two: more would not stay in a cache.
const GUESS_BITS: u32 = 15;
/// From how much is guessed: seven, three, one.
const GUESSERS: usize = 3;
/// As a power of two; with more stacks, some share a shelf.
const SHELF_BITS: u32 = 15;
/// Blocks of this size and more, and rows from this one on, are told, never guessed.
const LARGE: u64 = 1 << 32;
const ROWS: u32 = 1 << 28;
/// Contexts of what came of the last guesses, two bits each.
const COURSES: usize = 1 << 8;
/// Contexts of how sure the guesses are, two bits each.
const SURE: usize = 1 << 6;

/// Everything that was learned.
#[derive(Debug)]
pub struct Model {
    /// As [`Guess::kept`], so that memory is taken only where something was learned.
    guesses: [Vec<u64>; GUESSERS],
    /// The last seven symbols, mixed: each shifts the older ones up, and the eighth out.
    mixed: u64,
    last: [u64; 3],
    /// Which guesses were right of late.
    course: usize,
    hits: Vec<[Odds; GUESSERS]>,
    recent: Recent,
    /// Which neighbours were freed of late.
    nearness: usize,
    neighbours: Vec<[Odds; 2]>,
    whats: [[Odds; WHATS]; WHATS],
    what: usize,
    rows: Numbers,
    sizes: Numbers,
    is_last_size: Odds,
    /// As many as were used.
    shelves: Vec<Shelf>,
    on_shelf: [Odds; BLOCKS],
    births: Vec<[Odds; 2]>,
    ages: Numbers,
    /// Any other numbers.
    pub details: Numbers,
}

/// A symbol, and in the upper two bits how often it was right of late.
#[derive(Clone, Copy, Debug)]
struct Guess(u64);

impl Guess {
    const SURENESS: u32 = 62;
    const SUREST: u64 = 3;
    const NONE: u64 = (1 << Self::SURENESS) - 1;

    /// One that is kept as [`Self::kept`] says.
    fn of(kept: u64) -> Self {
        Self(kept ^ Self::NONE)
    }

    /// As a word that is 0 where nothing was learned.
    fn kept(self) -> u64 {
        self.0 ^ Self::NONE
    }

    fn symbol(self) -> u64 {
        self.0 & Self::NONE
    }

    fn sureness(self) -> u64 {
        self.0 >> Self::SURENESS
    }

    fn learn(&mut self, symbol: u64) {
        let sure = self.sureness();
        *self = Self(match self.symbol() {
            known if known == symbol => symbol | (sure + 1).min(Self::SUREST) << Self::SURENESS,
            known if sure > 1 => known | (sure / 2) << Self::SURENESS,
            _ => symbol,
        });
    }
}

impl Default for Model {
    fn default() -> Self {
        Self {
            guesses: [(); GUESSERS].map(|()| vec![0; 1 << GUESS_BITS]),
            mixed: 0,
            last: [0; 3],
            course: 0,
            hits: vec![Default::default(); COURSES * SURE],
            recent: Recent::default(),
            nearness: 0,
            neighbours: vec![Default::default(); COURSES],
            whats: Default::default(),
            what: 0,
            rows: Numbers::default(),
            sizes: Numbers::default(),
            is_last_size: Odds::default(),
            shelves: Vec::new(),
            on_shelf: Default::default(),
            births: vec![Default::default(); COURSES],
            ages: Numbers::default(),
            details: Numbers::default(),
        }
    }
}

/// What happens, to whose block, and its size in one word; `None` for what is never guessed.
fn symbol(event: &Event) -> Option<u64> {
    let fits = event.what <= FREED && event.size < LARGE && event.row < ROWS;
    fits.then_some((event.what as u64) << 60 | u64::from(event.row) << 32 | event.size)
}

/// What such a word says: what happens, to whose block, of what size.
fn parts(symbol: u64) -> (usize, u32, u32) {
    let [high, low] = [symbol >> 32, symbol % LARGE].map(|n| u32::try_from(n).unwrap_or(0));
    ((high / ROWS) as usize, high % ROWS, low)
}

impl Model {
    /// Codes what happens at `now` next.
    #[inline]
    pub fn code(&mut self, coder: &mut impl Coder, event: Event, now: u32) -> Event {
        let places = self.places();
        let (right, guess) = self.guess(coder, places, symbol(&event));
        let told = if right < GUESSERS {
            self.guessed(coder, guess, event, now)
        } else {
            match self.neighbour(coder, event) {
                Some(freed) => freed,
                None => self.told(coder, event, now),
            }
        };
        self.course = (self.course << 2 | right) % COURSES;
        if let Some(symbol) = symbol(&told) {
            self.learn(places, symbol);
        }
        told
    }

    /// Codes a row and a number of bytes.
    pub fn block(&mut self, coder: &mut impl Coder, row: u32, bytes: u64) -> (u32, u64) {
        (self.rows.code_small(coder, row), self.sizes.code(coder, bytes))
    }

    /// Which guess is right, and what it says.
    fn guess(
        &mut self,
        coder: &mut impl Coder,
        places: [usize; GUESSERS],
        wanted: Option<u64>,
    ) -> (usize, u64) {
        let guesses: [Guess; GUESSERS] =
            std::array::from_fn(|at| Guess::of(self.guesses[at][places[at]]));
        let sure = guesses.iter().fold(0, |all, guess| all << 2 | guess.sureness());
        let context = self.course * SURE + usize::try_from(sure).unwrap_or(0);
        let odds = &mut self.hits[context];
        for (number, guess) in guesses.iter().map(|guess| guess.symbol()).enumerate() {
            // One that was wrong is not right the second time.
            let is_new = guesses[..number].iter().all(|other| other.symbol() != guess);
            if guess != Guess::NONE
                && is_new
                && coder.decide(&mut odds[number], Some(guess) == wanted)
            {
                return (number, guess);
            }
        }
        (GUESSERS, Guess::NONE)
    }

    fn guessed(&mut self, coder: &mut impl Coder, guess: u64, event: Event, now: u32) -> Event {
        let (what, row, small) = parts(guess);
        self.what = what;
        let size = u64::from(small);
        let birth = if what == FREED {
            self.birth(coder, row, small, event.birth)
        } else {
            self.put(row, small, now);
            now
        };
        Event { what, row, size, birth }
    }

    /// Whether the block was allocated just before or after the one that was freed last.
    fn neighbour(&mut self, coder: &mut impl Coder, event: Event) -> Option<Event> {
        for side in Side::BOTH {
            let Some((number, block)) = self.recent.neighbour(side) else { continue };
            let freed =
                Event { what: FREED, row: block.row, size: block.size.into(), birth: block.birth };
            let odds = &mut self.neighbours[self.nearness][side as usize];
            if coder.decide(odds, freed == event) {
                self.nearness = (self.nearness << 2 | (1 + side as usize)) % COURSES;
                self.what = FREED;
                self.recent.free(number);
                let shelf = shelf(&mut self.shelves, block.row);
                shelf.freed = block.birth;
                let _ = shelf.take_if(|other| other.number == number);
                return Some(freed);
            }
        }
        self.nearness = (self.nearness << 2) % COURSES;
        None
    }

    /// An event that no model predicted.
    fn told(&mut self, coder: &mut impl Coder, event: Event, now: u32) -> Event {
        let what = choose(coder, &mut self.whats[self.what], event.what);
        self.what = what;
        if what > FREED {
            return Event { what, ..Event::default() };
        }
        let row = self.rows.code_small(coder, event.row);
        if what != FREED {
            let size = self.size(coder, row, event.size);
            if let Ok(small) = u32::try_from(size) {
                self.put(row, small, now);
            }
            return Event { what, row, size, birth: now };
        }
        let shelf = shelf(&mut self.shelves, row);
        for at in (0..shelf.all().len()).rev() {
            let Remembered { size, birth, .. } = shelf.all()[at];
            let is = (u64::from(size), birth) == (event.size, event.birth);
            let odds = &mut self.on_shelf[shelf.all().len() - 1 - at];
            if coder.decide(odds, is) {
                shelf.freed = birth;
                self.recent.free(shelf.take(at).number);
                return Event { what, row, size: size.into(), birth };
            }
        }
        let size = self.size(coder, row, event.size);
        let small = u32::try_from(size).unwrap_or(u32::MAX);
        Event { what, row, size, birth: self.birth(coder, row, small, event.birth) }
    }

    /// When the block that is freed was allocated: most often it is the youngest of its size,
    /// or as old as the one before.
    fn birth(&mut self, coder: &mut impl Coder, row: u32, size: u32, birth: u32) -> u32 {
        let shelf = shelf(&mut self.shelves, row);
        let odds = &mut self.births[usize::from(shelf.course)];
        let youngest = shelf.all().iter().rev().find(|block| block.size == size);
        let youngest = youngest.map_or(shelf.freed, |block| block.birth);
        let (born, right) = if coder.decide(&mut odds[0], youngest == birth) {
            (youngest, 0)
        } else if youngest != shelf.freed && coder.decide(&mut odds[1], shelf.freed == birth) {
            (shelf.freed, 1)
        } else {
            let far = birth.wrapping_sub(shelf.freed).cast_signed();
            let far = self.ages.code_small(coder, (far << 1 ^ far >> 31).cast_unsigned());
            (shelf.freed.wrapping_add(far >> 1 ^ (far & 1).wrapping_neg()), 2)
        };
        shelf.course = shelf.course << 2 | right;
        shelf.freed = born;
        let taken = shelf.take_if(|block| (block.size, block.birth) == (size, born));
        let number = taken.map(|block| block.number);
        if let Some(number) = number.or_else(|| self.recent.find(row, size, born)) {
            self.recent.free(number);
        }
        born
    }

    /// The size of a block of this row: perhaps the last one again.
    fn size(&mut self, coder: &mut impl Coder, row: u32, size: u64) -> u64 {
        let last = shelf(&mut self.shelves, row).last.into();
        if coder.decide(&mut self.is_last_size, size == last) {
            return last;
        }
        self.sizes.code(coder, size)
    }

    fn put(&mut self, row: u32, size: u32, birth: u32) {
        let number = self.recent.put(row, size, birth);
        shelf(&mut self.shelves, row).put(Remembered { size, birth, number });
    }

    /// Where the guesses are.
    fn places(&self) -> [usize; GUESSERS] {
        let [a, b, c] = self.last;
        let three = a ^ b.rotate_left(21) ^ c.rotate_left(42);
        [self.mixed, three, a].map(|number| {
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - GUESS_BITS);
            usize::try_from(hash).unwrap_or_default()
        })
    }

    fn learn(&mut self, places: [usize; GUESSERS], symbol: u64) {
        for (guesses, place) in self.guesses.iter_mut().zip(places) {
            let mut guess = Guess::of(guesses[place]);
            guess.learn(symbol);
            guesses[place] = guess.kept();
        }
        let [first, second, _] = self.last;
        let spread = (symbol ^ symbol >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.last = [spread, first, second];
        self.mixed = self.mixed << 9 ^ spread >> 32;
    }
}

/// The shelf of a row, made if there is none yet.
#[inline]
fn shelf(shelves: &mut Vec<Shelf>, row: u32) -> &mut Shelf {
    let number = row as usize % (1 << SHELF_BITS);
    if number >= shelves.len() {
        more_shelves(shelves, number);
    }
    &mut shelves[number]
}

#[cold]
fn more_shelves(shelves: &mut Vec<Shelf>, number: usize) {
    shelves.resize((number + 1).next_power_of_two().min(1 << SHELF_BITS), Shelf::default());
}
