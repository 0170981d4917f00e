//! What makes the numbers doubtful: what was lost, what could not be seen, how exact the rest is.

use crate::{
    ledger::{About, Ledger, Metric},
    quantity::{bytes, count},
    stack_report::{WHOLE, reason},
};

/// What is missing, and what that means for the numbers.
pub fn lost(about: &About) -> Vec<String> {
    let loss = &about.loss;
    let told = [
        (
            loss.blocks,
            "blocks found no room in a ring and are in no number (raise --ring or --every)",
        ),
        (loss.frees, "blocks given back found no room in a ring: they are shown as still held"),
        (loss.missed_frees, "blocks were given back unseen; until then they were shown as held"),
        (loss.samples, "samples found no room in the table of the target"),
        (loss.beyond_limit, "blocks are beyond what is held at once, and not shown as held"),
        (loss.stacks, "call stacks found no room: their blocks count as of an unknown place"),
        (loss.torn, "records were never finished, or make no sense"),
    ];
    let told = told.into_iter().filter(|(number, _)| *number > 0);
    told.map(|(number, what)| format!("{} {what}", count(number))).collect()
}

/// What could not be seen.
pub fn blind(about: &About) -> Vec<String> {
    let mut told =
        vec!["blocks older than the attach are not seen, nor that they are given back".to_owned()];
    told.extend(about.blind.iter().cloned());
    told.extend(cut_stacks(about));
    told.extend(about.missing_symbols.iter().map(|missing| format!("without names: {missing}")));
    told
}

/// How exact the numbers are.
pub fn accuracy(ledger: &Ledger) -> String {
    let records = count(ledger.total.sum(Metric::Allocated).records());
    match ledger.about.every {
        0 | 1 => format!("every block is recorded: {records} of them; numbers are exact"),
        every => format!(
            "{records} samples, one in {} on average; in brackets 95 % intervals",
            bytes(every)
        ),
    }
}

fn cut_stacks(about: &About) -> Option<String> {
    let all = about.ends.values().fold(0_u64, |sum, number| sum.saturating_add(*number));
    let whole = about.ends.get(WHOLE).copied().unwrap_or(0);
    let cut = all.saturating_sub(whole);
    if cut == 0 {
        return None;
    }
    let percent = 100.0 * cut as f64 / all as f64;
    let reasons = about.ends.iter().filter(|(end, number)| *end != WHOLE && **number > 0);
    let reasons: Vec<_> =
        reasons.map(|(end, number)| format!("{} {}", count(*number), reason(end))).collect();
    Some(format!("{percent:.2} % of allocations have a cut stack: {}", reasons.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::sample;

    #[test]
    fn a_loss_is_told_with_its_meaning() {
        let mut about = sample::ledger().about;
        assert!(lost(&about).is_empty());
        about.loss.frees = 7;
        assert_eq!(
            lost(&about),
            ["7 blocks given back found no room in a ring: they are shown as still held"]
        );
    }

    #[test]
    fn cut_stacks_are_told_with_their_reasons() {
        let mut about = sample::ledger().about;
        let ends = [("outermost", 96), ("depth", 3), ("off-stack", 1)];
        about.ends = ends.map(|(end, number)| (end.to_owned(), number)).into();
        let told = cut_stacks(&about).unwrap();
        assert!(told.starts_with("4.00 % of allocations have a cut stack: 3 deeper"), "{told}");
        about.ends = [("outermost".to_owned(), 5)].into();
        assert_eq!(cut_stacks(&about), None);
    }

    #[test]
    fn accuracy_says_what_numbers_are_made_of() {
        let mut ledger = sample::ledger();
        assert_eq!(accuracy(&ledger), "every block is recorded: 71 510 of them; numbers are exact");
        ledger.about.every = 524_288;
        assert!(accuracy(&ledger).contains("one in 512.0 KiB on average"));
    }
}
