//! Stacks in the order of the names of their calls: those that begin alike are side by side, as flame graphs
//! have them.
//!
//! No node is made of any call: there would be ten times as many as stacks. A call is a range of stacks that
//! have it, and those that it called are parts of the range.

use std::collections::HashMap;

use super::sample::{REST, by_stack};
use heapattach_ledger::{EndReason, Ledger, Metric, Stack};

/// The stacks of some profiles, told apart by name.
pub struct Tree<const N: usize> {
    /// Names, in their order.
    names: Vec<String>,
    /// The calls of all stacks by name, the outermost of each first.
    calls: Vec<u32>,
    /// Different stacks, in the order of their calls.
    stacks: Vec<Path<N>>,
}

/// A stack.
#[derive(Clone, Copy)]
struct Path<const N: usize> {
    /// Its first two calls, one more than their names: most stacks are told apart by these.
    begin: u64,
    /// Where its calls are.
    first: u32,
    depth: u32,
    /// What it allocated, in each profile.
    bytes: [u64; N],
}

/// A call, with all stacks that lead through it.
#[derive(Clone, Copy)]
pub struct Node<const N: usize> {
    /// The stacks.
    first: u32,
    end: u32,
    /// The calls outside of it, and itself.
    depth: u32,
    /// What it allocated with all that it called, in each profile.
    pub all: [u64; N],
}

impl<const N: usize> Tree<N> {
    /// Of the bytes of a metric, with names as `harmless` makes them.
    pub fn new(ledgers: [&Ledger; N], metric: Metric, harmless: fn(&str) -> String) -> Self {
        let marks =
            EndReason::ALL.into_iter().filter_map(|end| -> Option<&str> { cut(end) }).chain([REST]);
        let functions = ledgers.iter().flat_map(|ledger| &ledger.functions);
        let raw = functions.map(|function| function.name.as_str()).chain(marks);
        let mut names: Vec<String> = raw.map(harmless).collect();
        names.sort_unstable();
        names.dedup();
        let ranks: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
        let rank = |name: &str| ranks.get(harmless(name).as_str()).copied().unwrap_or(0);
        let (mut calls, mut stacks) = (Vec::new(), Vec::new());
        for (side, ledger) in ledgers.into_iter().enumerate() {
            let functions = ledger.functions.iter();
            let functions: Vec<u32> = functions.map(|function| rank(&function.name)).collect();
            for sample in by_stack(ledger) {
                let own = sample.amount(metric).bytes;
                if own == 0 {
                    continue;
                }
                let first = calls.len();
                calls.extend(mark(sample.stack.and_then(|at| ledger.stacks.get(at))).map(rank));
                let own_calls = sample.stack.map(|index| ledger.functions_of(index).rev());
                let own_calls = own_calls.into_iter().flatten();
                calls.extend(own_calls.map(|function| functions[function as usize]));
                let mut bytes = [0; N];
                bytes[side] = own;
                stacks.push(Path::new(first, &calls[first..], bytes));
            }
        }
        put_in_order(&mut stacks, &calls);
        Self { names, calls, stacks }
    }

    /// Each stack once, in their order: its calls, the outermost first, and what it allocated.
    pub fn stacks(&self) -> impl Iterator<Item = (impl Iterator<Item = &str>, [u64; N])> {
        let name = |call: &u32| self.names.get(*call as usize).map_or("", |name| name);
        self.stacks.iter().map(move |path| (path.of(&self.calls).iter().map(name), path.bytes))
    }

    /// That which calls all others, and is none.
    pub fn root(&self) -> Node<N> {
        self.node(0, self.stacks.len(), 0)
    }

    /// The name of a call; that of the root means nothing.
    pub fn name(&self, node: &Node<N>) -> &str {
        let calls = self.stacks.get(node.first as usize).map(|path| path.of(&self.calls));
        let call = node.depth.checked_sub(1).and_then(|at| calls?.get(at as usize));
        call.and_then(|call| self.names.get(*call as usize)).map_or("", |name| name)
    }

    /// The calls that it made, in the order of their names.
    pub fn below(&self, node: &Node<N>) -> impl Iterator<Item = Node<N>> {
        let depth = node.depth as usize;
        let call = move |path: &Path<N>| path.of(&self.calls).get(depth).copied();
        let mut at = node.first as usize;
        let end = node.end as usize;
        // A stack that goes no further comes first.
        at += usize::from(at < end && call(&self.stacks[at]).is_none());
        std::iter::from_fn(move || {
            let own = call(self.stacks[..end].get(at)?);
            let others = self.stacks[at..end].iter().position(|path| call(path) != own);
            let begin = at;
            at = others.map_or(end, |others| begin + others);
            Some(self.node(begin, at, depth + 1))
        })
    }

    fn node(&self, first: usize, end: usize, depth: usize) -> Node<N> {
        let mut all = [0_u64; N];
        for path in &self.stacks[first..end] {
            add(&mut all, &path.bytes);
        }
        let [first, end, depth] =
            [first, end, depth].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        Node { first, end, depth, all }
    }
}

impl<const N: usize> Path<N> {
    fn new(first: usize, calls: &[u32], bytes: [u64; N]) -> Self {
        let begin = |at: usize| calls.get(at).map_or(0, |call| u64::from(*call) + 1);
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (first, depth) = (number(first), number(calls.len()));
        Self { begin: begin(0) << 32 | begin(1), first, depth, bytes }
    }

