//! Lines of Ruby's instructions: a table of rows, and which row an instruction is of. The first instructions
//! have their rows in words of nine each; the others are counted by bits, in blocks.

use heapattach_process::little_endian::{u32_at, u64_at};

/// Instructions with rows of their own, so many in a word, and bits of each.
const FIRST: usize = 54;
const IN_WORD: usize = 9;
const ROW_BITS: usize = 7;
const FIRST_BYTES: usize = FIRST / IN_WORD * 8;
/// A block: rows before it, those before each of its words but the first, and a bit for each instruction on
/// which a row begins.
const BLOCK: usize = 512;
const BLOCK_BYTES: usize = 80;
const RANKS_AT: usize = 8;
const BITS_AT: usize = 16;
const RANK_BITS: usize = 9;

/// The line of an instruction, by a table of so many rows of so many bytes, the first half word of which is the line,
/// with what leads to them behind it.
pub fn line(table: &[u8], (rows, width): (usize, usize), instruction: u32) -> Option<u32> {
    let bytes = rows.checked_mul(width)?;
    let index = table.get(bytes.checked_next_multiple_of(8)?..).unwrap_or_default();
    // Where a frame is, is behind its instruction.
    let at = usize::try_from(instruction).ok()?.saturating_sub(1);
    let row = if rows == 1 { 0 } else { row(index, at)?.checked_sub(1)? };
    u32_at(table.get(..bytes)?, row.checked_mul(width)?).filter(|&line| line != 0)
}

/// One more than the row of an instruction.
fn row(index: &[u8], at: usize) -> Option<usize> {
    let Some(at) = at.checked_sub(FIRST) else {
        let word = u64_at(index, at / IN_WORD * 8)?;
        return bits(word, at % IN_WORD, ROW_BITS);
    };
    let block = at.checked_div(BLOCK)?.checked_mul(BLOCK_BYTES)?.checked_add(FIRST_BYTES)?;
    let block = index.get(block..)?.get(..BLOCK_BYTES)?;
    let (word, bit) = (at % BLOCK / 64, at % 64);
    let before = match word.checked_sub(1) {
        Some(before) => bits(u64_at(block, RANKS_AT)?, before, RANK_BITS)?,
        None => 0,
    };
    let upto = u64_at(block, BITS_AT + word * 8)? << (63 - bit);
    let own = usize::try_from(upto.count_ones()).ok()?;
    usize::try_from(u32_at(block, 0)?).ok()?.checked_add(before)?.checked_add(own)
}

/// A number of so many bits in a word.
fn bits(word: u64, number: usize, width: usize) -> Option<usize> {
    usize::try_from(word >> (number * width) & ((1 << width) - 1)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A table in which a row begins at each of these instructions, as Ruby makes it.
    fn table(starts: &[usize], width: usize, length: usize) -> Vec<u8> {
        let mut table = Vec::new();
        for (number, _) in starts.iter().enumerate() {
            table.extend((10 + u32::try_from(number).unwrap()).to_le_bytes());
            table.extend(vec![0xff; width - 4]);
        }
        table.resize(table.len().next_multiple_of(8), 0);
        let upto = |at: usize| starts.iter().filter(|start| **start <= at).count() as u64;
        for word in 0..FIRST / IN_WORD {
            let rows = (0..IN_WORD).map(|at| upto(word * IN_WORD + at) << (at * ROW_BITS));
            table.extend(rows.fold(0, |word, row| word | row).to_le_bytes());
        }
        for block in 0..length.saturating_sub(FIRST).div_ceil(BLOCK) {
            let first = FIRST + block * BLOCK;
            let before = upto(first - 1);
            table.extend(before.to_le_bytes());
            let rank = |word: usize| (upto(first + word * 64 + 63) - before) << (word * RANK_BITS);
            table.extend((0..7).map(rank).fold(0, |word, rank| word | rank).to_le_bytes());
            for word in 0..8 {
                let bit = |bit: &usize| starts.contains(&(first + word * 64 + bit));
                let set = (0..64).filter(bit).fold(0_u64, |word, bit| word | 1 << bit);
                table.extend(set.to_le_bytes());
            }
        }
        table
    }

    #[test]
    fn every_instruction_has_the_line_of_the_row_before_it() {
        let starts: Vec<usize> = (0..100).map(|number| number * 13).collect();
        for width in [8, 12] {
            let (table, rows) = (table(&starts, width, 1300), (starts.len(), width));
            for at in 0..1300_usize {
                let expected = 10 + u32::try_from(at / 13).unwrap();
                // The frame is one further.
                let instruction = u32::try_from(at + 1).unwrap();
                assert_eq!(line(&table, rows, instruction), Some(expected), "{at}");
            }
            assert_eq!(line(&table, rows, 0), Some(10));
            assert_eq!(line(&table, rows, 5000), None);
            let alone = line(&table[..width], (1, width), 700);
            assert_eq!(alone, Some(10), "one row needs nothing that leads to it");
        }
    }

    proptest! {
        #[test]
        fn any_table_is_survived(table: Vec<u8>, rows: usize, width: usize, instruction: u32) {
            let _ = line(&table, (rows, width), instruction);
            let _ = line(&table, (rows % 64, width % 16), instruction % 2048);
        }
    }
}
