//! Who holds how much: dominators from ranked roots, and a shortest path to each block.
//!
//! ```text
//! graph -> ranks (what stronger roots reach is theirs) -> groups of roots, by name -> dominators -> sums
//! ```
//!
//! A weaker root counts only for what no stronger one reaches: nearly everything is on some stack at
//! some time. Blocks that no root reaches have no place here.

use super::{
    Amount, Blocks, Layout, Memory, RootKind,
    dominators::{Dominators, Edges},
    graph::{Graph, Noted, RootWord},
    links::Links,
};

const NONE: u32 = u32::MAX;
const RANKS: u8 = 5;

/// What is above a block, in a tree or on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Above {
    /// Several roots, of different groups.
    Several,
    /// The roots of this group.
    Roots(u32),
    /// This block.
    Block(u32),
}

/// The group that a root belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number, from 0 on.
    pub number: u32,
    /// The group that it is a part of, if it is: that one's number is lower. What several parts lead to is the whole's.
    pub within: Option<u32>,
}

/// Who holds what.
#[derive(Debug)]
pub struct Holding {
    blocks: usize,
    tree: Dominators,
    /// By number of the tree: what it holds, itself included.
    sums: Vec<Amount>,
    /// By block: what leads to it on a shortest path; above the blocks: groups of roots.
    parents: Vec<u32>,
    /// Pointers that found no room.
    pub beyond_limit: u64,
}

/// Globals come first, registers last.
fn rank(kind: RootKind) -> u8 {
    match kind {
        RootKind::Globals => 0,
        RootKind::Tls => 1,
        RootKind::Mapped
        | RootKind::Shared
        | RootKind::Heap
        | RootKind::Kernel
        | RootKind::Loader
        | RootKind::Announced => 2,
        RootKind::Stacks => 3,
        RootKind::Registers => 4,
    }
}

/// What ranked roots reach.
struct Reached {
    /// By block: the rank of what reaches it.
    ranks: Vec<u8>,
    parents: Vec<u32>,
    /// Roots that count.
    roots: Vec<RootWord>,
}

impl Reached {
    fn of(links: &impl Links, words: Vec<RootWord>) -> Self {
        let count = links.count();
        let mut by_rank: [Vec<RootWord>; RANKS as usize] = Default::default();
        for word in words {
            by_rank[usize::from(rank(word.kind))].push(word);
        }
        let (ranks, parents) = (vec![RANKS; count], vec![NONE; count]);
        let mut all = Self { ranks, parents, roots: Vec::new() };
        for (rank, words) in (0..).zip(by_rank) {
            all.grow(links, rank, words);
        }
        all
    }

    fn grow(&mut self, links: &impl Links, rank: u8, words: Vec<RootWord>) {
        let mut now = Vec::new();
        for word in words {
            let own = &mut self.ranks[word.block as usize];
            if *own > rank {
                *own = rank;
                now.push(word.block);
            }
            // Before anything of this rank is followed: what has this rank now is led to by such a root.
            if *own == rank {
                self.roots.push(word);
            }
        }
        while !now.is_empty() {
            let mut next = Vec::new();
            for block in now {
                links.each(block, |target| {
                    let own = &mut self.ranks[target as usize];
                    if *own == RANKS {
                        *own = rank;
                        self.parents[target as usize] = block;
                        next.push(target);
                    }
                });
            }
            now = next;
        }
    }
}

impl Holding {
    /// Looks through memory; `group` gives each root that counts the number of its group, from 0.
    pub fn of(
        blocks: &Blocks,
        layout: &Layout,
        memory: &mut impl Memory,
        group: &mut dyn FnMut(&RootWord) -> u32,
    ) -> Self {
        let mut graph = Graph::of(blocks, layout, memory, Noted::All);
        let mut words = graph.take_root_words();
        // Where the place of a root is not known.
        for (block, set) in (0..).zip(graph.roots()).filter(|(_, set)| !set.is_empty()) {
            let kinds = RootKind::ALL.into_iter().filter(|kind| set.has(*kind));
            let kind = kinds.min_by_key(|kind| rank(*kind));
            words.extend(kind.map(|kind| RootWord { at: 0, block, kind }));
        }
        let beyond_limit = graph.beyond_limit;
        let size = |block| blocks.get(block).size;
        let group = &mut |word: &RootWord| Group { number: group(word), within: None };
        Self { beyond_limit, ..Self::of_links(graph, words, group, &size) }
    }

