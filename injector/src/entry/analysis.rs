//! One module, analysed whole.

use super::{Bypass, EntryPlan, Hooked, Refusal, Role};
use crate::addr::ImageAddr;

/// What can be done about the hooked functions of one module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Analysis {
    entries: Vec<Entry>,
    bypasses: Vec<Bypass>,
}

/// One distinct hooked address, however many names it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The function.
    pub address: ImageAddr,
    /// How it is patched; or why not, and then it is left to the slots.
    pub plan: Result<EntryPlan, Refusal>,
}

/// Bytes that are no module we can analyse.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Not an ELF file for x86-64, or a broken one.
    #[error("not a 64-bit little-endian x86-64 ELF file")]
    NotElf,
    /// The file says that it has no code.
    #[error("the file has no executable segment")]
    NoCode,
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
            patched(bypass.target) && !bypass.moved_with.is_some_and(&patched)
        })
    }
}

/// Analyses a module for entry patching.
///
/// # Errors
/// When the bytes are not an ELF file with code in it. What concerns one function alone is a
/// [`Refusal`] in its [`Entry`].
pub fn analyse(file: &[u8], hooked: &[Hooked<'_>], role: Role) -> Result<Analysis, ImageError> {
    let _ = (file, hooked, role);
    Err(ImageError::NotElf)
}
