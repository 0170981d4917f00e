//! Who holds what is reachable, as data and for people.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use heapattach_reach::{Amount, RootKind};
use heapattach_text::quantity::{bytes, count, counted};

use super::holder::Holder;

/// A site, and who holds its blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RetainedReport {
    /// What allocated the blocks.
    pub place: String,
    /// Whether they are mappings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mapped: bool,
    /// All of them.
    pub all: Amount,
    /// Those whose ways were looked at.
    pub looked_at: Amount,
    /// Who holds them: those of most bytes first.
    pub ways: Vec<WayReport>,
}

/// A way from a root.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WayReport {
    /// What kind of root.
    pub root: RootKind,
    /// Where it lies; 0 for what lies in no memory.
    pub at: u64,
    /// How many places of this kind hold such blocks.
    #[serde(default)]
    pub roots: u64,
    /// What that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// From block to block; the last is the site itself.
    pub steps: Vec<StepReport>,
    /// What is held so.
    pub amount: Amount,
}

/// Blocks of one site on a way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepReport {
    /// What allocated them.
    pub place: String,
    /// Whether they are mappings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mapped: bool,
    /// How many follow one another.
    pub blocks: u64,
    /// Where in the last of them the pointer to the next lies.
    pub offset: Option<u64>,
}

impl RetainedReport {
    /// The report as text.
    pub fn text(&self) -> String {
        let Amount { bytes: size, blocks } = self.all;
        let what = if self.mapped { "mapping" } else { "block" };
        let mut out =
            format!("IN USE    {} in {}, {}", bytes(size), counted(blocks, what), self.place);
        for way in &self.ways {
            let Amount { bytes: size, blocks } = way.amount;
            // Writing into a string cannot fail.
            let _ =
                write!(out, "\n  {} in {} by {}", bytes(size), count(blocks), way.root.words().0);
            match &way.holder {
                Some(holder) => {
                    let _ = write!(out, ": {}", holder.words());
                }
                None if way.at != 0 => {
                    let _ = write!(out, " at {:#x}", way.at);
                }
                None => {}
            }
            if way.roots > 1 {
                let _ = write!(out, " and {} more places", count(way.roots - 1));
            }
            for step in &way.steps {
                let mapping = if step.mapped { "mapping of " } else { "" };
                let _ = write!(out, "\n    -> {mapping}{}", step.place);
                if step.blocks > 1 {
                    let _ = write!(out, ", {} in a row", count(step.blocks));
                }
                if let Some(offset) = step.offset {
                    let _ = write!(out, " (+{offset})");
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_told_from_the_root_to_the_block() {
        let amount = Amount { bytes: 5000, blocks: 1 };
        let step = |place: &str, blocks, offset| StepReport {
            place: place.to_owned(),
            mapped: place == "load",
            blocks,
            offset,
        };
        let steps =
            vec![step("table", 1, Some(16)), step("node", 5, Some(8)), step("load", 1, None)];
        let way = WayReport {
            root: RootKind::Globals,
            at: 0x4020,
            roots: 1,
            holder: None,
            steps,
            amount,
        };
        let place = "load".to_owned();
        let (all, looked_at) = (amount, amount);
        let site = RetainedReport { place, mapped: true, all, looked_at, ways: vec![way] };
        let lines: Vec<String> = site.text().lines().map(|line| line.trim().to_owned()).collect();
        let told = ["-> table (+16)", "-> node, 5 in a row (+8)", "-> mapping of load"];
        assert_eq!(lines[0], "IN USE    4.9 KiB in 1 mapping, load");
        assert_eq!(lines[1], "4.9 KiB in 1 by globals at 0x4020");
        assert_eq!(lines[2..], told);
    }
}
