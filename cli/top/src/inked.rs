//! The text of a view as lines of pieces with their looks: views write for terminals, with the few sequences
//! that a page knows.

use heapattach_view::{Ink, Page, Span};

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
