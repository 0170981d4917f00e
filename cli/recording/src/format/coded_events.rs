//! What happened, in the order it happened, in a fraction of a bit each where a program repeats
//! itself: what a [`Model`] foresees takes nothing but the word that it was right.
//!
//! What was learned in one block of changes is used in the next, so that they have to be read in
//! their order. Addresses are not kept: which block it was that was freed is known by then, and
//! what is told of it is when it was allocated.
//!
//! Where more happens than can be foreseen in time, a block of changes is plain (`plain_events`); nothing is
//! learned of that.

use crate::format::{
    coder::{Coder, Eye, MOST_IN_A_BYTE, Pen},
    plain_events,
    predictor::{ALLOCATED, EXCHANGED, Event, FREED, Model},
    varint::{In, Out},
};
use heapattach_profile::{Change, Journal, Kind, RowId, Tick};

/// A block of changes is closed when it is so large, or of so many.
const ENOUGH: usize = 1 << 18;
const MANY: u64 = 1 << 23;
/// Bytes that a block may have less than its changes would take.
const SLACK: u64 = 16;

/// In place of a block's number: it is plain, and counts among no others.
const PLAIN: u64 = u64::MAX;

// What happens besides the three things that a model foresees.
pub(crate) const TICK: usize = 3;
pub(crate) const INTERVAL: usize = 4;
pub(crate) const UNKEPT: usize = 5;
pub(crate) const UNKEPT_EXCHANGED: usize = 6;
pub(crate) const RESTORED: usize = 7;
pub(crate) const MAPPED: usize = 8;
pub(crate) const MAPPED_UNKEPT: usize = 9;
pub(crate) const UNMAPPED: usize = 10;
pub(crate) const REMAINED: usize = 11;
// The same with when they were mapped.
pub(crate) const UNMAPPED_OF: usize = 12;
pub(crate) const REMAINED_OF: usize = 13;

/// Changes on their way out.
#[derive(Debug)]
pub struct Encoder {
    begin: u64,
    now: u64,
    interval: u32,
    /// Made when something happens: its tables are large, and many a session is short.
    model: Option<Box<Model>>,
    pen: Pen,
    count: u64,
    /// Blocks since everything was learned anew.
    blocks: u64,
    /// Where what happens is told as it is.
    plain: Option<plain_events::Encoder>,
}

impl Encoder {
    /// Changes from this time on, in ticks since counting began.
    pub fn new(begin: u64) -> Self {
        let (model, pen) = Default::default();
        Self { begin, now: begin, interval: 1, model, pen, count: 0, blocks: 0, plain: None }
    }

    /// Whether what follows is told as it is, in a small part of the time and in more bytes. To be asked
    /// for where nothing has happened yet, since a block is one or the other.
    pub fn set_plain(&mut self, is_plain: bool) {
        debug_assert!(self.is_empty());
        self.plain = is_plain.then(plain_events::Encoder::default);
    }

    /// Whether it is.
    pub fn is_plain(&self) -> bool {
        self.plain.is_some()
    }

