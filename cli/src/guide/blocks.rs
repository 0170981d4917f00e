//! The Markdown of the chapters as blocks. Only what the chapters use is known: headings, paragraphs,
//! lists, tables and code. Pictures and remarks are left out.

/// A part of a chapter; text in it has lost its marks, except for backticks and single stars.
#[derive(Debug, PartialEq, Eq)]
pub enum Block {
    /// Number of `#` and the text.
    Heading(usize, String),
    /// Running text.
    Prose(String),
    /// What stands before it (`- `, `1. `) and the text.
    Item(String, String),
    /// Lines that stay as they are.
    Code(Vec<String>),
    /// Rows of cells; the first is the head.
    Table(Vec<Vec<String>>),
}

/// Reads a chapter.
pub fn parse(markdown: &str) -> Vec<Block> {
    let (mut blocks, mut lines) = (Vec::new(), markdown.lines().peekable());
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let code = lines.by_ref().take_while(|line| !line.starts_with("```"));
            blocks.push(Block::Code(code.map(str::to_owned).collect()));
        } else if let Some(first) = line.strip_prefix("    ") {
            let mut code = vec![first.to_owned()];
            while let Some(next) = lines.next_if(|l| l.is_empty() || l.starts_with("    ")) {
                code.push(next.get(4..).unwrap_or_default().to_owned());
            }
            while code.last().is_some_and(String::is_empty) {
                code.pop();
            }
            blocks.push(Block::Code(code));
        } else if let Some(heading) = heading(line) {
            blocks.push(heading);
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(row));
            }
            rows.retain(|row| !row.iter().all(|cell| is_rule(cell)));
            blocks.push(Block::Table(rows));
        } else if !line.is_empty() && !line.starts_with("![") && !line.starts_with("<!--") {
            let (mark, first) = split_mark(line);
            let mut text = first.trim().to_owned();
            while let Some(next) = lines.next_if(|line| goes_on(line, !mark.is_empty())) {
                text.push(' ');
                text.push_str(next.trim());
            }
            let text = without_marks(&text);
            blocks.push(match mark {
                "" => Block::Prose(text),
                mark => Block::Item(mark.to_owned(), text),
            });
        }
    }
    blocks
}

fn heading(line: &str) -> Option<Block> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    (level > 0 && text.starts_with(' ')).then(|| Block::Heading(level, without_marks(text.trim())))
}

/// Whether a line belongs to the text before it; below an item lines are indented.
fn goes_on(line: &str, is_item: bool) -> bool {
    let inside = if is_item { line.starts_with(' ') } else { !line.starts_with("    ") };
    let begins = heading(line).is_some()
        || ["|", "```", "![", "<!--"].iter().any(|start| line.starts_with(start))
        || !split_mark(line).0.is_empty();
    !line.is_empty() && inside && !begins
}

/// `- ` or `12. ` before the text of an item.
fn split_mark(line: &str) -> (&str, &str) {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let length = match line {
        _ if line.starts_with("- ") => 2,
        _ if digits > 0 && line[digits..].starts_with(". ") => digits + 2,
        _ => 0,
    };
    line.split_at(length)
}

fn cells(row: &str) -> Vec<String> {
    // A bar that is part of a cell is written `\|`.
    let row = row.trim().trim_start_matches('|').replace("\\|", "\0");
    let row = row.strip_suffix('|').unwrap_or(&row);
    row.split('|').map(|cell| without_marks(cell.trim()).replace('\0', "|")).collect()
}

fn is_rule(cell: &str) -> bool {
    !cell.is_empty() && cell.bytes().all(|byte| b"-:".contains(&byte))
}

/// Links become their text, followed by an address of the web; pairs of stars go.
fn without_marks(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, from)) = rest.split_once('[') {
        let link = from.split_once("](").and_then(|(label, after)| {
            let (address, after) = after.split_once(')')?;
            (!label.contains(']')).then_some((label, address, after))
        });
        out.push_str(before);
        let Some((label, address, after)) = link else {
            out.push('[');
            rest = from;
            continue;
        };
        out.push_str(label);
        if address.starts_with("http") {
            out.push_str(&format!(" ({address})"));
        }
        rest = after;
    }
    out.push_str(rest);
    out.replace("**", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chapter_becomes_blocks() {
        let text = "# T\n\nOne\ntwo **three**.\n\n- a\n  b\n- c\n\n    code\n\n    more\n\n\
                    | x | y |\n|---|--:|\n| `a \\| b` | 2 |\n\n```\n# raw\n```\n![p](q)\n";
        let (own, owned) = (str::to_owned, |row: &[&str]| row.iter().map(|&c| c.into()).collect());
        assert_eq!(
            parse(text),
            [
                Block::Heading(1, own("T")),
                Block::Prose(own("One two three.")),
                Block::Item(own("- "), own("a b")),
                Block::Item(own("- "), own("c")),
                Block::Code(vec![own("code"), own(""), own("more")]),
                Block::Table(vec![owned(&["x", "y"]), owned(&["`a | b`", "2"])]),
                Block::Code(vec![own("# raw")]),
            ]
        );
    }

    #[test]
    fn links_are_read_without_their_marks() {
        assert_eq!(without_marks("see [a](b.md), [c](https://d) [e"), "see a, c (https://d) [e");
    }
}
