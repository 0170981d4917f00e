//! Whose memory it was, and what is missing, in sentences.

use serde::Serialize;

use crate::{
    ledger::{About, Loss},
    quantity::count,
    report::ExitReport,
    stack_report::{WHOLE, reason},
};

/// What the page says about a profile.
#[derive(Debug, Serialize)]
pub struct Whose {
    pid: i32,
    command: String,
    began: u64,
    lasted_ms: u64,
    every: u64,
    version: String,
    /// `null`: it does not say.
    outcome: Option<String>,
    temporary_ms: u64,
    /// What was lost, and what that means for the numbers. Nothing was, only if this is empty.
    missing: Vec<String>,
    blind: Vec<String>,
    missing_symbols: Vec<String>,
    cuts: Vec<String>,
}

impl Whose {
    /// Of a profile.
    pub fn new(about: &About) -> Self {
        let missing = missing(about.loss);
        let cuts = cuts(about);
        let about = about.clone();
        Self {
            pid: about.pid,
            command: about.command,
            began: about.began,
            lasted_ms: about.lasted_ms,
            every: about.every,
            version: about.version,
            outcome: match (about.outcome.as_str(), about.exit) {
                ("", _) => None,
                (outcome, None) => Some(outcome.to_owned()),
                (outcome, Some(ExitReport::Code(code))) => {
                    Some(format!("{outcome}, status {code}"))
                }
                (outcome, Some(ExitReport::Signal(signal))) => {
                    Some(format!("{outcome}, signal {signal}"))
                }
            },
            temporary_ms: about.temporary_ms,
            missing,
            blind: about.blind,
            missing_symbols: about.missing_symbols,
            cuts,
        }
    }
}

fn missing(loss: Loss) -> Vec<String> {
    let Loss { blocks, frees, samples, beyond_limit, stacks, torn, missed_frees } = loss;
    let all = [
        (blocks, "blocks and mappings found no room in a ring: they are in no number"),
        (frees, "blocks given back found no room in a ring: they are shown as held"),
        (samples, "samples found no room in the table of the target"),
        (beyond_limit, "blocks are beyond what is held at once: they are not shown as held"),
        (stacks, "stacks found no room: their blocks stand under [no-room]"),
        (torn, "records were never finished, or make no sense"),
        (missed_frees, "blocks were given back unseen: until then they were shown as held"),
    ];
    let lost = all.iter().filter(|(number, _)| *number > 0);
    lost.map(|(number, what)| format!("{} {what}", count(*number))).collect()
}

fn cuts(about: &About) -> Vec<String> {
    let all: u64 = about.ends.values().fold(0, |sum, &number| sum.saturating_add(number));
    let cut = about.ends.iter().filter(|(end, _)| *end != WHOLE);
    let told = cut.map(|(end, &number)| {
        let percent = 100.0 * number as f64 / all.max(1) as f64;
        format!(
            "[{end}]: {} of the allocations recorded, {percent:.2} %: {}",
            count(number),
            reason(end)
        )
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_is_told() {
        assert_eq!(missing(Loss::default()), Vec::<String>::new());
        let all = Loss {
            blocks: 1,
            frees: 2,
            samples: 3,
            beyond_limit: 4,
            stacks: 5,
            torn: 6,
            missed_frees: 7000,
        };
        let told = missing(all);
        assert_eq!(told.len(), 7);
        assert!(told[6].starts_with("7 000 blocks were given back unseen"), "{told:?}");
    }

    #[test]
    fn stacks_that_are_whole_are_not_cut() {
        let ends = [("outermost", 98), ("no-table", 2)];
        let ends = ends.map(|(end, number)| (end.to_owned(), number)).into();
        let cuts = cuts(&About { ends, ..About::default() });
        let told =
            "[no-table]: 2 of the allocations recorded, 2.00 %: in code without unwind information";
        assert_eq!(cuts, [told]);
    }
}
