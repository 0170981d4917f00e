//! What a moment has of each kind: a name, bytes and blocks.

use heapattach_report::{
    CensusReport, HolderRow, NotWrittenRow, PinRow, PlaceRow, WasteKind, WasteRow,
};
use heapattach_text::quantity::count;

/// They are told with the parts, and are none of the resident set.
pub(super) const PAGE_TABLES: &str = "page tables, which are not resident";

/// A name, bytes, and blocks where they are counted.
pub(super) type Item = (String, u64, Option<u64>);
/// The items of a moment, or why it does not have them.
pub(super) type Items = Result<Vec<Item>, String>;

/// Resident memory and swap.
pub(super) fn total(one: &CensusReport) -> u64 {
    one.memory.total.resident.saturating_add(one.memory.total.swapped)
}

pub(super) fn parts(one: &CensusReport) -> Items {
    let parts = one.memory.parts.iter();
    let all = parts.map(|part| {
        (part.part.name().to_owned(), part.resident.saturating_add(part.swapped), None)
    });
    let tables = (PAGE_TABLES.to_owned(), one.memory.page_tables, None);
    Ok(all.chain([tables]).collect())
}

pub(super) fn types(one: &CensusReport) -> Items {
    let name = |row: &heapattach_census::types::ClassRow| {
        format!("{} ({})", row.name, row.language.name())
    };
    Ok(one.classes.iter().map(|row| (name(row), row.bytes, Some(row.blocks))).collect())
}

pub(super) fn sizes(one: &CensusReport) -> Items {
    Ok(one.sizes.iter().map(|row| (sized(row.size), row.bytes(), Some(row.used))).collect())
}

pub(super) fn holders(one: &CensusReport) -> Items {
    let found = match &one.holders {
        Some(found) if found.error.is_none() => found,
        Some(found) => return Err(found.error.clone().unwrap_or_default()),
        None if one.go.is_some() => return Ok(Vec::new()),
        None => return Err("what holds the blocks was not looked for".to_owned()),
    };
    // What several roots hold is told by its kinds of blocks: all of it together says nothing.
    let is_several = |row: &HolderRow| row.before.is_none() && row.root.is_none();
    let above = |row: &HolderRow| {
        row.before.and_then(|before| found.holders.get(usize::try_from(before).ok()?))
    };
    let item = |row: &HolderRow| {
        let name = match (row.root, above(row)) {
            (Some(root), _) => format!("{} ({})", without_threads(&row.name), root.words().0),
            (None, Some(above)) => format!("{} > {}", above.name, row.name),
            (None, None) => row.name.clone(),
        };
        (name, row.retained.bytes, Some(row.retained.blocks))
    };
    let is_told = |row: &&HolderRow| match row.before {
        None => !is_several(row),
        Some(_) => above(row).is_some_and(is_several),
    };
    Ok(found.holders.iter().filter(is_told).map(item).collect())
}

pub(super) fn go_holders(one: &CensusReport) -> Items {
    let Some(go) = &one.go else { return Ok(Vec::new()) };
    if let Some(error) = &go.error {
        return Err(error.clone());
    }
    let roots = go.holders.iter().filter(|row| row.before.is_none());
    Ok(roots.map(|row| (row.name.clone(), row.all.bytes, Some(row.all.blocks))).collect())
}

pub(super) fn unreachable(one: &CensusReport) -> Items {
    let found = match &one.unreachable {
        Some(found) if found.error.is_none() => found,
        Some(found) => return Err(found.error.clone().unwrap_or_default()),
        None => return Err("unreachable blocks were not looked for".to_owned()),
    };
    let item = |group: &heapattach_report::UnreachableGroup| {
        let class = group.class.as_deref().unwrap_or("blocks");
        let all = group.own.and(group.held);
        (
            format!("{class} of {}, {}", sized(group.size), group.kind.name()),
            all.bytes,
            Some(all.blocks),
        )
    };
    Ok(found.groups.iter().map(item).collect())
}

pub(super) fn places(one: &CensusReport) -> Items {
    let found = match &one.typed {
        Some(found) if found.error.is_none() => found,
        Some(found) => return Err(found.error.clone().unwrap_or_default()),
        None => return Err("blocks were not named by what holds them".to_owned()),
    };
    let item = |row: &PlaceRow| (row.name.clone(), row.amount.bytes, Some(row.amount.blocks));
    Ok(found.places.iter().map(item).collect())
}

pub(super) fn waste(one: &CensusReport) -> Items {
    let Some(found) = &one.waste else {
        return Err("the bytes of blocks were not looked at".to_owned());
    };
    let item = |row: &WasteRow| {
        let class = row.class.as_deref().unwrap_or("blocks");
        let kind = match row.kind {
            WasteKind::Zeroes => "zeroes alone",
            WasteKind::Copies => "copies",
            WasteKind::TextCopies => "copies of texts",
            WasteKind::Tails => "zeroes at the end",
        };
        (format!("{class} of {}, {kind}", sized(row.size)), row.waste.bytes, Some(row.waste.blocks))
    };
    Ok(found.rows.iter().map(item).collect())
}

pub(super) fn pins(one: &CensusReport) -> Items {
    let Some(found) = &one.pins else {
        return Err("it was not looked for which blocks keep memory".to_owned());
    };
    let item = |row: &PinRow| {
        let class = row.class.as_deref().unwrap_or("blocks");
        (format!("{class} of {}", sized(row.size)), row.pinned, Some(row.blocks))
    };
    Ok(found.rows.iter().map(item).collect())
}

pub(super) fn not_written(one: &CensusReport) -> Items {
    let found = match &one.not_written {
        Some(found) if found.error.is_none() => found,
        Some(found) => return Err(found.error.clone().unwrap_or_default()),
        None => return Err("pages that were never written were not looked for".to_owned()),
    };
    let item = |row: &NotWrittenRow| {
        let class = row.class.as_deref().unwrap_or("blocks");
        (format!("{class} of {}", sized(row.size)), row.sum.not_written, Some(row.sum.blocks))
    };
    Ok(found.rows.iter().map(item).collect())
}

pub(super) fn arenas(one: &CensusReport) -> Items {
    let arenas = one.allocators.iter().flat_map(|allocator| {
        allocator.arenas.iter().map(move |arena| {
            let resident = arena.pages.all().resident;
            (format!("{}: {}", allocator.name, arena.name), resident, Some(arena.used_blocks))
        })
    });
    Ok(arenas.collect())
}

/// Every size has a name of its own: rounded ones would be one row.
fn sized(size: u64) -> String {
    format!("{} B", count(size))
}

/// A thread has another number after a restart: `thread 4711 (worker)` is `thread (worker)`.
fn without_threads(name: &str) -> String {
    let mut parts = name.split("thread ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let is_number = digits > 0 && part[digits..].starts_with(" (");
        out.push_str("thread ");
        out.push_str(if is_number { &part[digits + 1..] } else { part });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_no_numbers() {
        let told = without_threads("work() in thread 4711 (pool 3), thread 7");
        assert_eq!(told, "work() in thread (pool 3), thread 7");
    }
}
