//! Readings of the profile: again and again, until two are equal.

use super::{
    Bucket, Live,
    bucket::{Place, record_bytes},
    list::List,
};

/// So often it is read until two are equal.
const TRIES: usize = 20;
/// Neighbours up to so many bytes are read at once.
const WINDOW: u64 = 64 << 10;
/// Rates that a program may have: more is none.
const HIGHEST: u64 = 1 << 40;

/// Where it is.
#[derive(Debug)]
pub struct Profile {
    /// The word that leads to the first bucket.
    pub buckets: u64,
    /// The word that has the rate: mean bytes between samples.
    pub rate: u64,
    words: usize,
    list: List,
}

/// Why it cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The process is gone.
    #[error("its memory cannot be read")]
    Gone,
    /// It makes no sense.
    #[error("the rate of the profile is {0}, which makes no sense")]
    Rate(u64),
    /// It changed all the time.
    #[error("the profile changed while it was read, 20 times in turn")]
    Restless,
}

/// One reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Mean bytes between samples; 0: none are taken.
    pub rate: u64,
    /// All buckets.
    pub buckets: Vec<Bucket>,
    /// Buckets that made no sense.
    pub odd: u64,
}

impl Profile {
    /// Of a release, with its two variables.
    pub fn new(minor: u32, buckets: u64, rate: u64) -> Self {
        let words = if minor >= 27 { 2 } else { 4 };
        Self { buckets, rate, words, list: List::default() }
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it cannot be read, or did not come to rest.
    pub fn read(&mut self, live: &impl Live) -> Result<Reading, ReadError> {
        let rate = live.word(self.rate).ok_or(ReadError::Gone)?;
        if rate > HIGHEST {
            return Err(ReadError::Rate(rate));
        }
        let mut last: Option<Vec<Bucket>> = None;
        for _ in 0..TRIES {
            if !self.list.follow(live, self.buckets) {
                return Err(ReadError::Gone);
            }
            let buckets = self.counts(live).ok_or(ReadError::Gone)?;
            let is_still = last.as_ref().is_some_and(|last| {
                let actives = |all: &[Bucket]| all.iter().map(|one| one.active).collect::<Vec<_>>();
                last.len() == buckets.len() && actives(last) == actives(&buckets)
            });
            if is_still {
                return Ok(Reading { rate, buckets, odd: self.list.odd });
            }
            last = Some(buckets);
        }
        Err(ReadError::Restless)
    }

    /// The counts of all that are known.
    fn counts(&self, live: &impl Live) -> Option<Vec<Bucket>> {
        let places = &self.list.places;
        let length = record_bytes(self.words) as u64;
        let mut buckets = Vec::with_capacity(places.len());
        let mut first = 0;
        let mut bytes = Vec::new();
        while let Some(place) = places.get(first) {
            let start = place.record();
            let is_near = |other: &Place| other.record() + length - start <= WINDOW;
            let count = places[first..].iter().take_while(|other| is_near(other)).count().max(1);
            let end = places[first + count - 1].record() + length;
            bytes.resize(usize::try_from(end - start).ok()?, 0);
            let together = live.read(start, &mut bytes);
            for place in &places[first..first + count] {
                let mut own = vec![0; record_bytes(self.words)];
                if together {
                    let at = usize::try_from(place.record() - start).ok()?;
                    own.copy_from_slice(bytes.get(at..at + record_bytes(self.words))?);
                } else if !live.read(place.record(), &mut own) {
                    // Between neighbours there may be a hole.
                    return None;
                }
                buckets.push(place.with(&own, self.words)?);
            }
            first += count;
        }
        Some(buckets)
    }
}

/// With which chance an object of a size was sampled; `None`: every one is.
pub(crate) fn chance(size: u64, rate: u64) -> Option<f64> {
    #[allow(clippy::cast_precision_loss)]
    let (size, rate) = (size as f64, rate as f64);
    (rate > 1.0).then(|| -(-size / rate).exp_m1())
}

impl Reading {
    /// With which chance objects of a bucket were sampled; `None`: every one was.
    pub fn chance(&self, bucket: &Bucket) -> Option<f64> {
        chance(bucket.size, self.rate)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// A heap of two buckets that changes at some readings.
    struct Heap {
        bytes: RefCell<Vec<u8>>,
        reads: Cell<u64>,
        changes: bool,
    }

    const BASE: u64 = 0x1000;

    impl Live for Heap {
        fn read(&self, at: u64, buffer: &mut [u8]) -> bool {
            self.reads.set(self.reads.get() + 1);
            let mut bytes = self.bytes.borrow_mut();
            if self.changes {
                // The count of the second bucket goes up with each look.
                bytes[0x180] = bytes[0x180].wrapping_add(1);
            }
            let Some(at) = at.checked_sub(BASE).and_then(|at| usize::try_from(at).ok()) else {
                return false;
            };
            bytes.get(at..at + buffer.len()).map(|bytes| buffer.copy_from_slice(bytes)).is_some()
        }
    }

    fn heap(changes: bool) -> Heap {
        let mut bytes = vec![0_u8; 0x400];
        let mut put = |at: usize, words: &[u64]| {
            for (index, word) in words.iter().enumerate() {
                bytes[at + index * 8..][..8].copy_from_slice(&word.to_le_bytes());
            }
        };
        put(0, &[BASE + 0x40, 4096]);
        put(0x40, &[0, BASE + 0x140, 1, 7, 32, 2, 0xaa, 0xbb, 3, 1, 96, 32, 1, 0, 32, 0]);
        put(0x140, &[0, 0, 1, 8, 64, 2, 0xcc, 0xdd, 9, 4]);
        Heap { bytes: RefCell::new(bytes), reads: Cell::new(0), changes }
    }

    #[test]
    fn buckets_are_told_with_what_came_since_the_last_collection() {
        let mut profile = Profile::new(24, BASE, BASE + 8);
        let reading = profile.read(&heap(false)).unwrap();
        assert_eq!((reading.rate, reading.buckets.len(), reading.odd), (4096, 2, 0));
        let [a, b] = &reading.buckets[..] else { panic!() };
        assert_eq!(
            (a.size, &a.stack[..], a.active.came, a.now.came),
            (32, &[0xaa, 0xbb][..], 3, 4)
        );
        assert_eq!((b.size, b.active.went, b.now.came), (64, 4, 9));
        let chance = reading.chance(a).unwrap();
        assert!((chance - (1.0 - (-32.0_f64 / 4096.0).exp())).abs() < 1e-12);
    }

    #[test]
    fn what_never_comes_to_rest_is_not_told() {
        let mut profile = Profile::new(24, BASE, BASE + 8);
        assert_eq!(profile.read(&heap(true)), Err(ReadError::Restless));
    }

    #[test]
    fn memory_that_is_nonsense_ends() {
        let broken = heap(false);
        // The list leads back to its beginning, and to where nothing is.
        broken.bytes.borrow_mut()[0x148..0x150].copy_from_slice(&(BASE + 0x40).to_le_bytes());
        assert_eq!(Profile::new(24, BASE, BASE + 8).read(&broken).unwrap().buckets.len(), 2);
        broken.bytes.borrow_mut()[0x148..0x150].copy_from_slice(&0xffff_fff8_u64.to_le_bytes());
        assert_eq!(Profile::new(24, BASE, BASE + 8).read(&broken), Err(ReadError::Gone));
        assert_eq!(
            Profile::new(24, BASE, BASE).read(&heap(false)).map(|r| r.rate),
            Ok(BASE + 0x40)
        );
    }
}
