//! Rows of sites.

use heapattach_profile::Estimate;
use heapattach_view::{Ink, Span, columns, fitted, sparkline};
use ratatui_core::layout::Rect;

use super::pen::Pen;
use crate::{compact, history::Course, model::Model, rows::Row, tab::Tab};

/// Columns of a figure with its interval, and of a change.
const FIGURE: usize = 16;
const CHANGE: usize = 19;
/// Columns of a course; it is drawn from so many columns of the page on.
const COURSE: usize = 14;
const WIDE: u16 = 100;
/// Number of blocks, on a page that is wider still.
const BLOCKS: usize = 10;
const WIDER: u16 = 130;

/// What stands in a row.
struct Layout {
    has_blocks: bool,
    has_course: bool,
    name: usize,
}

impl Layout {
    fn of(width: u16) -> Self {
        let (has_blocks, has_course) = (width >= WIDER, width >= WIDE);
        let mut used = FIGURE + CHANGE + FIGURE + 3;
        used += if has_blocks { BLOCKS + 1 } else { 0 };
        used += if has_course { COURSE + 1 } else { 0 };
        Self { has_blocks, has_course, name: usize::from(width).saturating_sub(used) }
    }
}

/// Figures with their intervals, their growth, rate and course, and whose they are.
pub fn draw(model: &mut Model, area: Rect, pen: &mut Pen<'_>) {
    let layout = Layout::of(area.width);
    pen.put(area, 0, 0, &titles(&layout, model.tab));
    let room = usize::from(area.height - 1);
    (model.drawn.first_line, model.drawn.room) = (area.y + 1, room);
    let count = model.listed().len();
    model.above = model.above.min(count.saturating_sub(room.max(1)));
    let place = model.place();
    let Some(watched) = model.watched() else { return };
    let seen = model.listed().iter().enumerate().skip(model.above).take(room);
    for (line, (number, at)) in (1..).zip(seen) {
        let row = &watched.rows[*at];
        let live = if layout.has_course { watched.live_course(row) } else { Vec::new() };
        let cells = cells(&layout, row, &watched.course(row), &live);
        pen.put(area, 0, line, &cells);
        if number == place {
            pen.invert(Rect { y: area.y + line, height: 1, ..area });
        }
    }
    if count == 0 && watched.snapshot.is_some() {
        pen.put(area, 0, 1, &[Span::new(Ink::Dim, "none")]);
    }
}

fn titles(layout: &Layout, tab: Tab) -> Vec<Span> {
    let title = |of: Tab, text: &str, width: usize| {
        let ink = if of == tab { Ink::Bold } else { Ink::Dim };
        Span::new(ink, format!("{text:>width$} "))
    };
    let mut spans = vec![title(Tab::Live, "LIVE ±", FIGURE)];
    if layout.has_blocks {
        spans.push(title(Tab::Log, "BLOCKS", BLOCKS));
    }
    spans.push(title(Tab::Growth, "GROWTH/min ±", CHANGE));
    spans.push(title(Tab::Rate, "ALLOCATED/s ±", FIGURE));
    if layout.has_course {
        spans.push(Span::new(Ink::Dim, format!("{:<COURSE$} ", "LAST MINUTE")));
    }
    spans.push(Span::new(Ink::Dim, "WHERE"));
    spans
}

fn cells(layout: &Layout, row: &Row, course: &Course, live: &[f64]) -> Vec<Span> {
    let right = |ink, text: String, width: usize| {
        let gap = width.saturating_sub(columns(&text));
        Span::new(ink, format!("{}{text} ", " ".repeat(gap)))
    };
    let mut spans = vec![right(Ink::Plain, compact::with_interval(row.live()), FIGURE)];
    if layout.has_blocks {
        spans.push(right(Ink::Plain, format!("{:.0}", row.blocks().value), BLOCKS));
    }
    let (ink, growth) = growth(course.growth);
    spans.push(right(ink, growth, CHANGE));
    let rate = course.rate.map_or("-".to_owned(), compact::with_interval);
    spans.push(right(Ink::Plain, rate, FIGURE));
    if layout.has_course {
        let drawn = sparkline(live, COURSE);
        let gap = COURSE.saturating_sub(columns(&drawn));
        spans.push(Span::new(Ink::More, format!("{drawn}{} ", " ".repeat(gap))));
    }
    spans.push(Span::from(fitted(&row.words, layout.name)));
    spans
}

/// What is more than chance has a colour, and an arrow for those without.
fn growth(growth: Option<Estimate>) -> (Ink, String) {
    match growth {
        None => (Ink::Dim, "-".to_owned()),
        Some(growth) if growth.low > 0.0 => (Ink::More, format!("{} ↑", compact::change(growth))),
        Some(growth) if growth.high < 0.0 => (Ink::Less, format!("{} ↓", compact::change(growth))),
        Some(growth) => (Ink::Plain, format!("{}  ", compact::change(growth))),
    }
}
