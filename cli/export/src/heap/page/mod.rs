//! A moment as one HTML file: a map of where the memory is, which opens rectangle by rectangle, and tables. It
//! opens in any browser and sends no request anywhere.
//!
//! ```text
//! CensusReport -> trees: parts, and what is inside of them -> page.html + style + script
//!                 tables: rows of numbers and a name       ->
//! ```
//!
//! As in the page of a session, names travel as JSON in which no `<` is left, and the script makes text of
//! them, never markup; the policy admits one script and one style, by their hash.

#[cfg(test)]
mod browser_tests;
mod tables;
mod trees;

use std::io::{self, Write};

use heapattach_report::CensusReport;
use heapattach_text::quantity::count;
use serde::Serialize;

use crate::html::template::{LOADER, Template};
use tables::Sheet;
use trees::Node;

const SCRIPT: &str = concat!(
    "'use strict';\n",
    include_str!("../../html/script/quantity.js"),
    include_str!("../../html/script/element.js"),
    include_str!("script/layout.js"),
    include_str!("script/map.js"),
    include_str!("script/tables.js"),
    include_str!("script/main.js"),
);

const TEMPLATE: Template = Template {
    page: include_str!("page.html"),
    style: concat!(include_str!("../../html/style.css"), include_str!("map.css")),
    script: SCRIPT,
    loader: LOADER,
    is_live: false,
};

/// What the script reads.
#[derive(Serialize)]
struct Data {
    about: About,
    /// What is inside of live blocks, by several measures, each with its name.
    trees: Vec<(&'static str, Node)>,
    tables: Vec<Sheet>,
}

#[derive(Serialize)]
struct About {
    pid: i32,
    command: String,
    taken_ms: Option<u64>,
    verdict: String,
    /// How certain it is, and what is named first.
    lines: Vec<String>,
}

/// Writes it.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write(report: &CensusReport, out: &mut dyn Write) -> io::Result<()> {
    let about = About {
        pid: report.pid,
        command: report.command.clone(),
        taken_ms: report.moment.taken_ms,
        verdict: report.verdict.text.clone(),
        lines: lines(report),
    };
    let data = Data { about, trees: trees::of(report), tables: tables::of(report) };
    TEMPLATE.write(&data, out)
}

fn lines(report: &CensusReport) -> Vec<String> {
    let mut lines = Vec::new();
    for allocator in &report.allocators {
        let how = match (&allocator.refused, allocator.is_exact) {
            (Some(why), _) => format!("not told: {why}"),
            (None, true) => {
                format!("{} blocks in use; exact: all checks hold", count(allocator.blocks()))
            }
            (None, false) => format!("{} blocks in use; not exact", count(allocator.blocks())),
        };
        let name = if allocator.layout.is_empty() { &allocator.name } else { &allocator.layout };
        lines.push(format!("{name}: {how}"));
        lines.extend(allocator.doubts.iter().take(10).map(|doubt| format!("doubt: {}", doubt.why)));
    }
    if let Some(found) = &report.holders {
        lines.extend(found.error.iter().map(|why| format!("holders are not told: {why}")));
        lines.extend(found.doubt.iter().map(|why| format!("holders: {why}")));
    }
    if report.core.is_some() {
        lines.push("of a core file: sizes are those of pages that it has".to_owned());
    }
    lines
}
