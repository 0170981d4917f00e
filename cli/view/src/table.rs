//! Rows of cells under one another. The last column is for names: it gets what the others leave,
//! and columns that can be done without go when that is too little.

use super::page::{Ink, Page, Span, columns};

/// A name needs so many columns to say anything.
const NAME: usize = 34;
/// Between callers, and in the place of those that find no room.
const BEFORE: &str = " < ";
const MORE: &str = " < ...";
/// Between columns.
const GAP: usize = 2;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    title: &'static str,
    is_left: bool,
    /// Whether it goes where the page is narrow.
    is_spare: bool,
}

/// Rows under titles.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
enum Row {
    Cells(Vec<Span>),
    /// Who called, below the name of a row.
    Callers(Vec<String>),
}

impl Column {
    /// For numbers.
    pub const fn right(title: &'static str) -> Self {
        Self { title, is_left: false, is_spare: false }
    }

    /// For words.
    pub const fn left(title: &'static str) -> Self {
        Self { title, is_left: true, is_spare: false }
    }

    /// The same, for what a narrow page does without.
    pub const fn spare(self) -> Self {
        Self { is_spare: true, ..self }
    }
}

impl Table {
    /// Without rows yet.
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new() }
    }

    /// One more row, with a cell for every column.
    pub fn row(&mut self, cells: impl Into<Vec<Span>>) {
        self.rows.push(Row::Cells(cells.into()));
    }

    /// Who called, the nearest first, below the name of the last row: as many as there is room for.
    pub fn callers(&mut self, names: impl IntoIterator<Item = String>) {
        self.rows.push(Row::Callers(names.into_iter().collect()));
    }

    /// Onto a page.
    pub fn write(&self, page: &mut Page) {
        let widths: Vec<usize> = (0..self.columns.len()).map(|at| self.width(at)).collect();
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let last = self.columns.len().saturating_sub(1);
        let before_name = |shown: &[usize]| -> usize {
            shown.iter().filter(|&&at| at != last).map(|&at| widths[at] + GAP).sum()
        };
        let wanted = widths.get(last).copied().unwrap_or(0).min(NAME);
        while page.width().is_some_and(|width| before_name(&shown) + wanted > width)
            && let Some(spare) = shown.iter().rposition(|&at| self.columns[at].is_spare)
        {
            shown.remove(spare);
        }
        let titles = self.columns.iter().map(|column| Span::new(Ink::Dim, column.title));
        self.write_cells(page, &titles.collect::<Vec<_>>(), &shown, &widths);
        for row in &self.rows {
            match row {
                Row::Cells(cells) => self.write_cells(page, cells, &shown, &widths),
                Row::Callers(names) => {
                    let before = before_name(&shown);
                    let room =
                        page.width().map_or(usize::MAX, |width| width.saturating_sub(before));
                    let told = Span::new(Ink::Dim, chain(names, room));
                    page.line([" ".repeat(before).into(), told]);
                }
            }
        }
    }

    fn write_cells(&self, page: &mut Page, cells: &[Span], shown: &[usize], widths: &[usize]) {
        let mut spans = Vec::new();
        for &at in shown {
            let Some(cell) = cells.get(at) else { continue };
            let missing = widths[at].saturating_sub(columns(&cell.text));
            let (before, after) =
                if self.columns[at].is_left { (0, missing) } else { (missing, 0) };
            spans.push(" ".repeat(before).into());
            spans.push(cell.clone());
            if at + 1 < self.columns.len() {
                spans.push(" ".repeat(after + GAP).into());
            }
        }
        page.line(spans);
    }

    fn width(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| match row {
            Row::Cells(cells) => cells.get(at).map(|cell| columns(&cell.text)),
            Row::Callers(_) => None,
        });
        cells.max().unwrap_or(0).max(columns(self.columns[at].title))
    }
}

/// Names from the nearest on; those that find no room are a few dots.
fn chain(names: &[String], room: usize) -> String {
    let mut text = format!("from {}", names.first().map_or("", String::as_str));
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
        let columns = [Column::right("held"), Column::left("bar").spare(), Column::left("by")];
        let mut table = Table::new(columns);
        table.row([
            "1.0 MiB".into(),
            "####".into(),
            "a_function_with_a_rather_long_name (a.c:1)".into(),
        ]);
        table.callers(["main", "_start", "a_third_caller"].map(str::to_owned));
        let mut page = Page::new(width, false);
        table.write(&mut page);
        page.finish()
    }

    #[test]
    fn a_wide_page_has_every_column() {
        let expected = "   held  bar   by\n\
                        1.0 MiB  ####  a_function_with_a_rather_long_name (a.c:1)\n               \
                        from main < _start < a_third_caller\n";
        assert_eq!(written(None), expected);
    }

    #[test]
    fn a_narrow_page_does_without_what_is_spare_and_shortens_the_name() {
        let expected = "   held  by\n1.0 MiB  a_function_with_a_rath…me (a.c:1)\n         \
             from main < _start < ...\n";
        assert_eq!(written(Some(42)), expected);
    }
}
