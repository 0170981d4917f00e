//! Requested against occupied bytes, and what blocks keep in memory beside them, by who allocated them.

use heapattach_report::{MergedSite, PlacedSites, SiteSums};
use heapattach_text::quantity::{bytes, count};

use super::likely_sites;
use crate::{
    page::{Ink, Page},
    table::{Column, Table},
};

/// Callers that a row has.
const CALLERS: usize = 3;

/// What the first column has, and is called.
type Value = (&'static str, fn(&SiteSums) -> f64);

/// Writes the largest of each kind.
pub fn tell_placed_sites(sites: &PlacedSites, rows: usize, mut page: Page) -> String {
    page.gap();
    let SiteSums { blocks, requested, occupied, pinned, cold } = &sites.total;
    let rounding = sites.total.rounding();
    let text = format!(
        "{} blocks of the session are in use: {} requested, {} occupied ({:+.1} %); beside them {} are free on their \
         pages, slabs and spans and cannot go back to the kernel",
        count(whole(blocks.value)),
        bytes(whole(requested.value)),
        bytes(whole(occupied.value)),
        rounding * 100.0 / requested.value.max(1.0),
        bytes(whole(pinned.value)),
    );
    page.prose("SITES", Ink::Bold, &text);
    if sites.found < sites.recorded {
        let text = format!(
            "{} of {} recorded blocks were found when the second moment was taken; the others had been freed, or are \
             in memory that no walker knows",
            count(sites.found),
            count(sites.recorded)
        );
        page.prose("", Ink::Dim, &text);
    }
    if let Some(cold) = cold {
        let text = format!(
            "{} of them were not written in the time after the session in which that was watched",
            bytes(whole(cold.value))
        );
        page.prose("", Ink::Plain, &text);
    }
    let mut kept = sites.by_place();
    let mut by_cold = kept.clone();
    by_cold.sort_by(|a, b| b.sums.not_written().total_cmp(&a.sums.not_written()));
    by_cold.retain(|site| site.sums.not_written() >= 1.0);
    let mut by_rounding = kept.clone();
    by_rounding.sort_by(|a, b| b.sums.rounding().total_cmp(&a.sums.rounding()));
    by_rounding.retain(|site| site.sums.rounding() >= 1.0);
    kept.retain(|site| site.sums.pinned.value >= 1.0);
    let pinned: Value = ("keeps free", |sums| sums.pinned.value);
    write(&mut page, "Keeps most free memory", pinned, (&kept, rows));
    write(&mut page, "Most rounding", pinned, (&by_rounding, rows));
    let cold: Value = ("not written", SiteSums::not_written);
    write(&mut page, "Not written after the session", cold, (&by_cold, rows));
    if let Some(likely) = &sites.likely {
        let is_sampled = sites.total.blocks.value > widened(sites.found) + 0.5;
        likely_sites::tell(likely, is_sampled, rows, &mut page);
    }
    page.finish()
}

fn write(
    page: &mut Page,
    title: &'static str,
    (first, value): Value,
    (sites, rows): (&[MergedSite<'_>], usize),
) {
    if sites.is_empty() {
        return;
    }
    page.gap();
    let columns = [
        Column::right(first),
        Column::right("blocks"),
        Column::right("requested"),
        Column::right("occupied"),
        Column::right("rounding"),
        Column::left(title),
    ];
    let mut table = Table::new(columns);
    for site in sites.iter().take(rows) {
        let sums = &site.sums;
        table.row([
            bytes(whole(value(sums))),
            count(whole(sums.blocks.value)),
            bytes(whole(sums.requested.value)),
            bytes(whole(sums.occupied.value)),
            format!("{:.1} %", sums.rounding() * 100.0 / sums.requested.value.max(1.0)),
            site.first.place.clone() + &callers(site),
        ]);
    }
    table.write(page);
}

/// ` < main`: who called it, of the one stack; else how many there are.
fn callers(site: &MergedSite<'_>) -> String {
    if site.stacks > 1 {
        return format!(" ({} call paths)", count(site.stacks as u64));
    }
    let outer = site.first.frames.iter().skip(site.first.cause + 1);
    let names = outer.filter_map(|frame| frame.function.as_deref()).take(CALLERS);
    names.map(|name| format!(" < {name}")).collect()
}

#[allow(clippy::cast_precision_loss)]
fn widened(count: u64) -> f64 {
    count as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use heapattach_report::PlacedSite;

    use super::*;

    #[test]
    fn call_paths_of_one_place_are_one_row() {
        let site = |place: &str, value: f64| {
            let range = heapattach_profile::Range { value, low: value, high: value };
            let sums = SiteSums {
                blocks: range,
                requested: range,
                occupied: range,
                pinned: range,
                cold: (place == "fill (a.c:2)").then_some(range),
            };
            PlacedSite { place: place.to_owned(), sums, ..PlacedSite::default() }
        };
        let rows = vec![
            site("pin (a.c:1)", 3000.0),
            site("fill (a.c:2)", 4000.0),
            site("pin (a.c:1)", 2000.0),
        ];
        let sites = PlacedSites { rows, ..PlacedSites::default() };
        let told = tell_placed_sites(&sites, 5, Page::new(Some(100), false));
        let line = told.lines().find(|line| line.contains("pin (a.c:1)")).unwrap();
        assert!(line.contains("5 000") && line.ends_with("pin (a.c:1) (2 call paths)"), "{told}");
        assert_eq!(told.matches("pin (a.c:1)").count(), 1, "{told}");
        let cold = told.lines().skip_while(|line| !line.contains("Not written after")).nth(1);
        assert!(cold.is_some_and(|line| line.ends_with("fill (a.c:2)")), "{told}");
    }
}
