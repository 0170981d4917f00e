//! Names that an earlier session found, in the cache ([`heapattach_process::cache`]): debug information is read
//! once for a file, not once for each run of a suite.
//!
//! ```text
//! +0   magic
//! +8   key            once more, against files that were given another name
//! +40  sum of the rest  against damage
//! +48  what the names lack
//! +49  texts           how many; each its length and its bytes
//!      places          how many; each its offset in the file, its address, its calls
//!      calls           function, file (numbers of texts, from 1), line
//!      zeroes          up to a whole word: so far the sum goes
//! ```
//!
//! They are found by what they were made from: the module's file and its debug file, each by an identity that no
//! other content can have ([`identity()`]). Where either has none, or where names came from files besides these
//! two, or bounds kept a part from being read, nothing is kept. What is read is checked as any file is; where it makes no sense the names are found anew.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    sync::Arc,
};

use heapattach_process::{
    cache::{Cache, Key, identity, sum},
    proc::build_id::BuildId,
};

use crate::{
    dwarf::Call,
    files::{
        debug_file,
        elf::{Allowance, Source},
        surroundings::Surroundings,
    },
    printable::printable,
};

const MAGIC: &[u8; 8] = b"HANAMES1";
const HEAD: usize = 48;
/// More places of one file are not kept: that is for the few of a check or of a profile's sites.
const MOST_PLACES: usize = 1 << 14;
const MOST_BYTES: usize = 8 << 20;
const LONGEST_TEXT: usize = 1 << 14;
const MOST_CALLS: u32 = 256;

/// What names can lack, as [`crate::image::Image::lacks`] says it; the first lack nothing.
pub const LACKS: [Option<&str>; 3] =
    [None, Some("no source lines, no inlined calls"), Some("no debug symbols")];

/// The calls at a place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address that the file states for it.
    pub address: u64,
    /// The innermost first. Never empty.
    pub calls: Vec<Call>,
}

/// The names of one file.
#[derive(Debug, Default)]
pub struct KeptNames {
    /// Where they are kept; none where that cannot be.
    home: Option<(Arc<Cache>, Key)>,
    /// By offset in the file.
    places: BTreeMap<u64, Place>,
    lacks: usize,
    has_more: bool,
    /// What may be read of files.
    allowance: Option<Allowance>,
}

impl KeptNames {
    /// What is kept of this file.
    pub fn of(file: &File, build_id: Option<&BuildId>, around: &Surroundings) -> Self {
        let Some(cache) = &around.cache else { return Self::default() };
        let Some(key) = key(file, build_id, around) else { return Self::default() };
        let kept = cache.read(&key).and_then(|bytes| decode(&bytes, &key));
        let (places, lacks) = kept.unwrap_or_default();
        let (home, allowance) = (Some((Arc::clone(cache), key)), Some(around.allowance.clone()));
        Self { home, places, lacks, has_more: false, allowance }
    }

    /// What is kept of this place.
    pub fn get(&self, offset: u64) -> Option<&Place> {
        self.places.get(&offset)
    }

    /// Whether all these are.
    pub fn has_all(&self, offsets: &[u64]) -> bool {
        !self.places.is_empty() && offsets.iter().all(|offset| self.places.contains_key(offset))
    }

    /// What they lack.
    pub fn lacks(&self) -> Option<&'static str> {
        LACKS.get(self.lacks).copied().flatten()
    }

    /// Adds what was found of a place.
    pub fn add(&mut self, offset: u64, place: impl FnOnce() -> Place) {
        if self.home.is_some() && self.places.len() < MOST_PLACES {
            self.places.entry(offset).or_insert_with(|| {
                self.has_more = true;
                place()
            });
        }
    }

    /// Keeps them, if some are new; nothing if names came from other files too, or may be less than there is.
    pub fn keep(&mut self, lacks: Option<&str>, is_of_file: bool) {
        let is_whole = self.allowance.as_ref().is_none_or(|allowance| !allowance.has_refused());
        let is_wanted = self.has_more && is_of_file && is_whole;
        let Some((cache, key)) = self.home.take().filter(|_| is_wanted) else { return };
        let Some(lacks) = LACKS.iter().position(|known| *known == lacks) else { return };
        if let Some(bytes) = encode(&self.places, lacks, &key) {
            cache.write(&key, &bytes);
        }
    }
}

/// Of the file and of the debug file that it names.
fn key(file: &File, build_id: Option<&BuildId>, around: &Surroundings) -> Option<Key> {
    let source = Source::new(file.try_clone().ok()?)?;
    let elf = source.elf()?;
    let own = identity(file)?;
    let found = debug_file::find(&elf, around);
    let debug = match &found {
        Some(debug) if debug_file::has_common(debug) => return None,
        Some(debug) => identity(&debug.file())?,
        None if debug_file::has_common(&source) => return None,
        None => Vec::new(),
    };
    let variables = [u8::from(around.has_variables)];
    Some(Key::of(&[MAGIC, build_id?.bytes(), &own, &debug, &variables]))
}

