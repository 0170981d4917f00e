//! Tables of the page: columns of numbers, and a name.

use heapattach_report::{CensusReport, WasteKind};
use heapattach_text::quantity::{bytes, counted};
use serde::Serialize;
use serde_json::{Value, json};

/// Rows of one.
const MOST: usize = 500;

/// A table.
#[derive(Serialize)]
pub(super) struct Sheet {
    title: &'static str,
    columns: Vec<&'static str>,
    /// A letter a column: bytes, a number, or text.
    kinds: Vec<&'static str>,
    rows: Vec<Vec<Value>>,
    note: String,
}

impl Sheet {
    fn new(title: &'static str, columns: &[(&'static str, &'static str)]) -> Self {
        Self {
            title,
            columns: columns.iter().map(|(name, _)| *name).collect(),
            kinds: columns.iter().map(|(_, kind)| *kind).collect(),
            rows: Vec::new(),
            note: String::new(),
        }
    }

    fn fill(mut self, rows: impl Iterator<Item = Value>) -> Self {
        let mut all: Vec<Vec<Value>> =
            rows.filter_map(|row| row.as_array().cloned()).take(MOST + 1).collect();
        if all.len() > MOST {
            all.truncate(MOST);
            self.note = format!("the largest {MOST}");
        }
        self.rows = all;
        self
    }
}

/// Those that have rows.
pub(super) fn of(report: &CensusReport) -> Vec<Sheet> {
    let mut tables = vec![parts(report), arenas(report), holders(report), classes(report)];
    tables.extend([sizes(report), places(report), leaked(report), waste(report), pins(report)]);
    tables.extend([not_written(report), mappings(report), pages(report)]);
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn parts(report: &CensusReport) -> Sheet {
    let table = Sheet::new("Parts", &[("resident", "b"), ("swapped", "b"), ("memory", "t")]);
    let parts = report.memory.parts.iter().filter(|part| part.resident > 0 || part.swapped > 0);
    table.fill(parts.map(|part| json!([part.resident, part.swapped, part.part.name()])))
}

fn arenas(report: &CensusReport) -> Sheet {
    let columns = [
        ("resident", "b"),
        ("live", "b"),
        ("free", "b"),
        ("cached", "b"),
        ("uncut", "b"),
        ("blocks", "n"),
        ("arena", "t"),
    ];
    let rows = report.allocators.iter().flat_map(|allocator| {
        allocator.arenas.iter().map(move |arena| {
            let pages = &arena.pages;
            json!([
                pages.all().resident,
                pages.live.resident,
                pages.free.resident,
                pages.cached.resident,
                pages.top.resident,
                arena.used_blocks,
                format!("{}: {}", allocator.name, arena.name)
            ])
        })
    });
    Sheet::new("Arenas", &columns).fill(rows)
}

fn holders(report: &CensusReport) -> Sheet {
    let table = Sheet::new("Holders", &[("retained", "b"), ("blocks", "n"), ("root", "t")]);
    let go = report.go.iter().flat_map(|go| &go.holders).filter(|row| row.before.is_none());
    let go = go.map(|row| json!([row.all.bytes, row.all.blocks, row.name]));
    let found = report.holders.iter().flat_map(|found| &found.holders);
    let roots = found.filter(|row| row.before.is_none()).map(|row| {
        let kind = row.root.map(|root| format!(" ({})", root.words().0)).unwrap_or_default();
        json!([row.retained.bytes, row.retained.blocks, format!("{}{kind}", row.name)])
    });
    let mut rows: Vec<Value> = go.chain(roots).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row[0].as_u64()));
    table.fill(rows.into_iter())
}

fn classes(report: &CensusReport) -> Sheet {
    let table = Sheet::new("Classes", &[("in use", "b"), ("blocks", "n"), ("class", "t")]);
    let rows = report.classes.iter().map(|row| {
        json!([row.bytes, row.blocks, format!("{} ({})", row.name, row.language.name())])
    });
    table.fill(rows)
}

fn sizes(report: &CensusReport) -> Sheet {
    let columns = [("in use", "b"), ("blocks", "n"), ("free", "n"), ("usable size", "t")];
    let rows = report.sizes.iter();
    let rows = rows.map(|row| json!([row.bytes(), row.used, row.free, bytes(row.size)]));
    Sheet::new("Sizes", &columns).fill(rows)
}

