//! What could not be given back, in words.

use super::UndoError;
use crate::{
    home::{ChangeKind, Home},
    loader,
    proc::maps,
    target::Target,
};

/// What is still in the target, and why.
#[derive(Debug)]
pub struct Left {
    /// Why.
    pub error: UndoError,
    /// What, in words.
    pub what: Vec<String>,
}

/// In words, for the person who has to decide.
pub(super) fn what_is_left(target: &Target, home: &Home) -> Vec<String> {
    let mut left = Vec::new();
    let text = target.process.read("maps").unwrap_or_default();
    if let Ok(home) = Home::open(&target.memory, home.at()) {
        for change in home.changes(&target.memory).unwrap_or_default() {
            let now = target.memory.read_vec(change.at, change.length);
            if now.is_ok_and(|now| change.is_made(&now)) {
                let kind = match change.kind {
                    ChangeKind::Slot => "slot",
                    ChangeKind::Entry => "function entry",
                    ChangeKind::Bypass => "branch",
                    ChangeKind::Watch => {
                        let at = change.at;
                        left.push(format!("mailbox at {at} still says that somebody watches"));
                        continue;
                    }
                };
                left.push(format!("{kind} at {} still leads to our hook", change.at));
            }
        }
    }
    if let Some(object) = loader::find_in(target, &maps::parse(&text).unwrap_or_default()) {
        let kind = "shared object, loaded by the target, that nothing leads to any more";
        left.push(format!("mapping {}-{} ({kind})", object.base, object.end));
    }
    if target.memory.word(home.at()).is_ok() {
        left.push(format!("mapping {}-{} (hooks and journal)", home.at(), home.end()));
    }
    left
}
