//! Lines of JavaScript: V8 has a table that says at which letter of the script an instruction is, and the text of the
//! function says on which line that is.

/// How a copy tells lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// The letter with which the function begins, in its script.
    pub start: u32,
    /// The letter behind its last one.
    pub end: u32,
    /// Bytes of the table; the text begins with the next whole word.
    pub table: usize,
    /// Whether letters of the text have two bytes.
    pub is_wide: bool,
}

/// The line of an instruction, of a function that begins on this one.
pub fn line(copied: &[u8], form: Form, first_line: u32, instruction: u32) -> Option<u32> {
    let table = copied.get(..form.table).filter(|table| !table.is_empty())?;
    let letter = letter(table, instruction)?;
    if first_line == 0 || !(form.start..form.end).contains(&letter) {
        return None;
    }
    let text = copied.get(form.table.next_multiple_of(8)..)?;
    let before = usize::try_from(letter - form.start).ok()?;
    let lines = if form.is_wide {
        let (letters, _) = text.as_chunks::<2>();
        letters.get(..before)?.iter().filter(|letter| **letter == [b'\n', 0]).count()
    } else {
        text.get(..before)?.iter().filter(|letter| **letter == b'\n').count()
    };
    first_line.checked_add(u32::try_from(lines).ok()?)
}

/// The letter that the table says of an instruction: that of the last row not behind it.
fn letter(table: &[u8], instruction: u32) -> Option<u32> {
    let mut rest = table;
    // What is done on entry comes before the first instruction.
    let (mut at, mut position, mut found) = (-1_i64, 0_i64, None);
    while let Some(distance) = number(&mut rest) {
        // The sign says whether a statement begins there.
        let distance = if distance < 0 { -(distance + 1) } else { distance };
        at = at.checked_add(distance)?;
        position = position.checked_add(number(&mut rest)?)?;
        if at > i64::from(instruction) {
            break;
        }
        found = Some(position);
    }
    // The lowest bit says that it is elsewhere; the number is one more than the letter's.
    let found = found.filter(|found| found & 1 == 0)?;
    u32::try_from((found >> 1 & 0x3fff_ffff).checked_sub(1)?).ok()
}

/// A number of as many bytes as it takes, its sign in its lowest bit.
fn number(rest: &mut &[u8]) -> Option<i64> {
    let (mut all, mut shift) = (0_u64, 0_u32);
    loop {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        all |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some((all >> 1).cast_signed() ^ -(all & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &[u8] = b"() {\n  f();\n  return g();\n}";

    fn encoded(rows: &[(i64, i64)]) -> Vec<u8> {
        let mut table = Vec::new();
        for number in rows.iter().flat_map(|row| [row.0, row.1]) {
            let mut left = (number << 1 ^ number >> 63).cast_unsigned();
            while left >= 0x80 {
                table.push(u8::try_from(left & 0x7f).unwrap() | 0x80);
                left >>= 7;
            }
            table.push(u8::try_from(left).unwrap());
        }
        table
    }

    /// Instructions 0 and 10 of a function that begins at letter 100: a statement and a call on its second and third line.
    fn copied(is_wide: bool) -> (Vec<u8>, Form) {
        let mut copied = encoded(&[(1, (107 + 1) << 1), (-11, 7 << 1)]);
        let form = Form { start: 100, end: 127, table: copied.len(), is_wide };
        copied.resize(copied.len().next_multiple_of(8), 0);
        let letters =
            TEXT.iter().flat_map(|&byte| if is_wide { vec![byte, 0] } else { vec![byte] });
        copied.extend(letters);
        (copied, form)
    }

    #[test]
    fn an_instruction_is_on_the_line_of_the_last_letter_told() {
        for is_wide in [false, true] {
            let (copied, form) = copied(is_wide);
            let told = |instruction| line(&copied, form, 7, instruction);
            assert_eq!([0, 9, 10, 500].map(told), [Some(8), Some(8), Some(9), Some(9)]);
            assert_eq!(line(&copied, form, 0, 0), None, "its first line is not known");
            assert_eq!(line(&copied, Form { end: 107, ..form }, 7, 0), None);
        }
    }

    proptest! {
        #[test]
        fn any_table_is_survived(bytes: Vec<u8>, at: u32, start: u32, end: u32, table in 0..64_usize) {
            let form = Form { start, end, table, is_wide: at & 1 == 0 };
            let _ = line(&bytes, form, 1, at);
        }
    }
}
