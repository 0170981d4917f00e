//! All sites, by the number of their stack.

use heapattach_injector::event::StackId;

use super::site::Site;

/// Stacks with a higher number count as the unknown one; more than the session's table can hold.
const STACKS: usize = 1 << 22;

/// The sites of a session; their number is bounded, whatever the target writes.
#[derive(Debug)]
pub struct Sites {
    /// By the number of the stack: one more than the index in `sites`, or 0.
    index: Vec<u32>,
    /// The first is the unknown one.
    sites: Vec<Site>,
    limit: usize,
}

impl Sites {
    /// No site but the unknown one, and never more than `limit` others.
    pub fn new(limit: usize) -> Self {
        Self { index: Vec::new(), sites: vec![Site::new(StackId(0))], limit }
    }

    /// The site of a stack; beyond the limit, the unknown one.
    pub fn of(&mut self, stack: StackId) -> &mut Site {
        let index = self.place(stack).unwrap_or(0);
        &mut self.sites[index]
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Site> {
        self.sites.iter()
    }

    fn place(&mut self, stack: StackId) -> Option<usize> {
        let number = usize::try_from(stack.0).ok().filter(|&n| n != 0 && n < STACKS)?;
        if let Some(&known) = self.index.get(number)
            && known != 0
        {
            return usize::try_from(known).ok()?.checked_sub(1);
        }
        // No site is ever removed: whoever was turned away once is turned away for good, and the
        // end of a block finds the site its beginning found.
        if self.sites.len() > self.limit {
            return None;
        }
        if self.index.len() <= number {
            self.index.resize(number + 1, 0);
        }
        self.sites.push(Site::new(stack));
        self.index[number] = u32::try_from(self.sites.len()).ok()?;
        Some(self.sites.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_keeps_its_site() {
        let mut sites = Sites::new(10);
        for number in [5, 0, 9, 5, 2] {
            sites.of(StackId(number)).pages.add(1, true);
        }
        let mut seen: Vec<_> = sites.iter().map(|s| (s.stack.0, s.pages.live)).collect();
        seen.sort_unstable();
        assert_eq!(seen, [(0, 1), (2, 1), (5, 2), (9, 1)]);
    }

    #[test]
    fn what_is_beyond_the_limit_counts_as_unknown() {
        let mut sites = Sites::new(3);
        for number in [1, 2, 3, 4, u32::MAX, 1] {
            sites.of(StackId(number)).pages.add(1, true);
        }
        let seen: Vec<_> = sites.iter().map(|s| (s.stack.0, s.pages.live)).collect();
        assert_eq!(seen, [(0, 2), (1, 2), (2, 1), (3, 1)]);
    }
}
