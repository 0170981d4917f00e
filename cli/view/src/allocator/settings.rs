//! All settings, and where each comes from.

use heapattach_report::{CountedReport, Origin};

use crate::{
    page::{Ink, Page},
    table::{Column, Table},
};

pub(super) fn write(page: &mut Page, one: &CountedReport) {
    if one.statistics.opt.is_empty() {
        return page.prose("", Ink::Plain, "its settings are not told");
    }
    let columns = [Column::right("value"), Column::left("from"), Column::left("setting")];
    let mut table = Table::new(columns);
    for (name, value) in &one.statistics.opt {
        let from = match one.origins.get(name) {
            None => "",
            Some(Origin::CompiledIn) => "compiled in",
            Some(Origin::Program) => "the program",
            Some(Origin::ConfigurationLink) => "/etc/malloc.conf",
            Some(Origin::Environment(name)) => name,
        };
        table.row([value.told(), from.to_owned(), name.clone()]);
    }
    table.write(page);
    let given = one.origins.keys().filter(|name| !one.statistics.opt.contains_key(*name));
    let given: Vec<_> = given.map(String::as_str).collect();
    if !given.is_empty() {
        page.prose("", Ink::Dim, &format!("given as well: {}", given.join(", ")));
    }
}
