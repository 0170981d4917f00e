//! What leaked together: a list or a tree that nothing points to is one finding, its first block, with
//! all that only that one leads to.
//!
//! Blocks that lead to one another form a ring, and count as one. What is left has no cycles, so
//! that there is an order in which everything comes after what holds it; in that order each ring
//! belongs to the finding of all its holders, or, if they belong to several, is a finding itself.

use super::{graph::Graph, mark::Mark};

/// Not numbered yet.
const NONE: u32 = u32::MAX;
/// Its holders belong to different findings.
const SEVERAL: u32 = u32::MAX - 1;

/// A leaked block and the leaked blocks that only it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The block: of a ring that nothing outside points to, the one with the lowest address.
    pub head: u32,
    /// Whether other leaked blocks lead to it, which belong to different groups.
    pub is_shared: bool,
}

/// The groups, and which each leaked block belongs to.
#[derive(Debug, Default)]
pub struct Folded {
    /// Those that hold others come before them.
    pub groups: Vec<Group>,
    /// By block: the number of its group; [`u32::MAX`] for blocks that are not leaked.
    pub group_of: Vec<u32>,
}

/// Folds what is leaked.
pub fn fold(graph: &Graph, marks: &[Mark]) -> Folded {
    let rings = Rings::of(graph, marks);
    // By ring: the group it belongs to.
    let mut group_of = vec![NONE; rings.members.len()];
    let mut groups = Vec::new();
    // Rings are numbered from those that hold nothing on.
    for ring in (0..rings.members.len()).rev() {
        let members = &rings.members[ring];
        if group_of[ring] >= SEVERAL {
            let is_shared = group_of[ring] == SEVERAL;
            group_of[ring] = number(groups.len());
            let head = rings.order[members.clone()].iter().copied().min().unwrap_or_default();
            groups.push(Group { head, is_shared });
        }
        let own = group_of[ring];
        for &block in &rings.order[members.clone()] {
            for hit in graph.edges(block) {
                let other = rings.ring_of[hit.block as usize];
                if other == NONE || other as usize == ring {
                    continue;
                }
                let theirs = &mut group_of[other as usize];
                match *theirs {
                    NONE => *theirs = own,
                    group if group == own => {}
                    _ => *theirs = SEVERAL,
                }
            }
        }
    }
    let ring_of = rings.ring_of.iter();
    let group_of = ring_of.map(|&ring| group_of.get(ring as usize).copied().unwrap_or(NONE));
    Folded { groups, group_of: group_of.collect() }
}

/// The rings of leaked blocks, found as Tarjan does it, with a list instead of recursion.
struct Rings {
    /// By block: the number of its ring.
    ring_of: Vec<u32>,
    /// The leaked blocks, ring after ring.
    order: Vec<u32>,
    /// By ring: its part of `order`.
    members: Vec<std::ops::Range<usize>>,
}

struct Search<'a> {
    graph: &'a Graph,
    marks: &'a [Mark],
    rings: Rings,
    /// By block: when it was met.
    met: Vec<u32>,
    /// By block: the earliest met one that it leads back to.
    low: Vec<u32>,
    clock: u32,
    /// Met, and in no ring yet.
    open: Vec<u32>,
    /// The way from the first block, each with the edge that comes next.
    path: Vec<(u32, u32)>,
}

impl Rings {
    fn of(graph: &Graph, marks: &[Mark]) -> Self {
        let none = vec![NONE; marks.len()];
        let rings = Self { ring_of: none.clone(), order: Vec::new(), members: Vec::new() };
        let (low, open, path) = (none.clone(), Vec::new(), Vec::new());
        let mut search = Search { graph, marks, rings, met: none, low, clock: 0, open, path };
        for (block, &mark) in (0..).zip(marks) {
            if mark == Mark::Lost && search.met[block as usize] == NONE {
                search.enter(block);
                search.run();
            }
        }
        search.rings
    }
}

impl Search<'_> {
    fn enter(&mut self, block: u32) {
        self.met[block as usize] = self.clock;
        self.low[block as usize] = self.clock;
        self.clock += 1;
        self.open.push(block);
        self.path.push((block, 0));
    }

    fn run(&mut self) {
        while let Some((block, next)) = self.path.last_mut() {
            let block = *block;
            let edge = self.graph.edges(block).get(*next as usize).copied();
            *next += 1;
            let Some(hit) = edge else {
                self.leave(block);
                continue;
            };
            let other = hit.block as usize;
            if self.marks[other] != Mark::Lost {
                continue;
            }
            if self.met[other] == NONE {
                self.enter(hit.block);
            } else if self.rings.ring_of[other] == NONE {
                self.low[block as usize] = self.low[block as usize].min(self.met[other]);
            }
        }
    }

    fn leave(&mut self, block: u32) {
        self.path.pop();
        let low = self.low[block as usize];
        if let Some(&(holder, _)) = self.path.last() {
            self.low[holder as usize] = self.low[holder as usize].min(low);
        }
        if low != self.met[block as usize] {
            return;
        }
        let (ring, start) = (number(self.rings.members.len()), self.rings.order.len());
        while let Some(member) = self.open.pop() {
            self.rings.ring_of[member as usize] = ring;
            self.rings.order.push(member);
            if member == block {
                break;
            }
        }
        self.rings.members.push(start..self.rings.order.len());
    }
}

/// There are no more groups and rings than blocks.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(NONE)
}
