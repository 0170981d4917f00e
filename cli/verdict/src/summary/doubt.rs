//! What makes the numbers doubtful: what could not be seen, how exact the rest is.

use heapattach_ledger::{About, Ledger, Metric, blind_spots};
use heapattach_text::quantity::{bytes, count};

/// What could not be seen.
pub fn blind(about: &About) -> Vec<String> {
    let mut told = Vec::new();
    if blind_spots::misses_older(about) {
        told.push(blind_spots::OLDER.to_owned());
    }
    told.extend(about.blind.iter().cloned());
    told.extend(cut_stacks(about));
    told.extend(blind_spots::nameless(about));
    told
}

/// How exact the numbers are.
pub fn accuracy(ledger: &Ledger) -> String {
    let records = count(ledger.total.sum(Metric::Allocated).records());
    match ledger.about.every {
        0 | 1 if ledger.about.loss.is_none() => {
            format!("every block is recorded: {records} of them; numbers are exact")
        }
        0 | 1 => {
            format!("{records} blocks are recorded; numbers are not exact, as records are missing")
        }
        every => {
            let every = bytes(every);
            let beyond = if ledger.about.loss.is_none() {
                ""
            } else {
                ", but for the records that are missing"
            };
            format!("{records} samples, one in {every} on average; in parentheses: 95 % CI{beyond}")
        }
    }
}

fn cut_stacks(about: &About) -> Option<String> {
    let cuts = blind_spots::cuts(about);
    let percent: f64 = cuts.iter().map(|cut| 100.0 * cut.part).sum();
    let reasons: Vec<_> =
        cuts.iter().map(|cut| format!("{} {}", count(cut.allocations), cut.why)).collect();
    let told = || format!("{percent:.2} % of allocations have a cut stack: {}", reasons.join("; "));
    (!cuts.is_empty()).then(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::{EndReason, Loss, sample};

    #[test]
    fn cut_stacks_are_told_with_their_reasons() {
        let mut about = sample::ledger().about;
        about.ends =
            [(EndReason::Outermost, 96), (EndReason::Depth, 3), (EndReason::OffStack, 1)].into();
        let told = cut_stacks(&about).unwrap();
        assert!(told.starts_with("4.00 % of allocations have a cut stack: 3 deeper"), "{told}");
        about.ends = [(EndReason::Outermost, 5)].into();
        assert_eq!(cut_stacks(&about), None);
    }

    #[test]
    fn accuracy_says_what_numbers_are_made_of() {
        let mut ledger = sample::ledger();
        assert_eq!(accuracy(&ledger), "every block is recorded: 71 510 of them; numbers are exact");
        for loss in [
            Loss { blocks: 1, ..Loss::default() },
            Loss { frees: 1, ..Loss::default() },
            Loss { torn: 1, ..Loss::default() },
        ] {
            ledger.about.loss = loss;
            assert!(accuracy(&ledger).contains("numbers are not exact"), "{loss:?}");
        }
        ledger.about.every = 524_288;
        assert!(accuracy(&ledger).ends_with("but for the records that are missing"));
        ledger.about.loss = Loss::default();
        assert!(accuracy(&ledger).contains("one in 512.0 KiB on average"));
    }
}