fn leaked(report: &CensusReport) -> Sheet {
    let columns = [("leaked", "b"), ("blocks", "n"), ("with them", "b"), ("class and size", "t")];
    let groups = report.unreachable.iter().filter(|found| found.error.is_none());
    let rows = groups.flat_map(|found| &found.groups).map(|group| {
        let class = group.class.as_deref().unwrap_or("blocks");
        let name = format!("{class} of {}, {}", bytes(group.size), group.kind.name());
        json!([group.own.bytes, group.own.blocks, group.held.bytes, name])
    });
    Sheet::new("Leaked blocks", &columns).fill(rows)
}

fn places(report: &CensusReport) -> Sheet {
    let table = Sheet::new("Known by place", &[("in use", "b"), ("blocks", "n"), ("place", "t")]);
    let rows = report.typed.iter().flat_map(|typed| &typed.places);
    table.fill(rows.map(|row| json!([row.amount.bytes, row.amount.blocks, row.name])))
}

fn waste(report: &CensusReport) -> Sheet {
    let columns = [("may be waste", "b"), ("blocks", "n"), ("size", "b"), ("what", "t")];
    let rows = report.waste.iter().flat_map(|waste| &waste.rows).map(|row| {
        let kind = match row.kind {
            WasteKind::Zeroes => "zeroes alone",
            WasteKind::Copies => "copies",
            WasteKind::TextCopies => "copies of texts",
            WasteKind::Tails => "zeroes at the end",
        };
        let class = row.class.as_deref().unwrap_or("blocks");
        json!([row.waste.bytes, row.waste.blocks, row.size, format!("{class}: {kind}")])
    });
    let mut table = Sheet::new("May be waste", &columns).fill(rows);
    if let Some(waste) = report.waste.as_ref().filter(|waste| waste.left_out.blocks > 0) {
        let blocks = counted(waste.left_out.blocks, "block");
        table.note = format!("{blocks} were not looked at: there was no time");
    }
    table
}

fn pins(report: &CensusReport) -> Sheet {
    let columns =
        [("keep free", "b"), ("in use", "b"), ("blocks", "n"), ("size", "b"), ("class", "t")];
    let rows = report.pins.iter().flat_map(|pins| &pins.rows).map(|row| {
        let class = row.class.as_deref().unwrap_or("blocks");
        json!([row.pinned, row.bytes, row.blocks, row.size, class])
    });
    Sheet::new("Keep free memory", &columns).fill(rows)
}

fn not_written(report: &CensusReport) -> Sheet {
    let columns =
        [("not written", "b"), ("of", "b"), ("blocks", "n"), ("size", "b"), ("class", "t")];
    let rows = report.not_written.iter().flat_map(|found| &found.rows).map(|row| {
        let class = row.class.as_deref().unwrap_or("blocks");
        json!([row.sum.not_written, row.sum.bytes, row.sum.blocks, row.size, class])
    });
    Sheet::new("Not written", &columns).fill(rows)
}

fn mappings(report: &CensusReport) -> Sheet {
    let columns =
        [("resident", "b"), ("swapped", "b"), ("allocators", "b"), ("size", "b"), ("mapping", "t")];
    let rows = report.mappings.iter().map(|row| {
        let name = format!("{} {}", row.permissions, row.name);
        json!([row.resident, row.swapped, row.allocators, row.size, name])
    });
    Sheet::new("Mappings", &columns).fill(rows)
}

fn pages(report: &CensusReport) -> Sheet {
    let fill = &report.pages;
    let rows = [
        (fill.none, "nothing"),
        (fill.below_10, "less than a tenth"),
        (fill.below_50, "a tenth to a half"),
        (fill.below_90, "a half to nine tenths"),
        (fill.full, "more"),
    ];
    let columns = [("pages", "n"), ("bytes", "b"), ("of which blocks in use take", "t")];
    let rows = rows.into_iter().filter(|(pages, _)| *pages > 0);
    let rows = rows.map(|(pages, what)| json!([pages, pages.saturating_mul(4096), what]));
    Sheet::new("Pages of allocators", &columns).fill(rows)
}
