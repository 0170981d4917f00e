//! Which pages are to be copied again, for a copy of memory that is made while the process runs.

use std::{ops::Range, thread};

use super::{MOST, PageWrites, Pages, WritesError, pieces, requests::Wanted};
use crate::ranges::joined;

impl PageWrites {
    /// What is watched.
    pub fn areas(&self) -> &[Range<u64>] {
        &self.areas
    }

    /// Pages that were written since they were protected, or came since; from now on they are protected, too.
    /// Ascending.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn written_again(&self) -> Result<Vec<Range<u64>>, WritesError> {
        let mut all = Vec::new();
        for piece in self.areas.iter().flat_map(pieces) {
            all.extend(self.scan(Wanted::WrittenAgain, &piece)?.into_iter().map(|p| p.range));
        }
        Ok(joined(all))
    }

    /// All pages that are there, ascending, and of each whether it is still as it was when it was protected last. The
    /// process is stopped: several threads ask.
    ///
    /// # Errors
    /// When the kernel does not tell: also where there is more to tell than is kept.
    pub fn there(&self) -> Result<Vec<Pages>, WritesError> {
        let all: Vec<Range<u64>> = self.areas.iter().flat_map(pieces).collect();
        let there = self.together(&all, |share| self.there_in(share))?;
        // Of memory that is gone nothing is found.
        self.still_there().map(|()| there)
    }

    /// The same of any other memory of the process.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn there_besides(&self, range: &Range<u64>) -> Result<Vec<Pages>, WritesError> {
        self.there_in(std::slice::from_ref(range))
    }

    pub(super) fn there_in(&self, share: &[Range<u64>]) -> Result<Vec<Pages>, WritesError> {
        let mut all: Vec<Pages> = Vec::new();
        for piece in share {
            all.extend(self.scan(Wanted::There, piece)?);
            if all.len() > MOST {
                return Err(WritesError::TooMuch);
            }
        }
        Ok(all)
    }

    /// What several threads find of a share each, one after the other.
    pub(super) fn together(
        &self,
        all: &[Range<u64>],
        find: impl Fn(&[Range<u64>]) -> Result<Vec<Pages>, WritesError> + Sync,
    ) -> Result<Vec<Pages>, WritesError> {
        let find = &find;
        let mut shares = all.chunks(all.len().div_ceil(self.threads).max(1));
        let Some(own) = shares.next() else { return Ok(Vec::new()) };
        let parts = thread::scope(|scope| {
            let others: Vec<_> = shares.map(|share| scope.spawn(|| find(share))).collect();
            let gone = |_| Err(WritesError::TooMuch);
            let own = std::iter::once(find(own));
            own.chain(others.into_iter().map(|one| one.join().unwrap_or_else(gone)))
                .collect::<Vec<_>>()
        });
        let mut found = Vec::new();
        for part in parts {
            found.extend(part?);
        }
        Ok(found)
    }
}