    /// What follows happened at this time.
    pub fn set_now(&mut self, now: u64) {
        if now <= self.now {
            return;
        }
        match &mut self.plain {
            Some(plain) => plain.set_now(now - self.now),
            None => {
                self.put(TICK);
                self.detail(now - self.now);
            }
        }
        self.now = now;
    }

    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.plain.as_ref().is_none_or(plain_events::Encoder::is_empty)
    }

    /// Whether it is time to close the block.
    pub fn is_much(&self) -> bool {
        let bytes = self.plain.as_ref().map_or(self.pen.len(), plain_events::Encoder::len);
        bytes >= ENOUGH || self.count >= MANY
    }

    /// The content of a block; more may follow.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = Out::default();
        out.number(self.begin);
        if let Some(plain) = &mut self.plain {
            self.begin = self.now;
            out.number(plain.count());
            out.number(PLAIN);
            out.0.extend(plain.finish());
            return out.0;
        }
        out.number(self.count);
        out.number(self.blocks);
        out.0.extend(self.pen.finish());
        (self.begin, self.count, self.blocks) = (self.now, 0, self.blocks + 1);
        out.0
    }

    fn put(&mut self, what: usize) {
        self.code(Event { what, ..Event::default() });
    }

    fn code(&mut self, event: Event) {
        self.count += 1;
        self.model.get_or_insert_default().code(&mut self.pen, event, Tick::of(self.now).0);
    }

    fn detail(&mut self, number: u64) {
        self.model.get_or_insert_default().details.code(&mut self.pen, number);
    }

    /// What happens to a block, after the interval it was sampled with.
    fn put_kind(&mut self, what: usize, kind: &Kind, birth: Tick) {
        if kind.interval() != self.interval {
            self.put(INTERVAL);
            self.detail(kind.interval().into());
            self.interval = kind.interval();
        }
        self.code(Event { what, row: kind.row.0, size: kind.size, birth: birth.0 });
        if what > FREED {
            self.model.get_or_insert_default().block(&mut self.pen, kind.row.0, kind.size);
        }
    }

    fn put_pages(&mut self, what: usize, row: RowId, bytes: u64) {
        self.put(what);
        self.model.get_or_insert_default().block(&mut self.pen, row.0, bytes);
    }

    fn put_gone(&mut self, [plain, of]: [usize; 2], row: RowId, bytes: u64, birth: Option<Tick>) {
        self.put_pages(if birth.is_some() { of } else { plain }, row, bytes);
        if let Some(birth) = birth {
            self.detail(self.age(birth));
        }
    }

    fn age(&self, birth: Tick) -> u64 {
        Tick::of(self.now).since(birth).into()
    }
}

impl Journal for Encoder {
    fn note(&mut self, change: &Change) {
        if let Some(plain) = &mut self.plain {
            return plain.note(change, Tick::of(self.now));
        }
        let none = Tick::default();
        match *change {
            Change::Allocated { kind, kept: true, exchanged } => {
                self.put_kind(if exchanged { EXCHANGED } else { ALLOCATED }, &kind, none);
            }
            Change::Allocated { kind, kept: false, exchanged } => {
                self.put_kind(if exchanged { UNKEPT_EXCHANGED } else { UNKEPT }, &kind, none);
            }
            Change::Freed { kind, birth } => self.put_kind(FREED, &kind, birth),
            Change::Restored { kind, birth, death } => {
                self.put_kind(RESTORED, &kind, none);
                self.detail(self.age(birth));
                self.detail(self.age(death));
            }
            Change::Mapped { row, bytes, kept } => {
                self.put_pages(if kept { MAPPED } else { MAPPED_UNKEPT }, row, bytes);
            }
            Change::Unmapped { row, bytes, birth } => {
                self.put_gone([UNMAPPED, UNMAPPED_OF], row, bytes, birth);
            }
            Change::Remained { row, bytes, birth } => {
                self.put_gone([REMAINED, REMAINED_OF], row, bytes, birth);
            }
        }
    }
}

/// When the changes of a block begin.
pub fn begin(content: &[u8]) -> Option<u64> {
    In::new(content).number()
}

/// Whether they are told as they are.
pub fn is_plain(content: &[u8]) -> bool {
    let mut all = In::new(content);
    let numbers: [Option<u64>; 3] = std::array::from_fn(|_| all.number());
    numbers[2] == Some(PLAIN)
}

