//! Rows of cells under one another. The last column is for names: it gets what the others leave, and
//! what can be done without goes when that is too little: intervals of what is said beside, drawings,
//! the other intervals, then columns. That intervals are left out is said below the table.

use heapattach_verdict::figure::Figure;

use super::{
    name::{fitted, least},
    page::{Ink, Page, Span, columns},
};

/// A name needs so many columns to say anything.
const NAME: usize = 44;
/// Between callers, and in the place of those that find no room.
const BEFORE: &str = " < ";
const MORE: &str = " < ...";
/// Between columns.
const GAP: usize = 2;
const LEFT_OUT: &str = "95 % CIs are left out for want of room (--json has them)";

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    title: &'static str,
    is_left: bool,
    need: Need,
    /// Whether it is cut at its end, and is no name.
    is_code: bool,
}

/// What goes first where the page is narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Drawing,
    Spare,
    Always,
}

/// What stands in a column.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    span: Span,
    /// Between parentheses behind it, where there is room.
    interval: String,
}

/// Rows under titles.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
enum Row {
    Cells(Vec<Cell>),
    /// Who called, below the name of a row.
    Callers(Vec<String>),
}

/// What of a table is shown.
struct Layout {
    /// Columns, by their numbers.
    shown: Vec<usize>,
    /// By column, whether its intervals are.
    intervals: Vec<bool>,
    /// By column, how wide it is.
    widths: Vec<usize>,
}

impl Column {
    /// For numbers.
    pub const fn right(title: &'static str) -> Self {
        Self { title, is_left: false, need: Need::Always, is_code: false }
    }

    /// For words.
    pub const fn left(title: &'static str) -> Self {
        Self { title, is_left: true, need: Need::Always, is_code: false }
    }

    /// For lines of source, as the last column.
    pub const fn code(title: &'static str) -> Self {
        Self { is_code: true, ..Self::left(title) }
    }

    /// For what is drawn, and told by another column, too.
    pub const fn drawing() -> Self {
        Self { need: Need::Drawing, ..Self::left("") }
    }

    /// The same, for what a narrow page does without.
    pub const fn spare(self) -> Self {
        Self { need: Need::Spare, ..self }
    }
}

impl Cell {
    /// A number with its interval.
    pub fn figure(ink: Ink, figure: Figure) -> Self {
        Self { span: Span::new(ink, figure.value), interval: figure.interval }
    }

    fn text(&self, with_interval: bool) -> String {
        match with_interval && !self.interval.is_empty() {
            true => format!("{} ({})", self.span.text, self.interval),
            false => self.span.text.clone(),
        }
    }
}

impl From<Figure> for Cell {
    fn from(figure: Figure) -> Self {
        Self::figure(Ink::Plain, figure)
    }
}

impl From<Span> for Cell {
    fn from(span: Span) -> Self {
        Self { span, interval: String::new() }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Span::from(text).into()
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Span::from(text).into()
    }
}

