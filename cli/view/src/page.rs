//! Text on its way to a terminal, a pipe or a file.
//!
//! Even with hostile names, nothing that a terminal obeys leaves this file but our own colours:
//! every other control character is replaced, once and here.

use std::{ffi::OsStr, io::IsTerminal};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use heapattach_text::printable::printable;

/// Terminals that are narrower are taken for this wide: nothing of use fits into less.
const NARROWEST: usize = 40;
/// What stands behind a number and belongs to it.
const UNITS: [&str; 14] =
    ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "%", "k", "M", "s", "ms", "us", "min", "h"];
/// Where a label ends and its text begins.
pub const LABEL: usize = 10;

/// The value of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// On a terminal that has them (not TERM=dumb), unless NO_COLOR is set.
    #[default]
    Auto,
    /// Even into a pipe.
    Always,
    /// Not at all.
    Never,
}

impl Colour {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Always, Self::Never];

    /// Its name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }

    /// Whether it is, on this stream.
    fn is_used(self, stream: &impl IsTerminal) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            // https://no-color.org: set to anything but nothing.
            Self::Auto => {
                stream.is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
                    && knows_colours(std::env::var_os("TERM").as_deref())
            }
        }
    }
}

/// How a piece of text looks, where there is colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ink {
    /// As it comes.
    #[default]
    Plain,
    /// What is to be seen first.
    Bold,
    /// What may be skipped.
    Dim,
    /// More than before.
    More,
    /// Less than before.
    Less,
    /// What makes the numbers doubtful.
    Warning,
}

/// A piece of text.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// How it looks.
    pub ink: Ink,
    /// What it says.
    pub text: String,
}

/// Text as it grows.
#[derive(Clone, Debug, Default)]
pub struct Page {
    text: String,
    width: Option<usize>,
    is_coloured: bool,
}

impl Span {
    /// Of a look.
    pub fn new(ink: Ink, text: impl Into<String>) -> Self {
        Self { ink, text: text.into() }
    }
}

/// Whether a terminal of this kind obeys sequences that change colours.
pub fn knows_colours(term: Option<&OsStr>) -> bool {
    term.is_some_and(|term| !term.is_empty() && term != "dumb")
}

impl<T: Into<String>> From<T> for Span {
    fn from(text: T) -> Self {
        Self::new(Ink::Plain, text)
    }
}

impl Page {
    /// So many columns wide; without a width, as wide as it becomes.
    pub fn new(width: Option<usize>, is_coloured: bool) -> Self {
        Self { text: String::new(), width: width.map(|w| w.max(NARROWEST)), is_coloured }
    }

    /// For standard output, or the error output of `run`: as wide as the terminal.
    pub fn for_stream(colour: Colour, stream: &impl IsTerminal) -> Self {
        let wide = || terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
        let width = stream.is_terminal().then(wide);
        Self::new(width, colour.is_used(stream))
    }

    /// The same, so many columns wide wherever it goes.
    pub fn for_width(colour: Colour, stream: &impl IsTerminal, width: usize) -> Self {
        Self::new(Some(width), colour.is_used(stream))
    }

    /// The columns there are.
    pub fn width(&self) -> Option<usize> {
        self.width
    }

    /// A line of pieces, cut where the page ends.
    pub fn line(&mut self, spans: impl IntoIterator<Item = Span>) {
        let mut room = self.width.unwrap_or(usize::MAX);
        for span in spans {
            let text = shortened(&printable(&span.text), room);
            room -= columns(&text).min(room);
            self.put(span.ink, &text);
        }
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
    }

    /// A label and a text that is to be copied: it is neither cut nor broken.
    pub fn command(&mut self, label: &str, text: &str) {
        self.put(Ink::Bold, &format!("{label:LABEL$}"));
        self.put(Ink::Plain, &printable(text));
        self.text.push('\n');
    }

    /// An empty line.
    pub fn gap(&mut self) {
        self.text.push('\n');
    }

    /// A label and a text, which is broken between words where the page ends.
    pub fn prose(&mut self, label: &str, ink: Ink, text: &str) {
        let room = self.width.map_or(usize::MAX, |width| width - LABEL);
        let text = printable(text);
        for (number, line) in broken(&text, room).into_iter().enumerate() {
            let label = if number == 0 { label } else { "" };
            self.put(Ink::Bold, label);
            let gap = LABEL.saturating_sub(columns(label)).max(1);
            self.put(Ink::Plain, &" ".repeat(gap));
            self.put(ink, &line);
            self.text.push('\n');
        }
    }

    /// Lines that were made for no width: those with a label are broken as prose is; others are whole, since
    /// programs read them.
    pub fn lines(&mut self, text: &str) {
        for line in text.lines() {
            match labelled(line).filter(|_| self.width.is_some_and(|width| columns(line) > width)) {
                Some((label, text)) => self.prose(label, Ink::Plain, text),
                None => {
                    self.text.push_str(line);
                    self.text.push('\n');
                }
            }
        }
    }

    /// All of it.
    pub fn finish(self) -> String {
        self.text
    }

    fn put(&mut self, ink: Ink, text: &str) {
        let code = match ink {
            _ if !self.is_coloured || text.is_empty() => "",
            Ink::Plain => "",
            Ink::Bold => "\x1b[1m",
            Ink::Dim => "\x1b[2m",
            Ink::More => "\x1b[31m",
            Ink::Less => "\x1b[32m",
            Ink::Warning => "\x1b[33m",
        };
        self.text.push_str(code);
        self.text.push_str(text);
        if !code.is_empty() {
            self.text.push_str("\x1b[0m");
        }
    }
}

