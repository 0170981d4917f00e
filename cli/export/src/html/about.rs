//! Whose memory it was, and what is missing, in sentences.

use serde::Serialize;

use crate::tree::cut;
use heapattach_ledger::{
    About, ExitReport, TypeSum,
    blind_spots::{self, Cut},
};
use heapattach_text::quantity::{bytes, count};
use heapattach_verdict::summary::types;

/// Types that are told.
const TYPES: usize = 50;

/// What the page says about a profile.
#[derive(Debug, Serialize)]
pub struct Whose {
    pid: i32,
    command: String,
    began: u64,
    lasted_ms: u64,
    every: u64,
    version: String,
    /// What part of it the page is about, in words.
    part: Vec<String>,
    /// `null`: it does not say.
    outcome: Option<String>,
    temporary_ms: u64,
    /// Which records were dropped, and what that means for the numbers. None were, only if this is empty.
    missing: Vec<String>,
    unseen: Vec<String>,
    /// The types that its code allocates, one a line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    types: Vec<String>,
    missing_symbols: Vec<String>,
    cuts: Vec<String>,
}

impl Whose {
    /// Of a profile.
    pub fn new(about: &About) -> Self {
        let missing = blind_spots::lost(&about.loss);
        let cuts = cuts(about);
        let older =
            blind_spots::misses_older(about).then(|| blind_spots::OLDER.to_owned()).into_iter();
        let types = types(about).iter().take(TYPES).map(of_type).collect();
        let about = about.clone();
        Self {
            pid: about.pid,
            command: about.command,
            began: about.began,
            lasted_ms: about.lasted_ms,
            every: about.every,
            version: about.version,
            part: about.part,
            outcome: (!about.outcome.is_empty()).then(|| match about.exit {
                None => about.outcome.to_string(),
                Some(ExitReport::Code(code)) => format!("{}, status {code}", about.outcome),
                Some(ExitReport::Signal(signal)) => format!("{}, signal {signal}", about.outcome),
            }),
            temporary_ms: about.temporary_ms,
            missing,
            unseen: older.chain(about.blind).collect(),
            types,
            missing_symbols: about.missing_symbols,
            cuts,
        }
    }
}

fn of_type(row: &TypeSum) -> String {
    let class = row.class.as_deref().unwrap_or("types that the code does not state");
    let (live, allocated) = (bytes(row.live_bytes), bytes(row.allocated_bytes));
    let stacks = if row.stacks == 1 { "stack" } else { "stacks" };
    format!("{class}: {live} in use, {allocated} allocated, by {} {stacks}", count(row.stacks))
}

fn cuts(about: &About) -> Vec<String> {
    let told = blind_spots::cuts(about).into_iter().map(|Cut { end, allocations, part, why }| {
        let (number, percent) = (count(allocations), 100.0 * part);
        let name = cut(end).unwrap_or("[cut]");
        format!("{name}: {number} of the allocations recorded, {percent:.2} %: {why}")
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::EndReason;

    #[test]
    fn types_are_told_of_a_whole_session_and_of_no_part() {
        let class = Some("map[string]*main.session".to_owned());
        let row = TypeSum { class, stacks: 2, live_bytes: 1 << 20, ..TypeSum::default() };
        let mut about = About { types: vec![row], ..About::default() };
        let told = "map[string]*main.session: 1.0 MiB in use, 0 B allocated, by 2 stacks";
        assert_eq!(Whose::new(&about).types, [told]);
        about.part = vec!["the last minute".to_owned()];
        assert!(Whose::new(&about).types.is_empty());
    }

    #[test]
    fn a_cut_stack_is_told_by_the_mark_that_the_graph_has_for_it() {
        let ends = [(EndReason::Outermost, 98), (EndReason::NoTable, 2)].into();
        let cuts = cuts(&About { ends, ..About::default() });
        let told = "[cut: no unwind table]: 2 of the allocations recorded, 2.00 %: in code without unwind \
             information";
        assert_eq!(cuts, [told]);
    }
}
