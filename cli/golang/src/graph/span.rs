//! Spans: runs of pages that the runtime cuts into objects of one size.

use heapattach_census::Moment;

use super::layout::{Layout, Variables};

/// The runtime's page.
pub const PAGE: u64 = 8192;
/// States of a span that is in use.
const IN_USE: u64 = 1;
const MANUAL: u64 = 2;
/// No address is higher.
const ADDRESSES: u64 = 1 << 48;
/// More spans than this no process has.
const MOST_SPANS: u64 = 1 << 26;
/// Nor is any larger.
const MOST_PAGES: u64 = 1 << 27;

/// What a span is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Objects.
    Objects,
    /// Stacks and other memory that the runtime frees itself.
    Manual,
}

/// A span.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Where it begins.
    pub base: u64,
    /// Its pages.
    pub pages: u64,
    /// What it is for.
    pub usage: Use,
    /// Bytes of each object.
    pub size: u64,
    /// How many there is room for.
    pub slots: u32,
    /// All before this one are allocated.
    pub free_index: u32,
    /// A bit for each that was allocated at the last sweep.
    pub alloc_bits: u64,
    /// Allocated ones, as the runtime counts them.
    pub allocated: u32,
    /// The size class; 0 for a large object.
    pub class: u8,
    /// Whether there are no pointers in them.
    pub is_plain: bool,
    /// The first special.
    pub specials: u64,
    /// The type of a large object.
    pub large_type: u64,
    /// The number of its first slot, counted over all spans.
    pub first: u32,
    /// Multiplied by this, the upper half of a word tells the slot: as the runtime divides, too.
    magic: u32,
}

impl Span {
    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.base + self.pages * PAGE
    }

    /// The slot that has this address, which lies in the span.
    #[inline]
    pub fn slot(&self, at: u64) -> Option<u32> {
        let slot = match self.slots {
            1 => 0,
            _ => (at - self.base).wrapping_mul(u64::from(self.magic)) >> 32,
        };
        u32::try_from(slot).ok().filter(|slot| *slot < self.slots)
    }

    /// Where a slot begins.
    pub fn place(&self, slot: u32) -> u64 {
        self.base + u64::from(slot) * self.size
    }

    /// Reads one; what cannot be a span is none.
    fn read(moment: &Moment<'_>, layout: &Layout, at: u64) -> Option<Self> {
        let fields = &layout.span;
        let usage = match fields.state.read(moment, at)? {
            IN_USE => Use::Objects,
            MANUAL => Use::Manual,
            _ => return None,
        };
        let number = |value: u64| u32::try_from(value).ok();
        let class = u8::try_from(fields.class.read(moment, at)?).ok()?;
        let large_type = match fields.large_type {
            Some(field) => field.read(moment, at)?,
            None => 0,
        };
        let size = fields.size.read(moment, at)?;
        let span = Self {
            base: fields.start.read(moment, at)?,
            pages: fields.pages.read(moment, at)?,
            usage,
            size,
            magic: magic(size),
            slots: number(fields.count.read(moment, at)?)?,
            free_index: number(fields.free_index.read(moment, at)?)?,
            alloc_bits: fields.alloc_bits.read(moment, at)?,
            allocated: number(fields.alloc_count.read(moment, at)?)?,
            class: class >> 1,
            is_plain: class & 1 != 0,
            specials: fields.specials.read(moment, at)?,
            large_type,
            first: 0,
        };
        span.is_possible().then_some(span)
    }

    fn is_possible(&self) -> bool {
        if !self.base.is_multiple_of(PAGE) || self.base >= ADDRESSES {
            return false;
        }
        if self.pages == 0 || self.pages >= MOST_PAGES {
            return false;
        }
        match self.usage {
            Use::Manual => true,
            Use::Objects => {
                let bytes = self.size.checked_mul(u64::from(self.slots));
                let fits = bytes.is_some_and(|bytes| bytes <= self.pages * PAGE);
                self.size >= 8 && self.size.is_multiple_of(8) && self.slots >= 1 && fits
            }
        }
    }
}

fn magic(size: u64) -> u32 {
    match u32::try_from(size) {
        Ok(size @ 1..) => (u32::MAX / size).wrapping_add(1),
        _ => 0,
    }
}

/// All spans that are in use, ascending, and how many cannot be what they should.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// They.
    pub all: Vec<Span>,
    /// Those that are damaged, or overlap.
    pub impossible: u64,
}

impl Spans {
    /// Reads them.
    pub fn read(moment: &Moment<'_>, layout: &Layout, variables: &Variables) -> Option<Self> {
        let list = layout.span.allspans.place(variables.mheap);
        let (first, count) = (moment.word(list)?, moment.word(list.checked_add(8)?)?);
        if count > MOST_SPANS {
            return None;
        }
        let mut spans = Self::default();
        let state = layout.span.state;
        for index in 0..count {
            let at = first.checked_add(index * 8).and_then(|at| moment.word(at))?;
            match Span::read(moment, layout, at) {
                Some(span) if is_mapped(moment, &span) => spans.all.push(span),
                None if state
                    .read(moment, at)
                    .is_some_and(|state| state == 0 || state > MANUAL) => {}
                _ => spans.impossible += 1,
            }
        }
        spans.all.sort_unstable_by_key(|span| span.base);
        let before = spans.all.len();
        let mut end = 0;
        spans.all.retain(|span| {
            let is_free = span.base >= end;
            end = end.max(span.end());
            is_free
        });
        spans.impossible += (before - spans.all.len()) as u64;
        spans.number()
    }

    /// Counts the slots through.
    fn number(mut self) -> Option<Self> {
        let mut next = 0_u32;
        for span in self.all.iter_mut().filter(|span| span.usage == Use::Objects) {
            span.first = next;
            next = next.checked_add(span.slots).filter(|next| *next < u32::MAX / 2)?;
        }
        Some(self)
    }
}

/// Whether all of it is memory that a program has: what is told of it is bounded by what there is.
fn is_mapped(moment: &Moment<'_>, span: &Span) -> bool {
    let mut at = span.base;
    while at < span.end() {
        match moment.region(at) {
            Some(region) if region.readable && region.writable => at = region.range.end,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(size: u64, slots: u32, pages: u64) -> Span {
        Span {
            base: 0xc0_0000_0000,
            pages,
            usage: Use::Objects,
            size,
            slots,
            free_index: 0,
            alloc_bits: 0,
            allocated: 0,
            class: 1,
            is_plain: false,
            specials: 0,
            large_type: 0,
            first: 0,
            magic: magic(size),
        }
    }

    #[test]
    fn an_address_is_in_a_slot_or_behind_the_last_one() {
        let span = span(48, 170, 1);
        let slot = |offset| span.slot(span.base + offset);
        assert_eq!((slot(0), slot(47), slot(48)), (Some(0), Some(0), Some(1)));
        assert_eq!((slot(48 * 170 - 1), slot(48 * 170)), (Some(169), None));
    }

    #[test]
    fn a_span_that_holds_more_than_its_pages_cannot_be() {
        assert!(span(8, 1024, 1).is_possible());
        assert!(!span(8, 1025, 1).is_possible());
        assert!(!span(0, 1, 1).is_possible());
        assert!(!span(u64::MAX - 7, 3, 1).is_possible());
        assert!(!Span { base: 12, ..span(8, 8, 1) }.is_possible());
    }
}
