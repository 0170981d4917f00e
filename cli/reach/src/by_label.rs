//! The tree of dominators, folded by what blocks are called: a million nodes of a map below one
//! variable are one row. What lies below something of its own name is folded into it, so that lists
//! and trees are one row, too.

use std::collections::HashMap;

use super::{
    Amount,
    holding::{Above, Holding},
};

/// Deeper rows, and more, are folded into what they lie below.
const DEEPEST: usize = 24;
const MOST_ROWS: usize = 1 << 17;

/// All that is called so, below the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The index of the row above, which is lower.
    pub above: Option<usize>,
    /// One of the nodes.
    pub first: Above,
    /// The label.
    pub label: u32,
    /// The blocks themselves.
    pub own: Amount,
    /// With all that is below them.
    pub all: Amount,
}

struct Folding {
    rows: Vec<Row>,
    by_label: HashMap<(usize, u32), usize>,
}

/// Folds it; `label` gives each node its label, and `size` the bytes of each block that is to be in the sums.
pub fn rows(
    holding: &Holding,
    label: &dyn Fn(Above) -> u32,
    size: &dyn Fn(u32) -> Option<u64>,
) -> Vec<Row> {
    let mut folding = Folding { rows: Vec::new(), by_label: HashMap::new() };
    let mut by_node: Vec<u32> = Vec::new();
    let mut last = None;
    for (node, above, _) in holding.nodes() {
        let above = match (above, node) {
            (Some(above), _) => by_node.get(above).map(|row| *row as usize),
            (None, Above::Roots(_)) => None,
            // What several roots lead to lies below them all.
            (None, Above::Block(_) | Above::Several) => {
                folding.row(None, Above::Several, label(Above::Several))
            }
        };
        let own = label(node);
        let row = match last {
            Some((before, same, row)) if (before, same) == (above, own) => row,
            _ => folding.row(above, node, own).unwrap_or(0),
        };
        last = Some((above, own, row));
        if let (Above::Block(block), Some(row)) = (node, folding.rows.get_mut(row))
            && let Some(size) = size(block)
        {
            row.own.add(size);
        }
        by_node.push(u32::try_from(row).unwrap_or(0));
    }
    let mut rows = folding.rows;
    for index in (0..rows.len()).rev() {
        let own = rows[index].all.and(rows[index].own);
        rows[index].all = own;
        if let Some(above) = rows[index].above {
            rows[above].all = rows[above].all.and(own);
        }
    }
    rows
}

impl Folding {
    fn row(&mut self, above: Option<usize>, first: Above, label: u32) -> Option<usize> {
        let mut at = above;
        let mut depth = 0;
        while let Some(row) = at {
            if self.rows[row].label == label {
                return Some(row);
            }
            at = self.rows[row].above;
            depth += 1;
        }
        let key = (above.map_or(0, |above| above + 1), label);
        if let Some(row) = self.by_label.get(&key) {
            return Some(*row);
        }
        if above.is_some() && (depth >= DEEPEST || self.rows.len() >= MOST_ROWS) {
            return above;
        }
        let (own, all) = Default::default();
        self.rows.push(Row { above, first, label, own, all });
        self.by_label.insert(key, self.rows.len() - 1);
        Some(self.rows.len() - 1)
    }
}
