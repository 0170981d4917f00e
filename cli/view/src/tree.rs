//! Stacks as a tree of calls: from `main` to the allocating function, or the other way round.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, HashMap},
};

use serde::Serialize;

use super::{
    page::Page,
    sites::{figure_cells, figure_columns, write_more, write_total},
    table::{Column, Table},
};
use heapattach_ledger::{Ledger, Memory, Metric};
use heapattach_verdict::{
    figure::Unit,
    place::{Place, Places},
    subject::{Ask, Order, Subject, own_calls},
    weight::{Figures, Side, Weight},
};

/// Calls of one path; what is deeper belongs to the last of them.
const DEPTH: usize = 512;
/// Nodes; what finds no room belongs to the last node on its path that did.
const NODES: usize = 1 << 20;
/// Columns that a branch is moved to the right.
const INDENT: usize = 2;

/// A tree, in the order in which it is read.
#[derive(Clone, Debug, Serialize)]
pub struct Tree {
    /// What is measured.
    pub metric: Metric,
    /// Of which memory; blocks, if that was not chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// In what the order is.
    pub unit: Unit,
    /// `top-down` or `bottom-up`.
    pub order: &'static str,
    /// All of it.
    pub total: Figures,
    /// Each after what it is below; among those below one, the most important first.
    pub nodes: Vec<NodeRow>,
    /// Nodes that are not listed.
    pub more: usize,
}

/// One call on its path.
#[derive(Clone, Debug, Serialize)]
pub struct NodeRow {
    /// In words.
    pub words: String,
    /// As it is.
    #[serde(flatten)]
    pub place: Place,
    /// How much, with everything below.
    #[serde(flatten)]
    pub figures: Figures,
    /// How many nodes it is below.
    pub depth: usize,
    /// How many times the path has branched until here.
    pub branch: usize,
    /// Whether it is one of several below the same.
    pub is_branch: bool,
}

#[derive(Debug)]
struct Node {
    place: u32,
    parent: u32,
    weight: Weight,
    below: Vec<u32>,
}

/// All paths; the first node is above all others.
#[derive(Debug)]
struct Forest {
    nodes: Vec<Node>,
    known: HashMap<(u32, u32), u32>,
    places: Places,
}

/// A node that may be told next.
struct Candidate {
    rank: f64,
    node: u32,
}

impl Forest {
    fn new(subject: &Subject<'_>, ask: &Ask) -> Self {
        let root = Node { place: 0, parent: 0, weight: Weight::default(), below: Vec::new() };
        let (nodes, known, places) = (vec![root], HashMap::new(), Places::default());
        let mut forest = Self { nodes, known, places };
        for (side, ledger) in subject.sides() {
            forest.add(side, ledger, ask);
        }
        forest
    }

    fn add(&mut self, side: Side, ledger: &Ledger, ask: &Ask) {
        let (numbers, unknown) = (self.places.of(ledger), self.places.unknown());
        // The heaviest first: they find room.
        let mut rows: Vec<_> = ledger.rows.iter().map(|row| (row, row.sum(ask.metric))).collect();
        rows.retain(|(_, sum)| sum.records() > 0);
        rows.sort_by_cached_key(|(_, sum)| u64::MAX - sum.records());
        let mut path = Vec::new();
        for (row, sum) in rows {
            path.clear();
            let calls = own_calls(ledger, row.stack).take(DEPTH);
            path.extend(calls.map(|(function, _)| numbers[function as usize]));
            if path.is_empty() {
                path.push(unknown);
            }
            if ask.order == Order::TopDown {
                path.reverse();
            }
            let mut at = 0;
            self.nodes[0].weight.add(side, &sum);
            for &place in &path {
                let Some(next) = self.below(at, place) else { break };
                at = next;
                self.nodes[at as usize].weight.add(side, &sum);
            }
        }
    }

    fn below(&mut self, parent: u32, place: u32) -> Option<u32> {
        if let Some(known) = self.known.get(&(parent, place)) {
            return Some(*known);
        }
        if self.nodes.len() >= NODES {
            return None;
        }
        let number = u32::try_from(self.nodes.len()).ok()?;
        self.nodes.push(Node { place, parent, weight: Weight::default(), below: Vec::new() });
        self.nodes[parent as usize].below.push(number);
        self.known.insert((parent, place), number);
        Some(number)
    }

    /// The most important nodes, each with all that it is below; in no order.
    fn chosen(&self, rank: impl Fn(u32) -> f64, limit: usize) -> Vec<bool> {
        let mut chosen = vec![false; self.nodes.len()];
        let mut heap = BinaryHeap::new();
        let candidates = |node: u32| self.nodes[node as usize].below.iter().copied();
        heap.extend(candidates(0).map(|node| Candidate { rank: rank(node), node }));
        for _ in 0..limit {
            let Some(Candidate { node, .. }) = heap.pop() else { break };
            chosen[node as usize] = true;
            heap.extend(candidates(node).map(|node| Candidate { rank: rank(node), node }));
        }
        chosen
    }
}

