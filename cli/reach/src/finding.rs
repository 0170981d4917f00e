//! What was found, by the stack that allocated it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{
    blocks::Blocks,
    fold::Folded,
    graph::Graph,
    mark::Mark,
    {RootKind, RootSet},
};

/// How a block is leaked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Nothing leads to it
    Direct,
    /// Only leaked blocks lead to it
    Indirect,
    /// Only pointers to the inside of blocks lead to it
    Possible,
    /// The program can reach it
    Reachable,
}

/// A number of blocks, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Bytes requested.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
}

/// Blocks of one kind that one stack allocated, and what is leaked with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Direct, possible or reachable; indirect where different leaked blocks lead to them.
    pub kind: Kind,
    /// The stack.
    pub stack: u32,
    /// These blocks.
    pub own: Amount,
    /// Leaked blocks that only they lead to.
    pub held: Amount,
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Those with most bytes first.
    pub all: Vec<Finding>,
    /// By [`Kind`]: all blocks.
    pub sums: [Amount; 4],
    /// What each kind of root holds directly, in the order of [`RootKind::ALL`]. Some blocks are
    /// held by several.
    pub roots: [Amount; RootKind::ALL.len()],
}

impl Kind {
    /// All of them, in the order of the sums.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Indirect, Self::Possible, Self::Reachable];

    /// The name of the kind, in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Indirect => "indirect",
            Self::Possible => "possible",
            Self::Reachable => "reachable",
        }
    }

    /// As the beginning of a sentence about a leak.
    pub fn title(self) -> &'static str {
        match self {
            Self::Direct => "Direct leak",
            Self::Indirect => "Indirect leak",
            Self::Possible => "Possible leak",
            Self::Reachable => "Reachable memory",
        }
    }
}

impl Amount {
    /// The sum of both amounts.
    pub fn and(mut self, more: Self) -> Self {
        self.merge(more);
        self
    }

    /// Adds a block.
    pub fn add(&mut self, bytes: u64) {
        self.merge(Self { bytes, blocks: 1 });
    }

    /// Adds more.
    pub fn merge(&mut self, more: Self) {
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.blocks = self.blocks.saturating_add(more.blocks);
    }
}

impl Finding {
    /// What is leaked in all.
    pub fn total(&self) -> Amount {
        let mut total = self.own;
        total.merge(self.held);
        total
    }
}

impl Findings {
    /// Adds up what was marked and folded, without what was suppressed.
    pub fn of(
        blocks: &Blocks,
        graph: &Graph,
        marks: &[Mark],
        folded: &Folded,
        quiet: &[bool],
    ) -> Self {
        let mut findings = Self::default();
        let mut places: HashMap<(Kind, u32), usize> = HashMap::new();
        for (number, (block, &mark)) in (0..).zip(blocks.all().iter().zip(marks)) {
            if quiet.get(number as usize) == Some(&true) {
                continue;
            }
            let group = folded.groups.get(folded.group_of[number as usize] as usize);
            let own = match (mark, group) {
                (Mark::Held, _) => Kind::Reachable,
                (Mark::Possible, _) => Kind::Possible,
                (Mark::Lost, Some(group)) if group.head != number || group.is_shared => {
                    Kind::Indirect
                }
                (Mark::Lost, _) => Kind::Direct,
            };
            findings.sums[own as usize].add(block.size);
            findings.add_roots(graph.roots()[number as usize], block.size);
            let head = group.map_or(number, |group| group.head);
            let kind = match (mark, group) {
                (Mark::Lost, Some(group)) if group.is_shared => Kind::Indirect,
                (Mark::Lost, _) => Kind::Direct,
                _ => own,
            };
            let stack = blocks.get(head).stack;
            let place = *places.entry((kind, stack)).or_insert(findings.all.len());
            if place == findings.all.len() {
                let (own, held) = Default::default();
                findings.all.push(Finding { kind, stack, own, held });
            }
            let finding = &mut findings.all[place];
            if head == number { &mut finding.own } else { &mut finding.held }.add(block.size);
        }
        findings.all.sort_by_key(|f| (f.kind, std::cmp::Reverse(f.total().bytes), f.stack));
        findings
    }

    fn add_roots(&mut self, roots: RootSet, bytes: u64) {
        for (kind, amount) in RootKind::ALL.into_iter().zip(&mut self.roots) {
            if roots.has(kind) {
                amount.add(bytes);
            }
        }
    }

    /// All blocks of a kind.
    pub fn sum(&self, kind: Kind) -> Amount {
        self.sums[kind as usize]
    }
}
