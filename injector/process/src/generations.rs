//! Code that comes and goes: which module lay where, one after the other. Frames in stacks name it by
//! a number ([`heapattach_abi::late`]), so that two modules that were mapped in turn at one place are
//! not taken for each other: the first has its true addresses, others have some that nothing in a
//! process has.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Mutex, PoisonError},
};

use heapattach_abi::{
    late::{self, BUILD_AT, ENTRY_BYTES, FIRST_KNOWN, LATE, NAME_AT, NUMBERS, Part},
    region::{self, ADDRESS_END},
};

use crate::{
    addr::RemoteAddr, image::Image, memory::Memory, proc::build_id::BuildId, shared::Shared,
};

/// Where addresses begin that stand for others, and how many there are for one module: below those of
/// Python frames.
const ALIASES: u64 = 1 << 49;
const ALIAS_BYTES: u64 = 1 << 32;

/// A module that may go away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// What was added to the addresses of its file.
    pub bias: u64,
    /// Its code, in memory.
    pub code: Range<u64>,
    /// A number that another module at its place does not have.
    pub identity: u64,
    /// Its build.
    pub build: Option<BuildId>,
    /// Its path.
    pub path: String,
    /// What is added to the addresses of its code, so that they are only its own.
    pub shift: u64,
}

impl Generation {
    /// Where its code is in stacks.
    pub fn range(&self) -> Range<RemoteAddr> {
        let at = |at: u64| RemoteAddr::new(at.wrapping_add(self.shift));
        at(self.code.start)..at(self.code.end)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Generations(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    all: Vec<Generation>,
    /// Indices of those that the payload has numbered.
    late: HashMap<u64, Option<usize>>,
}

impl Generations {
    fn all<T>(&self, look: impl FnOnce(&mut All) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those from the given number on.
    pub fn since(&self, first: usize) -> Vec<Generation> {
        self.all(|all| all.all.get(first..).unwrap_or_default().to_vec())
    }

    /// The number of a module that is mapped; 0 without room for another. And whether its place was
    /// another's before.
    pub fn number(&self, image: &Image) -> (u64, bool) {
        let code = image.code.start.get()..image.code.end.get();
        self.all(|all| {
            let (build, path) = (image.build.clone(), image.path.clone());
            let index = all.meet(image.bias.get(), code.clone(), image.identity, build, path);
            let number = index.map_or(0, |index| FIRST_KNOWN + index as u64);
            let others = (0..).zip(&all.all).filter(|(other, _)| Some(*other) != index);
            let mut others = others.filter(|(_, other)| overlap(&other.code, &code));
            (number, others.next().is_some())
        })
    }

    /// What is added to the addresses of a mapped module's code. One that was not met yet is now: else
    /// another that was at its place before, and is met later by a stack, would be taken for it.
    pub fn shift(&self, image: &Image) -> u64 {
        let code = image.code.start.get()..image.code.end.get();
        self.all(|all| {
            let (build, path) = (image.build.clone(), image.path.clone());
            let index = all.meet(image.bias.get(), code, image.identity, build, path);
            index.and_then(|index| all.all.get(index)).map_or(0, |known| known.shift)
        })
    }

    /// Whether one of them has, or had, code there.
    pub fn has_met(&self, code: &Range<u64>) -> bool {
        self.all(|all| all.all.iter().any(|known| overlap(&known.code, code)))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all(|all| all.all.len())
    }

    /// The address of a stored frame.
    pub fn address(&self, shared: &Shared, memory: &Memory, word: u64) -> RemoteAddr {
        let (address, number) = late::unpack(word);
        if number == 0 {
            return RemoteAddr::new(address);
        }
        self.all(|all| {
            let index = match number.checked_sub(FIRST_KNOWN) {
                Some(index) => usize::try_from(index).ok(),
                None => all.late(shared, memory, number),
            };
            let shift = index.and_then(|index| all.all.get(index)).map_or(0, |known| known.shift);
            RemoteAddr::new(address.wrapping_add(shift))
        })
    }

    /// The true address of one in a stack.
    pub fn true_address(&self, at: RemoteAddr) -> RemoteAddr {
        if at.get() < ALIASES || at.get() >= crate::python_frame::FIRST {
            return at;
        }
        let is_in = |known: &&Generation| known.range().contains(&at);
        let shift = self.all(|all| all.all.iter().find(is_in).map_or(0, |known| known.shift));
        RemoteAddr::new(at.get().wrapping_sub(shift))
    }
}

impl All {
    /// The index of a module, known or not.
    fn meet(
        &mut self,
        bias: u64,
        code: Range<u64>,
        identity: u64,
        build: Option<BuildId>,
        path: String,
    ) -> Option<usize> {
        let is_it = |known: &Generation| (known.bias, known.identity) == (bias, identity);
        if let Some(index) = self.all.iter().position(is_it) {
            return Some(index);
        }
        let index = self.all.len();
        let fits = code.start < code.end
            && code.end < ADDRESS_END
            && code.end - code.start <= ALIAS_BYTES
            && (index as u64) < NUMBERS - FIRST_KNOWN;
        let is_taken = self.all.iter().any(|known| overlap(&known.code, &code));
        let alias = ALIASES + index as u64 * ALIAS_BYTES;
        let shift = if is_taken { alias.wrapping_sub(code.start) } else { 0 };
        fits.then(|| self.all.push(Generation { bias, code, identity, build, path, shift }))?;
        Some(index)
    }

    /// The index of one that the payload has met.
    fn late(&mut self, shared: &Shared, memory: &Memory, number: u64) -> Option<usize> {
        if let Some(index) = self.late.get(&number) {
            return *index;
        }
        let index = usize::try_from(number).ok()?.checked_sub(1).filter(|&index| index < LATE)?;
        let mut words = [0; ENTRY_BYTES / 8];
        shared.words(memory, region::LATE_AT + index * ENTRY_BYTES, &mut words).ok()?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let part = |part: Part| words[part as usize / 8];
        if part(Part::Ready) == 0 {
            return None;
        }
        let length = usize::try_from(part(Part::BuildLength)).ok()?.min(late::BUILD_BYTES);
        let build = BuildId::new(&bytes[BUILD_AT..BUILD_AT + length]);
        let name = bytes[NAME_AT..].split(|byte| *byte == 0).next().unwrap_or_default();
        let path = String::from_utf8_lossy(name).into_owned();
        let code = part(Part::Start)..part(Part::End);
        let index = self.meet(part(Part::Bias), code, part(Part::Identity), build, path);
        self.late.insert(number, index);
        index
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_modules_at_one_place_each_has_addresses_of_its_own() {
        let mut all = All::default();
        let mut meet =
            |bias, identity| all.meet(bias, bias..bias + 0x2000, identity, None, String::new());
        let indices =
            [meet(0x1000, 1), meet(0x1000, 2), meet(0x2000, 3), meet(0x1000, 1), meet(0x9000, 1)];
        assert_eq!(indices, [0, 1, 2, 0, 3].map(Some));
        let ranges = all.all.iter().map(Generation::range);
        let mut ranges: Vec<_> = ranges.collect();
        assert_eq!(ranges[0].start.get(), 0x1000);
        assert_eq!(ranges[3].start.get(), 0x9000);
        ranges.sort_by_key(|range| range.start);
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{ranges:?}");
        let generations = Generations(Mutex::new(all));
        for known in generations.since(0) {
            let at = known.range().start.offset(5);
            assert_eq!(generations.true_address(at).get(), known.code.start + 5);
        }
    }

    #[test]
    fn what_makes_no_sense_has_no_number() {
        let mut all = All::default();
        for code in [5..5, 0..ADDRESS_END, 0x1000..0x1_0000_2000] {
            assert_eq!(all.meet(0, code, 1, None, String::new()), None);
        }
    }
}
