//! What could not be given back, in words.

use super::UndoError;
use crate::{
    home::{Change, ChangeKind, Home},
    loader,
};
use crate::{installation::shared_object, trace::target::Target};
use heapattach_process::proc::maps;

/// So many changes are named one by one.
const NAMED: usize = 100;

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
        let is_made = |change: &Change| {
            let now = target.memory.read_vec(change.at, change.length);
            now.is_ok_and(|now| change.is_made(&now))
        };
        let changes = home.changes(&target.memory).unwrap_or_default();
        let mut made = changes.iter().filter(|change| is_made(change));
        left.extend(made.by_ref().take(NAMED).map(words));
        if made.next().is_some() {
            left.push("more of them, which are not named".to_owned());
        }
    }
    let maps = maps::parse(&text).unwrap_or_default();
    let kind = "shared object, loaded by the target, that nothing leads to any more";
    match loader::find_in(target, &maps) {
        Some(object) => left.push(format!("mapping {}-{} ({kind})", object.base, object.end)),
        None if shared_object::Object::is_mapped(&maps) => left.push(kind.to_owned()),
        None => {}
    }
    if target.memory.word(home.at()).is_ok() {
        left.push(format!("mapping {}-{} (hooks and journal)", home.at(), home.end()));
    }
    left.extend(threads_held(target));
    left
}

/// Threads that could not be given back: the kernel does so when their tracer ends.
fn threads_held(target: &Target) -> Vec<String> {
    let threads = target.process.threads().unwrap_or_default().into_iter();
    let held =
        threads.filter(|&tid| target.traces(tid) && !target.threads.is_kept(tid)).take(NAMED);
    let words = |tid| format!("thread {tid} is still traced: it goes on when heapattach has ended");
    held.map(words).collect()
}

fn words(change: &Change) -> String {
    let at = change.at;
    match change.kind {
        ChangeKind::Slot => format!("slot at {at} still leads to our hook"),
        ChangeKind::Entry => format!("function entry at {at} still leads to our hook"),
        ChangeKind::Bypass => format!("branch at {at} still leads to our hook"),
        ChangeKind::Request => format!("client request at {at} still leads to our code"),
        ChangeKind::Watch => format!("mailbox at {at} still says that a heapattach watches"),
    }
}
