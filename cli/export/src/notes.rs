//! What a reader of an export must know beside the numbers, in sentences.

use heapattach_ledger::{
    About,
    blind_spots::{self, Cut},
};
use heapattach_text::quantity::count;

/// Whose memory it is, and how it was looked at.
pub fn origin(about: &About) -> Vec<String> {
    let mut notes = vec![format!("heapattach {}, process {}", about.version, about.pid)];
    if !about.command.is_empty() {
        notes.push(format!("command: {}", about.command));
    }
    notes.extend(about.part.iter().map(|part| format!("only: {part}")));
    notes.push(match about.every {
        0 | 1 => "every allocation was recorded".to_owned(),
        every => format!("estimates: one sample in {every} bytes"),
    });
    notes
}

/// What is missing from the ledger, in words.
pub fn gaps(about: &About) -> Vec<String> {
    let mut notes = blind_spots::lost(&about.loss);
    notes.extend(blind_spots::cuts(about).into_iter().map(|Cut { allocations, why, .. }| {
        format!("{} allocations have a stack that ends early: {why}", count(allocations))
    }));
    notes.extend(about.blind.iter().map(|what| format!("not seen: {what}")));
    notes.extend(blind_spots::nameless(about));
    notes
}

/// Both.
pub fn all(about: &About) -> Vec<String> {
    let mut notes = origin(about);
    notes.extend(gaps(about));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::{EndReason, sample};

    #[test]
    fn nothing_missing_is_not_mentioned() {
        let about = sample::ledger().about;
        assert_eq!(gaps(&about), Vec::<String>::new());
        let told = ["heapattach 0.1.0, process 4242", "command: list --long"];
        assert_eq!(origin(&about)[..2], told);
    }

    #[test]
    fn every_loss_is_told_with_its_number() {
        let mut about = sample::ledger().about;
        about.every = 4096;
        about.loss.frees = 7;
        about.blind.push("libfoo.so".to_owned());
        about.ends = [(EndReason::Outermost, 5), (EndReason::NoTable, 3)].into();
        let notes = all(&about);
        assert!(notes.contains(&"estimates: one sample in 4096 bytes".to_owned()));
        assert!(
            notes.iter().any(|note| note.starts_with("7 records of freed blocks were dropped"))
        );
        let cut = "3 allocations have a stack that ends early: in code without unwind information";
        assert!(notes.contains(&cut.to_owned()));
        assert!(notes.contains(&"not seen: libfoo.so".to_owned()));
    }
}
