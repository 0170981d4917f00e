//! Stacks that begin alike, put together: what flame graphs show.

use std::collections::BTreeMap;

use super::sample::{REST, by_stack};
use crate::ledger::{Ledger, Metric};

/// A tree of calls.
pub struct Tree {
    /// The first is the root; callers come before whom they call.
    pub nodes: Vec<Node>,
}

/// A call, with all that it caused.
#[derive(Default)]
pub struct Node {
    /// Empty for the root.
    pub name: String,
    /// What it and those below it asked for.
    pub bytes: u64,
    /// Those it calls, by name.
    pub below: BTreeMap<String, usize>,
}

/// The calls of all stacks by name, the outermost first, with the bytes of a metric. A stack that
/// ends too early begins with a call that says so: else its first call looks like one of `main`'s
/// equals.
pub fn stacks(ledger: &Ledger, metric: Metric) -> Vec<(Vec<&str>, u64)> {
    let stacks = by_stack(ledger).into_iter().filter_map(|sample| {
        let bytes = sample.amount(metric).bytes;
        let names = match sample.stack {
            None => vec![REST],
            Some(index) => {
                let cut = cut(ledger.stacks.get(index).map_or("", |stack| stack.end));
                let calls = ledger.calls(index).rev().map(|call| call.function.name.as_str());
                cut.into_iter().chain(calls).collect()
            }
        };
        (bytes > 0).then_some((names, bytes))
    });
    stacks.collect()
}

/// What to say of a stack that ends too early.
fn cut(end: &str) -> Option<&'static str> {
    match end {
        "" | "outermost" => None,
        "depth" => Some("[cut: too deep]"),
        "off-stack" => Some("[cut: left its stack]"),
        "no-table" => Some("[cut: no unwind table]"),
        "no-rule" => Some("[cut: no unwind rule]"),
        "implausible" => Some("[cut: implausible]"),
        "no-room" => Some("[cut: no room]"),
        _ => Some("[cut]"),
    }
}

impl Tree {
    /// Of the bytes of a metric.
    pub fn new(ledger: &Ledger, metric: Metric) -> Self {
        let mut tree = Self { nodes: vec![Node::default()] };
        for (names, bytes) in stacks(ledger, metric) {
            let mut at = 0;
            tree.add(at, bytes);
            for name in names {
                at = tree.below(at, name);
                tree.add(at, bytes);
            }
        }
        tree
    }

    fn add(&mut self, node: usize, bytes: u64) {
        self.nodes[node].bytes = self.nodes[node].bytes.saturating_add(bytes);
    }

    fn below(&mut self, node: usize, name: &str) -> usize {
        let next = self.nodes.len();
        if let Some(&known) = self.nodes[node].below.get(name) {
            return known;
        }
        self.nodes[node].below.insert(name.to_owned(), next);
        self.nodes.push(Node { name: name.to_owned(), ..Node::default() });
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::sample;

    #[test]
    fn a_call_has_what_those_below_it_asked_for() {
        let tree = Tree::new(&sample::ledger(), Metric::Live);
        let main = &tree.nodes[tree.nodes[0].below["main"]];
        assert_eq!((tree.nodes[0].bytes, main.bytes), (104_960, 104_960));
        assert_eq!(main.below.keys().collect::<Vec<_>>(), ["grow_list", "malloc"]);
    }

    #[test]
    fn a_stack_that_ends_too_early_says_so() {
        let mut ledger = sample::ledger();
        ledger.stacks.edit(1, |stack| stack.end = "no-table".to_owned());
        let stacks = stacks(&ledger, Metric::Live);
        assert_eq!(stacks[1].0, ["[cut: no unwind table]", "main", "malloc"]);
    }
}