impl Table {
    /// Without rows yet.
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new() }
    }

    /// One more row, with a cell for every column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        self.rows.push(Row::Cells(cells.into_iter().map(Into::into).collect()));
    }

    /// Who called, the nearest first, below the name of the last row: as many as there is room for.
    pub fn callers(&mut self, names: impl IntoIterator<Item = String>) {
        self.rows.push(Row::Callers(names.into_iter().collect()));
    }

    /// Onto a page.
    pub fn write(&self, page: &mut Page) {
        let layout = self.layout(page.width());
        let before = layout.before_name(self.columns.len());
        let room = page.width().map_or(usize::MAX, |width| width.saturating_sub(before));
        let titles = self.columns.iter().map(|column| Span::new(Ink::Dim, column.title).into());
        self.write_cells(page, &titles.collect::<Vec<_>>(), &layout, room);
        for row in &self.rows {
            match row {
                Row::Cells(cells) => self.write_cells(page, cells, &layout, room),
                Row::Callers(names) => {
                    let told = Span::new(Ink::Dim, chain(names, room));
                    page.line([" ".repeat(before).into(), told]);
                }
            }
        }
        if (0..self.columns.len()).any(|at| self.has_intervals(at) && !layout.tells(at)) {
            page.line([Span::new(Ink::Dim, LEFT_OUT)]);
        }
    }

    /// What is shown on a page of so many columns.
    fn layout(&self, page: Option<usize>) -> Layout {
        let count = self.columns.len();
        let mut layout = Layout {
            shown: (0..count).collect(),
            intervals: vec![true; count],
            widths: (0..count).map(|at| self.width(at, true)).collect(),
        };
        let wanted = self.wanted();
        while page.is_some_and(|width| layout.before_name(count) + wanted > width) {
            let last = |is_it: &dyn Fn(usize) -> bool| {
                layout.shown.iter().copied().rev().find(|&at| is_it(at))
            };
            let needs = |at: usize, need| self.columns[at].need == need;
            let has_interval = |at: usize| layout.intervals[at] && self.has_intervals(at);
            let interval = last(&|at| needs(at, Need::Spare) && has_interval(at));
            let drawing = last(&|at| needs(at, Need::Drawing));
            let other = last(&has_interval);
            let spare = last(&|at| needs(at, Need::Spare));
            match (interval, drawing, other, spare) {
                (Some(at), ..) | (None, None, Some(at), _) => {
                    layout.intervals[at] = false;
                    layout.widths[at] = self.width(at, false);
                }
                (None, Some(at), ..) | (None, None, None, Some(at)) => {
                    layout.shown.retain(|&shown| shown != at);
                }
                (None, None, None, None) => break,
            }
        }
        layout
    }

    /// Columns for the names: for each its own, at least.
    fn wanted(&self) -> usize {
        let Some(last) = self.columns.len().checked_sub(1) else { return 0 };
        let cells = self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => cells.get(last),
            Row::Callers(_) => None,
        });
        if self.columns[last].is_code {
            return self.width(last, false).min(NAME);
        }
        let own = cells.map(|cell| least(&cell.span.text)).max().unwrap_or(0);
        self.width(last, false).min(NAME).max(own)
    }

    fn has_intervals(&self, at: usize) -> bool {
        self.rows.iter().any(|row| match row {
            Row::Cells(cells) => cells.get(at).is_some_and(|cell| !cell.interval.is_empty()),
            Row::Callers(_) => false,
        })
    }

    fn write_cells(&self, page: &mut Page, cells: &[Cell], layout: &Layout, room: usize) {
        let mut spans = Vec::new();
        for &at in &layout.shown {
            let Some(cell) = cells.get(at) else { continue };
            let is_last = at + 1 == self.columns.len();
            let text = cell.text(layout.intervals[at]);
            let text = match (is_last, self.columns[at].is_code) {
                (false, _) => text,
                (true, false) => fitted(&text, room),
                (true, true) => cut(&text, room),
            };
            let missing = layout.widths[at].saturating_sub(columns(&text));
            let (before, after) =
                if self.columns[at].is_left { (0, missing) } else { (missing, 0) };
            spans.push(" ".repeat(before).into());
            spans.push(Span::new(cell.span.ink, text));
            if !is_last {
                spans.push(" ".repeat(after + GAP).into());
            }
        }
        page.line(spans);
    }

    fn width(&self, at: usize, with_interval: bool) -> usize {
        let cells = self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => cells.get(at).map(|cell| columns(&cell.text(with_interval))),
            Row::Callers(_) => None,
        });
        cells.max().unwrap_or(0).max(columns(self.columns[at].title))
    }
}

impl Layout {
    /// Columns before the last one of so many.
    fn before_name(&self, count: usize) -> usize {
        let others = self.shown.iter().filter(|&&at| at + 1 < count);
        others.map(|&at| self.widths[at] + GAP).sum()
    }

    /// Whether a column is there with its intervals, or is not there at all.
    fn tells(&self, at: usize) -> bool {
        self.intervals[at] || !self.shown.contains(&at)
    }
}