/// How many columns a text takes.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// A text that takes at most so many columns: its middle goes first, since names begin with what
/// they are about and end with where that is.
pub fn shortened(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let Some(room) = room.checked_sub(1) else { return String::new() };
    let tail = room / 3;
    let (head, tail) = (taken(text.chars(), room - tail), taken(text.chars().rev(), tail));
    let tail: String = tail.chars().rev().collect();
    format!("{head}…{tail}")
}

fn taken(chars: impl Iterator<Item = char>, room: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= room
    };
    chars.take_while(fits).collect()
}

/// A label of capitals, or the room for it, and what comes after.
fn labelled(line: &str) -> Option<(&str, &str)> {
    let (label, text) = line.split_at_checked(LABEL)?;
    let is_label =
        label.ends_with(' ') && label.bytes().all(|c| c == b' ' || c.is_ascii_uppercase());
    (is_label && !text.starts_with(' ')).then_some((label.trim_end(), text))
}

/// Lines of whole words.
fn broken(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words(text) {
        let line = lines.last_mut().expect("there is always a last line");
        let (used, more) = (columns(line), columns(word));
        if used > 0 && used.saturating_add(more).saturating_add(1) > room {
            lines.push(shortened(word, room));
        } else {
            line.push_str(if used > 0 { " " } else { "" });
            line.push_str(&shortened(word, room));
        }
    }
    lines
}

/// What is read as one: `1 442`, `12.3 MiB/s`, `95 %`.
fn words(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = Vec::new();
    let mut from = 0;
    for word in text.split(' ') {
        let end = from + word.len();
        let is_after_number =
            words.last().is_some_and(|last| last.ends_with(|c: char| c.is_ascii_digit()));
        let bare = word.trim_end_matches(|c: char| ",.;:)".contains(c));
        let is_digits = bare.len() == 3 && bare.bytes().all(|byte| byte.is_ascii_digit());
        let is_unit = UNITS.contains(&bare.trim_end_matches("/s"));
        match words.last_mut() {
            Some(last) if is_after_number && (is_digits || is_unit) => {
                *last = &text[from - 1 - last.len()..end];
            }
            _ => words.push(word),
        }
        from = end + 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_broken_from_its_unit() {
        let text = "of 1 442 (961 to 3 873) blocks, 12.3 MiB/s; 95 % of 7 x";
        let told = words(text);
        assert_eq!(told.join(" "), text);
        assert!(told.contains(&"1 442") && told.contains(&"3 873)"), "{told:?}");
        assert!(told.contains(&"12.3 MiB/s;") && told.contains(&"95 %"), "{told:?}");
    }

    #[test]
    fn a_terminal_that_says_what_it_is_has_colours_unless_it_is_dumb() {
        let knows = |term: &str| knows_colours(Some(OsStr::new(term)));
        assert!(knows("xterm-256color") && knows("linux"));
        assert!(!knows("dumb") && !knows("") && !knows_colours(None));
    }

    #[test]
    fn nothing_a_terminal_obeys_is_let_through() {
        let mut page = Page::new(None, true);
        page.line([Span::new(Ink::Bold, "a\u{1b}[2J\r\u{202e}b")]);
        page.prose("x", Ink::Plain, "c\u{9b}2Jd\ne");
        let text = page.finish();
        assert_eq!(text.matches('\u{1b}').count(), 4, "{text:?}");
        assert!(!text.contains(['\r', '\u{202e}', '\u{9b}']), "{text:?}");
        assert_eq!(text.lines().count(), 2, "{text:?}");
    }

    #[test]
    fn without_colour_there_is_text_alone() {
        let mut page = Page::new(Some(80), false);
        page.line([Span::new(Ink::More, "more"), " than".into()]);
        assert_eq!(page.finish(), "more than\n");
    }

    #[test]
    fn a_line_is_cut_in_its_middle_and_never_wider_than_the_page() {
        assert_eq!(shortened("abcdefghij", 7), "abcd…ij");
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!((shortened("abc", 1).as_str(), shortened("abc", 0).as_str()), ("…", ""));
        for room in 0..20 {
            let text = shortened("日本語の名前とname", room);
            assert!(columns(&text) <= room, "{text} {room}");
        }
    }

    #[test]
    fn of_lines_that_are_too_long_those_with_a_label_are_broken() {
        let frame = "    #0 0x1234 in a_function_with_a_long_name src/file.c:1";
        let text = format!(
            "{frame}\nPAUSE     one two three four five six seven eight nine\n          and then the rest of it \
             here\nSUMMARY: heapattach: 0 byte(s) leaked in 0 allocation(s).\n"
        );
        let told = |width| {
            let mut page = Page::new(width, false);
            page.lines(&text);
            page.finish()
        };
        assert_eq!(told(None), text);
        let expected = [
            frame,
            "PAUSE     one two three four five six",
            "          seven eight nine",
            "          and then the rest of it here",
            "SUMMARY: heapattach: 0 byte(s) leaked in 0 allocation(s).",
        ];
        assert_eq!(told(Some(40)).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn prose_is_broken_between_words_under_its_label() {
        let mut page = Page::new(Some(40), false);
        page.prose("VERDICT", Ink::Plain, "one two three four five six seven eight nine");
        let text = page.finish();
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines, ["VERDICT   one two three four five six", "          seven eight nine"]);
    }
}