    /// Of blocks that lead to one another, with these sizes, and these roots.
    pub fn of_links(
        links: impl Links,
        words: Vec<RootWord>,
        group: &mut dyn FnMut(&RootWord) -> Group,
        size: &dyn Fn(u32) -> u64,
    ) -> Self {
        let Reached { ranks, mut parents, roots } = Reached::of(&links, words);
        let blocks = ranks.len();
        let first = u32::try_from(blocks).unwrap_or(NONE);
        let mut held: Vec<(u32, u32)> = Vec::with_capacity(roots.len());
        // By group: the one that it is a part of, whose number is lower.
        let mut within: Vec<Option<u32>> = Vec::new();
        // A group has at least one root, or a part that has: there are not more.
        let most = u32::try_from(roots.len().saturating_mul(2)).unwrap_or(NONE / 2);
        for root in &roots {
            let own = group(root);
            let number = own.number.min(most);
            if within.len() <= number as usize {
                within.resize(number as usize + 1, None);
            }
            within[number as usize] = own.within.filter(|above| *above < number);
            held.push((number, root.block));
            let parent = &mut parents[root.block as usize];
            if *parent == NONE {
                *parent = first + number;
            }
        }
        drop(roots);
        let groups = u32::try_from(within.len()).unwrap_or(NONE);
        let parts = (0..).zip(&within).filter_map(|(part, above)| Some(((*above)?, first + part)));
        held.extend(parts);
        held.sort_unstable();
        held.dedup();
        let edges = edges(links, &ranks, &within, &held);
        drop((ranks, held));
        let tree = Dominators::of(&edges, first + groups);
        drop(edges);
        let sums = sums(&tree, first, size);
        Self { blocks, tree, sums, parents, beyond_limit: 0 }
    }

    /// Everything that a root reaches.
    pub fn all(&self) -> Amount {
        self.sums.first().copied().unwrap_or_default()
    }