/// As much of it as there is room for.
fn cut(text: &str, room: usize) -> String {
    let fits = |(at, _): &(usize, char)| columns(&text[..*at]) <= room;
    let end = text.char_indices().take_while(fits).last().map_or(0, |(at, _)| at);
    if columns(text) <= room { text.to_owned() } else { text[..end].to_owned() }
}

/// Names from the nearest on; those that find no room are a few dots.
fn chain(names: &[String], room: usize) -> String {
    let first = names.first().map_or("", String::as_str);
    let more = if names.len() > 1 { columns(MORE) } else { 0 };
    let mut text = format!("from {}", fitted(first, room.saturating_sub("from ".len() + more)));
    for (number, name) in names.iter().enumerate().skip(1) {
        let last = number + 1 == names.len();
        let more = columns(BEFORE) + columns(name) + if last { 0 } else { columns(MORE) };
        if columns(&text).saturating_add(more) > room {
            text.push_str(MORE);
            break;
        }
        text.push_str(BEFORE);
        text.push_str(name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(width: Option<usize>) -> String {
        let columns = [Column::right("held"), Column::drawing(), Column::left("by")];
        let mut table = Table::new(columns);
        table.row(["1.0 MiB", "####", "a_function_with_a_rather_long_name (a.c:1)"]);
        table.callers(["main", "_start", "a_third_caller"].map(str::to_owned));
        let mut page = Page::new(width, false);
        table.write(&mut page);
        page.finish()
    }

    #[test]
    fn a_wide_page_has_every_column() {
        let expected = "   held        by\n\
                        1.0 MiB  ####  a_function_with_a_rather_long_name (a.c:1)\n               \
                        from main < _start < a_third_caller\n";
        assert_eq!(written(None), expected);
    }

    #[test]
    fn a_narrow_page_does_without_what_is_spare_and_shortens_the_name() {
        let expected = "   held  by\n1.0 MiB  a_function_with_a_rath…_long_name\n         \
             from main < _start < ...\n";
        assert_eq!(written(Some(42)), expected);
    }

    /// Of samples, on a page of so many columns.
    fn sampled(width: usize) -> Vec<String> {
        let columns = [
            Column::right("in use"),
            Column::right("part"),
            Column::drawing(),
            Column::right("allocated").spare(),
            Column::left("where"),
        ];
        let mut table = Table::new(columns);
        let figure = |value: &str, interval: &str| Figure {
            value: value.to_owned(),
            interval: interval.to_owned(),
        };
        let cells: [Cell; 5] = [
            figure("71.0 KiB", "71.0 to 189.0 KiB").into(),
            figure("69 %", "30 to 99.5 %").into(),
            "######".into(),
            figure("90.0 KiB", "80.0 to 99.0 KiB").into(),
            "story::Index<int, std::string>::insert (story.cpp:17)".into(),
        ];
        table.row(cells);
        let mut page = Page::new(Some(width), false);
        table.write(&mut page);
        page.finish().lines().map(str::to_owned).collect()
    }

    #[test]
    fn intervals_go_before_columns_and_that_is_said() {
        let row = |width| sampled(width)[1].clone();
        let whole = "71.0 KiB (71.0 to 189.0 KiB)  69 % (30 to 99.5 %)  ######  90.0 KiB (80.0 to 99.0 KiB)  \
                     story::Index<int, std::string>::insert (story.cpp:17)";
        assert_eq!(row(150), whole);
        assert_eq!(sampled(150).len(), 2);
        let told = "71.0 KiB (71.0 to 189.0 KiB)  69 % (30 to 99.5 %)   90.0 KiB  \
                    story::Index<...>::insert (story.cpp:17)";
        assert_eq!(row(110), told);
        assert_eq!(
            row(90),
            "71.0 KiB  69 %   90.0 KiB  story::Index<int, std::string>::insert (story.cpp:17)"
        );
        assert_eq!(sampled(90)[2], LEFT_OUT);
        assert_eq!(row(60), "71.0 KiB  69 %  story::Index<...>::insert (story.cpp:17)");
        assert_eq!(row(42), "71.0 KiB  69 %  …::insert (story.cpp:17)");
    }
}
