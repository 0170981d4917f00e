//! Where variables of the runtime are: functions of the runtime refer to them, each in the same order in every
//! program of a release. Each reference is a vote.

use std::collections::HashMap;

use heapattach_census::Moment;
use iced_x86::{Decoder, DecoderOptions, Instruction};

use super::{FindError, Functions, Named};
use crate::tables::Table;

/// So many votes at least, and so many of a hundred must agree.
const LEAST: usize = 2;
const PERCENT: usize = 75;

/// What was found of a variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Where most say that it is.
    pub at: u64,
    /// How many say so.
    pub agreeing: usize,
    /// How many were asked.
    pub voters: usize,
}

impl Found {
    /// The address, if it is certain.
    pub fn certain(&self) -> Option<u64> {
        let is_most = self.agreeing * 100 >= self.voters * PERCENT;
        (self.agreeing >= LEAST && is_most && self.at & 7 == 0).then_some(self.at)
    }
}

/// Asks all that the table names.
pub fn vote(moment: &Moment<'_>, functions: &Functions, table: &Table) -> HashMap<String, Found> {
    let mut references: HashMap<String, Option<Vec<u64>>> =
        table.references().map(|reference| (reference.function.to_owned(), None)).collect();
    functions.of_runtime(moment, |name, range| {
        let Some(own) = references.get_mut(&name) else { return };
        let length = usize::try_from(range.end - range.start).unwrap_or(0);
        let code = moment.bytes(range.start, length);
        *own = code.map(|code| leads_out(&code, range.start, &functions.text));
    });
    let mut votes: HashMap<String, HashMap<u64, usize>> = HashMap::new();
    for reference in table.references() {
        let own = votes.entry(reference.variable.to_owned()).or_default();
        let Some(Some(targets)) = references.get(reference.function) else { continue };
        // A function that refers to less is of another release: a vote for nothing.
        let target =
            targets.get(reference.ordinal).map_or(0, |at| at.wrapping_sub(reference.addend));
        *own.entry(target).or_default() += 1;
    }
    let found = votes.into_iter().map(|(name, votes)| {
        let voters = votes.values().sum();
        let most = votes.into_iter().max_by_key(|(at, count)| (*count, *at));
        let (at, agreeing) = most.unwrap_or_default();
        (name, Found { at, agreeing, voters })
    });
    found.collect()
}

/// A variable of the runtime: where debug data says, or else most votes.
pub fn certain(
    votes: &HashMap<String, Found>,
    named: Named<'_>,
    name: &'static str,
) -> Result<u64, FindError> {
    if let Some(at) = named(name) {
        return Ok(at);
    }
    let found = votes.get(name).copied().unwrap_or_default();
    found.certain().ok_or(FindError::Variable(name, found.agreeing, found.voters))
}

/// What instructions refer to by their own place, outside of the code; in their order.
pub fn leads_out(code: &[u8], at: u64, text: &std::ops::Range<u64>) -> Vec<u64> {
    let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut targets = Vec::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_ip_rel_memory_operand() {
            let target = instruction.ip_rel_memory_address();
            if !text.contains(&target) {
                targets.push(target);
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_votes_and_a_single_one_are_not_certain() {
        let found = |agreeing, voters| Found { at: 0x1000, agreeing, voters }.certain();
        assert_eq!((found(3, 4), found(2, 2)), (Some(0x1000), Some(0x1000)));
        assert_eq!((found(1, 1), found(5, 7), found(0, 0)), (None, None, None));
        assert_eq!(Found { at: 0x1004, agreeing: 8, voters: 8 }.certain(), None);
    }

    #[test]
    fn references_into_the_code_itself_do_not_count() {
        // lea rax, [rip+0x100]; lea rcx, [rip-7-7]; mov rax, [rip+0x10]
        let code = [
            0x48, 0x8d, 5, 0, 1, 0, 0, 0x48, 0x8d, 0xd, 0xf2, 0xff, 0xff, 0xff, 0x48, 0x8b, 5,
            0x10, 0, 0, 0,
        ];
        assert_eq!(leads_out(&code, 0x1000, &(0x1000..0x1015)), [0x1107, 0x1025]);
    }
}
