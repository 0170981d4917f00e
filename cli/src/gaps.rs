//! What is missing from a profile, in words: the one place that has them. Views, exports and the page
//! lay them out, each in its own way.

use crate::{
    ledger::{About, Loss},
    quantity::count,
    stack_report::WHOLE,
};

/// True of every session.
pub const OLDER: &str = "blocks older than the attach are not seen, nor that they are given back";

/// Stacks that end too early, all for the same reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// In one word, as the ledger has it.
    pub end: String,
    /// Allocations recorded with such a stack.
    pub allocations: u64,
    /// Their part of all that were recorded, from 0 to 1.
    pub part: f64,
    /// Where such a stack ends.
    pub why: &'static str,
}

/// What was lost, and what that means for the numbers: nothing was, only if this is empty.
pub fn lost(loss: &Loss) -> Vec<String> {
    let Loss { blocks, frees, samples, beyond_limit, stacks, torn, missed_frees } = *loss;
    let told = [
        (
            blocks,
            "blocks and mappings found no room in a ring and are in no number (raise --ring or \
             --every)",
        ),
        (frees, "blocks given back found no room in a ring: they are shown as still held"),
        (missed_frees, "blocks were given back unseen; until then they were shown as held"),
        (samples, "samples found no room in the table of the target: they are in no number"),
        (beyond_limit, "blocks are beyond what is held at once, and not shown as held"),
        (stacks, "call stacks found no room: their blocks count as of an unknown place"),
        (torn, "records were never finished, or make no sense"),
    ];
    let told = told.into_iter().filter(|(number, _)| *number > 0);
    told.map(|(number, what)| format!("{} {what}", count(number))).collect()
}

/// Stacks that are not whole, by why.
pub fn cuts(about: &About) -> Vec<Cut> {
    let all = about.ends.values().fold(0_u64, |sum, number| sum.saturating_add(*number));
    let cut = about.ends.iter().filter(|(end, number)| *end != WHOLE && **number > 0);
    let cut = cut.map(|(end, &allocations)| Cut {
        end: end.clone(),
        allocations,
        part: allocations as f64 / all as f64,
        why: why(end),
    });
    cut.collect()
}

/// Modules whose code has no names, each with the way to get them.
pub fn nameless(about: &About) -> impl Iterator<Item = String> {
    about.missing_symbols.iter().map(|missing| format!("without names: {missing}"))
}

fn why(end: &str) -> &'static str {
    match end {
        "depth" => "deeper than --max-depth",
        "off-stack" => "on a stack that nobody knows (a coroutine's, a signal handler's)",
        "no-table" => "in code without unwind information",
        "no-rule" => "in code whose unwind information cannot be followed",
        "no-room" => "without room for another stack",
        _ => "where the next frame makes no sense",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_is_told_with_its_number_and_its_meaning() {
        assert_eq!(lost(&Loss::default()), Vec::<String>::new());
        let all = Loss {
            blocks: 1,
            frees: 2,
            samples: 3,
            beyond_limit: 4,
            stacks: 5,
            torn: 6,
            missed_frees: 7000,
        };
        let told = lost(&all);
        assert_eq!(told.len(), 7);
        assert!(told[2].starts_with("7 000 blocks were given back unseen"), "{told:?}");
    }

    #[test]
    fn stacks_that_are_whole_are_not_cut() {
        let ends = [("outermost", 98), ("no-table", 2), ("depth", 0)];
        let ends = ends.map(|(end, number)| (end.to_owned(), number)).into();
        let about = About { ends, ..About::default() };
        let why = "in code without unwind information";
        let cut = Cut { end: "no-table".to_owned(), allocations: 2, part: 0.02, why };
        assert_eq!(cuts(&about), [cut]);
        assert_eq!(cuts(&About::default()), []);
    }
}