fn encode(places: &BTreeMap<u64, Place>, lacks: usize, key: &Key) -> Option<Vec<u8>> {
    let mut texts: Vec<&str> = Vec::new();
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let mut rows: Vec<u8> = Vec::new();
    let length = |n: usize| u32::try_from(n).ok().map(u32::to_le_bytes);
    rows.extend(length(places.len())?);
    for (offset, Place { address, calls }) in places {
        rows.extend(offset.to_le_bytes());
        rows.extend(address.to_le_bytes());
        rows.extend(length(calls.len())?);
        for call in calls {
            for text in [&call.function, &call.file] {
                let number = text.as_deref().map_or(0, |text| {
                    *numbers.entry(text).or_insert_with(|| {
                        texts.push(text);
                        u32::try_from(texts.len()).unwrap_or(0)
                    })
                });
                rows.extend(number.to_le_bytes());
            }
            rows.extend(call.line.map_or(u64::MAX, u64::from).to_le_bytes());
        }
    }
    let mut rest = vec![u8::try_from(lacks).ok()?];
    rest.extend(length(texts.len())?);
    for text in texts {
        rest.extend(length(text.len())?);
        rest.extend(text.as_bytes());
    }
    rest.extend(rows);
    rest.resize(rest.len().next_multiple_of(8), 0);
    let bytes = [MAGIC, &key.bytes()[..], &sum(&rest).to_le_bytes(), &rest].concat();
    (bytes.len() <= MOST_BYTES).then_some(bytes)
}

/// Takes what it needs from the front.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(first)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// How many follow that take at least so many bytes each.
    fn count(&mut self, least: usize) -> Option<usize> {
        let count = usize::try_from(self.u32()?).ok()?;
        (count <= self.0.len() / least).then_some(count)
    }
}

fn decode(bytes: &[u8], key: &Key) -> Option<(BTreeMap<u64, Place>, usize)> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let is_named = head.starts_with(MAGIC) && &head[8..40] == key.bytes();
    if !is_named
        || !rest.len().is_multiple_of(8)
        || bytes.len() > MOST_BYTES
        || head[40..] != sum(rest).to_le_bytes()
    {
        return None;
    }
    let mut rest = Rest(rest);
    let lacks = usize::from(*rest.take(1)?.first()?);
    LACKS.get(lacks)?;
    let mut texts: Vec<Arc<str>> = Vec::new();
    for _ in 0..rest.count(4)? {
        let length = usize::try_from(rest.u32()?).ok().filter(|&length| length <= LONGEST_TEXT)?;
        texts.push(printable(str::from_utf8(rest.take(length)?).ok()?).into());
    }
    let text = |number: u32| match number {
        0 => Some(None),
        number => Some(Some(Arc::clone(texts.get(usize::try_from(number).ok()? - 1)?))),
    };
    let mut places = BTreeMap::new();
    for _ in 0..rest.count(36)? {
        let (offset, address, count) = (rest.u64()?, rest.u64()?, rest.u32()?);
        if !(1..=MOST_CALLS).contains(&count) {
            return None;
        }
        let mut calls = Vec::new();
        for _ in 0..count {
            let (function, file) = (text(rest.u32()?)?, text(rest.u32()?)?);
            let line = match rest.u64()? {
                u64::MAX => None,
                line => Some(u32::try_from(line).ok()?),
            };
            calls.push(Call { function, file, line, is_whole: true });
        }
        places.insert(offset, Place { address, calls });
    }
    let is_end = rest.0.len() < 8 && rest.0.iter().all(|&byte| byte == 0);
    is_end.then_some((places, lacks))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some_key() -> Key {
        Key::of(&[b"some"])
    }

    fn call() -> impl Strategy<Value = Call> {
        let text = || proptest::option::of("[a-z:<>]{1,12}").prop_map(|text| text.map(Arc::from));
        (text(), text(), any::<Option<u32>>()).prop_map(|(function, file, line)| Call {
            function,
            file,
            line,
            is_whole: true,
        })
    }

    fn places() -> impl Strategy<Value = BTreeMap<u64, Place>> {
        let calls = proptest::collection::vec(call(), 1..4);
        let place = (any::<u64>(), calls).prop_map(|(address, calls)| Place { address, calls });
        proptest::collection::btree_map(any::<u64>(), place, 0..20)
    }

    proptest! {
        #[test]
        fn what_was_kept_comes_back(places in places(), lacks in 0..LACKS.len()) {
            let bytes = encode(&places, lacks, &some_key()).unwrap();
            prop_assert_eq!(decode(&bytes, &some_key()), Some((places, lacks)));
        }

        #[test]
        fn what_is_damaged_or_of_another_file_is_not_believed(
            places in places(),
            at in any::<proptest::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let mut bytes = encode(&places, 0, &some_key()).unwrap();
            prop_assert_eq!(decode(&bytes, &Key::of(&[b"other"])), None);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(decode(&bytes, &some_key()), None);
            prop_assert_eq!(decode(&bytes[..at], &some_key()), None);
        }

        #[test]
        fn whatever_it_says_with_a_right_sum_is_bounded(rest in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = [MAGIC, &some_key().bytes()[..], &sum(&rest).to_le_bytes(), &rest].concat();
            let _ = decode(&bytes, &some_key());
        }
    }
}
