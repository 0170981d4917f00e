//! What is there now, in a stop, by what was there shortly before it: then the kernel need not look at each page
//! closely. It tells which pages are not protected any more, ten times faster; the others are as they were.
//!
//! ```text
//! there before  #########.####..####|####..|#####      # a page, . nothing, | a table of the kernel ends
//! unprotected      ^      ^^  ^^         ^^             told; of tables that were freed nothing is told
//! so it is asked    one page of each table: is it there?
//! so it is looked at closely: what is not protected, and all of tables that were freed
//! ```

use std::ops::Range;

use super::{MOST, PAGE, PageWrites, Pages, WritesError, pieces, requests::Wanted};
use crate::ranges::{both, minus, near};

/// What one of the kernel's tables of pages covers.
const TABLE: u64 = 2 << 20;
/// Ranges that are so near to each other are looked at together: a call costs more than these pages.
const NEAR: u64 = 64 * PAGE;

impl PageWrites {
    /// What [`there`](Self::there) answers in a stop, by what it answered `before` while the process ran, when all was
    /// protected that had been written; `mapped` is the memory map of the stop, ascending. What was in swap then counts
    /// as in swap, unless it was written.
    ///
    /// # Errors
    /// As [`there`](Self::there).
    pub fn there_since(
        &self,
        before: &[Pages],
        mapped: &[Range<u64>],
    ) -> Result<Vec<Pages>, WritesError> {
        let all: Vec<Range<u64>> = self.areas.iter().flat_map(pieces).collect();
        let there = self.together(&all, |share| self.since_in(share, before, mapped))?;
        self.still_there().map(|()| there)
    }

    fn since_in(
        &self,
        share: &[Range<u64>],
        before: &[Pages],
        mapped: &[Range<u64>],
    ) -> Result<Vec<Pages>, WritesError> {
        let [first, ..] = share else { return Ok(Vec::new()) };
        let before = &before[before.partition_point(|pages| pages.range.end <= first.start)..];
        let mut unprotected = Vec::new();
        for piece in share {
            let found = self.scan(Wanted::Unprotected, piece)?;
            unprotected.extend(found.into_iter().map(|pages| pages.range));
            if unprotected.len() > MOST {
                return Err(WritesError::TooMuch);
            }
        }
        let here = both(before.iter().map(|pages| &pages.range), share);
        let same = both(&minus(&here, &unprotected), mapped);
        let freed = self.tables_freed(&same)?;
        let mut changed: Vec<Range<u64>> = unprotected.into_iter().chain(freed).collect();
        changed.sort_by_key(|range| range.start);
        let changed = both(&near(changed, NEAR), share);
        let mut all = self.there_in(&changed)?;
        let mut rest = minus(&same, &changed).into_iter().peekable();
        for pages in before {
            while let Some(range) = rest.next_if(|own| own.end <= pages.range.end) {
                all.push(Pages { range, is_written: false, ..pages.clone() });
            }
            if rest.peek().is_none() {
                break;
            }
        }
        if all.len() > MOST {
            return Err(WritesError::TooMuch);
        }
        all.sort_by_key(|pages| pages.range.start);
        Ok(all)
    }

    /// Of these pages those whose table was freed, by whole tables: of each one page is looked for. Where the last page
    /// of a table and the first one of the next are neighbours both are looked for at once.
    fn tables_freed(&self, pages: &[Range<u64>]) -> Result<Vec<Range<u64>>, WritesError> {
        let mut tables: Vec<Range<u64>> = Vec::new();
        for range in pages {
            let mut at = range.start;
            while at < range.end {
                let end = range.end.min((at / TABLE + 1) * TABLE);
                match tables.last_mut() {
                    Some(last) if last.start / TABLE == at / TABLE => last.end = end,
                    _ => tables.push(at..end),
                }
                at = end;
            }
        }
        let (mut looks, mut rest) = (Vec::new(), tables.as_slice());
        while let [one, ..] = rest {
            let (look, count) = match rest {
                [one, next, ..] if next.start < one.end.saturating_add(NEAR) => {
                    (one.end - PAGE..next.start + PAGE, 2)
                }
                _ => (one.start..one.start + PAGE, 1),
            };
            looks.push((look, &rest[..count]));
            rest = &rest[count..];
        }
        let mut freed = Vec::new();
        for (look, own) in looks {
            let found = self.scan(Wanted::There, &look)?;
            let is_freed = |table: &&Range<u64>| {
                let is_in =
                    |Range { start, end }: &Range<u64>| *start < table.end && table.start < *end;
                !found.iter().any(|pages| is_in(&pages.range))
            };
            freed.extend(own.iter().filter(is_freed).cloned());
        }
        Ok(freed)
    }
}
