//! Lines of instructions as Lua has them: a number of 32 bits for each, or, from 5.4 on, differences of one byte,
//! and behind these some instructions with their lines; in LuaJIT how far each is behind the first line.

use heapattach_process::little_endian::u32_at;

/// So many instructions, in a table of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub instructions: usize,
    pub table: Table,
}

/// Kinds of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// Lines, before 5.4.
    Lines,
    /// Differences, and some lines.
    Differences,
    /// Distances from the first line, of so many bytes as a power of two; the first instruction has none.
    Distances(u32),
}

/// The line of an instruction; `None` where the tables do not say it.
pub(super) fn line(tables: &[u8], form: Form, first_line: u32, instruction: u32) -> Option<u32> {
    let at = usize::try_from(instruction).ok().filter(|&at| at < form.instructions)?;
    match form.table {
        Table::Lines => u32_at(tables, at.checked_mul(4)?).filter(|&line| line <= LAST),
        Table::Differences => by_differences(tables, form.instructions, first_line, instruction),
        Table::Distances(shift) => {
            let Some(at) = at.checked_sub(1) else { return Some(first_line) };
            let bytes = tables.get(at.checked_shl(shift)?..)?.get(..1_usize.checked_shl(shift)?)?;
            let distance = bytes
                .iter()
                .rev()
                .try_fold(0_u32, |sum, &byte| Some(sum.checked_mul(1 << 8)? | u32::from(byte)))?;
            first_line.checked_add(distance).filter(|&line| line <= LAST)
        }
    }
}

fn by_differences(
    tables: &[u8],
    instructions: usize,
    first_line: u32,
    instruction: u32,
) -> Option<u32> {
    let at = usize::try_from(instruction).ok()?;
    let differences = tables.get(..instructions)?;
    let told = tables.get(instructions.next_multiple_of(8)..).unwrap_or_default();
    let (told, _) = told.as_chunks::<8>();
    let told = told.iter().map_while(|pair| Some((u32_at(pair, 0)?, u32_at(pair, 4)?)));
    let (begin, line) = match told.take_while(|(own, _)| *own <= instruction).last() {
        Some((own, line)) => (usize::try_from(own).ok()? + 1, line),
        None => (0, first_line),
    };
    let passed = differences.get(begin..=at).unwrap_or_default();
    let passed: i64 = passed.iter().map(|&byte| i64::from(byte.cast_signed())).sum();
    u32::try_from(i64::from(line) + passed).ok().filter(|&line| line <= LAST)
}

/// Numbers of lines are positive ones of 32 bits.
const LAST: u32 = i32::MAX.cast_unsigned();

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_one_number_or_a_sum() {
        let plain: Vec<u8> = [7_u32, 7, 9].iter().flat_map(|line| line.to_le_bytes()).collect();
        let form = Form { instructions: 3, table: Table::Lines };
        let told = |at| line(&plain, form, 3, at);
        assert_eq!([0, 2, 3].map(told), [Some(7), Some(9), None]);
        // Two lines on, one back, told by itself, one on.
        let mut tables = vec![2, 0xff, 0x80, 1, 0, 0, 0, 0];
        tables.extend([2_u32, 500].iter().flat_map(|word| word.to_le_bytes()));
        let form = Form { instructions: 4, table: Table::Differences };
        let told = |at| line(&tables, form, 10, at);
        assert_eq!([0, 1, 2, 3, 4].map(told), [Some(12), Some(11), Some(500), Some(501), None]);
    }

    #[test]
    fn a_line_is_a_distance_from_the_first() {
        let told = |tables: &[u8], shift, at| {
            line(tables, Form { instructions: 3, table: Table::Distances(shift) }, 10, at)
        };
        assert_eq!(
            [0, 1, 2, 3].map(|at| told(&[1, 2], 0, at)),
            [Some(10), Some(11), Some(12), None]
        );
        assert_eq!([1, 2].map(|at| told(&[1, 1, 2], 1, at)), [Some(267), None]);
        assert_eq!(told(&[0, 0, 1, 0], 2, 1), Some(65_546));
        assert_eq!(told(&[0xff; 4], 2, 1), None);
    }

    proptest! {
        #[test]
        fn any_tables_are_survived(
            tables: Vec<u8>,
            instructions: usize,
            kind in 0..5_u32,
            first: u32,
            at: u32,
        ) {
            let all = [Table::Lines, Table::Differences];
            let table = *all.get(kind as usize).unwrap_or(&Table::Distances(kind.saturating_sub(2)));
            let _ = line(&tables, Form { instructions, table }, first, at);
            let _ = line(&tables, Form { instructions: tables.len(), table }, first, at % 64);
        }
    }
}
