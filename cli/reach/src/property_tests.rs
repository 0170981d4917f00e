//! Random heaps against a slow and simple judge.

use proptest::prelude::*;

use super::{
    Above, Block, Blocks, Holding, Kind, Layout, Piece, RootKind, RootWord,
    fold::fold,
    graph::{Graph, Noted},
    image::Image,
    inside::Inside,
    look,
    mark::{Mark, mark},
};

const HEAP: u64 = 0x10_0000;
const ROOTS: u64 = 0x7000_0000;
/// Distance of blocks; they are shorter.
const STEP: u64 = 0x100;
const SIZE: u64 = 0xf8;

/// A pointer: from a block (or a root), to a block, to its beginning or not.
type Edge = (usize, usize, bool);

/// What leads where, by number of the block; the one behind the last is the roots.
#[derive(Clone, Debug)]
struct Heap {
    blocks: usize,
    edges: Vec<Edge>,
}

fn heaps() -> impl Strategy<Value = Heap> {
    (1..24_usize, 0..3_usize).prop_flat_map(|(blocks, density)| {
        let edge = (0..=blocks, 0..blocks, prop::bool::weighted(0.8));
        // Roots are one in many, so that much is leaked.
        prop::collection::vec(edge, 0..=blocks * density)
            .prop_map(move |edges| Heap { blocks, edges })
    })
}

impl Heap {
    fn image(&self) -> Image {
        let mut image = Image::default();
        for block in 0..self.blocks as u64 {
            image.block(HEAP + block * STEP, SIZE, u32::try_from(block).unwrap());
        }
        let mut next = vec![0; self.blocks + 1];
        for &(from, to, is_start) in &self.edges {
            let base = if from == self.blocks { ROOTS } else { HEAP + from as u64 * STEP };
            let place = next[from] % (SIZE / 8);
            next[from] += 1;
            // A word that no rule of C++ takes for an object's.
            let offset = if is_start { 0 } else { 0x48 };
            image.write(base + place * 8, HEAP + to as u64 * STEP + offset);
        }
        image
    }

    /// Which blocks these lead to in the end, over all edges or those to beginnings.
    fn reach(&self, from: &[usize], starts_only: bool, without: Option<&[usize]>) -> Vec<bool> {
        let is_without = |block: usize| without.is_some_and(|w| w.contains(&block));
        let mut reached = vec![false; self.blocks + 1];
        from.iter().filter(|&&b| !is_without(b)).for_each(|&b| reached[b] = true);
        for _ in 0..=self.blocks {
            for &(from, to, is_start) in &self.edges {
                if reached[from] && (is_start || !starts_only) && !is_without(to) {
                    reached[to] = true;
                }
            }
        }
        reached.truncate(self.blocks);
        reached
    }
}

