//! One block that is ever larger: a container that grows by asking for a larger block, copying, and
//! freeing the old one. Each block dies young, and yet the memory stays in use.

use super::Cell;

/// So many blocks of one ladder were seen at least: two may be chance.
const LEAST_BLOCKS: f64 = 3.0;
/// Between these there is one block at the end of a span, as samples are estimates; while one is copied
/// into the next there are two, though seldom in most spans.
const ONE: [f64; 2] = [0.5, 1.5];
const TWO: f64 = 2.5;
/// The last block is so much larger than the first.
const LARGER: f64 = 1.1;
/// Blocks of a span that is known by its mean only may seem smaller by so much.
const ROUNDED: f64 = 0.999;

/// A stack that holds one block, each larger than the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ladder {
    /// Bytes that the last one has more than the first.
    pub grown: f64,
    /// Which part of the blocks came in place of an older one.
    pub moved: f64,
}

impl Ladder {
    /// Of a stack's blocks in a window of so many spans, if they are one.
    pub fn of(spans: usize, cells: &[Cell]) -> Option<Self> {
        let mut born = vec![[0.0; 2]; spans];
        let mut died = vec![0.0; spans];
        for cell in cells {
            let [blocks, bytes] = born.get_mut(cell.birth)?;
            (*blocks, *bytes) = (*blocks + cell.blocks, *bytes + cell.bytes);
            if let Some(death) = cell.death {
                *died.get_mut(death)? += cell.blocks;
            }
        }
        let (mut blocks, mut there) = (0.0, 0.0);
        let mut ends: Option<(f64, f64)> = None;
        // Ends of spans with one block, and with two.
        let mut seen = [0_usize; 2];
        for ([came, bytes], went) in born.into_iter().zip(died) {
            (blocks, there) = (blocks + came, there + came - went);
            if came > 0.0 {
                let size = bytes / came;
                let (first, last) = ends.unwrap_or((size, size));
                if size < last * ROUNDED {
                    return None;
                }
                ends = Some((first, size.max(last)));
            }
            // From the first one on there is one.
            if ends.is_some() {
                if !(ONE[0]..=TWO).contains(&there) {
                    return None;
                }
                seen[usize::from(there > ONE[1])] += 1;
            }
        }
        if seen[1] > seen[0] {
            return None;
        }
        let (first, last) = ends?;
        let is_one = blocks >= LEAST_BLOCKS && last >= first * LARGER && last.is_finite();
        is_one.then_some(Self { grown: last - first, moved: 1.0 - 1.0 / blocks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPANS: usize = 64;

    /// Blocks of these sizes, one in each of as many spans; each dies when the next comes.
    fn blocks(sizes: &[f64]) -> Vec<Cell> {
        let cell = |(birth, bytes): (usize, &f64)| {
            let death = (birth + 1 < sizes.len()).then_some(birth + 1);
            Cell { birth, death, blocks: 1.0, squares: 1.0, bytes: *bytes }
        };
        sizes.iter().enumerate().map(cell).collect()
    }

    fn of(sizes: &[f64]) -> Option<Ladder> {
        Ladder::of(SPANS, &blocks(sizes))
    }

    #[test]
    fn one_block_that_is_ever_larger_is_a_ladder() {
        assert_eq!(of(&[1e3, 2e3, 4e3]), Some(Ladder { grown: 3e3, moved: 1.0 - 1.0 / 3.0 }));
        assert!(of(&[1e3, 1e3, 1.2e3]).is_some());
    }

    #[test]
    fn two_are_there_while_one_is_copied_into_the_next() {
        let mut cells = blocks(&[1e3, 2e3, 3e3, 4e3, 5e3, 6e3]);
        cells[1].death = Some(3);
        cells[3].death = Some(5);
        assert!(Ladder::of(SPANS, &cells).is_some());
    }

    #[test]
    fn what_shrinks_or_stays_or_is_given_back_or_is_many_is_none() {
        assert_eq!(of(&[1e3, 2e3]), None, "too few");
        assert_eq!(of(&[1e3, 1e3, 1e3, 1e3]), None, "replaced by its like");
        assert_eq!(of(&[1e3, 2e3, 4e3, 1e3, 2e3, 4e3, 8e3]), None, "begins anew");
        let mut given_back = blocks(&[1e3, 2e3, 4e3]);
        given_back[2].death = Some(9);
        assert_eq!(Ladder::of(SPANS, &given_back), None);
        let two = [blocks(&[1e3, 2e3, 4e3]), blocks(&[1e3, 2e3, 4e3])].concat();
        assert_eq!(Ladder::of(SPANS, &two), None);
    }

    #[test]
    fn nonsense_is_survived() {
        let cell = Cell { birth: 7, death: Some(3), blocks: f64::NAN, squares: 0.0, bytes: 1e300 };
        assert_eq!(Ladder::of(SPANS, &[cell; 9]), None);
        assert_eq!(Ladder::of(0, &[cell]), None);
        assert_eq!(Ladder::of(SPANS, &[]), None);
    }
}
