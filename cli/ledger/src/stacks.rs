//! All call stacks of a ledger.
//!
//! There may be millions of them: all calls of all stacks lie in one row, and each stack is a part
//! of it.

use std::sync::Arc;

use crate::EndReason;

/// The stacks, by number.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// Shared with the reader of the file.
    locations: Arc<Vec<u32>>,
    parts: Vec<Part>,
}

/// Where a stack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    first: u32,
    cause: u32,
    depth: u16,
    end: EndReason,
}

/// A stack of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'a> {
    /// The innermost first.
    pub locations: &'a [u32],
    /// Why it goes no further.
    pub end: EndReason,
    /// Which of its calls (inlined ones count) caused the allocation: those before are allocators.
    pub cause: u32,
}

impl Stacks {
    /// None yet; what is said of them by [`Stacks::push_part`] is in these locations.
    pub fn of(locations: Arc<Vec<u32>>) -> Self {
        Self { locations, ..Self::default() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// One of them, if it is there.
    pub fn get(&self, stack: u32) -> Option<Stack<'_>> {
        self.parts.get(stack as usize).map(|part| self.told(part))
    }

    /// All stacks, in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Stack<'_>> {
        self.parts.iter().map(|part| self.told(part))
    }

    /// Whether the first of these are all those of `before`.
    pub fn go_on(&self, before: &Self) -> bool {
        let is_same = Arc::ptr_eq(&self.locations, &before.locations);
        self.parts.starts_with(&before.parts)
            && (is_same || self.locations.starts_with(&before.locations))
    }

    /// Adds one. What is deeper than any stack can be is cut.
    pub fn push(&mut self, locations: &[u32], end: EndReason, cause: u32) {
        let first = self.locations.len();
        Arc::make_mut(&mut self.locations).extend(locations);
        self.push_part(first, locations.len(), end, cause);
    }

    /// Adds one whose locations are known already.
    pub fn push_part(&mut self, first: usize, depth: usize, end: EndReason, cause: u32) {
        self.parts.push(Part {
            first: u32::try_from(first).unwrap_or(u32::MAX),
            cause,
            depth: u16::try_from(depth).unwrap_or(u16::MAX),
            end,
        });
    }

    fn told(&self, part: &Part) -> Stack<'_> {
        let first = part.first as usize;
        let locations = self.locations.get(first..first + usize::from(part.depth));
        Stack { locations: locations.unwrap_or_default(), end: part.end, cause: part.cause }
    }
}

/// A stack that is being changed.
#[cfg(any(test, feature = "sample"))]
#[derive(Debug)]
pub struct Edited {
    /// See [`Stack::locations`].
    pub locations: Vec<u32>,
    /// See [`Stack::end`].
    pub end: EndReason,
    /// See [`Stack::cause`].
    pub cause: u32,
}

#[cfg(any(test, feature = "sample"))]
impl Stacks {
    /// Puts another stack in the place of one.
    pub fn edit(&mut self, stack: u32, edit: impl FnOnce(&mut Edited)) {
        let Stack { locations, end, cause } = self.get(stack).unwrap();
        let mut edited = Edited { locations: locations.to_vec(), end, cause };
        edit(&mut edited);
        self.push(&edited.locations, edited.end, edited.cause);
        self.parts.swap_remove(stack as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_told_as_it_was_added() {
        let mut stacks = Stacks::of(Arc::new(vec![7, 8, 9]));
        stacks.push_part(1, 2, EndReason::Depth, 1);
        stacks.push(&[5], EndReason::Outermost, 0);
        let told: Vec<_> = stacks.iter().map(|s| (s.locations.to_vec(), s.end, s.cause)).collect();
        assert_eq!(told, [(vec![8, 9], EndReason::Depth, 1), (vec![5], EndReason::Outermost, 0)]);
        stacks.edit(0, |stack| stack.end = EndReason::NoRule);
        let told: Vec<_> = stacks.iter().map(|s| (s.locations.to_vec(), s.end)).collect();
        assert_eq!(told, [(vec![8, 9], EndReason::NoRule), (vec![5], EndReason::Outermost)]);
        assert_eq!(stacks.get(2), None);
    }
}