impl Tree {
    /// Of a subject.
    pub fn new(subject: &Subject<'_>, ask: &Ask) -> Self {
        let forest = Forest::new(subject, ask);
        let is_change = subject.base.is_some();
        let rank = |node: u32| forest.nodes[node as usize].weight.rank(ask.unit, is_change);
        let chosen = forest.chosen(rank, ask.limit);
        let total = subject.total(ask.metric);
        let mut nodes = Vec::new();
        // Paths may be deep: no function calls itself here.
        let mut open = vec![(0_u32, 0, 0)];
        while let Some((at, depth, branch)) = open.pop() {
            let node = &forest.nodes[at as usize];
            let is_branch = at > 0 && forest.nodes[node.parent as usize].below.len() > 1;
            let branch = if is_branch { branch + 1 } else { branch };
            if at > 0 {
                let place = forest.places.get(node.place).clone();
                let figures = node.weight.figures(&total, ask.unit, is_change);
                let words = place.words();
                nodes.push(NodeRow { words, place, figures, depth: depth - 1, branch, is_branch });
            }
            let is_chosen = |below: &&u32| chosen[**below as usize];
            let mut below: Vec<u32> = node.below.iter().filter(is_chosen).copied().collect();
            let place = |node: u32| forest.places.get(forest.nodes[node as usize].place);
            below
                .sort_by(|&a, &b| rank(a).total_cmp(&rank(b)).then_with(|| place(b).cmp(place(a))));
            open.extend(below.into_iter().map(|node| (node, depth + 1, branch)));
        }
        Self {
            metric: ask.metric,
            memory: ask.memory,
            unit: ask.unit,
            order: if ask.order == Order::TopDown { "top-down" } else { "bottom-up" },
            total: total.figures(&total, ask.unit, is_change),
            more: forest.nodes.len() - 1 - nodes.len(),
            nodes,
        }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        write_total(page, (self.metric, self.memory), &self.total, self.unit);
        page.gap();
        let mut columns = figure_columns((self.metric, self.memory), self.total.change.is_some());
        columns.push(Column::left("call"));
        let mut table = Table::new(columns);
        for node in &self.nodes {
            let indent = " ".repeat(INDENT * node.branch.saturating_sub(1).min(DEPTH));
            let mark = match (node.branch, node.is_branch) {
                (0, _) => "",
                (_, true) => "- ",
                (_, false) => "  ",
            };
            let mut cells = figure_cells(&node.figures, self.unit);
            cells.push(format!("{indent}{mark}{}", node.words).into());
            table.row(cells);
        }
        table.write(page);
        write_more(page, self.more, "nodes");
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        // The earlier node first, if both weigh the same.
        self.rank.total_cmp(&other.rank).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    fn text(ask: &Ask) -> String {
        let ledger = sample::ledger();
        let mut page = Page::new(None, false);
        Tree::new(&Subject::of(&ledger), ask).write(&mut page);
        page.finish()
    }

    #[test]
    fn a_tree_goes_from_main_to_who_asked() {
        let expected = "\
ALL       in use: 102.5 KiB in 1 010 blocks

   in use   part              call
102.5 KiB  100 %  ██████████  main (main.c)
 62.5 KiB   61 %  ██████▏     grow_list (list.c)
 62.5 KiB   61 %  ██████▏     make_node (list.c)
";
        assert_eq!(text(&Ask::default()), expected);
    }

    #[test]
    fn branches_of_a_tree_are_marked() {
        let text =
            text(&Ask { metric: Metric::Allocated, order: Order::BottomUp, ..Ask::default() });
        let expected = "\
ALL       allocated: 1.2 MiB in 71 510 blocks

allocated  part             call
  1.1 MiB  89 %  ████████▉  - work<int>(std::string const&) (work.cc)
 93.8 KiB   8 %  ▊          - make_node (list.c)
 93.8 KiB   8 %  ▊            grow_list (list.c)
 93.8 KiB   8 %  ▊            main (main.c)
 40.0 KiB   3 %  ▍          - main (main.c)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_not_told_is_counted_and_the_heaviest_are_told() {
        let text = text(&Ask { limit: 1, ..Ask::default() });
        assert!(text.ends_with("main (main.c)\n2 more nodes (--limit)\n"), "{text}");
    }

    #[test]
    fn a_path_without_end_is_cut() {
        let mut ledger = sample::ledger();
        ledger.stacks.edit(0, |stack| (stack.locations, stack.cause) = (vec![2; 10_000], 0));
        let ask = Ask { limit: 5000, ..Ask::default() };
        let tree = Tree::new(&Subject::of(&ledger), &ask);
        assert_eq!(tree.nodes.iter().map(|node| node.depth).max(), Some(DEPTH - 1));
        assert_eq!(tree.total.amount.bytes.value, 104_960.0);
    }
}
