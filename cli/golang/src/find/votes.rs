//! Where variables of the runtime are: functions of the runtime refer to them, each in the same order in every
//! program of a release. Each reference is a vote.

use std::collections::HashMap;

use heapattach_census::Moment;

use super::{FindError, Functions, Named};
use crate::{arch::leads_out, tables::Table};

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
}
