//! Writes cells to the terminal: only what the screen needs, and only those that have changed.
//!
//! The crate that does so for crossterm brings a dozen others along, which cost more time to build than this.

use std::{
    fmt::Write as _,
    io::{self, Stdout, Write, stdout},
};

use ratatui_core::{
    backend::{Backend, ClearType, WindowSize},
    buffer::Cell,
    layout::{Position, Size},
    style::{Color, Modifier},
};

/// Standard output as a terminal.
#[derive(Debug)]
pub struct Output {
    stdout: Stdout,
    /// Sequences that are written at once: a terminal shows no half of them.
    text: String,
}

impl Output {
    /// Nothing is written yet.
    pub fn new() -> Self {
        Self { stdout: stdout(), text: String::new() }
    }
}

impl Backend for Output {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        draw(&mut self.text, content);
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.text += "\u{1b}[?25l";
        self.flush()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.text += "\u{1b}[?25h";
        self.flush()
    }

    /// The cursor is hidden, and text is written to places of its own.
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, _: P) -> io::Result<()> {
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.text += "\u{1b}[0m\u{1b}[2J";
        self.flush()
    }

    /// Only all of it is ever cleared.
    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        crossterm::terminal::size().map(|(columns, lines)| Size::new(columns, lines))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.write_all(self.text.as_bytes())?;
        self.text.clear();
        self.stdout.flush()
    }
}

/// What a screen shows of a cell besides its letter.
type Look = (Color, Modifier);

fn draw<'a>(text: &mut String, content: impl Iterator<Item = (u16, u16, &'a Cell)>) {
    let mut look: Option<Look> = None;
    let mut next = None;
    for (column, line, cell) in content {
        if next != Some((column, line)) {
            // Lines and columns are counted from 1. To a string nothing can go wrong.
            let _ = write!(text, "\u{1b}[{};{}H", line.saturating_add(1), column.saturating_add(1));
        }
        next = Some((column.saturating_add(1), line));
        if look != Some((cell.fg, cell.modifier)) {
            look = Some((cell.fg, cell.modifier));
            text.push_str("\u{1b}[0");
            text.push_str(codes((cell.fg, cell.modifier)).as_str());
            text.push('m');
        }
        text.push_str(cell.symbol());
    }
    if look.is_some() {
        text.push_str("\u{1b}[0m");
    }
}

/// The colours and looks that a pen has.
fn codes((colour, modifier): Look) -> String {
    let colour = match colour {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        _ => "",
    };
    let looks = [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")];
    let looks = looks.into_iter().filter(|(look, _)| modifier.contains(*look));
    looks.map(|(_, code)| code).chain([colour]).collect()
}

#[cfg(test)]
mod tests {
    use ratatui_core::{buffer::Buffer, layout::Rect, style::Style};

    use super::*;

    #[test]
    fn cells_are_written_where_they_are_and_a_look_only_when_it_changes() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 2));
        let red = Style::new().fg(Color::Red).add_modifier(Modifier::REVERSED);
        buffer.set_string(0, 0, "ab", Style::new());
        buffer.set_string(2, 0, "c", red);
        let cells = [(0, 0), (1, 0), (2, 0), (5, 1)];
        let mut text = String::new();
        draw(&mut text, cells.into_iter().map(|(x, y)| (x, y, &buffer[(x, y)])));
        assert_eq!(text, "\u{1b}[1;1H\u{1b}[0mab\u{1b}[0;7;31mc\u{1b}[2;6H\u{1b}[0m \u{1b}[0m");
    }
}
