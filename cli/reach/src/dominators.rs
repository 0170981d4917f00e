//! What every path from the root to a node leads through, after Lengauer and Tarjan: by the numbers
//! of a walk in depth, with compressed paths, and without recursion. At most `m log n` steps,
//! whatever the graph looks like.

const NONE: u32 = u32::MAX;

/// A graph: by node, where what it leads to begins.
#[derive(Debug, Default)]
pub struct Edges {
    /// By node, and one more.
    pub starts: Vec<u32>,
    /// Nodes.
    pub targets: Vec<u32>,
}

impl Edges {
    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// What a node leads to.
    pub fn of(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.targets[self.starts[node] as usize..self.starts[node + 1] as usize]
    }
}

/// The tree, by the numbers of a walk in depth: a dominator has a lower number than what it dominates.
#[derive(Debug, Default)]
pub struct Dominators {
    /// By number: the node. Nodes that the root does not lead to have no number.
    pub order: Vec<u32>,
    /// By number: the number of the closest dominator; the root's is its own.
    pub above: Vec<u32>,
}

impl Dominators {
    /// Of all that this root leads to.
    pub fn of(edges: &Edges, root: u32) -> Self {
        let (order, parents, numbers) = walk(edges, root);
        let before = reversed(edges, &order, &numbers);
        drop(numbers);
        let above = Forest::new(parents).dominators(&before);
        Self { order, above }
    }
}

/// Nodes in the order of a walk in depth; by number, the parent's number; by node, its number.
fn walk(edges: &Edges, root: u32) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let mut numbers = vec![NONE; edges.nodes()];
    let (mut order, mut parents) = (vec![root], vec![0]);
    numbers[root as usize] = 0;
    // A number, and which of its edges comes next.
    let mut path: Vec<(u32, u32)> = vec![(0, 0)];
    while let Some((number, next)) = path.last_mut() {
        let Some(&target) = edges.of(order[*number as usize]).get(*next as usize) else {
            path.pop();
            continue;
        };
        *next += 1;
        let own = &mut numbers[target as usize];
        if *own == NONE {
            *own = u32::try_from(order.len()).unwrap_or(NONE);
            parents.push(*number);
            order.push(target);
            let entry = (*own, 0);
            path.push(entry);
        }
    }
    (order, parents, numbers)
}

/// By number: what leads to it.
fn reversed(edges: &Edges, order: &[u32], numbers: &[u32]) -> Edges {
    let mut starts = vec![0_u32; order.len() + 2];
    for &node in order {
        for &target in edges.of(node) {
            starts[numbers[target as usize] as usize + 2] += 1;
        }
    }
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
    let mut targets = vec![0; starts[starts.len() - 1] as usize];
    for (number, &node) in (0..).zip(order) {
        for &target in edges.of(node) {
            let slot = &mut starts[numbers[target as usize] as usize + 1];
            targets[*slot as usize] = number;
            *slot += 1;
        }
    }
    starts.pop();
    Edges { starts, targets }
}

struct Forest {
    parents: Vec<u32>,
    /// The least that is known of each.
    semi: Vec<u32>,
    /// Above it in the forest; nothing for the top of a tree.
    ancestors: Vec<u32>,
    /// Of those between it and the top the one whose `semi` is least.
    labels: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    fn new(parents: Vec<u32>) -> Self {
        let numbers: Vec<u32> = (0..).take(parents.len()).collect();
        let ancestors = vec![NONE; parents.len()];
        Self { semi: numbers.clone(), labels: numbers, ancestors, parents, path: Vec::new() }
    }

