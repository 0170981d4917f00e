//! What became different from one moment to the next, and to the last of several: of each part, class, size,
//! root, arena and group of leaked blocks, what it had at each, by growth.
//!
//! ```text
//! censuses -> lists: (name, amounts) of each kind -> row: matched by name -> sections, by growth
//!                                                                         -> words: two sentences
//! ```
//!
//! Blocks are not followed: what has the same name is the same. A name says no thread's number, which a
//! restart changes.

mod lists;
mod notes;
mod row;
#[cfg(test)]
mod tests;
mod words;

use heapattach_report::CensusReport;
use serde::Serialize;

pub use row::{Change, Row, Section};

use crate::Moment;

/// The name of its JSON; the number is raised where a field changes its meaning.
pub const DIFFERENCE_SCHEMA: &str = "heapattach/heap-diff/1";

/// The result of `diff` of moments.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The name of this form.
    pub schema: &'static str,
    /// The moments, in the order that they were given in.
    pub moments: Vec<Side>,
    /// What makes the comparison doubtful.
    pub notes: Vec<String>,
    /// Milliseconds from the first to the last, if both tell their time.
    pub lasted_ms: Option<u64>,
    /// What grew, and what it mostly is: a sentence each.
    pub verdict: [String; 2],
    /// Resident memory and swap.
    pub total: Row,
    /// What memory is for.
    pub parts: Section,
    /// Blocks in use, by class.
    pub types: Section,
    /// Blocks in use, by usable size.
    pub sizes: Section,
    /// What roots retain.
    pub holders: Section,
    /// What roots of a Go program hold.
    pub go_holders: Section,
    /// Leaked blocks, with those that only they lead to.
    pub unreachable: Section,
    /// What arenas have in memory.
    pub arenas: Section,
    /// Blocks that are known by their place, by that.
    pub places: Section,
    /// What may be waste, by class, size and kind.
    pub waste: Section,
    /// Free memory that blocks keep, by their class and size.
    pub pins: Section,
    /// Bytes of blocks on pages that were never written, by class and size.
    pub not_written: Section,
}

/// One of the moments.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// As it was typed.
    pub name: String,
    /// The process.
    pub pid: i32,
    /// Its command line.
    pub command: String,
    /// When, in milliseconds since 1970.
    pub taken_ms: Option<u64>,
    /// For how long the process had been running then.
    pub up_ms: Option<u64>,
}

impl Difference {
    /// Of two moments or more, with the names that they were typed by.
    pub fn of(moments: &[(String, Moment)]) -> Self {
        let all: Vec<&CensusReport> = moments.iter().map(|(_, moment)| &moment.census).collect();
        let names: Vec<&str> = moments.iter().map(|(name, _)| name.as_str()).collect();
        let side = |(name, moment): &(String, Moment)| Side {
            name: name.clone(),
            pid: moment.census.pid,
            command: moment.census.command.clone(),
            taken_ms: moment.census.moment.taken_ms,
            up_ms: moment.census.moment.up_ms,
        };
        let time = |one: Option<&&CensusReport>| one.and_then(|one| one.moment.taken_ms);
        let lasted = time(all.last()).zip(time(all.first()));
        let total = Row::of(
            "resident and in swap".to_owned(),
            all.iter().map(|one| (lists::total(one), None)).collect(),
        );
        let mut difference = Self {
            schema: DIFFERENCE_SCHEMA,
            moments: moments.iter().map(side).collect(),
            notes: notes::of(&all, &names),
            lasted_ms: lasted.and_then(|(last, first)| last.checked_sub(first)),
            verdict: Default::default(),
            total,
            parts: Section::of(&all, &names, &lists::parts),
            types: Section::of(&all, &names, &lists::types),
            sizes: Section::of(&all, &names, &lists::sizes),
            holders: Section::of(&all, &names, &lists::holders),
            go_holders: Section::of(&all, &names, &lists::go_holders),
            unreachable: Section::of(&all, &names, &lists::unreachable),
            arenas: Section::of(&all, &names, &lists::arenas),
            places: Section::of(&all, &names, &lists::places),
            waste: Section::of(&all, &names, &lists::waste),
            pins: Section::of(&all, &names, &lists::pins),
            not_written: Section::of(&all, &names, &lists::not_written),
        };
        difference.verdict = words::verdict(&difference);
        difference
    }
}
