//! The hooked functions while they are being judged.

use std::collections::BTreeMap;

use crate::{
    Family, Hooked, Refusal, arch::window::Window, function_ranges::FunctionRanges, image::Image,
    zones::Zones,
};

/// A hooked function: its window, until something is found against it.
pub(super) struct Draft {
    pub family: Family,
    pub window: Result<Window, Refusal>,
    /// Whether a direct branch enters it that will not lead past the hook.
    pub is_called_directly: bool,
}

/// Every distinct hooked address.
pub(super) struct Drafts {
    by_entry: BTreeMap<u64, Draft>,
}

/// Which part of a window an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The entry, or the first byte behind its endbr64.
    Entry,
    /// Any other byte.
    Inside,
}

impl Drafts {
    pub(super) fn new(
        hooked: &[Hooked<'_>],
        image: &Image<'_>,
        functions: &FunctionRanges<'_, '_>,
    ) -> Self {
        let mut by_entry = BTreeMap::new();
        for function in hooked {
            let entry = function.address.get();
            let window = || Window::cut(image, functions, entry);
            let draft =
                || Draft { family: function.family, window: window(), is_called_directly: false };
            by_entry.entry(entry).or_insert_with(draft);
        }
        Self { by_entry }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Draft)> {
        self.by_entry.iter().map(|(&entry, draft)| (entry, draft))
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = (u64, Draft)> {
        self.by_entry.into_iter()
    }

    /// A direct branch enters the function at `entry`, and does not lead past its hook.
    pub(super) fn set_called_directly(&mut self, entry: u64) {
        if let Some(draft) = self.by_entry.get_mut(&entry) {
            draft.is_called_directly = true;
        }
    }

    /// The windows not yet refused, with their entries.
    pub(super) fn windows(&self) -> Vec<(u64, Window)> {
        self.iter().filter_map(|(entry, draft)| Some((entry, draft.window.ok()?))).collect()
    }

    pub(super) fn contains(&self, entry: u64) -> bool {
        self.by_entry.contains_key(&entry)
    }

    /// The addresses of the functions of one family, or of all.
    pub(super) fn entries(&self, family: Option<Family>) -> Vec<u64> {
        let wanted = |draft: &Draft| family.is_none_or(|family| draft.family == family);
        self.iter().filter(|(_, draft)| wanted(draft)).map(|(entry, _)| entry).collect()
    }

    pub(super) fn family(&self, entry: u64) -> Option<Family> {
        self.by_entry.get(&entry).map(|draft| draft.family)
    }

    /// The function in whose window, endbr64 included, `at` lies.
    pub(super) fn at(&self, at: u64) -> Option<(u64, Part)> {
        let (&entry, draft) = self.by_entry.range(..=at).next_back()?;
        let window = draft.window.ok()?;
        let part =
            if at == entry || at == window.start().get() { Part::Entry } else { Part::Inside };
        (at < window.inside().end).then_some((entry, part))
    }

    /// All windows, endbr64 included.
    pub(super) fn zones(&self) -> Zones {
        Zones::new(self.windows().into_iter().map(|(entry, window)| entry..window.inside().end))
    }

    /// Refuses the function at `entry`; the first reason found stands.
    pub(super) fn refuse(&mut self, entry: u64, why: Refusal) {
        if let Some(draft) = self.by_entry.get_mut(&entry) {
            draft.window = draft.window.and(Err(why));
        }
    }

    /// Refuses all that are left.
    pub(super) fn refuse_all(&mut self, why: Refusal) {
        for draft in self.by_entry.values_mut() {
            draft.window = draft.window.and(Err(why));
        }
    }
}