    fn dominators(mut self, before: &Edges) -> Vec<u32> {
        let count = self.parents.len();
        let mut above = vec![0; count];
        // Those that wait for the dominator of a node: the first, and the next of each. A node that
        // waits has no dominator yet.
        let mut first = vec![NONE; count];
        for own in (1..count).rev() {
            let number = u32::try_from(own).unwrap_or(NONE);
            for &from in before.of(number) {
                let least = self.least(from);
                self.semi[own] = self.semi[own].min(self.semi[least as usize]);
            }
            let semi = self.semi[own] as usize;
            above[own] = std::mem::replace(&mut first[semi], number);
            let parent = self.parents[own];
            self.ancestors[own] = parent;
            let mut waiting = std::mem::replace(&mut first[parent as usize], NONE);
            while waiting != NONE {
                let least = self.least(waiting);
                let next = above[waiting as usize];
                let is_own = self.semi[least as usize] >= self.semi[waiting as usize];
                above[waiting as usize] = if is_own { parent } else { least };
                waiting = next;
            }
        }
        for number in 1..count {
            if above[number] != self.semi[number] {
                above[number] = above[above[number] as usize];
            }
        }
        above
    }

    fn least(&mut self, number: u32) -> u32 {
        if self.ancestors[number as usize] == NONE {
            return number;
        }
        let mut at = number;
        while self.ancestors[self.ancestors[at as usize] as usize] != NONE {
            self.path.push(at);
            at = self.ancestors[at as usize];
        }
        while let Some(below) = self.path.pop() {
            let (below, top) = (below as usize, self.ancestors[below as usize] as usize);
            let (own, other) = (self.labels[below], self.labels[top]);
            if self.semi[other as usize] < self.semi[own as usize] {
                self.labels[below] = other;
            }
            self.ancestors[below] = self.ancestors[top];
        }
        self.labels[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edges(nodes: usize, pairs: &[(usize, usize)]) -> Edges {
        let mut edges = Edges { starts: vec![0], targets: Vec::new() };
        for node in 0..nodes {
            let own = pairs.iter().filter(|(from, _)| *from == node);
            edges.targets.extend(own.map(|(_, to)| u32::try_from(*to).unwrap()));
            edges.starts.push(u32::try_from(edges.targets.len()).unwrap());
        }
        edges
    }

    fn reached(edges: &Edges, without: Option<u32>) -> Vec<bool> {
        let mut reached = vec![false; edges.nodes()];
        let mut work = vec![0_u32];
        while let Some(node) = work.pop() {
            if Some(node) != without && !std::mem::replace(&mut reached[node as usize], true) {
                work.extend(edges.of(node));
            }
        }
        reached
    }

    fn agree(edges: &Edges) {
        let tree = Dominators::of(edges, 0);
        let all = reached(edges, None);
        assert_eq!(tree.order.len(), all.iter().filter(|one| **one).count());
        for (number, &node) in tree.order.iter().enumerate().skip(1) {
            // By definition: those without which nothing leads there.
            let mut slow: Vec<u32> = (0..u32::try_from(edges.nodes()).unwrap())
                .filter(|&one| one != node && !reached(edges, Some(one))[node as usize])
                .filter(|&one| all[one as usize])
                .collect();
            let mut fast = Vec::new();
            let mut at = number;
            while at != 0 {
                assert!((tree.above[at] as usize) < at);
                at = tree.above[at] as usize;
                fast.push(tree.order[at]);
            }
            slow.sort_unstable();
            fast.sort_unstable();
            assert_eq!(fast, slow, "of {node}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn random_graphs_have_the_dominators_of_the_definition(
            nodes in 1..20_usize,
            pairs in prop::collection::vec((0..20_usize, 0..20_usize), 0..60),
        ) {
            let inside = |(from, to): &(usize, usize)| *from < nodes && *to < nodes;
            let pairs: Vec<_> = pairs.into_iter().filter(inside).collect();
            agree(&edges(nodes, &pairs));
        }
    }

    #[test]
    fn a_long_list_whose_nodes_all_lead_back_to_its_head_takes_no_stack_and_no_square_of_time() {
        let nodes = 1_000_000_u32;
        let mut edges = Edges { starts: vec![0], targets: Vec::new() };
        for node in 0..nodes {
            edges.targets.extend([(node + 1).min(nodes - 1), 0, node.saturating_sub(1)]);
            edges.starts.push((node + 1) * 3);
        }
        let tree = Dominators::of(&edges, 0);
        assert!((1..).zip(&tree.above[1..]).all(|(number, above)| *above + 1 == number));
    }
}
