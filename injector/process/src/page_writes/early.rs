//! Which pages are to be copied again, for a copy of memory that is made while the process runs.

use std::{ops::Range, thread};

use super::{MOST, PageWrites, Pages, WritesError, pieces, requests::Wanted};

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
        let mut all: Vec<Range<u64>> = Vec::new();
        for piece in self.areas.iter().flat_map(pieces) {
            for Pages { range, .. } in self.scan(Wanted::WrittenAgain, &piece)? {
                match all.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => all.push(range),
                }
            }
        }
        Ok(all)
    }

    /// All pages that are there, ascending, and of each whether it is still as it was when it was protected last. The
    /// process is stopped: several threads ask.
    ///
    /// # Errors
    /// When the kernel does not tell: also where there is more to tell than is kept.
    pub fn there(&self) -> Result<Vec<Pages>, WritesError> {
        let all: Vec<Range<u64>> = self.areas.iter().flat_map(pieces).collect();
        let threads = thread::available_parallelism().map_or(1, |count| count.get().min(TOGETHER));
        let shares = all.chunks(all.len().div_ceil(threads).max(1));
        let parts = thread::scope(|scope| {
            let asked = shares.map(|share| scope.spawn(|| self.there_in(share)));
            let asked: Vec<_> = asked.collect();
            let gone = |_| Err(WritesError::TooMuch);
            asked.into_iter().map(|one| one.join().unwrap_or_else(gone)).collect::<Vec<_>>()
        });
        let mut there = Vec::new();
        for part in parts {
            there.extend(part?);
        }
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

    fn there_in(&self, share: &[Range<u64>]) -> Result<Vec<Pages>, WritesError> {
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
