//! Which pages are to be copied again, for a copy of memory that is made while the process runs.

use std::{ops::Range, thread};

use super::{MOST, PageWrites, Pages, WritesError, pieces, requests::Wanted};
use crate::ranges::joined;

/// Threads that ask the kernel at once.
const TOGETHER: usize = 4;

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
        let there = together(&all, |share| self.there_in(share))?;
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
}

/// What several threads find of a share each, one after the other.
pub(super) fn together<T: Sync, F: Send>(
    all: &[T],
    find: impl Fn(&[T]) -> Result<Vec<F>, WritesError> + Sync,
) -> Result<Vec<F>, WritesError> {
    let threads = thread::available_parallelism().map_or(1, |count| count.get().min(TOGETHER));
    let shares = all.chunks(all.len().div_ceil(threads).max(1));
    let parts = thread::scope(|scope| {
        let asked = shares.map(|share| scope.spawn(|| find(share)));
        let asked: Vec<_> = asked.collect();
        let gone = |_| Err(WritesError::TooMuch);
        asked.into_iter().map(|one| one.join().unwrap_or_else(gone)).collect::<Vec<_>>()
    });
    let mut found = Vec::new();
    for part in parts {
        found.extend(part?);
    }
    Ok(found)
}
