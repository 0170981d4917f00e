//! Which function called which, and how much of a metric came that way.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::sample::{REST, by_stack};
use heapattach_ledger::{Ledger, Metric};
use heapattach_text::short_name::short_name;

/// Functions that are drawn at most: more cannot be read.
const NODES: usize = 80;
/// And edges.
const EDGES: usize = 240;
/// Parts of all below which a function is left out, and an edge: one in so many.
const NODE_SHARE: u64 = 200;
const EDGE_SHARE: u64 = 1000;

/// What is drawn.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Functions, those with most first.
    pub nodes: Vec<Node>,
    /// Calls, those with most first.
    pub edges: Vec<Edge>,
    /// Bytes of all stacks.
    pub total: u64,
    /// Functions that are not drawn.
    pub nodes_left_out: usize,
    /// Calls between functions that are drawn, and are not drawn themselves.
    pub edges_left_out: usize,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name as it is.
    pub name: String,
    /// Its source file, or else its module.
    pub place: String,
    /// What it allocated itself.
    pub own: u64,
    /// With all that it called.
    pub all: u64,
}

/// One function that called another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Who called.
    pub from: usize,
    /// Who was called.
    pub to: usize,
    /// What came that way.
    pub bytes: u64,
    /// Whether there was at times nothing between them that is left out.
    pub is_direct: bool,
}

impl Node {
    /// Its name as people write it.
    pub fn short(&self) -> String {
        short_name(&self.name).into_owned()
    }
}

impl Graph {
    /// Of a metric. Allocators are looked past: what they allocated is their caller's own.
    pub fn new(ledger: &Ledger, metric: Metric) -> Self {
        let (mut nodes, numbers) = functions(ledger);
        let rest = nodes.len() - 1;
        let mut paths = Vec::new();
        let mut total = 0_u64;
        for sample in by_stack(ledger) {
            let bytes = sample.amount(metric).bytes;
            if bytes > 0 {
                total = total.saturating_add(bytes);
                let path = path(ledger, sample.stack, &numbers, rest);
                count(&mut nodes, &path, bytes);
                paths.push((path, bytes));
            }
        }
        let mut order: Vec<usize> = (0..nodes.len()).filter(|&at| nodes[at].all > 0).collect();
        order.sort_by(|&a, &b| {
            let by_bytes = nodes[b].all.cmp(&nodes[a].all);
            by_bytes.then_with(|| nodes[a].name.cmp(&nodes[b].name)).then(a.cmp(&b))
        });
        let is_large = |at: &usize| nodes[*at].all.saturating_mul(NODE_SHARE) >= total;
        let drawn: Vec<usize> = order.iter().copied().take(NODES).filter(is_large).collect();
        let places: HashMap<usize, usize> = drawn.iter().copied().zip(0..).collect();
        let (edges, edges_left_out) = edges(&paths, &places, total);
        Self {
            nodes_left_out: order.len() - drawn.len(),
            nodes: drawn.iter().map(|&at| nodes[at].clone()).collect(),
            edges,
            total,
            edges_left_out,
        }
    }
}

/// Functions by name and module, and of each number in the ledger which one it is; the last stands for
/// stacks that are not known.
fn functions(ledger: &Ledger) -> (Vec<Node>, Vec<usize>) {
    let mut nodes: Vec<Node> = Vec::new();
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    let mut numbers = Vec::new();
    let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    for function in &ledger.functions {
        let module = ledger.modules.get(function.module as usize);
        let module = module.map_or("", |module| module.path.as_str());
        let number = *known.entry((&function.name, module)).or_insert_with(|| {
            let place = if function.file.is_empty() { module } else { &function.file };
            let (name, place) = (function.name.clone(), base(place));
            nodes.push(Node { name, place, own: 0, all: 0 });
            nodes.len() - 1
        });
        numbers.push(number);
    }
    nodes.push(Node { name: REST.to_owned(), ..Node::default() });
    (nodes, numbers)
}

