//! Writes pieces of text into cells. Nothing that a terminal obeys gets there.

use heapattach_text::printable::printable;
use heapattach_view::{Ink, Span, columns};
use ratatui_core::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier, Style},
};

/// What is written with.
pub struct Pen<'a> {
    /// Where to.
    pub buffer: &'a mut Buffer,
    /// Whether there are colours.
    pub is_coloured: bool,
}

impl Pen<'_> {
    /// Writes pieces from a column of a line of `area` on, cut where it ends; answers the column behind.
    pub fn put(&mut self, area: Rect, column: u16, line: u16, spans: &[Span]) -> u16 {
        let mut at = column;
        for span in spans {
            let room = usize::from(area.width.saturating_sub(at));
            if room == 0 || line >= area.height {
                break;
            }
            let (x, y, style) = (area.x + at, area.y + line, self.style(span.ink));
            let (x, _) = self.buffer.set_stringn(x, y, printable(&span.text), room, style);
            at = x - area.x;
        }
        at
    }

    /// Writes pieces that end where `area` does.
    pub fn put_right(&mut self, area: Rect, line: u16, spans: &[Span]) {
        let width: usize = spans.iter().map(|span| columns(&span.text)).sum();
        let column = area.width.saturating_sub(u16::try_from(width).unwrap_or(u16::MAX));
        self.put(area, column, line, spans);
    }

    /// Inverts cells.
    pub fn invert(&mut self, area: Rect) {
        self.buffer.set_style(area, Style::new().add_modifier(Modifier::REVERSED));
    }

    fn style(&self, ink: Ink) -> Style {
        let colour = |colour: Color| match self.is_coloured {
            true => Style::new().fg(colour),
            false => Style::new(),
        };
        match ink {
            Ink::Plain => Style::new(),
            Ink::Bold => Style::new().add_modifier(Modifier::BOLD),
            Ink::Dim => Style::new().add_modifier(Modifier::DIM),
            Ink::More => colour(Color::Red),
            Ink::Less => colour(Color::Green),
            Ink::Warning => colour(Color::Yellow),
        }
    }
}
