//! A run as Markdown: the machine, the goals, a table for each figure of each part, and what failed.

use std::fmt::{self, Display, Formatter};

use super::{Outcome, book::Row, goals::Verdict, slopes, tool::rank};
use crate::measure::Spread;

/// Works beside each other in one table.
const COLUMNS: usize = 5;

/// An outcome as a reader wants it.
pub(super) struct Markdown<'a>(pub(super) &'a Outcome);

impl Display for Markdown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Outcome { rounds, seed, seconds, .. } = self.0;
        writeln!(f, "# heapattach beside its peers\n")?;
        writeln!(
            f,
            "{rounds} rounds, seed {seed}, {seconds:.0} s. Medians of interleaved rounds, and in"
        )?;
        writeln!(
            f,
            "brackets between what half of the measurements lay. *failed*: see the end.\n"
        )?;
        writeln!(f, "## Machine and versions\n\n| what | version |\n|---|---|")?;
        for (name, value) in &self.0.machine {
            writeln!(f, "| {name} | {} |", cell(value))?;
        }
        self.write_goals(f)?;
        for part in unique(self.0.rows.iter().map(|row| &*row.part)) {
            writeln!(f, "\n## Part `{part}`")?;
            let of_part = || self.0.rows.iter().filter(|row| row.part == part);
            for figure in unique(of_part().map(|row| &*row.figure)) {
                self.write_figure(f, part, figure)?;
            }
            if part == slopes::PART {
                self.write_slopes(f)?;
            }
        }
        self.write_failures(f)
    }
}

impl Markdown<'_> {
    fn write_goals(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n## Goals\n\n| wanted | got | |\n|---|---|---|")?;
        for goal in &self.0.goals {
            let verdict = match goal.verdict {
                Verdict::Reached => "reached",
                Verdict::WithinNoise => "within the noise",
                Verdict::Missed => "**missed**",
                Verdict::NotMeasured => "not measured",
            };
            writeln!(f, "| {} | {} | {verdict} |", cell(&goal.wanted), goal.got)?;
        }
        Ok(())
    }

    fn write_figure(&self, f: &mut Formatter<'_>, part: &str, figure: &str) -> fmt::Result {
        let rows: Vec<&Row> =
            self.0.rows.iter().filter(|row| row.part == part && row.figure == figure).collect();
        let Some(unit) = rows.first().map(|row| &*row.unit) else { return Ok(()) };
        let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
        writeln!(f, "\n### {figure}{unit}")?;
        let works = unique(rows.iter().map(|row| &*row.work));
        for works in works.chunks(COLUMNS) {
            writeln!(f, "\n| | {} |", works.join(" | "))?;
            writeln!(f, "|---|{}", "---:|".repeat(works.len()))?;
            for tool in self.tools(part, &rows, works) {
                let cells: Vec<String> =
                    works.iter().map(|work| self.cell(part, work, tool, figure)).collect();
                writeln!(f, "| {tool} | {} |", cells.join(" | "))?;
            }
        }
        Ok(())
    }

    /// How the figures grow along their curves.
    fn write_slopes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n### slopes\n")?;
        writeln!(
            f,
            "The power of what is varied that a figure grows with, 0 is flat and 1 in proportion:"
        )?;
        writeln!(f, "from the first point to the last, and between the last two.\n")?;
        writeln!(
            f,
            "| over | tool | figure | from | to | all | end | |\n|---|---|---|---:|---:|---:|---:|---|"
        )?;
        for slope in slopes::slopes(&self.0.rows) {
            let [from, to] = slope.ends.map(|(x, y)| format!("{} at {x}", number_of(y)));
            let power =
                |at: usize| slope.powers.map_or("-".to_owned(), |all| format!("{:.2}", all[at]));
            let (what, tool, words) = (slope.what, slope.tool, slope.words());
            let unit = if slope.unit.is_empty() { "" } else { ", " };
            let figure = format!("{}{unit}{}", slope.figure, slope.unit);
            let (all, end) = (power(0), power(1));
            writeln!(
                f,
                "| {what} | {tool} | {figure} | {from} | {to} | {all} | {end} | {words} |"
            )?;
        }
        Ok(())
    }

    /// Those that have something to tell of these works, if only that they failed.
    fn tools<'a>(&'a self, part: &str, rows: &[&'a Row], works: &[&str]) -> Vec<&'a str> {
        let measured = rows.iter().filter(|row| works.contains(&&*row.work)).map(|row| &*row.tool);
        let is_meant = |work: &str| works.contains(&work);
        let failed = self.0.failures.iter().filter(|one| one.part == part && is_meant(&one.work));
        let mut tools = unique(measured.chain(failed.map(|one| &*one.tool)));
        tools.sort_by_key(|tool| rank(tool));
        tools
    }

    fn cell(&self, part: &str, work: &str, tool: &str, figure: &str) -> String {
        let failed = || {
            self.0
                .failures
                .iter()
                .any(|one| (&*one.part, &*one.work, &*one.tool) == (part, work, tool))
        };
        match self.0.row(part, work, tool, figure) {
            Some(row) => told(row.spread),
            None if failed() => "*failed*".to_owned(),
            None => "-".to_owned(),
        }
    }

    fn write_failures(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.failures.is_empty() {
            return writeln!(f, "\nNothing failed.");
        }
        writeln!(f, "\n## Failed or missing\n\n| part | work | tool | why |\n|---|---|---|---|")?;
        for one in &self.0.failures {
            writeln!(f, "| {} | {} | {} | {} |", one.part, one.work, one.tool, cell(&one.why))?;
        }
        Ok(())
    }
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut unique = Vec::new();
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    unique
}

/// What would end a cell of a table is told otherwise.
fn cell(text: &str) -> String {
    text.replace('|', "/").replace('\n', " ")
}

fn told(spread: Spread) -> String {
    let Spread { low, median, high, number, .. } = spread;
    if number < 2 {
        return number_of(median);
    }
    format!("{} ({} to {})", number_of(median), number_of(low), number_of(high))
}

/// With three digits that say something.
pub(super) fn number_of(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.9 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::peers::{
        book::{Book, Place},
        figure::Figure,
    };

    #[test]
    fn a_peer_that_failed_is_a_row_that_says_so() {
        let mut book = Book::default();
        let at = Place { part: "race", work: "redis", tool: "plain program" };
        book.note(at, Figure::TIMES, 0, 1.0);
        book.note(at, Figure::TIMES, 1, 1.5);
        book.fail(Place { tool: "heaptrack", ..at }, "missing | gone");
        let outcome = Outcome::new(&book, BTreeMap::new(), (2, 1), 1.0);
        let text = Markdown(&outcome).to_string();
        assert!(text.contains("| plain program | 1.000 (1.000 to 1.500) |"), "{text}");
        assert!(text.contains("| heaptrack | *failed* |"), "{text}");
        assert!(text.contains("| race | redis | heaptrack | missing / gone |"), "{text}");
    }
}