/// Reads block after block.
#[derive(Debug)]
pub struct Decoder {
    model: Model,
    interval: u32,
    blocks: u64,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { model: Model::default(), interval: 1, blocks: 0 }
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
        let (mut now, count, blocks) = (all.number()?, all.number()?, all.number()?);
        if blocks == PLAIN {
            return plain_events::decode(&mut all, now, count, tell);
        }
        if blocks == 0 && self.blocks != 0 {
            *self = Self::default();
        }
        let text = all.rest();
        if blocks != self.blocks || count > (text.len() as u64 + SLACK) * MOST_IN_A_BYTE {
            return None;
        }
        self.blocks += 1;
        let mut eye = Eye::new(text);
        for _ in 0..count {
            let event = self.model.code(&mut eye, Event::default(), Tick::of(now).0);
            let change = match event.what {
                TICK => {
                    now = now.checked_add(self.model.details.code(&mut eye, 0))?;
                    continue;
                }
                INTERVAL => {
                    self.interval = self.model.details.code_small(&mut eye, 0);
                    continue;
                }
                _ => self.change(&mut eye, &event, now)?,
            };
            if !tell(now, &change) {
                return Some(());
            }
        }
        Some(())
    }

    fn change(&mut self, eye: &mut impl Coder, event: &Event, now: u64) -> Option<Change> {
        let Self { model, interval, .. } = self;
        let kind = |row, size| Kind::new(RowId(row), size, u64::from(*interval));
        let what = event.what;
        if what == FREED {
            return Some(Change::Freed {
                kind: kind(event.row, event.size),
                birth: Tick(event.birth),
            });
        }
        if what < FREED {
            let kind = kind(event.row, event.size);
            return Some(Change::Allocated { kind, kept: true, exchanged: what == EXCHANGED });
        }
        let (number, bytes) = model.block(eye, 0, 0);
        let row = RowId(number);
        let mut ago = || Tick::of(now).minus(model.details.code_small(eye, 0));
        Some(match what {
            UNKEPT | UNKEPT_EXCHANGED => {
                let exchanged = what == UNKEPT_EXCHANGED;
                Change::Allocated { kind: kind(number, bytes), kept: false, exchanged }
            }
            RESTORED => Change::Restored { kind: kind(number, bytes), birth: ago(), death: ago() },
            MAPPED | MAPPED_UNKEPT => Change::Mapped { row, bytes, kept: what == MAPPED },
            UNMAPPED => Change::Unmapped { row, bytes, birth: None },
            REMAINED => Change::Remained { row, bytes, birth: None },
            UNMAPPED_OF => Change::Unmapped { row, bytes, birth: Some(ago()) },
            REMAINED_OF => Change::Remained { row, bytes, birth: Some(ago()) },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::block::{self, Content, Effort};

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
            1 => (row(), any::<u64>(), prop::option::of(tick()))
                .prop_map(|(row, bytes, birth)| Change::Unmapped { row, bytes, birth }),
            1 => (row(), any::<u64>(), prop::option::of(tick()))
                .prop_map(|(row, bytes, birth)| Change::Remained { row, bytes, birth }),
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

    fn encoded(changes: &[(u64, Change)], is_plain: bool) -> Vec<u8> {
        let mut encoder = Encoder::new(1 << 33);
        encoder.set_plain(is_plain);
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
        fn what_happened_is_told_as_it_happened(changes in changes(), is_plain: bool) {
            let mut told = Vec::new();
            let whole = decode(&encoded(&changes, is_plain), |now, change| { told.push((now, *change)); true });
            prop_assert_eq!(whole, Some(()));
            prop_assert_eq!(told, changes);
        }

        #[test]
        fn blocks_go_on_where_the_one_before_ended(
            changes in changes(),
            parts in 1..9usize,
            plain: [bool; 9],
        ) {
            let mut encoder = Encoder::new(1 << 33);
            let mut blocks = Vec::new();
            let parts = changes.chunks(changes.len().div_ceil(parts).max(1));
            for (part, is_plain) in parts.zip(plain) {
                encoder.set_plain(is_plain);
                for (now, change) in part {
                    encoder.set_now(*now);
                    encoder.note(change);
                }
                blocks.push(encoder.finish());
                prop_assert_eq!(is_plain, super::is_plain(blocks.last().unwrap()));
            }
            let (mut decoder, mut told) = (Decoder::default(), Vec::new());
            for block in &blocks {
                let whole = decoder.decode(block, |now, change| { told.push((now, *change)); true });
                prop_assert_eq!(whole, Some(()));
            }
            prop_assert_eq!(told, changes);
        }

        #[test]
        fn any_bytes_are_survived(
            changes in changes(),
            is_plain: bool,
            at: prop::sample::Index,
            by: u8,
        ) {
            let mut bytes = encoded(&changes, is_plain);
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            let mut told = 0;
            let _ = decode(&bytes, |_, _| { told += 1; true });
            prop_assert!(told <= (bytes.len() as u64 + SLACK) * MOST_IN_A_BYTE);
        }
    }

    #[test]
    fn a_program_that_repeats_itself_takes_a_small_part_of_a_byte_an_event() {
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
        assert!(bytes.unwrap().len() < 8_000, "of 400 thousand events");
    }
}
