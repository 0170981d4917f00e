//! What is missing from a profile, in words: the one place that has them. Views, exports and the page
//! lay them out, each in its own way.

use crate::{About, EndReason, Loss};
use heapattach_text::quantity::count;

/// True of every session that is hooked.
pub const OLDER: &str = "blocks older than the attach are not seen, nor that they are freed";

/// Whether [`OLDER`] is so: a runtime that counted itself has done so from its start on.
pub fn misses_older(about: &About) -> bool {
    about.counted_by.is_empty()
}

/// Stacks that end too early, all for the same reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The reason.
    pub end: EndReason,
    /// Allocations recorded with such a stack.
    pub allocations: u64,
    /// Their part of all that were recorded, from 0 to 1.
    pub part: f64,
    /// Where such a stack ends.
    pub why: &'static str,
}

/// What was dropped, and what that means for the numbers: nothing was, only if this is empty.
pub fn lost(loss: &Loss) -> Vec<String> {
    lost_beside(loss, None)
}

/// The same beside a heap of so many blocks, if that is shown: no more of them can have been freed
/// unseen, even if more records of frees were dropped.
pub fn lost_beside(loss: &Loss, shown: Option<f64>) -> Vec<String> {
    let in_use = format!(
        "records of freed blocks were dropped, as a ring was full: {}",
        in_use(loss.frees, shown)
    );
    let Loss { blocks, frees, samples, beyond_limit, stacks, torn, missed_frees } = *loss;
    let told: [(u64, &str); 7] = [
        (
            blocks,
            "records of blocks and mappings were dropped, as a ring was full: those are in no number \
             (raise --ring or --every)",
        ),
        (frees, &in_use),
        (missed_frees, "blocks were freed unseen; until then they were shown as in use"),
        (samples, "samples found no room in the table of the target: they are in no number"),
        (beyond_limit, "blocks are beyond the number that can be shown as in use, and not shown"),
        (stacks, "call stacks found no room: their blocks count as of an unknown place"),
        (torn, "records were never finished, or make no sense"),
    ];
    let told = told.into_iter().filter(|(number, _)| *number > 0);
    told.map(|(number, what)| format!("{} {what}", count(number))).collect()
}

/// What dropped records of freed blocks mean for those that are shown.
fn in_use(frees: u64, shown: Option<f64>) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    match shown.map(|blocks| blocks.round() as u64) {
        None => "what is shown as in use may have been freed".to_owned(),
        Some(0) => "they were of no block that is shown".to_owned(),
        Some(shown) if shown <= frees => {
            format!("any of the {} blocks shown as in use may have been freed", count(shown))
        }
        Some(shown) => format!(
            "up to {} of the {} blocks shown as in use have been freed",
            count(frees),
            count(shown)
        ),
    }
}

/// Stacks that are not whole, by why.
pub fn cuts(about: &About) -> Vec<Cut> {
    let all = about.ends.values().fold(0_u64, |sum, number| sum.saturating_add(*number));
    let cut = about.ends.iter().filter(|(end, number)| !end.is_whole() && **number > 0);
    let cut = cut.map(|(&end, &allocations)| Cut {
        end,
        allocations,
        part: allocations as f64 / all as f64,
        why: end.place(),
    });
    cut.collect()
}

/// Modules whose code has no names, each with the way to get them.
pub fn nameless(about: &About) -> impl Iterator<Item = String> {
    about.missing_symbols.iter().map(|missing| format!("without names: {missing}"))
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
        assert!(told[2].starts_with("7 000 blocks were freed unseen"), "{told:?}");
    }

    #[test]
    fn no_more_blocks_are_said_to_be_freed_than_are_shown() {
        let loss = Loss { frees: 3000, ..Loss::default() };
        let told = |shown| lost_beside(&loss, shown).join("");
        assert!(
            told(Some(4000.4))
                .ends_with("up to 3 000 of the 4 000 blocks shown as in use have been freed")
        );
        assert!(
            told(Some(20.0)).ends_with("any of the 20 blocks shown as in use may have been freed")
        );
        assert!(told(Some(0.0)).ends_with("of no block that is shown"));
        assert!(told(None).ends_with("what is shown as in use may have been freed"));
    }

    #[test]
    fn stacks_that_are_whole_are_not_cut() {
        let ends = [(EndReason::Outermost, 98), (EndReason::NoTable, 2), (EndReason::Depth, 0)];
        let about = About { ends: ends.into(), ..About::default() };
        let why = "in code without unwind information";
        let cut = Cut { end: EndReason::NoTable, allocations: 2, part: 0.02, why };
        assert_eq!(cuts(&about), [cut]);
        assert_eq!(cuts(&About::default()), []);
    }
}