/// The functions of a stack, the outermost first, down to the one that caused the allocation.
fn path(ledger: &Ledger, stack: Option<u32>, numbers: &[usize], rest: usize) -> Vec<usize> {
    let Some(stack) = stack else { return vec![rest] };
    let cause = ledger.stacks.get(stack).map_or(0, |stack| stack.cause as usize);
    let calls = ledger.functions_of(stack).skip(cause);
    let mut path: Vec<usize> = calls.map(|function| numbers[function as usize]).collect();
    path.reverse();
    if path.is_empty() { vec![rest] } else { path }
}

/// A function that calls itself has its bytes once.
fn count(nodes: &mut [Node], path: &[usize], bytes: u64) {
    let seen: HashSet<usize> = path.iter().copied().collect();
    for at in seen {
        nodes[at].all = nodes[at].all.saturating_add(bytes);
    }
    if let Some(&own) = path.last() {
        nodes[own].own = nodes[own].own.saturating_add(bytes);
    }
}

/// Calls between what is drawn, past what is not; and how many of them are too little to be drawn.
fn edges(
    paths: &[(Vec<usize>, u64)],
    places: &HashMap<usize, usize>,
    total: u64,
) -> (Vec<Edge>, usize) {
    let mut sums: BTreeMap<(usize, usize), (u64, bool)> = BTreeMap::new();
    let mut seen = HashSet::new();
    for (path, bytes) in paths {
        seen.clear();
        let drawn = path.iter().enumerate().filter_map(|(at, node)| Some((at, *places.get(node)?)));
        let drawn: Vec<(usize, usize)> = drawn.collect();
        for pair in drawn.windows(2) {
            let (&[(above, from), (below, to)],) = (pair,) else { continue };
            let (sum, is_direct) = sums.entry((from, to)).or_default();
            *is_direct |= below == above + 1;
            if seen.insert((from, to)) {
                *sum = sum.saturating_add(*bytes);
            }
        }
    }
    let all = sums.len();
    let mut edges: Vec<Edge> = sums
        .into_iter()
        .map(|((from, to), (bytes, is_direct))| Edge { from, to, bytes, is_direct })
        .filter(|edge| edge.bytes.saturating_mul(EDGE_SHARE) >= total)
        .collect();
    edges.sort_by(|a, b| b.bytes.cmp(&a.bytes).then((a.from, a.to).cmp(&(b.from, b.to))));
    edges.truncate(EDGES);
    let left_out = all - edges.len();
    (edges, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn callers_lead_to_those_that_they_called() {
        let graph = Graph::new(&sample::ledger(), Metric::Live);
        let told: Vec<_> = graph.nodes.iter().map(|n| (n.name.as_str(), n.own, n.all)).collect();
        let expected =
            [("main", 40_960, 104_960), ("grow_list", 0, 64_000), ("make_node", 64_000, 64_000)];
        assert_eq!(told, expected);
        let edges: Vec<_> = graph.edges.iter().map(|e| (e.from, e.to, e.bytes)).collect();
        assert_eq!(edges, [(0, 1, 64_000), (1, 2, 64_000)]);
        assert!(graph.edges.iter().all(|edge| edge.is_direct));
        assert_eq!((graph.total, graph.nodes_left_out, graph.edges_left_out), (104_960, 0, 0));
    }

    #[test]
    fn what_is_left_out_is_counted_and_bridged() {
        let mut ledger = sample::ledger();
        // A call between the two in one stack of many only.
        ledger.stacks.edit(0, |stack| stack.locations.push(2));
        let graph = Graph::new(&ledger, Metric::Live);
        let looped = graph.edges.iter().any(|edge| edge.from == edge.to);
        assert!(looped, "a call of itself: {graph:?}");
        let main = graph.nodes.iter().find(|node| node.name == "main").unwrap();
        assert_eq!(main.all, 104_960, "once");
        ledger.rows[1].set(Metric::Live, &heapattach_profile::Sum::exact(1, 1));
        ledger.functions[3].name = "other".to_owned();
        assert!(Graph::new(&ledger, Metric::Temporary).nodes.len() < graph.nodes.len() + 2);
    }

    #[test]
    fn nothing_is_a_graph_of_nothing() {
        let graph = Graph::new(&Ledger::default(), Metric::Live);
        assert!(graph.nodes.is_empty() && graph.edges.is_empty());
    }
}
