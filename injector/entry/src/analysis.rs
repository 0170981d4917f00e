//! What entry patching can do in one module.

use super::{Bypass, EntryPlan, Refusal};
use heapattach_process::addr::ImageAddr;

/// What can be done about the hooked functions of one module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Analysis {
    /// Sorted by address.
    pub(super) entries: Vec<Entry>,
    pub(super) bypasses: Vec<Bypass>,
}

/// One distinct hooked address, however many names it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The function.
    pub address: ImageAddr,
    /// How it is patched; or why not, and then it is left to the slots.
    pub plan: Result<EntryPlan, Refusal>,
    /// Another hooked function that it calls whichever way it goes.
    pub calls: Option<ImageAddr>,
}

impl Analysis {
    /// Every distinct hooked address, sorted.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The plan, or the refusal, for the function at `address`.
    pub fn entry(&self, address: ImageAddr) -> Option<&Entry> {
        let at = self.entries.binary_search_by_key(&address, |entry| entry.address).ok()?;
        self.entries.get(at)
    }

    /// The branches to rewrite if the entries for which `patched` is true are patched: those that
    /// lead to one of them and have not themselves moved into a trampoline.
    pub fn bypasses(&self, patched: impl Fn(ImageAddr) -> bool) -> impl Iterator<Item = &Bypass> {
        self.bypasses.iter().filter(move |bypass| {
            patched(bypass.callee.function) && !bypass.moved_with.is_some_and(&patched)
        })
    }
}