fn layout(heap: &Heap) -> Layout {
    let pieces = vec![
        Piece { range: HEAP..HEAP + heap.blocks as u64 * STEP, root: None },
        Piece { range: ROOTS..ROOTS + SIZE, root: Some(RootKind::Globals) },
    ];
    Layout { pieces, ..Layout::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn marks_are_those_of_a_slow_judge(heap in heaps()) {
        let mut image = heap.image();
        let blocks = Blocks::new(image.blocks.clone());
        let layout = layout(&heap);
        let graph = Graph::of(&blocks, &layout, &mut image, Noted::Kinds);
        let held = vec![false; blocks.len()];
        let mut inside = Inside::new(&blocks, &layout, &mut image);
        let marks = mark(&graph, &held, &mut |hit| inside.meaning(hit));
        let held = heap.reach(&[heap.blocks], true, None);
        let any = heap.reach(&[heap.blocks], false, None);
        for block in 0..heap.blocks {
            let truth = match (held[block], any[block]) {
                (true, _) => Mark::Held,
                (false, true) => Mark::Possible,
                (false, false) => Mark::Lost,
            };
            prop_assert_eq!(marks[block], truth, "block {}", block);
        }
    }

    #[test]
    fn what_is_kept_quiet_holds_what_it_leads_to_though_memory_is_gone(
        heap in heaps(),
        quiet in any::<u32>(),
    ) {
        let mut image = heap.image();
        let blocks = Blocks::new(image.blocks.clone());
        let looked = look(&blocks, &layout(&heap), &mut image, 0);
        drop(image);
        let is_quiet = |block: usize| quiet >> block & 1 == 1;
        let mut of_block = |block: &Block| is_quiet(block.stack as usize);
        let sums = looked.conclude(&blocks, &mut of_block).findings.sums;
        // The suppressed ones that are leaked, or may be, are as good as roots; one after the other.
        let mut roots = vec![heap.blocks];
        loop {
            let held = heap.reach(&roots, true, None);
            let more: Vec<usize> =
                (0..heap.blocks).filter(|&b| is_quiet(b) && !held[b]).collect();
            if more.is_empty() {
                break;
            }
            roots.extend(more);
        }
        let any = heap.reach(&roots, false, None);
        let lost = any.iter().filter(|reached| !**reached).count() as u64;
        prop_assert_eq!(sums[0].blocks + sums[1].blocks, lost);
    }

    #[test]
    fn groups_are_what_only_their_head_leads_to(heap in heaps()) {
        let mut image = heap.image();
        let blocks = Blocks::new(image.blocks.clone());
        let graph = Graph::of(&blocks, &layout(&heap), &mut image, Noted::Kinds);
        // Everything is leaked, so that there is much to fold.
        let folded = fold(&graph, &vec![Mark::Lost; heap.blocks]);
        let reach: Vec<_> = (0..heap.blocks).map(|b| heap.reach(&[b], false, None)).collect();
        let ring = |b: usize| -> Vec<usize> {
            (0..heap.blocks).filter(|&c| reach[b][c] && reach[c][b]).collect()
        };
        let is_source = |b: usize| (0..heap.blocks).all(|c| !reach[c][b] || reach[b][c]);
        let sources: Vec<_> = (0..heap.blocks).filter(|&b| is_source(b)).collect();
        let dominates = |a: usize, b: usize| {
            !heap.reach(&sources, false, Some(&ring(a)))[b]
        };
        for block in 0..heap.blocks {
            // Of the dominators of `block`, the one that no block outside its own ring dominates.
            let top = (0..heap.blocks)
                .filter(|&a| dominates(a, block))
                .find(|&a| (0..heap.blocks).all(|b| !dominates(b, a) || ring(a).contains(&b)));
            let top = top.and_then(|top| ring(top).into_iter().min());
            let group = folded.groups[folded.group_of[block] as usize];
            prop_assert_eq!(Some(group.head as usize), top, "block {}", block);
            prop_assert_eq!(group.is_shared, !is_source(group.head as usize));
        }
    }

    #[test]
    fn every_block_is_of_one_kind_and_in_one_finding(heap in heaps()) {
        let mut image = heap.image();
        image.layout = layout(&heap);
        let found = image.check().findings;
        let all = heap.blocks as u64;
        prop_assert_eq!(found.sums.iter().map(|sum| sum.blocks).sum::<u64>(), all);
        let told: u64 = found.all.iter().map(|finding| finding.total().blocks).sum();
        prop_assert_eq!(told, all);
        let direct = found.all.iter().filter(|f| f.kind == Kind::Direct);
        let direct: u64 = direct.map(|f| f.own.blocks).sum();
        prop_assert_eq!(direct, found.sum(Kind::Direct).blocks);
    }

    #[test]
    fn what_a_block_retains_is_what_no_root_reaches_without_it(heap in heaps()) {
        let mut image = heap.image();
        let blocks = Blocks::new(image.blocks.clone());
        let group = |word: &RootWord| u32::try_from(word.at / 8 % 3).unwrap();
        let holding = Holding::of(&blocks, &layout(&heap), &mut image, &mut { group });
        let roots = [heap.blocks];
        let count = |reached: Vec<bool>| reached.into_iter().filter(|one| *one).count() as u64;
        let all = count(heap.reach(&roots, false, None));
        prop_assert_eq!(holding.all().blocks, all);
        for (node, _, sum) in holding.nodes() {
            if let Above::Block(block) = node {
                let without = heap.reach(&roots, false, Some(&[block as usize]));
                prop_assert_eq!(sum.blocks, all - count(without), "block {}", block);
            }
        }
    }

    #[test]
    fn no_memory_whatever_makes_it_fail(
        words in prop::collection::vec((0..4096_u64, any::<u64>()), 0..64),
        blocks in prop::collection::vec((any::<u64>(), any::<u64>(), 0..8192_u64), 0..32),
    ) {
        let mut image = Image::default();
        let count = blocks.len() as u64;
        for (at, size, near) in blocks {
            let (at, size) = if at % 2 == 0 { (HEAP + near, size % 300) } else { (at, size) };
            image.block(at, size, 0);
        }
        for (place, word) in words {
            let word = if word % 2 == 0 { HEAP + word % 9000 } else { word };
            image.write(HEAP + place * 2, word);
        }
        image.piece(HEAP..HEAP + 8192, Some(RootKind::Heap));
        let all = Blocks::new(image.blocks.clone());
        let own = image.layout.clone();
        let group = |word: &RootWord| u32::try_from(word.at % 5).unwrap();
        let holding = Holding::of(&all, &own, &mut image, &mut { group });
        prop_assert!(holding.all().blocks <= all.len() as u64);
        prop_assert!((0..).take(all.len()).all(|block| holding.path(block).len() <= all.len() + 1));
        let checked = image.check();
        let told: u64 = checked.findings.sums.iter().map(|sum| sum.blocks).sum();
        prop_assert!(told <= count && told + checked.impossible >= count);
    }
}
