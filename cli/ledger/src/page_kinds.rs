//! What mapped pages were at the end of a session, as the kernel told: of which kind, and how much of them
//! was resident.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Memory that nothing is behind, read and written as any other.
pub const ANONYMOUS: &str = "anonymous";
/// What the kind of a thread's stack begins with; the thread's name follows.
pub const STACK_OF: &str = "stack of ";
/// Threads that are named.
const THREADS: usize = 3;

/// Bytes of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pages {
    /// Of address space.
    pub mapped: u64,
    /// Of these what is in memory; of a part of what the kernel tells as one, its share.
    pub resident: u64,
}

/// Pages that were mapped by one stack of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PageKinds {
    /// The stack; in the heading of a recording its row. `None` in recordings that are older than this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<u32>,
    /// There the address in the target that the calls returned to.
    #[serde(skip_serializing_if = "is_zero")]
    pub address: u64,
    /// By kind, in words: [`ANONYMOUS`], `stack of THREAD`, `guard pages`, `huge pages`, `code`, `private file NAME`, `shared file
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

// Serde hands it a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(address: &u64) -> bool {
    *address == 0
}

impl PageKinds {
    /// Adds those of another stack.
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

    /// The kinds that are not the usual one, in words; that nothing was ever touched is said first, and threads
    /// together.
    pub fn words(&self) -> Vec<String> {
        let all = self.all();
        let untouched = (all.mapped > 0 && all.resident == 0).then(|| "never touched".to_owned());
        let mut words: Vec<String> = untouched.into_iter().collect();
        let mut threads = Vec::new();
        let unusual = self.kinds.iter().filter(|(kind, _)| *kind != ANONYMOUS);
        for (kind, _) in unusual.filter(|(_, pages)| pages.mapped > 0) {
            match kind.strip_prefix(STACK_OF) {
                Some(thread) => threads.push(thread),
                None => words.push(kind.clone()),
            }
        }
        words.extend(stacks(&threads));
        words
    }
}

/// `stack of io`, `stacks of a, b, c and 9 more`; `None` of no thread.
fn stacks(threads: &[&str]) -> Option<String> {
    let named = threads.iter().take(THREADS).copied().collect::<Vec<_>>().join(", ");
    match threads.len() {
        0 => None,
        1 => Some(format!("{STACK_OF}{named}")),
        2..=THREADS => Some(format!("stacks of {named}")),
        all => Some(format!("stacks of {named} and {} more", all - THREADS)),
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
        let told = |names: &[&str]| {
            let kind = |name: &&str| (format!("{STACK_OF}{name}"), pages(8192, 4096));
            let mut one = PageKinds { kinds: names.iter().map(kind).collect(), ..other.clone() };
            one.kinds.insert("guard pages".to_owned(), pages(4096, 0));
            one.words()
        };
        assert_eq!(told(&["io"]), ["guard pages", "stack of io"]);
        assert_eq!(told(&["a", "b"]), ["guard pages", "stacks of a, b"]);
        assert_eq!(told(&["a", "b", "c", "d", "e"])[1], "stacks of a, b, c and 2 more");
    }
}
