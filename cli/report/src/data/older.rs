//! What a check found among the blocks that were there before the attach, as data.

use serde::{Deserialize, Serialize};

use heapattach_reach::{Amount, Kind};
use heapattach_text::quantity::{bytes, count};

/// Groups that a text tells.
const TOLD: usize = 10;

/// Blocks whose allocation was not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OlderReport {
    /// The allocators of which every block is known, as their own books say.
    pub allocators: Vec<String>,
    /// Others, a sentence each: what they allocated before the attach is not judged, and all that it leads
    /// to counts as reachable.
    pub unknown: Vec<String>,
    /// Nothing leads to them.
    pub direct: Amount,
    /// Only leaked blocks lead to them.
    pub indirect: Amount,
    /// Only pointers to the inside of blocks lead to them.
    pub possible: Amount,
    /// The program can reach them.
    pub reachable: Amount,
    /// What is leaked, by class and size: those of most bytes of a kind first.
    pub groups: Vec<OlderGroup>,
    /// Groups that found no room in the list.
    pub more_groups: usize,
}

/// Leaked blocks of one class and one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OlderGroup {
    /// How they are leaked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// The class of the objects, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The bytes that can be used of each block.
    pub size: u64,
    /// The blocks.
    pub own: Amount,
    /// Leaked blocks that only they lead to.
    pub held: Amount,
}

impl OlderReport {
    /// What is certain to be leaked.
    pub fn leaked(&self) -> Amount {
        self.direct.and(self.indirect)
    }

    /// For people, a line each, without a label; the first says how much.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.allocators.is_empty() {
            lines.push("blocks older than the attach are not judged".to_owned());
        } else {
            let (leaked, by) = (self.leaked(), self.allocators.join(", "));
            lines.push(match leaked.blocks {
                0 => format!("no leak among blocks that were allocated before the attach ({by})"),
                _ => format!(
                    "{} were allocated before the attach and are leaked ({by}); --fail-on older counts them",
                    amount(leaked)
                ),
            });
            if self.possible.blocks > 0 {
                let possible = amount(self.possible);
                lines.push(format!(
                    "{possible} of them may be: only pointers to their inside are left"
                ));
            }
        }
        let certain = |group: &&OlderGroup| group.kind != Some(Kind::Possible);
        lines.extend(self.groups.iter().filter(certain).take(TOLD).map(OlderGroup::line));
        lines.extend(self.unknown.iter().map(|why| format!("not judged: {why}")));
        lines
    }
}

impl OlderGroup {
    fn line(&self) -> String {
        let class = self.class.as_ref().map(|class| format!(" of {class}")).unwrap_or_default();
        let more = match self.held.blocks {
            0 => String::new(),
            _ => format!(", and {} that only they lead to", amount(self.held)),
        };
        format!("  {} of {} B{class}{more}", amount(self.own), self.size)
    }
}

fn amount(amount: Amount) -> String {
    let plural = if amount.blocks == 1 { "" } else { "s" };
    format!("{} in {} block{plural}", bytes(amount.bytes), count(amount.blocks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_leaked_is_told_with_its_largest_groups_and_what_is_not_known_too() {
        let own = Amount { bytes: 4800, blocks: 100 };
        let held = Amount { bytes: 64, blocks: 2 };
        let group = OlderGroup {
            kind: Some(Kind::Direct),
            class: Some("Node".to_owned()),
            size: 48,
            own,
            held,
        };
        let report = OlderReport {
            allocators: vec!["glibc".to_owned()],
            unknown: vec!["jemalloc: bin 3".to_owned()],
            direct: own,
            indirect: held,
            groups: vec![group],
            ..OlderReport::default()
        };
        let lines = report.lines();
        assert!(lines[0].starts_with("4.8 KiB in 102 blocks were allocated"), "{lines:?}");
        let group =
            "  4.7 KiB in 100 blocks of 48 B of Node, and 64 B in 2 blocks that only they lead to";
        assert_eq!(lines[1..], [group, "not judged: jemalloc: bin 3"]);
        let nothing = OlderReport::default().lines();
        assert_eq!(nothing, ["blocks older than the attach are not judged"]);
    }
}
