//! Blocks as plain text of a given width.

use heapattach_view::columns;

use super::blocks::Block;

/// Narrower lines cannot be read.
const NARROWEST: usize = 40;
/// Between the columns of a table.
const GAP: usize = 2;

/// A chapter as text.
pub fn render(blocks: &[Block], width: usize) -> String {
    let width = width.max(NARROWEST);
    let mut out = String::new();
    let mut was_item = false;
    for block in blocks {
        let is_item = matches!(block, Block::Item(..));
        let is_apart = !(is_item && was_item);
        if is_apart && !out.is_empty() {
            out.push('\n');
        }
        was_item = is_item;
        match block {
            Block::Heading(1, text) => out += &format!("{}\n", text.to_uppercase()),
            Block::Heading(_, text) => out += &format!("{text}\n{}\n", "-".repeat(columns(text))),
            Block::Prose(text) => out += &wrapped(text, width, "", ""),
            Block::Item(mark, text) => {
                out += &wrapped(text, width, mark, &" ".repeat(mark.len()));
            }
            Block::Code(lines) => lines.iter().for_each(|line| out += &indented(line)),
            Block::Table(rows) => out += &table(rows, width),
        }
    }
    out
}

fn indented(line: &str) -> String {
    if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") }
}

/// Text in lines of at most `width` columns: `first` before the first line, `rest` before the others.
fn wrapped(text: &str, width: usize, first: &str, rest: &str) -> String {
    let (mut out, mut line) = (String::new(), first.to_owned());
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && columns(&line) + 1 + columns(word) > width {
            out += line.trim_end();
            out.push('\n');
            rest.clone_into(&mut line);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    out + line.trim_end() + "\n"
}

/// Columns where there is room for them, else each row as a paragraph.
fn table(rows: &[Vec<String>], width: usize) -> String {
    let Some((head, body)) = rows.split_first() else { return String::new() };
    let cell = |row: &Vec<String>, at: usize| row.get(at).map_or(0, |cell| columns(cell));
    let widths: Vec<usize> = (0..head.len())
        .map(|at| rows.iter().map(|row| cell(row, at)).max().unwrap_or_default())
        .collect();
    let last = widths.last().copied().unwrap_or_default();
    let before: usize = widths.iter().map(|width| width + GAP).sum::<usize>() - last - GAP;
    // A last column of running text is wrapped.
    if before + last.min(NARROWEST) <= width {
        return rows.iter().map(|row| line(row, &widths, before, width)).collect();
    }
    body.iter().map(|row| paragraph(head, row, width)).collect::<Vec<_>>().join("\n")
}

fn line(row: &[String], widths: &[usize], before: usize, width: usize) -> String {
    let (last, others) = row.split_last().map_or(("", row), |(last, others)| (&**last, others));
    let mut start = String::new();
    for (cell, wide) in others.iter().zip(widths) {
        start += cell;
        start += &" ".repeat(wide + GAP - columns(cell));
    }
    wrapped(last, width, &start, &" ".repeat(before))
}

fn paragraph(head: &[String], row: &[String], width: usize) -> String {
    let mut out = String::new();
    for (at, cell) in row.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
        let name = head.get(at).map_or("", String::as_str);
        out += &match (at, name) {
            (0, _) => wrapped(cell, width, "", "  "),
            (_, "") => wrapped(cell, width, "  ", "  "),
            (_, name) => wrapped(&format!("{name}: {cell}"), width, "  ", "    "),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{super::blocks::parse, *};

    #[test]
    fn prose_is_wrapped_and_code_is_not() {
        let text = "# A title\n\nSome words that are wrapped at the width of forty columns.\n\n\
                    - an item that is longer than the line is\n- two\n\n    x    y";
        assert_eq!(
            render(&parse(text), 40),
            "A TITLE\n\nSome words that are wrapped at the width\nof forty columns.\n\n\
             - an item that is longer than the line\n  is\n- two\n\n    x    y\n"
        );
    }

    #[test]
    fn a_table_has_columns_where_there_is_room_and_paragraphs_elsewhere() {
        let small = parse("| a | b |\n|---|---|\n| 1 | two |\n");
        assert_eq!(render(&small, 40), "a  b\n1  two\n");
        let wide = format!("| a | b | c |\n|---|---|---|\n| {} | 2 | 3 |\n", "x".repeat(39));
        let expected = format!("{}\n  b: 2\n  c: 3\n", "x".repeat(39));
        assert_eq!(render(&parse(&wide), 40), expected);
    }
}
