//! Pictures of a run, drawn by hand as SVG of a few KiB.

mod bars;
mod canvas;
mod lines;

use super::{Outcome, book::Row, figure::Figure, tool::rank};
use bars::{Bar, Bars};
use lines::{Line, Lines};

/// Slow-downs are drawn of the works whose names begin so; what the files are called.
const RACES: [(&str, &str); 5] = [
    ("malloc loop, 1 thread, depth 10", "slow-down-malloc"),
    ("redis: set, get", "slow-down-redis"),
    ("sqlite3", "slow-down-sqlite3"),
    ("python3", "slow-down-python3"),
    ("nginx", "slow-down-nginx"),
];

/// What is drawn of the curves.
const DRAWN: [Figure; 5] =
    [Figure::ADDED, Figure::TIMES, Figure::STOP_AT_ATTACH, Figure::ATTACH, Figure::FILE];

/// All pictures that the rows of a run give, with the names of their files.
pub(super) fn all(outcome: &Outcome) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (work, file) in RACES {
        let of_race = |row: &&Row| row.part == "race" && row.work.starts_with(work);
        files.extend(bars_of(outcome, of_race, Figure::TIMES, file));
    }
    let of_stops = |row: &&Row| row.part == "stops";
    files.extend(bars_of(outcome, of_stops, Figure::SILENCE_AT_ATTACH, "stops"));
    files.extend(curves(outcome));
    files
}

fn bars_of(
    outcome: &Outcome,
    is_meant: impl Fn(&&Row) -> bool,
    figure: Figure,
    file: &str,
) -> Option<(String, String)> {
    let rows: Vec<&Row> =
        outcome.rows.iter().filter(is_meant).filter(|row| row.figure == figure.name).collect();
    let first = rows.first()?;
    let bars: Vec<Bar<'_>> = rows
        .iter()
        .filter(|row| row.work == first.work)
        .map(|row| Bar { name: &row.tool, spread: Some(row.spread) })
        .collect();
    let failures = outcome.failures.iter().filter(|one| {
        one.part == first.part
            && one.work == first.work
            && bars.iter().all(|bar| bar.name != one.tool)
    });
    let failed: Vec<Bar<'_>> = failures.map(|one| Bar { name: &one.tool, spread: None }).collect();
    let title = format!("{}: {}, {}", first.work, figure.name, figure.unit);
    let mut bars: Vec<Bar<'_>> = bars.into_iter().chain(failed).collect();
    bars.sort_by_key(|bar| rank(bar.name));
    let bars = Bars { title: &title, bars };
    Some((format!("{file}.svg"), bars.draw()))
}

/// A line for each tool over the number in the names of works: of the curves `WHAT = NUMBER`, of the
/// pauses `NUMBER blocks of SIZE`.
fn curves(outcome: &Outcome) -> Vec<(String, String)> {
    let mut charts: Vec<(String, Vec<Line<'_>>)> = Vec::new();
    for row in &outcome.rows {
        let Some((title, x)) = point(row) else { continue };
        let index = charts.iter().position(|(own, _)| *own == title).unwrap_or_else(|| {
            charts.push((title, Vec::new()));
            charts.len() - 1
        });
        let lines = &mut charts[index].1;
        let line = lines.iter().position(|line| line.name == row.tool).unwrap_or_else(|| {
            lines.push(Line { name: &row.tool, points: Vec::new() });
            lines.len() - 1
        });
        lines[line].points.push((x, row.spread.median));
    }
    let is_curve = |(_, lines): &(String, Vec<Line<'_>>)| lines.iter().any(|l| l.points.len() > 1);
    let charts = charts.into_iter().filter(is_curve);
    charts
        .map(|(title, lines)| (file_name(&title), Lines { title: &title, lines }.draw()))
        .collect()
}

/// The picture that a row belongs to, and where in it.
fn point(row: &Row) -> Option<(String, f64)> {
    let is_drawn = |figures: &[Figure]| figures.iter().any(|figure| figure.name == row.figure);
    let number = |text: &str| text.replace(',', "").parse::<f64>().ok();
    match &*row.part {
        "curves" if is_drawn(&DRAWN) => {
            let (what, x) = row.work.split_once(" = ")?;
            Some((format!("{}, {}, over {what}", row.figure, row.unit), number(x)?))
        }
        "pauses" if is_drawn(&[Figure::PAUSE, Figure::FORK]) => {
            let (x, size) = row.work.split_once(" blocks of ")?;
            Some((format!("pause of a check, {}, over blocks of {size}", row.unit), number(x)?))
        }
        _ => None,
    }
}

fn file_name(title: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = title.chars().map(plain).collect();
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
    format!("curve-{}.svg", words.join("-"))
}
