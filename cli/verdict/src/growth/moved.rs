//! Blocks that `realloc` moves on, as those of a vector that grows: each is freed when the next comes,
//! and yet the memory stays in use.
//!
//! Followed block by block such a stack has nothing that gets old. So it is followed by what is added:
//! a step that makes a block larger is a birth of the bytes it adds, and these die when the block
//! is really freed, or shrinks.

use super::Cell;

/// Stacks of which a smaller part of the blocks is moved on are judged block by block.
pub const MOST: f64 = 0.5;

/// What lives at some time, of one birth.
#[derive(Clone, Copy, Debug)]
struct Step {
    birth: usize,
    blocks: f64,
    squares: f64,
    bytes: f64,
}

/// What came and went in one span.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    born: f64,
    squares: f64,
    born_bytes: f64,
    died: f64,
    died_bytes: f64,
}

/// The cells of what was added, of those of blocks; `moved` is which part of the births moved an older
/// block on.
pub fn steps(spans: usize, cells: &[Cell], moved: f64) -> Vec<Cell> {
    let mut turns = vec![Turn::default(); spans];
    for cell in cells {
        if let Some(turn) = turns.get_mut(cell.birth) {
            turn.born += cell.blocks;
            turn.squares += cell.squares;
            turn.born_bytes += cell.bytes;
        }
        if let Some(turn) = cell.death.and_then(|death| turns.get_mut(death)) {
            turn.died += cell.blocks;
            turn.died_bytes += cell.bytes;
        }
    }
    // Of all that went so much was not moved on; in which spans is not known.
    let sum = |of: fn(&Turn) -> f64| turns.iter().map(of).sum::<f64>();
    let (born, died) = (sum(|turn| turn.born), sum(|turn| turn.died));
    let ended = if died > 0.0 { ((died - born * moved) / died).clamp(0.0, 1.0) } else { 0.0 };
    let (mut all, mut living) = (Vec::new(), Vec::<Step>::new());
    // Blocks that there are, and their bytes.
    let (mut blocks, mut held) = (0.0, 0.0);
    for (now, turn) in turns.iter().enumerate() {
        let continued = turn.died * (1.0 - ended);
        let added = turn.born_bytes - turn.died_bytes * (1.0 - ended);
        if turn.born > 0.0 {
            let (blocks, squares) = (turn.born, turn.squares);
            living.push(Step { birth: now, blocks, squares, bytes: added.max(0.0) });
        }
        let there = blocks + turn.born - continued;
        let gone = if there > 0.0 { (turn.died - continued) / there } else { 0.0 };
        let shrunk = if held > 0.0 { (-added).max(0.0) / held } else { 0.0 };
        bury(&mut living, &mut all, now, gone.max(shrunk).clamp(0.0, 1.0));
        blocks = there - (turn.died - continued);
        held += turn.born_bytes - turn.died_bytes;
    }
    let cell = |step: Step, death, part: f64| Cell {
        birth: step.birth,
        death,
        blocks: step.blocks * part,
        squares: step.squares * part,
        bytes: step.bytes * part,
    };
    all.extend(living.into_iter().map(|step| cell(step, None, 1.0)));
    all
}

/// A part of everything dies.
fn bury(living: &mut [Step], all: &mut Vec<Cell>, now: usize, part: f64) {
    if part <= 0.0 {
        return;
    }
    for step in living {
        let Step { birth, blocks, squares, bytes } = *step;
        let (blocks, squares, bytes) = (blocks * part, squares * part, bytes * part);
        all.push(Cell { birth, death: Some(now), blocks, squares, bytes });
        let left = 1.0 - part;
        *step = Step {
            birth,
            blocks: step.blocks * left,
            squares: step.squares * left,
            bytes: step.bytes * left,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Cohort, *};

    const SPANS: usize = 64;

    /// A buffer of each span that grows in ten steps; after `lives` spans it is freed and begins
    /// anew.
    fn buffer(lives: usize) -> Vec<Cell> {
        let mut cells = Vec::new();
        for span in 0..SPANS {
            let size = |step: usize| ((span % lives) * 10 + step + 1) as f64 * 1000.0;
            let cell = |step, death, blocks: f64| Cell {
                birth: span,
                death,
                blocks,
                squares: blocks,
                bytes: size(step) * blocks,
            };
            cells.extend((0..9).map(|step| cell(step, Some(span), 1.0)));
            let next = Some(span + 1).filter(|next| *next < SPANS);
            cells.push(cell(9, next, 1.0));
        }
        cells
    }

    #[test]
    fn a_vector_that_only_grows_keeps_what_it_adds() {
        let cells = buffer(SPANS);
        let plain = Cohort::new(SPANS, cells.iter().copied()).survival();
        // The first was no older one moved on.
        let followed = Cohort::new(SPANS, steps(SPANS, &cells, 639.0 / 640.0)).survival();
        assert!(plain.hazard > 0.15, "block by block: {plain:?}");
        assert!(followed.hazard < 0.15, "step by step: {followed:?}");
        let held: f64 = steps(SPANS, &cells, 1.0).iter().map(|cell| cell.bytes).sum();
        assert!((held / 640_000.0 - 1.0).abs() < 1e-6, "{held}");
    }

    #[test]
    fn one_that_is_given_back_now_and_then_does_not() {
        for lives in [1, 2, 4, 8, 16] {
            // What begins anew was not moved on.
            let moved = 1.0 - 0.1 / lives as f64;
            let followed = Cohort::new(SPANS, steps(SPANS, &buffer(lives), moved)).survival();
            assert!(followed.hazard > 0.15, "after {lives}: {followed:?}");
        }
    }

    #[test]
    fn nonsense_is_survived() {
        let cell =
            Cell { birth: 70, death: Some(3), blocks: -1.0, squares: f64::NAN, bytes: 1e300 };
        assert!(steps(8, &[cell, Cell { birth: 1, death: Some(0), ..cell }], 2.0).len() < 100);
        assert!(steps(0, &[cell], 1.0).is_empty());
    }
}
