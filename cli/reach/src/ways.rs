//! What holds a block that the program can reach: a shortest way from a root to it, from block to
//! block. What is told is a site's: blocks whose ways lead through the same sites are one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Amount, Blocks, Finding, Kind, Memory, RootKind, graph::Graph, mark::Mark};

/// Blocks of a site whose ways are looked at, spread over all of them; and ways that are told.
const LOOKED_AT: usize = 2048;
const TOLD: usize = 5;
/// A longer way is not followed to its end, and of a large block only so much is read.
const LONGEST: usize = 100_000;
const MOST_READ: u64 = 1 << 20;
const MOST_STEPS: usize = 100;

const NONE: u32 = u32::MAX;
/// A root leads to it.
const ROOT: u32 = u32::MAX - 1;

/// A block on the way; several in a row that come from one site are one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The stack that allocated it.
    pub stack: u32,
    /// The number of blocks.
    pub blocks: u64,
    /// Where in the last of them the pointer to the next step lies.
    pub offset: Option<u64>,
}

/// A way from a root to blocks of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// What kind of root.
    pub root: RootKind,
    /// Where it lies; 0 for what lies in no memory.
    pub at: u64,
    /// How many such roots there are.
    pub roots: u64,
    /// From the root on; the last step is the site itself.
    pub steps: Vec<Step>,
    /// The blocks that are held so, of those that were looked at.
    pub amount: Amount,
}

/// Who holds the blocks of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retained {
    /// The stack that allocated them.
    pub stack: u32,
    /// All of them.
    pub all: Amount,
    /// Those whose ways were looked at.
    pub looked_at: Amount,
    /// Ways, those of most bytes first.
    pub ways: Vec<Way>,
}

/// By block: what points to it on a shortest path.
struct Tree {
    parents: Vec<u32>,
}

impl Tree {
    fn of(graph: &Graph, marks: &[Mark]) -> Self {
        let mut tree = Self { parents: vec![NONE; marks.len()] };
        let rooted = (0..).zip(graph.roots()).filter(|(_, roots)| !roots.is_empty());
        let first = rooted.map(|(block, _)| block).collect();
        tree.grow(graph, marks, first, false);
        // What is held by a pointer to its inside comes last: there may be better ones.
        let inside = graph.inside().iter().map(|hit| hit.block);
        let reached = (0..).zip(&tree.parents).filter(|(_, parent)| **parent != NONE);
        let rest = inside.chain(reached.map(|(block, _)| block)).collect();
        tree.grow(graph, marks, rest, true);
        tree
    }

    fn grow(&mut self, graph: &Graph, marks: &[Mark], mut now: Vec<u32>, anywhere: bool) {
        for &block in &now {
            let parent = &mut self.parents[block as usize];
            if *parent == NONE {
                *parent = ROOT;
            }
        }
        while !now.is_empty() {
            let mut next = Vec::new();
            for block in now {
                for hit in graph.edges(block) {
                    let parent = &mut self.parents[hit.block as usize];
                    let counts = anywhere || hit.offset == 0;
                    if *parent == NONE && counts && marks[hit.block as usize] == Mark::Held {
                        *parent = block;
                        next.push(hit.block);
                    }
                }
            }
            now = next;
        }
    }

    /// The blocks from the root on, if there are not too many.
    fn way(&self, block: u32) -> Option<Vec<u32>> {
        let mut way = vec![block];
        let mut at = block;
        while way.len() < LONGEST {
            match self.parents[at as usize] {
                NONE => return None,
                ROOT => {
                    way.reverse();
                    return Some(way);
                }
                parent => at = parent,
            }
            way.push(at);
        }
        None
    }
}

/// Ways of a site through the same other sites.
#[derive(Default)]
struct Alike {
    /// The first of them, and where it begins.
    first: Vec<u32>,
    at: u64,
    /// Where all of them begin.
    roots: BTreeSet<u64>,
    amount: Amount,
}

/// Who holds the blocks of these findings.
pub fn retained(
    blocks: &Blocks,
    graph: &Graph,
    marks: &[Mark],
    findings: &[Finding],
    memory: &mut impl Memory,
) -> Vec<Retained> {
    let tree = Tree::of(graph, marks);
    let mut own: HashMap<u32, Vec<u32>> = findings.iter().map(|f| (f.stack, Vec::new())).collect();
    for (number, (block, mark)) in (0..).zip(blocks.all().iter().zip(marks)) {
        if let Some(list) = own.get_mut(&block.stack).filter(|_| *mark == Mark::Held) {
            list.push(number);
        }
    }
    let mut all = Vec::new();
    for finding in findings.iter().filter(|finding| finding.kind == Kind::Reachable) {
        let list = own.remove(&finding.stack).unwrap_or_default();
        let every = list.len().div_ceil(LOOKED_AT).max(1);
        let mut looked_at = Amount::default();
        let mut ways: BTreeMap<(RootKind, Vec<u32>), Alike> = BTreeMap::new();
        for &block in list.iter().step_by(every) {
            let size = blocks.get(block).size;
            looked_at.add(size);
            if let Some(way) = tree.way(block) {
                let (kind, at) = root(graph, way[0]);
                let mut stacks: Vec<u32> = way.iter().map(|&b| blocks.get(b).stack).collect();
                stacks.dedup();
                let alike = ways.entry((kind, stacks)).or_default();
                alike.amount.add(size);
                alike.roots.insert(at);
                if alike.first.is_empty() {
                    (alike.first, alike.at) = (way, at);
                }
            }
        }
        let mut ways: Vec<_> = ways.into_iter().collect();
        ways.sort_by_key(|(_, alike)| std::cmp::Reverse(alike.amount.bytes));
        let told = ways.into_iter().take(TOLD).map(|((root, _), alike)| Way {
            root,
            at: alike.at,
            roots: alike.roots.len() as u64,
            steps: steps(blocks, &alike.first, memory),
            amount: alike.amount,
        });
        let ways = told.collect();
        all.push(Retained { stack: finding.stack, all: finding.own, looked_at, ways });
    }
    all
}

/// What holds the first block of a way, and where that lies.
fn root(graph: &Graph, block: u32) -> (RootKind, u64) {
    // Where only pointers to its inside lead to it, what kind they are is not kept.
    graph.root(block).unwrap_or((RootKind::Mapped, 0))
}

fn steps(blocks: &Blocks, way: &[u32], memory: &mut impl Memory) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (index, &block) in way.iter().enumerate() {
        let stack = blocks.get(block).stack;
        let is_full = steps.len() == MOST_STEPS;
        match steps.last_mut().filter(|step| step.stack == stack) {
            Some(step) => step.blocks += 1,
            None if is_full => break,
            None => steps.push(Step { stack, blocks: 1, offset: None }),
        }
        let next = way.get(index + 1).filter(|&&next| blocks.get(next).stack != stack);
        if let (Some(&next), Some(step)) = (next, steps.last_mut()) {
            step.offset = offset(blocks, block, next, memory);
        }
    }
    steps
}

/// Where in a block the first pointer to another one lies.
fn offset(blocks: &Blocks, from: u32, to: u32, memory: &mut impl Memory) -> Option<u64> {
    let block = blocks.get(from);
    let mut bytes = vec![0; usize::try_from(block.size.min(MOST_READ)).ok()?];
    memory.read(block.at, &mut bytes);
    let (words, _) = bytes.as_chunks::<8>();
    let leads =
        |word: &[u8; 8]| blocks.find(u64::from_le_bytes(*word)).is_some_and(|hit| hit.block == to);
    words.iter().position(leads).map(|index| index as u64 * 8)
}
