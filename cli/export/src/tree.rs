//! Stacks that begin alike, put together: what flame graphs show.

use std::collections::HashMap;

use super::sample::{REST, by_stack};
use heapattach_ledger::{EndReason, Ledger, Metric, stack_trie::Trie};

/// A tree of the calls of some profiles, told apart by name.
pub struct Tree<const N: usize> {
    /// Names, in their order.
    names: Vec<String>,
    /// The first is the root; callers come before whom they call.
    nodes: Vec<Node<N>>,
    /// All nodes but the root: those of one caller side by side, in the order of their names.
    below: Vec<u32>,
}

/// A call.
#[derive(Clone, Copy)]
struct Node<const N: usize> {
    caller: u32,
    name: u32,
    /// What it allocated itself, in each profile.
    own: [u64; N],
    /// The same with all those that it called.
    all: [u64; N],
    /// Where those that it called begin in [`Tree::below`], and how many they are.
    below: (u32, u32),
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
        let root = Node { caller: 0, name: 0, own: [0; N], all: [0; N], below: (0, 0) };
        let (mut trie, mut nodes) = (Trie::default(), vec![root]);
        for (side, ledger) in ledgers.into_iter().enumerate() {
            let functions = ledger.functions.iter();
            let functions: Vec<u32> = functions.map(|function| rank(&function.name)).collect();
            for sample in by_stack(ledger) {
                let bytes = sample.amount(metric).bytes;
                if bytes == 0 {
                    continue;
                }
                let stack = sample.stack.and_then(|index| ledger.stacks.get(index));
                let mark = match stack {
                    Some(stack) if !stack.locations.is_empty() => cut(stack.end),
                    Some(stack) => cut(stack.end).or(Some(REST)),
                    None => Some(REST),
                };
                let calls = sample.stack.map(|index| ledger.functions_of(index).rev());
                let calls = calls.into_iter().flatten();
                let names = mark.map(rank).into_iter();
                let names = names.chain(calls.map(|function| functions[function as usize]));
                let at = trie.walk(names, |caller, name| nodes.push(Node { caller, name, ..root }));
                let own = &mut nodes[at as usize].own[side];
                *own = own.saturating_add(bytes);
            }
        }
        let below = put_in_order(&mut nodes);
        Self { names, nodes, below }
    }

    /// The name of a node; that of the root means nothing.
    pub fn name(&self, node: u32) -> &str {
        self.names.get(self.nodes[node as usize].name as usize).map_or("", |name| name)
    }

    /// What a node asked for itself, in each profile.
    pub fn own(&self, node: u32) -> [u64; N] {
        self.nodes[node as usize].own
    }

    /// The same with all those that it called.
    pub fn all(&self, node: u32) -> [u64; N] {
        self.nodes[node as usize].all
    }

    /// Those that it called, in the order of their names. The root is node 0.
    pub fn below(&self, node: u32) -> &[u32] {
        let (first, count) = self.nodes[node as usize].below;
        &self.below[first as usize..(first + count) as usize]
    }
}

/// Adds up, and finds those that each node called.
fn put_in_order<const N: usize>(nodes: &mut [Node<N>]) -> Vec<u32> {
    nodes.iter_mut().for_each(|node| node.all = node.own);
    for index in (1..nodes.len()).rev() {
        let Node { caller, all, .. } = nodes[index];
        let sums = nodes[caller as usize].all.iter_mut().zip(all);
        sums.for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
    let mut below: Vec<u32> = (1..).take(nodes.len() - 1).collect();
    below.sort_unstable_by_key(|&node| {
        let Node { caller, name, .. } = nodes[node as usize];
        (caller, name)
    });
    for (place, &node) in (0..).zip(&below) {
        let caller = nodes[node as usize].caller as usize;
        let (first, count) = &mut nodes[caller].below;
        if *count == 0 {
            *first = place;
        }
        *count += 1;
    }
    below
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

    fn path<const N: usize>(tree: &Tree<N>, names: &[&str]) -> u32 {
        names.iter().fold(0, |at, name| {
            *tree.below(at).iter().find(|&&node| tree.name(node) == *name).expect("it is there")
        })
    }

    #[test]
    fn a_call_has_what_those_below_it_asked_for() {
        let tree = Tree::new([&sample::ledger()], Metric::Live, str::to_owned);
        let main = path(&tree, &["main"]);
        assert_eq!((tree.all(0), tree.all(main)), ([104_960], [104_960]));
        let below: Vec<_> = tree.below(main).iter().map(|&node| tree.name(node)).collect();
        assert_eq!(below, ["grow_list", "malloc"]);
        assert_eq!((tree.own(main), tree.own(tree.below(main)[1])), ([0], [40_960]));
    }

    #[test]
    fn a_stack_that_ends_too_early_says_so() {
        let mut ledger = sample::ledger();
        ledger.stacks.edit(1, |stack| stack.end = EndReason::NoTable);
        let tree = Tree::new([&ledger], Metric::Live, str::to_owned);
        let node = path(&tree, &["[cut: no unwind table]", "main", "malloc"]);
        assert_eq!(tree.own(node), [40_960]);
        assert_eq!((cut(EndReason::Outermost), cut(EndReason::Unknown)), (None, Some("[cut]")));
    }

    #[test]
    fn what_has_no_call_at_all_is_told_too() {
        let mut ledger = sample::ledger();
        ledger.stacks.edit(1, |stack| stack.locations.clear());
        let tree = Tree::new([&ledger], Metric::Live, str::to_owned);
        assert_eq!(tree.all(path(&tree, &[REST])), [40_960]);
    }

    #[test]
    fn profiles_stand_side_by_side() {
        let (was, mut is) = (sample::ledger(), sample::ledger());
        is.functions[2].name = "shrink_list".to_owned();
        let tree = Tree::new([&was, &is], Metric::Live, str::to_owned);
        assert_eq!(tree.all(path(&tree, &["main", "grow_list"])), [64_000, 0]);
        assert_eq!(tree.all(path(&tree, &["main", "shrink_list"])), [0, 64_000]);
        assert_eq!(tree.all(path(&tree, &["main", "malloc"])), [40_960; 2]);
    }
}
