//! The text of a view as lines of pieces with their looks: views write for terminals, with the few sequences
//! that a page knows.

use heapattach_view::{Ink, Page, Span, columns};

/// A line of pieces.
pub type Line = Vec<Span>;

/// The lines of a text; what is none of a page's sequences is left out.
pub fn lines(text: &str) -> Vec<Line> {
    text.lines().map(line).collect()
}

/// A page of so many columns, whose text [`lines`] takes.
pub fn page(columns: u16) -> Page {
    Page::new(Some(usize::from(columns)), true)
}

/// A text behind a label, broken between words where a line of so many columns ends.
pub fn broken(label: Span, text: &Span, room: u16) -> Vec<Line> {
    let indent = columns(&label.text);
    let room = usize::from(room).saturating_sub(indent).max(10);
    let mut lines = vec![String::new()];
    for word in text.text.split(' ') {
        let used = lines.last().map_or(0, |line| columns(line));
        if used > 0 && used + 1 + columns(word) > room {
            lines.push(word.to_owned());
        } else if let Some(line) = lines.last_mut() {
            line.push_str(if used > 0 { " " } else { "" });
            line.push_str(word);
        }
    }
    let mut labels = std::iter::once(label);
    let broken = lines.into_iter().map(|line| {
        let before = labels.next().unwrap_or_else(|| " ".repeat(indent).into());
        vec![before, Span::new(text.ink, line)]
    });
    broken.collect()
}

/// The lines of a view without its title: what it says stands in the head.
pub fn without_title(mut lines: Vec<Line>) -> Vec<Line> {
    let has_title = |line: &Line| line.iter().any(|span| span.text.starts_with("process "));
    if lines.first().is_some_and(has_title) {
        let end = lines.iter().position(Vec::is_empty).map_or(lines.len(), |at| at + 1);
        lines.drain(..end);
    }
    lines
}

fn line(text: &str) -> Line {
    let mut pieces = text.split('\u{1b}');
    let first = pieces.next().unwrap_or_default();
    let mut line = vec![Span::from(first)];
    line.extend(pieces.filter_map(|piece| {
        let (code, text) = piece.strip_prefix('[')?.split_once('m')?;
        Some(Span::new(ink(code), text))
    }));
    line.retain(|span| !span.text.is_empty());
    line
}

fn ink(code: &str) -> Ink {
    match code {
        "1" => Ink::Bold,
        "2" => Ink::Dim,
        "31" => Ink::More,
        "32" => Ink::Less,
        "33" => Ink::Warning,
        _ => Ink::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_beside_its_label() {
        let text = Span::from("one two three four five");
        let told = broken(Span::new(Ink::Bold, "x   "), &text, 18);
        let told: Vec<String> =
            told.iter().map(|line| line.iter().map(|span| span.text.as_str()).collect()).collect();
        assert_eq!(told, ["x   one two three", "    four five"]);
    }

    #[test]
    fn what_a_page_writes_is_read_back() {
        let mut out = page(60);
        out.line([Span::new(Ink::Bold, "a"), " b".into(), Span::new(Ink::More, "c")]);
        out.gap();
        let read = lines(&out.finish());
        let told: Vec<_> = read[0].iter().map(|span| (span.ink, span.text.as_str())).collect();
        assert_eq!(told, [(Ink::Bold, "a"), (Ink::Plain, " b"), (Ink::More, "c")]);
        assert!(read[1].is_empty());
    }
}
