//! What grew, in two sentences.

use std::time::Duration;

use heapattach_text::quantity::{bytes, count, time};

use super::{Difference, Row, Section, lists::PAGE_TABLES};

/// Parts that are named.
const PARTS: usize = 3;

/// What grew, by how much, over which time; and what it mostly is.
pub(super) fn verdict(difference: &Difference) -> [String; 2] {
    let total = &difference.total;
    let change = total.change.bytes;
    let over = match difference.lasted_ms {
        Some(ms) => format!(" in {}{}", time(Duration::from_millis(ms)), rate(change, ms)),
        None => " over an unknown time".to_owned(),
    };
    let [first, last] = [total.bytes.first(), total.bytes.last()].map(|b| b.copied().unwrap_or(0));
    let (from, to) = (bytes(first), bytes(last));
    let what = match change {
        0 => format!("Resident memory did not change{over}: {to}"),
        1.. => {
            format!("Resident memory grew by {}{over}, from {from} to {to}", bytes(size(change)))
        }
        _ => {
            format!("Resident memory shrank by {}{over}, from {from} to {to}", bytes(size(change)))
        }
    };
    let parts = grown(&difference.parts).filter(|row| row.name != PAGE_TABLES).take(PARTS);
    let parts: Vec<_> =
        parts.map(|row| format!("{} {}", row.name, signed(row.change.bytes))).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    [what + &parts, mostly(difference)]
}

/// The class, size and root that grew most.
fn mostly(difference: &Difference) -> String {
    let of = |label: &str, section: &Section| {
        let row = grown(section).next()?;
        let blocks = row.change.blocks.unwrap_or(0);
        let in_blocks =
            if blocks == 0 { String::new() } else { format!(" in {}", blocks_of(blocks)) };
        Some(format!("{label} {} {}{in_blocks}", row.name, signed(row.change.bytes)))
    };
    let found = [
        of("class", &difference.types),
        of("size", &difference.sizes),
        of("kept by", &difference.holders),
        of("kept by", &difference.go_holders),
        of("leaked:", &difference.unreachable),
    ];
    let found: Vec<String> = found.into_iter().flatten().collect();
    match found.is_empty() {
        true => "No class, size or holder of blocks grew".to_owned(),
        false => format!("Grew most: {}", found.join("; ")),
    }
}

fn grown(section: &Section) -> impl Iterator<Item = &Row> {
    let mut rows: Vec<&Row> = section.rows.iter().filter(|row| row.change.bytes > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.change.bytes));
    rows.into_iter()
}

fn size(change: i64) -> u64 {
    change.unsigned_abs()
}

fn signed(change: i64) -> String {
    format!("{}{}", if change < 0 { '-' } else { '+' }, bytes(size(change)))
}

fn blocks_of(change: i64) -> String {
    let sign = if change < 0 { '-' } else { '+' };
    format!("{sign}{} {}", count(size(change)), if size(change) == 1 { "block" } else { "blocks" })
}

fn rate(change: i64, ms: u64) -> String {
    if ms == 0 || change == 0 {
        return String::new();
    }
    let a_minute = u128::from(size(change)) * 60_000 / u128::from(ms);
    format!(" ({} a minute)", bytes(u64::try_from(a_minute).unwrap_or(u64::MAX)))
}