    fn of<'a>(&self, calls: &'a [u32]) -> &'a [u32] {
        &calls[self.first as usize..][..self.depth as usize]
    }
}

/// Sorts stacks by their calls; of equal ones one is left, with the bytes of all.
fn put_in_order<const N: usize>(stacks: &mut Vec<Path<N>>, calls: &[u32]) {
    stacks.sort_unstable_by(|one, other| {
        one.begin.cmp(&other.begin).then_with(|| one.of(calls).cmp(other.of(calls)))
    });
    stacks.dedup_by(|next, kept| {
        let is_same = next.begin == kept.begin && next.of(calls) == kept.of(calls);
        if is_same {
            add(&mut kept.bytes, &next.bytes);
        }
        is_same
    });
}

fn add<const N: usize>(sums: &mut [u64; N], more: &[u64; N]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
}

/// The call that stands before those of a stack which is not whole, or is none.
fn mark(stack: Option<Stack<'_>>) -> Option<&'static str> {
    match stack {
        Some(stack) if !stack.locations.is_empty() => cut(stack.end),
        Some(stack) => cut(stack.end).or(Some(REST)),
        None => Some(REST),
    }
}

/// What is said of a stack that ends too early. Such a stack begins with a call that says so: else its first
/// call looks like one of `main`'s equals.
pub fn cut(end: EndReason) -> Option<&'static str> {
    match end {
        EndReason::Outermost => None,
        EndReason::Depth => Some("[cut: too deep]"),
        EndReason::OffStack => Some("[cut: left its stack]"),
        EndReason::NoTable => Some("[cut: no unwind table]"),
        EndReason::NoRule => Some("[cut: no unwind rule]"),
        EndReason::JustLoaded => Some("[cut: loaded a moment ago]"),
        EndReason::Implausible => Some("[cut: implausible]"),
        EndReason::NoRoom => Some("[cut: no room]"),
        EndReason::Unknown => Some("[cut]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    fn path<const N: usize>(tree: &Tree<N>, names: &[&str]) -> Node<N> {
        names.iter().fold(tree.root(), |at, name| {
            tree.below(&at).find(|node| tree.name(node) == *name).expect("it is there")
        })
    }

    /// What a call asked for itself.
    fn own<const N: usize>(tree: &Tree<N>, node: &Node<N>) -> [u64; N] {
        tree.below(node).fold(node.all, |mut own, below| {
            own.iter_mut().zip(below.all).for_each(|(own, below)| *own -= below);
            own
        })
    }

    #[test]
    fn a_call_has_what_those_below_it_asked_for() {
        let tree = Tree::new([&sample::ledger()], Metric::Live, str::to_owned);
        let main = path(&tree, &["main"]);
        assert_eq!((tree.root().all, main.all), ([104_960], [104_960]));
        let below: Vec<_> = tree.below(&main).collect();
        let names: Vec<_> = below.iter().map(|node| tree.name(node)).collect();
        assert_eq!(names, ["grow_list", "malloc"]);
        assert_eq!((own(&tree, &main), own(&tree, &below[1])), ([0], [40_960]));
    }

    #[test]
    fn a_stack_that_ends_where_others_go_on_comes_before_them() {
        let mut ledger = sample::ledger();
        // One that is only `main`.
        ledger.stacks.edit(1, |stack| stack.locations = stack.locations.split_off(1));
        let tree = Tree::new([&ledger], Metric::Live, str::to_owned);
        let stacks = tree.stacks().map(|(calls, bytes)| (calls.collect::<Vec<_>>(), bytes));
        let whole = vec!["main", "grow_list", "make_node", "malloc"];
        let expected = [(vec!["main"], [40_960]), (whole, [64_000])];
        assert_eq!(stacks.collect::<Vec<_>>(), expected);
        let main = path(&tree, &["main"]);
        assert_eq!((own(&tree, &main), tree.below(&main).count()), ([40_960], 1));
    }

    #[test]
    fn a_stack_that_ends_too_early_says_so() {
        let mut ledger = sample::ledger();
        ledger.stacks.edit(1, |stack| stack.end = EndReason::NoTable);
        let tree = Tree::new([&ledger], Metric::Live, str::to_owned);
        let node = path(&tree, &["[cut: no unwind table]", "main", "malloc"]);
        assert_eq!(node.all, [40_960]);
        assert_eq!((cut(EndReason::Outermost), cut(EndReason::Unknown)), (None, Some("[cut]")));
    }

    #[test]
    fn what_has_no_call_at_all_is_told_too() {
        let mut ledger = sample::ledger();
        ledger.stacks.edit(1, |stack| stack.locations.clear());
        let tree = Tree::new([&ledger], Metric::Live, str::to_owned);
        assert_eq!(path(&tree, &[REST]).all, [40_960]);
    }

    #[test]
    fn profiles_stand_side_by_side() {
        let (was, mut is) = (sample::ledger(), sample::ledger());
        is.functions[2].name = "shrink_list".to_owned();
        let tree = Tree::new([&was, &is], Metric::Live, str::to_owned);
        assert_eq!(path(&tree, &["main", "grow_list"]).all, [64_000, 0]);
        assert_eq!(path(&tree, &["main", "shrink_list"]).all, [0, 64_000]);
        assert_eq!(path(&tree, &["main", "malloc"]).all, [40_960; 2]);
    }
}
