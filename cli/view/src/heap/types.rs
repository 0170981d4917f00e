//! Objects by class.

use heapattach_report::{Amount, CensusReport, TypedReport};
use heapattach_text::quantity::{bytes, count};

use super::MANY;
use crate::{
    page::{Ink, Page, Span},
    table::{Column, Table},
};

/// Places that are told besides.
const PLACES: usize = 12;

pub(super) fn write_types(page: &mut Page, report: &CensusReport) {
    if let Some(typed) = &report.typed {
        write_known(page, typed);
    }
    write_classes(page, report);
    if let Some(typed) = report.typed.as_ref().filter(|typed| !typed.places.is_empty()) {
        page.gap();
        write_places(page, typed);
    }
}

/// How much has a name, and how certain it is.
fn write_known(page: &mut Page, typed: &TypedReport) {
    if let Some(error) = &typed.error {
        return page.prose("UNKNOWN", Ink::Warning, &format!("types are not told: {error}"));
    }
    let part = |amount: Amount| amount.bytes as f64 * 100.0 / typed.in_use.bytes.max(1) as f64;
    let kinds = [
        (typed.certain, "by class, certain"),
        (typed.declared, "by declared type"),
        (typed.shape, "by shape"),
        (typed.place, "only by the place of the pointers to it"),
    ];
    let all = kinds.iter().map(|(amount, _)| part(*amount)).sum::<f64>();
    let named = kinds.iter().filter(|(amount, _)| amount.blocks > 0);
    let named: Vec<String> =
        named.map(|(amount, what)| format!("{:.1} % {what}", part(*amount))).collect();
    let text = match &named[..] {
        [] => format!("none of {} in use has a name", bytes(typed.in_use.bytes)),
        named => format!(
            "{all:.1} % of {} in use has a name: {}",
            bytes(typed.in_use.bytes),
            named.join(", ")
        ),
    };
    page.prose("TYPES", Ink::Bold, &text);
    if typed.disputed > 0 {
        let text = format!(
            "{} blocks have none, as pointers of different types lead to them",
            count(typed.disputed)
        );
        page.prose("", Ink::Plain, &text);
    }
    if let Some(why) = &typed.missing {
        page.prose("MISSING", Ink::Warning, &format!("debug data was not read whole: {why}"));
    }
    page.gap();
}

fn write_places(page: &mut Page, typed: &TypedReport) {
    let columns = [Column::right("in use"), Column::right("blocks"), Column::left("place")];
    let mut table = Table::new(columns);
    for row in typed.places.iter().take(PLACES) {
        table.row([bytes(row.amount.bytes), count(row.amount.blocks), row.name.clone()]);
    }
    table.write(page);
    if let Some(rest) = typed.places.len().checked_sub(PLACES).filter(|rest| *rest > 0) {
        page.line([Span::new(Ink::Dim, format!("and {rest} other places (--json has them)"))]);
    }
}

fn write_classes(page: &mut Page, report: &CensusReport) {
    if report.classes.is_empty() {
        return page.line([
            "no block in use is a Python or Go object, or a C++ object that has virtual functions"
                .into(),
        ]);
    }
    let columns = [
        Column::right("in use"),
        Column::right("blocks"),
        Column::left("language"),
        Column::left("known"),
        Column::left("class"),
    ];
    let mut table = Table::new(columns);
    for row in report.classes.iter().take(MANY) {
        let language = row.language.name().to_owned();
        let known = row.certainty.name().to_owned();
        table.row([bytes(row.bytes), count(row.blocks), language, known, row.name.clone()]);
    }
    table.write(page);
    if let Some(rest) = report.classes.len().checked_sub(MANY).filter(|rest| *rest > 0) {
        page.line([Span::new(Ink::Dim, format!("and {rest} other classes (--json has them)"))]);
    }
}