    /// The number of nodes whose place in the tree is known.
    pub fn len(&self) -> usize {
        self.tree.order.len().saturating_sub(1)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Blocks and groups of roots, each behind what is above it: what it is, the position of what is above
    /// it if that is none of several roots, and what it holds.
    pub fn nodes(&self) -> impl Iterator<Item = (Above, Option<usize>, Amount)> {
        let above = self.tree.order.iter().zip(&self.tree.above).zip(&self.sums).skip(1);
        above.map(|((&node, &above), sum)| {
            let above = (above != 0).then(|| above as usize - 1);
            (self.name(node), above, *sum)
        })
    }

    /// What leads to a block, from the root on; the last is the block itself. Nothing, if nothing does.
    pub fn path(&self, block: u32) -> Vec<Above> {
        let mut path = Vec::new();
        let mut at = block;
        while at != NONE && path.len() <= self.blocks {
            path.push(self.name(at));
            at = self.parents.get(at as usize).copied().unwrap_or(NONE);
        }
        path.reverse();
        match path.first() {
            Some(Above::Roots(_)) => path,
            _ => Vec::new(),
        }
    }

    fn name(&self, node: u32) -> Above {
        match (node as usize).checked_sub(self.blocks) {
            None => Above::Block(node),
            Some(group) => Above::Roots(u32::try_from(group).unwrap_or(NONE)),
        }
    }
}

/// What leads where: blocks, groups of roots, and what leads to all groups that are no part of others. What a stronger
/// root reaches is not held by what a weaker one does.
fn edges(links: impl Links, ranks: &[u8], within: &[Option<u32>], held: &[(u32, u32)]) -> Edges {
    let mut edges = Edges::default();
    edges.starts.reserve(ranks.len() + within.len() + 2);
    edges.starts.push(0);
    let count = |targets: &Vec<u32>| u32::try_from(targets.len()).unwrap_or(NONE);
    for (block, &rank) in (0..).zip(ranks) {
        let begin = edges.targets.len();
        if rank < RANKS {
            links.each(block, |target| {
                let is_own = ranks[target as usize] == rank;
                if is_own && edges.targets[begin..].last() != Some(&target) {
                    edges.targets.push(target);
                }
            });
        }
        edges.starts.push(count(&edges.targets));
    }
    drop(links);
    let mut held = held.iter().peekable();
    for (group, _) in (0..).zip(within) {
        while let Some((_, block)) = held.next_if(|(own, _)| *own == group) {
            edges.targets.push(*block);
        }
        edges.starts.push(count(&edges.targets));
    }
    let first = u32::try_from(ranks.len()).unwrap_or(NONE);
    let wholes = (first..).zip(within).filter(|(_, above)| above.is_none());
    edges.targets.extend(wholes.map(|(group, _)| group));
    edges.starts.push(count(&edges.targets));
    edges
}

/// Nodes from `first` on are no blocks.
fn sums(tree: &Dominators, first: u32, size: &dyn Fn(u32) -> u64) -> Vec<Amount> {
    let mut sums = vec![Amount::default(); tree.order.len()];
    for (sum, &node) in sums.iter_mut().zip(&tree.order) {
        if node < first {
            sum.add(size(node));
        }
    }
    for number in (1..sums.len()).rev() {
        let own = sums[number];
        let above = &mut sums[tree.above[number] as usize];
        above.bytes = above.bytes.saturating_add(own.bytes);
        above.blocks += own.blocks;
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::image::Image;

    const HEAP: u64 = 0x10_0000;
    const GLOBALS: u64 = 0x7000_0000;
    const STACK: u64 = 0x7100_0000;

    /// Blocks of 0x40 bytes, and what leads where: 100 and 101 are variables, 200 a word on a stack.
    fn holding(blocks: u64, pointers: &[(u64, u64)]) -> (Blocks, Holding) {
        let mut image = Image::default();
        (0..blocks).for_each(|number| {
            image.block(HEAP + number * 0x40, 0x40, 0);
        });
        image.piece(HEAP..HEAP + blocks * 0x40, None);
        image.piece(GLOBALS..GLOBALS + 16, Some(RootKind::Globals));
        image.piece(STACK..STACK + 8, Some(RootKind::Stacks));
        let mut next = std::collections::HashMap::new();
        for &(from, to) in pointers {
            let place = match from {
                100.. => {
                    if from < 200 {
                        GLOBALS + (from - 100) * 8
                    } else {
                        STACK
                    }
                }
                _ => {
                    let next = next.entry(from).or_insert(0);
                    *next += 8;
                    HEAP + from * 0x40 + *next - 8
                }
            };
            image.write(place, HEAP + to * 0x40);
        }
        let all = Blocks::new(std::mem::take(&mut image.blocks));
        let layout = std::mem::take(&mut image.layout);
        let group = |word: &RootWord| u32::try_from(word.at & 0xff).unwrap() / 8;
        let holding = Holding::of(&all, &layout, &mut image, &mut { group });
        (all, holding)
    }

    fn held(holding: &Holding) -> Vec<(Above, u64)> {
        let mut all: Vec<_> = holding.nodes().map(|(node, _, sum)| (node, sum.blocks)).collect();
        all.sort_by_key(|(node, _)| match node {
            Above::Block(block) => *block,
            Above::Roots(group) => 1000 + group,
            Above::Several => 2000,
        });
        all
    }

    #[test]
    fn what_two_variables_lead_to_is_neithers_and_a_stack_counts_only_for_the_rest() {
        let pointers = [(100, 0), (0, 1), (101, 2), (1, 3), (2, 3), (200, 1), (200, 1)];
        let (_, holding) = holding(4, &pointers);
        use Above::{Block, Roots};
        let expected = [(Block(0), 2), (Block(1), 1), (Block(2), 1), (Block(3), 1)];
        assert_eq!(held(&holding)[..4], expected);
        assert_eq!(held(&holding)[4..], [(Roots(0), 2), (Roots(1), 1)]);
        assert_eq!(holding.all(), Amount { bytes: 256, blocks: 4 });
        assert_eq!(holding.path(1), [Roots(0), Block(0), Block(1)]);
        assert_eq!(holding.path(3), [Roots(1), Block(2), Block(3)]);
    }

    #[test]
    fn what_only_a_stack_leads_to_holds_nothing_of_what_a_variable_reaches() {
        let (_, holding) = holding(4, &[(100, 0), (200, 1), (1, 2), (2, 0)]);
        assert!(held(&holding).contains(&(Above::Block(0), 1)));
        assert!(held(&holding).contains(&(Above::Block(1), 2)));
        // Nothing leads to the last.
        assert!(holding.path(3).is_empty());
        assert_eq!(holding.all().blocks, 3);
    }

    #[test]
    fn what_two_parts_of_a_group_lead_to_is_the_groups() {
        // A function whose first variable alone leads to 0, the second to 1, both to 2; a variable of another one to 3.
        struct Pairs;
        impl Links for Pairs {
            fn count(&self) -> usize {
                4
            }
            fn each(&self, from: u32, mut to: impl FnMut(u32)) {
                if from < 2 {
                    to(2);
                }
            }
        }
        let word = |at, block| RootWord { at, block, kind: RootKind::Stacks };
        let words = vec![word(1, 0), word(2, 1), word(3, 3)];
        let group = &mut |word: &RootWord| Group {
            number: if word.at == 3 { 3 } else { u32::try_from(word.at).unwrap() },
            within: (word.at < 3).then_some(0),
        };
        let holding = Holding::of_links(Pairs, words, group, &|_| 8);
        use Above::{Block, Roots};
        let (blocks, groups) =
            ([(Block(0), 1), (Block(1), 1), (Block(2), 1), (Block(3), 1)], held(&holding));
        assert_eq!(groups[..4], blocks);
        assert_eq!(groups[4..], [(Roots(0), 3), (Roots(1), 1), (Roots(2), 1), (Roots(3), 1)]);
        let above = |wanted| holding.nodes().find(|(node, ..)| *node == wanted).unwrap().1;
        let (whole, of_part) = (above(Roots(0)), above(Roots(1)));
        assert_eq!((whole, of_part), (None, above(Block(2))));
        assert!(of_part.is_some() && above(Roots(3)).is_none());
    }

    #[test]
    fn a_list_below_a_variable_is_one_row_and_its_elements_another() {
        // Even blocks are nodes, odd ones elements.
        let mut pointers = vec![(100, 0)];
        for node in (0..20).step_by(2) {
            pointers.extend([(node, node + 1), (node, (node + 2).min(18)), (node + 1, node)]);
        }
        let (blocks, holding) = holding(20, &pointers);
        let label = |node| match node {
            Above::Block(block) => block % 2,
            Above::Roots(_) => 7,
            Above::Several => 8,
        };
        let rows = crate::rows(&holding, &label, &|block| Some(blocks.get(block).size));
        let told: Vec<_> =
            rows.iter().map(|r| (r.above, r.label, r.own.blocks, r.all.blocks)).collect();
        assert_eq!(told, [(None, 7, 0, 20), (Some(0), 0, 10, 20), (Some(1), 1, 10, 10)]);
    }

    proptest! {
        #[test]
        fn sums_agree_and_any_words_are_borne(
            pointers in prop::collection::vec((0..40_u64, 0..48_u64), 0..100),
            roots in prop::collection::vec((100..102_u64, 0..40_u64), 0..3),
        ) {
            let pointers: Vec<_> = pointers.into_iter().filter(|(from, _)| *from < 40).collect();
            let mut all = pointers;
            all.extend(roots);
            // A block has room for 8 words: the last ones lie in the next block.
            let (blocks, holding) = holding(40, &all);
            let top = holding.nodes().filter(|(_, above, _)| above.is_none());
            let sum: u64 = top.map(|(_, _, sum)| sum.bytes).sum();
            prop_assert_eq!(sum, holding.all().bytes);
            for block in 0..40 {
                let is_held = holding.nodes().any(|(node, ..)| node == Above::Block(block));
                prop_assert_eq!(is_held, !holding.path(block).is_empty());
            }
            prop_assert!(holding.all().blocks <= blocks.len() as u64);
            let label = |node| match node { Above::Block(block) => block % 5, _ => 9 };
            let rows = crate::rows(&holding, &label, &|block| Some(blocks.get(block).size));
            let top = rows.iter().filter(|row| row.above.is_none());
            prop_assert_eq!(top.map(|row| row.all.bytes).sum::<u64>(), holding.all().bytes);
        }
    }
}
