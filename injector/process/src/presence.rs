//! Which pages of an area have anything in them: reading one that has nothing would cost the target
//! memory, and time that it is stopped.

use std::{cell::Cell, fs::File, ops::Range, os::unix::fs::FileExt, time::Instant};

use crate::proc::Process;

const PAGE: u64 = 4096;

/// Pages that are asked about at once.
const TOGETHER: u64 = 1 << 15;

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;

/// Asks the kernel.
#[derive(Debug)]
pub struct Presence {
    file: Option<File>,
    /// When there is no more time to ask.
    until: Option<Instant>,
    is_late: Cell<bool>,
}

impl Presence {
    /// Of this process; without the right to ask, everything counts as present.
    pub fn of(process: &Process) -> Self {
        let file = process.open_pagemap().ok();
        Self { file, until: None, is_late: Cell::new(false) }
    }

    /// The same, asked no more once it is so late.
    pub fn until(self, until: Option<Instant>) -> Self {
        Self { until, ..self }
    }

    /// Whether there was not enough time: what was answered is not all.
    pub fn is_late(&self) -> bool {
        self.is_late.get()
    }

    /// The parts of a range of private memory that the target has written to.
    pub fn written(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.parts(range, |word| word & (PRESENT | SWAPPED) != 0 && word & OF_FILE == 0)
    }

    /// The parts of a range of any memory that have anything in them.
    pub fn there(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.parts(range, |word| word & (PRESENT | SWAPPED) != 0)
    }

    /// The parts of a range that are in swap alone.
    pub fn swapped(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        match self.file {
            Some(_) => self.parts(range, |word| word & (PRESENT | SWAPPED) == SWAPPED),
            None => Vec::new(),
        }
    }

    /// The parts of a range of a file that the target has at hand.
    pub fn touched(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.parts(range, |word| word & PRESENT != 0)
    }

    fn parts(&self, range: &Range<u64>, is_part: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
        let Some(file) = &self.file else { return vec![range.clone()] };
        let (first, behind) = (range.start / PAGE, range.end.div_ceil(PAGE));
        let mut parts: Vec<Range<u64>> = Vec::new();
        let mut page = first;
        while page < behind {
            if self.until.is_some_and(|until| Instant::now() >= until) {
                self.is_late.set(true);
                break;
            }
            let count = (behind - page).min(TOGETHER);
            let mut bytes = vec![0; usize::try_from(count * 8).unwrap_or(0)];
            if file.read_exact_at(&mut bytes, page * 8).is_err() {
                // It cannot be told, so it is read.
                add(&mut parts, page..page + count);
            } else {
                let (words, _) = bytes.as_chunks::<8>();
                for (own, word) in (page..).zip(words) {
                    if is_part(u64::from_le_bytes(*word)) {
                        add(&mut parts, own..own + 1);
                    }
                }
            }
            page += count;
        }
        let cut = |part: Range<u64>| {
            (part.start * PAGE).max(range.start)..(part.end * PAGE).min(range.end)
        };
        parts.into_iter().map(cut).collect()
    }
}

fn add(parts: &mut Vec<Range<u64>>, pages: Range<u64>) {
    match parts.last_mut() {
        Some(last) if last.end == pages.start => last.end = pages.end,
        _ => parts.push(pages),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_it_is_late_nothing_is_asked_and_that_is_known() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let presence = Presence::of(&process).until(Some(Instant::now()));
        assert!(presence.written(&(0..1 << 40)).is_empty() && presence.is_late());
    }

    #[test]
    fn pages_that_were_never_written_are_left_out() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let length = 64 * usize::try_from(PAGE).unwrap();
        // Large enough to be a mapping of its own, which begins untouched.
        let mut memory = vec![0_u8; 4 << 20];
        let start = (memory.as_ptr() as u64 + (1 << 20)).next_multiple_of(PAGE);
        let at = usize::try_from(start - memory.as_ptr() as u64).unwrap();
        memory[at + 4096] = 1;
        memory[at + 3 * 4096] = 1;
        let parts = Presence::of(&process).written(&(start..start + length as u64));
        let has = |page: u64| parts.iter().any(|part| part.contains(&(start + page * PAGE)));
        assert!(has(1) && has(3), "{parts:x?}");
        let bytes: u64 = parts.iter().map(|part| part.end - part.start).sum();
        // A huge page may have been made of it.
        assert!(bytes == 2 * PAGE || has(0), "{parts:x?}");
    }
}
