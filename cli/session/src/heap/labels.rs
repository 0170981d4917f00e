//! What blocks are called: their class, or, where they do not say it, their size.

use std::collections::HashMap;

use heapattach_reach::{Above, Block, RootKind};
use heapattach_text::quantity::bytes;

use super::known::Known;

/// Larger sizes are rounded up to a power of two.
const EXACT: u64 = 512;

/// Names, by their numbers; those of roots follow those of blocks.
pub(super) struct Names<'a> {
    blocks: Vec<String>,
    roots: &'a [(RootKind, String)],
}

impl<'a> Names<'a> {
    pub(super) fn new(blocks: Vec<String>, roots: &'a [(RootKind, String)]) -> Self {
        Self { blocks, roots }
    }

    /// The number of the name of a node; `block` tells that of a block.
    pub(super) fn number(&self, node: Above, block: impl FnOnce(u32) -> u32) -> u32 {
        let several = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        match node {
            Above::Block(number) => block(number),
            Above::Roots(group) => several.saturating_add(1).saturating_add(group),
            Above::Several => several,
        }
    }

    /// The name with this number.
    pub(super) fn name(&self, label: u32) -> &str {
        let label = label as usize;
        match self.blocks.get(label) {
            Some(name) => name,
            None if label == self.blocks.len() => "several roots",
            None => {
                self.roots.get(label - self.blocks.len() - 1).map_or("", |(_, name)| name.as_str())
            }
        }
    }

    /// The kind of the roots of a group.
    pub(super) fn root(&self, node: Above) -> Option<RootKind> {
        match node {
            Above::Roots(group) => self.roots.get(group as usize).map(|(kind, _)| *kind),
            Above::Block(_) | Above::Several => None,
        }
    }
}

/// What the blocks of a moment are called.
pub(super) struct Labels<'a> {
    /// By what blocks have in the place of a stack.
    by_stack: Vec<u32>,
    pub(super) names: Names<'a>,
    known: &'a Known,
}

impl<'a> Labels<'a> {
    pub(super) fn new(known: &'a Known, roots: &'a [(RootKind, String)]) -> Self {
        let mut by_name: HashMap<String, u32> = HashMap::new();
        let mut names: Vec<String> = Vec::new();
        let mut number = |(class, size): &(Option<_>, u64)| {
            let name = class_name(known, *class).map_or_else(|| sized(*size), str::to_owned);
            *by_name.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                u32::try_from(names.len() - 1).unwrap_or(u32::MAX)
            })
        };
        let by_stack = known.groups.iter().map(&mut number).collect();
        Self { by_stack, names: Names::new(names, roots), known }
    }

    /// The number of the name.
    pub(super) fn of(&self, node: Above) -> u32 {
        self.names.number(node, |block| {
            let stack = self.known.blocks.get(block).stack as usize;
            self.by_stack.get(stack).copied().unwrap_or(0)
        })
    }

    /// The class of a block, if it says it.
    pub(super) fn class(&self, block: &Block) -> Option<&str> {
        let (class, _) = self.known.groups.get(block.stack as usize)?;
        class_name(self.known, *class)
    }
}

fn class_name(known: &Known, class: Option<heapattach_census::types::ClassId>) -> Option<&str> {
    known.names.get(usize::try_from(class?.0).ok()?).map(String::as_str)
}

/// What a block is called that does not say its class.
pub(super) fn sized(size: u64) -> String {
    match size <= EXACT {
        true => format!("blocks of {size} bytes"),
        false => format!("blocks of up to {}", bytes(size.next_power_of_two())),
    }
}
