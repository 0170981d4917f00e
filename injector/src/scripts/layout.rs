//! Where things are in the interpreter's structures.
//!
//! From 3.13 on the interpreter says so itself, in a table at the head of its global state, for
//! debuggers. 3.11 and 3.12 do not: their offsets are facts about all builds of them for 64 bits.

use heapattach_abi::python::Orders;

/// The first bytes of the interpreter's own table.
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");
/// Words of that table that are read.
pub const TABLE_WORDS: usize = 64;

/// No structure of the interpreter that we look into is larger, but for its global state and that of
/// an interpreter.
const SMALL: u64 = 1 << 12;
const LARGE: u64 = 1 << 24;

/// What every object begins with: a count of references and a type; without a global lock, more.
const HEADER: u64 = 16;
const LONG_HEADER: u64 = 32;

/// Owners of frames from this one on are no Python code: they mark where the loop was entered.
const LEAST_MARK: u64 = 3;

/// The layout of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What the payload needs.
    pub orders: Orders,
    /// In a code object.
    pub code: CodeLayout,
    /// Bytes that every object begins with; its type is the last word of them.
    pub header: u64,
    /// In a string: where the text begins if it is ASCII.
    pub ascii: u64,
    /// The same if it is not ASCII.
    pub compact: u64,
}

impl Layout {
    /// Whether it is that of a build without a global lock.
    pub fn is_free_threaded(&self) -> bool {
        self.header == LONG_HEADER
    }
}

/// Where things are in a code object that the payload does not ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLayout {
    /// The first line.
    pub first_line: u64,
}

/// Why there is no layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// This version is not known here.
    Unknown,
    /// The table is not what it should be.
    Nonsense,
}

/// The layout of a version; `table` is the head of the global state.
pub fn layout(minor: u8, table: &[u64; TABLE_WORDS]) -> Result<Layout, LayoutError> {
    match minor {
        11 => Ok(of_3_11()),
        12 => Ok(of_3_12()),
        // Where the parts of the table begin: threads, frames, code.
        13 => described(table, [19, 28, 34]),
        14 => described(table, [22, 31, 39]),
        _ => Err(LayoutError::Unknown),
    }
}

fn of_3_11() -> Layout {
    Layout {
        orders: Orders {
            interpreters: 40,
            next_interpreter: 0,
            threads: 16,
            next_thread: 8,
            thread_pointer: 152,
            current: 56,
            current_in: 8 + 1,
            code: 32,
            previous: 48,
            instruction: 56,
            mark: 68,
            least_mark: 0,
            instructions: 184,
            // No number tells its code objects apart; the name does mostly.
            identity: 128,
            ..of_code(112, 128, 136, HEADER)
        },
        code: CodeLayout { first_line: 72 },
        header: HEADER,
        ascii: 48,
        compact: 72,
    }
}

fn of_3_12() -> Layout {
    Layout {
        orders: Orders {
            interpreters: 40,
            next_interpreter: 0,
            threads: 72,
            next_thread: 8,
            thread_pointer: 136,
            current: 56,
            current_in: 1,
            code: 0,
            previous: 8,
            instruction: 56,
            mark: 70,
            least_mark: LEAST_MARK,
            instructions: 192,
            identity: version_in(68),
            ..of_code(112, 128, 136, HEADER)
        },
        code: CodeLayout { first_line: 68 },
        header: HEADER,
        ascii: 40,
        compact: 56,
    }
}

/// What a code object leads to.
fn of_code(file: u64, name: u64, lines: u64, header: u64) -> Orders {
    // Behind the length and a hash.
    Orders {
        file,
        name,
        lines,
        length: header,
        bytes: header + 16,
        mark_mask: 0xff,
        ..Orders::default()
    }
}

/// The word with the number that no two code objects share: six counts lie between it and the first
/// line.
fn version_in(first_line: u64) -> u64 {
    (first_line + 24) & !7
}

/// By the interpreter's own table.
fn described(
    table: &[u64; TABLE_WORDS],
    [thread, frame, code]: [usize; 3],
) -> Result<Layout, LayoutError> {
    let [interpreters, next_interpreter, threads] = [5, 8, 9].map(|at| table[at]);
    let [next_thread, current, thread_pointer, kernel_thread] =
        [2, 4, 5, 6].map(|at| table[thread + at]);
    let [previous, executable, instruction, owner] = [1, 2, 3, 5].map(|at| table[frame + at]);
    let [file, name, lines, first_line, instructions] = [1, 3, 4, 5, 9].map(|at| table[code + at]);
    let small =
        [next_thread, current, previous, executable, instruction, file, name, lines, instructions];
    let is_small = small.iter().all(|&at| at < SMALL && at.is_multiple_of(8));
    let large = [interpreters, next_interpreter, threads];
    let is_large = large.iter().all(|&at| at < LARGE && at.is_multiple_of(8));
    let is_right = table[0] == COOKIE && thread_pointer.checked_add(8) == Some(kernel_thread);
    if !is_small || !is_large || !is_right || owner >= SMALL || first_line >= SMALL {
        return Err(LayoutError::Nonsense);
    }
    let header = if table[2] == 0 { HEADER } else { LONG_HEADER };
    Ok(Layout {
        orders: Orders {
            interpreters,
            next_interpreter,
            threads,
            next_thread,
            thread_pointer,
            current,
            current_in: 0,
            code: executable,
            previous,
            instruction,
            mark: owner,
            least_mark: LEAST_MARK,
            instructions,
            identity: version_in(first_line),
            ..of_code(file, name, lines, header)
        },
        code: CodeLayout { first_line },
        header,
        ascii: header + 24,
        compact: header + 40,
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A layout for other tests.
    pub fn of_3_12() -> Layout {
        super::of_3_12()
    }

    /// As 3.13.0 describes itself.
    pub fn table() -> [u64; TABLE_WORDS] {
        let mut table = [0; TABLE_WORDS];
        (table[0], table[1]) = (COOKIE, 0x030d_00f0);
        (table[5], table[8], table[9]) = (632, 7264, 7344);
        (table[21], table[23], table[24], table[25]) = (8, 72, 152, 160);
        (table[29], table[30], table[31], table[33]) = (8, 0, 56, 70);
        (table[35], table[37], table[38], table[39], table[43]) = (112, 128, 136, 68, 200);
        table
    }

    #[test]
    fn what_the_interpreter_says_of_itself_is_taken_over() {
        let layout = layout(13, &table()).unwrap();
        assert_eq!((layout.orders.threads, layout.orders.mark), (7344, 70));
        assert_eq!((layout.code.first_line, layout.orders.identity), (68, 88));
        assert_eq!((layout.ascii, layout.compact), (40, 56));
    }

    #[test]
    fn a_table_that_makes_no_sense_is_refused() {
        for (at, word) in [(0, 0), (24, 8), (31, 1 << 40), (9, 3), (39, u64::MAX), (43, 7)] {
            let mut table = table();
            table[at] = word;
            assert_eq!(layout(13, &table), Err(LayoutError::Nonsense), "word {at}");
        }
        assert_eq!(layout(14, &table()), Err(LayoutError::Nonsense));
        assert_eq!(layout(10, &table()), Err(LayoutError::Unknown));
        assert_eq!(layout(99, &table()), Err(LayoutError::Unknown));
    }

    #[test]
    fn free_threaded_builds_have_longer_objects() {
        let mut table = table();
        table[2] = 1;
        let layout = layout(13, &table).unwrap();
        assert_eq!((layout.header, layout.ascii, layout.compact), (32, 56, 72));
    }
}
