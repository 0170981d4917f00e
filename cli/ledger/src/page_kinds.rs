//! What mapped pages were at the end of a session, as the kernel told: of which kind, and how much of them
//! was resident.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Memory that nothing is behind, read and written as any other.
pub const ANONYMOUS: &str = "anonymous";

/// Bytes of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pages {
    /// Of address space.
    pub mapped: u64,
    /// Of these what is in memory; of a part of what the kernel tells as one, its share.
    pub resident: u64,
}

/// Pages that were mapped by calls which return to one address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PageKinds {
    /// The address in the target.
    pub address: u64,
    /// By kind, in words: [`ANONYMOUS`], `guard pages`, `huge pages`, `code`, `private file NAME`, `shared file
    /// NAME`, `shared memory`.
    pub kinds: BTreeMap<String, Pages>,
}

impl Pages {
    /// Adds others.
    pub fn add(&mut self, more: Self) {
        self.mapped = self.mapped.saturating_add(more.mapped);
        self.resident = self.resident.saturating_add(more.resident);
    }
}

impl PageKinds {
    /// Adds those of another address.
    pub fn merge(&mut self, other: &Self) {
        for (kind, pages) in &other.kinds {
            self.kinds.entry(kind.clone()).or_default().add(*pages);
        }
    }

    /// All of them.
    pub fn all(&self) -> Pages {
        let mut all = Pages::default();
        self.kinds.values().for_each(|pages| all.add(*pages));
        all
    }

    /// The kinds that are not the usual one, in words; that nothing was ever touched is said first.
    pub fn words(&self) -> Vec<String> {
        let all = self.all();
        let untouched = (all.mapped > 0 && all.resident == 0).then(|| "never touched".to_owned());
        let others =
            self.kinds.iter().filter(|(kind, pages)| *kind != ANONYMOUS && pages.mapped > 0);
        untouched.into_iter().chain(others.map(|(kind, _)| kind.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unusual_of_pages_is_told_in_words() {
        let pages = |mapped, resident| Pages { mapped, resident };
        let mut one = PageKinds::default();
        one.kinds.insert(ANONYMOUS.to_owned(), pages(8192, 0));
        assert_eq!(one.words(), ["never touched"]);
        let mut other = PageKinds::default();
        other.kinds.insert(ANONYMOUS.to_owned(), pages(4096, 4096));
        other.kinds.insert("guard pages".to_owned(), pages(4096, 0));
        one.merge(&other);
        assert_eq!((one.all(), one.words()), (pages(16_384, 4096), vec!["guard pages".to_owned()]));
        assert_eq!(PageKinds::default().words(), Vec::<String>::new());
    }
}
