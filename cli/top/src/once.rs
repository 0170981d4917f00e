//! What is shown as text, for a pipe: the same cells, in lines.

use ratatui_core::{
    buffer::{Buffer, Cell},
    layout::Rect,
    style::{Color, Modifier},
};

use crate::{draw::draw, model::Model};

/// Lines besides those of the body.
const BESIDE: u16 = 5;
/// Lines with keys and tabs: of no use where none can be pressed.
const TABS: u16 = 2;
/// No text is longer.
const MOST: usize = 4000;

/// What is shown now, so many columns wide; of rows not more than these.
pub fn text(model: &mut Model, columns: u16, rows: usize, is_coloured: bool) -> String {
    let body = match (&model.processes, model.shows_rows()) {
        (Some(processes), _) if model.is_choosing() => processes.count().min(rows),
        (_, true) => model.listed().len().clamp(1, rows.max(1)) + 1,
        (_, false) => model.text(columns).len(),
    };
    let height = u16::try_from(body.min(MOST)).unwrap_or(u16::MAX).saturating_add(BESIDE);
    let area = Rect::new(0, 0, columns, height.max(BESIDE + 1));
    let mut buffer = Buffer::empty(area);
    draw(model, area, &mut buffer, is_coloured);
    // Of processes that line has the titles.
    let is_tabs = |line: u16| line == TABS && !model.is_choosing();
    let shown = (0..area.height - 1).filter(|line| !is_tabs(*line));
    let mut text = String::new();
    for line in shown {
        let cells: Vec<&Cell> = (0..area.width).map(|column| &buffer[(column, line)]).collect();
        text += written(&cells, is_coloured).trim_end_matches(' ');
        text.push('\n');
    }
    text
}

fn written(cells: &[&Cell], is_coloured: bool) -> String {
    let (mut text, mut at, mut before) = (String::new(), 0, "");
    while let Some(cell) = cells.get(at) {
        let code = if is_coloured { code(cell) } else { "" };
        if code != before {
            text += if before.is_empty() { "" } else { "\u{1b}[0m" };
            text += code;
            before = code;
        }
        text += cell.symbol();
        // What is two columns wide has the next cell, too.
        at += heapattach_view::columns(cell.symbol()).max(1);
    }
    text += if before.is_empty() { "" } else { "\u{1b}[0m" };
    text
}

fn code(cell: &Cell) -> &'static str {
    match (cell.fg, cell.modifier) {
        (Color::Red, _) => "\u{1b}[31m",
        (Color::Green, _) => "\u{1b}[32m",
        (Color::Yellow, _) => "\u{1b}[33m",
        (_, modifier) if modifier.contains(Modifier::BOLD) => "\u{1b}[1m",
        (_, modifier) if modifier.contains(Modifier::DIM) => "\u{1b}[2m",
        _ => "",
    }
}
