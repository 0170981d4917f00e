//! Blocks that an allocator knows and no record tells of: what is leaked of them is told apart from what was
//! recorded, and so is what only they lead to.

use super::{Amount, Blocks, Findings, Kind, UNRECORDED, finding::Finding};

/// What is known of them.
#[derive(Clone, Debug, Default)]
pub struct Unrecorded {
    /// Direct, possible, or indirect where different leaked blocks lead to them: those of most bytes of a kind
    /// first. The number of a stack is that of a group.
    pub leaked: Vec<Finding>,
    /// By [`Kind`]: these blocks, and the recorded ones that only they lead to.
    pub sums: [Amount; 4],
}

/// By block: whether it is one of them.
pub fn marked(blocks: &Blocks) -> Vec<bool> {
    match blocks.all().iter().all(|block| block.is_recorded()) {
        true => Vec::new(),
        false => blocks.all().iter().map(|block| !block.is_recorded()).collect(),
    }
}

/// What was recorded, and what was not. `find` tells what is leaked without the blocks that are marked.
pub fn divide(
    blocks: &Blocks,
    quiet: &[bool],
    find: impl Fn(&[bool]) -> Findings,
) -> (Findings, Unrecorded) {
    let mut others = marked(blocks);
    let all = find(quiet);
    if others.is_empty() {
        return (all, Unrecorded::default());
    }
    others.iter_mut().zip(quiet).for_each(|(other, quiet)| *other |= quiet);
    let mut findings = find(&others);
    let is_theirs = |finding: &Finding| finding.stack >= UNRECORDED;
    // Recorded blocks that only others lead to.
    for finding in findings.all.iter().filter(|finding| is_theirs(finding)) {
        let sum = &mut findings.sums[Kind::Indirect as usize];
        *sum = without(*sum, finding.held);
    }
    findings.all.retain(|finding| !is_theirs(finding));
    let mut sums = all.sums;
    sums.iter_mut().zip(findings.sums).for_each(|(sum, own)| *sum = without(*sum, own));
    let is_leaked = |finding: &Finding| is_theirs(finding) && finding.kind != Kind::Reachable;
    let leaked = all.all.into_iter().filter(is_leaked).collect();
    (findings, Unrecorded { leaked, sums })
}

fn without(all: Amount, part: Amount) -> Amount {
    Amount {
        bytes: all.bytes.saturating_sub(part.bytes),
        blocks: all.blocks.saturating_sub(part.blocks),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Amount, Kind, RootKind, UNRECORDED, image::Image};

    const OLD: u32 = UNRECORDED;

    fn amount(bytes: u64, blocks: u64) -> Amount {
        Amount { bytes, blocks }
    }

    #[test]
    fn what_was_not_recorded_is_told_apart_with_what_only_it_leads_to() {
        // Held: 1000 and, by it, 1100. Leaked: 1200, which leads to 1300; 1400, which leads to 1500; 1600.
        let mut image = Image::default();
        for (stack, at) in
            [1, OLD, OLD, 2, 3, OLD, OLD + 1].into_iter().zip((0x1000..).step_by(0x100))
        {
            image.block(at, 32, stack);
        }
        for (at, word) in [(0x100, 0x1000), (0x1000, 0x1100), (0x1200, 0x1300), (0x1400, 0x1500)] {
            image.write(at, word);
        }
        image.piece(0x100..0x200, Some(RootKind::Globals));
        image.piece(0x1000..0x1700, None);
        let checked = image.check();
        let findings = &checked.findings;
        let leaked: Vec<_> =
            findings.all.iter().map(|f| (f.kind, f.stack, f.own, f.held)).collect();
        let none = Amount::default();
        let expected =
            [(Kind::Direct, 3, amount(32, 1), none), (Kind::Reachable, 1, amount(32, 1), none)];
        assert_eq!(leaked, expected);
        assert_eq!(findings.sums, [amount(32, 1), none, none, amount(32, 1)]);
        let others = &checked.unrecorded;
        let leaked: Vec<_> =
            others.leaked.iter().map(|f| (f.kind, f.stack, f.own, f.held)).collect();
        let expected = [
            (Kind::Direct, OLD, amount(32, 1), amount(32, 1)),
            (Kind::Direct, OLD + 1, amount(32, 1), none),
        ];
        assert_eq!(leaked, expected);
        assert_eq!(others.sums, [amount(64, 2), amount(64, 2), none, amount(32, 1)]);
    }
}
