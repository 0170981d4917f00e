//! What happened, as it is: for times when more happens than a `predictor` takes in.
//!
//! Nothing here depends on what came before the block.

use crate::format::{
    coded_events::{
        INTERVAL, MAPPED, MAPPED_UNKEPT, REMAINED, REMAINED_OF, RESTORED, TICK, UNKEPT,
        UNKEPT_EXCHANGED, UNMAPPED, UNMAPPED_OF,
    },
    predictor::{ALLOCATED, EXCHANGED, FREED},
    varint::{In, Out},
};
use heapattach_profile::{Change, Kind, RowId, Tick};

/// The lower bits of the first number tell what happens, the others to whose block.
const WHAT_BITS: u32 = 4;

/// Changes on their way out.
#[derive(Debug)]
pub struct Encoder {
    out: Out,
    interval: u32,
    count: u64,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { out: Out::default(), interval: 1, count: 0 }
    }
}

impl Encoder {
    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.out.0.len()
    }

    /// Changes so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The bytes; from here on it is another text.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(self).out.0
    }

    /// What follows happened so many ticks later.
    pub fn set_now(&mut self, later: u64) {
        self.put(TICK, RowId(0));
        self.out.number(later);
    }

    /// Another change.
    #[inline]
    pub fn note(&mut self, change: &Change, now: Tick) {
        match *change {
            Change::Allocated { kind, kept, exchanged } => {
                let what = match (kept, exchanged) {
                    (true, false) => ALLOCATED,
                    (true, true) => EXCHANGED,
                    (false, false) => UNKEPT,
                    (false, true) => UNKEPT_EXCHANGED,
                };
                self.put_kind(what, &kind);
            }
            Change::Freed { kind, birth } => {
                self.put_kind(FREED, &kind);
                self.out.number(now.since(birth).into());
            }
            Change::Restored { kind, birth, death } => {
                self.put_kind(RESTORED, &kind);
                self.out.number(now.since(birth).into());
                self.out.number(now.since(death).into());
            }
            Change::Mapped { row, bytes, kept } => {
                self.put_pages(if kept { MAPPED } else { MAPPED_UNKEPT }, row, bytes);
            }
            Change::Unmapped { row, bytes, birth: None } => self.put_pages(UNMAPPED, row, bytes),
            Change::Remained { row, bytes, birth: None } => self.put_pages(REMAINED, row, bytes),
            Change::Unmapped { row, bytes, birth: Some(birth) } => {
                self.put_pages(UNMAPPED_OF, row, bytes);
                self.out.number(now.since(birth).into());
            }
            Change::Remained { row, bytes, birth: Some(birth) } => {
                self.put_pages(REMAINED_OF, row, bytes);
                self.out.number(now.since(birth).into());
            }
        }
    }

    fn put(&mut self, what: usize, row: RowId) {
        self.count += 1;
        self.out.number(u64::from(row.0) << WHAT_BITS | what as u64);
    }

    fn put_kind(&mut self, what: usize, kind: &Kind) {
        if kind.interval() != self.interval {
            self.interval = kind.interval();
            self.put(INTERVAL, RowId(0));
            self.out.number(self.interval.into());
        }
        self.put_pages(what, kind.row, kind.size);
    }

    fn put_pages(&mut self, what: usize, row: RowId, bytes: u64) {
        self.put(what, row);
        self.out.number(bytes);
    }
}

/// Tells `count` changes that begin at `now`, each with its time, until `tell` has enough; `None` if
/// they are nonsense.
pub fn decode(
    all: &mut In<'_>,
    mut now: u64,
    count: u64,
    mut tell: impl FnMut(u64, &Change) -> bool,
) -> Option<()> {
    let mut interval = 1;
    for _ in 0..count {
        let first = all.number()?;
        let row = RowId(u32::try_from(first >> WHAT_BITS).ok()?);
        let what = usize::try_from(first).ok()? & ((1 << WHAT_BITS) - 1);
        let number = all.number()?;
        let kind = Kind::new(row, number, u64::from(interval));
        let mut ago = || Some(Tick::of(now).minus(all.small()?));
        let change = match what {
            TICK => {
                now = now.checked_add(number)?;
                continue;
            }
            INTERVAL => {
                interval = u32::try_from(number).ok()?;
                continue;
            }
            ALLOCATED | EXCHANGED => {
                Change::Allocated { kind, kept: true, exchanged: what == EXCHANGED }
            }
            UNKEPT | UNKEPT_EXCHANGED => {
                Change::Allocated { kind, kept: false, exchanged: what == UNKEPT_EXCHANGED }
            }
            FREED => Change::Freed { kind, birth: ago()? },
            RESTORED => Change::Restored { kind, birth: ago()?, death: ago()? },
            MAPPED | MAPPED_UNKEPT => Change::Mapped { row, bytes: number, kept: what == MAPPED },
            UNMAPPED => Change::Unmapped { row, bytes: number, birth: None },
            REMAINED => Change::Remained { row, bytes: number, birth: None },
            UNMAPPED_OF => Change::Unmapped { row, bytes: number, birth: Some(ago()?) },
            REMAINED_OF => Change::Remained { row, bytes: number, birth: Some(ago()?) },
            _ => return None,
        };
        if !tell(now, &change) {
            return Some(());
        }
    }
    Some(())
}
