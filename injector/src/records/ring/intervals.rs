//! The sampling intervals of a session.

use std::sync::{Mutex, PoisonError};

use heapattach_abi::ring;

/// The sampling intervals of a session, by the numbers that records name them by.
#[derive(Debug)]
pub struct Intervals(Mutex<Vec<u64>>);

impl Intervals {
    /// With the first one.
    pub fn new(first: u64) -> Self {
        Self(Mutex::new(vec![first]))
    }

    /// Another one; answers its number, if there is one left. To be known here before a thread of
    /// the target hears of it.
    pub fn add(&self, interval: u64) -> Option<u8> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = all.len();
        (number < ring::INTERVALS).then(|| all.push(interval))?;
        u8::try_from(number).ok()
    }

    pub(super) fn copy_to(&self, known: &mut Vec<u64>) {
        known.clone_from(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
