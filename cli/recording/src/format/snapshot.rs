//! Snapshots as bytes: the sums of the rows that have changed since the one before.

use crate::format::varint::{In, Out};
use heapattach_profile::{Exact, Flow, Histogram, Row, RowId, SUMS, Samples, Snapshot, Sum};

/// The sums of a row that are kept.
const FLOWS: [Flow; 5] = [Flow::Live, Flow::Allocated, Flow::Freed, Flow::Peak, Flow::Temporary];

/// Rows of one block: with histograms and samples a row is some hundreds of bytes.
pub const ROWS: usize = 8192;

/// The contents of blocks for a snapshot made at `now`, in ticks; the last one ends it.
pub fn encode(now: u64, snapshot: &Snapshot) -> Vec<Vec<u8>> {
    let pieces = snapshot.rows.chunks(ROWS);
    let last = pieces.len().saturating_sub(1);
    let pieces = pieces.map(Some).chain(snapshot.rows.is_empty().then_some(None));
    let content = |(number, rows): (usize, Option<&[(RowId, Row)]>)| {
        let mut out = Out::default();
        out.number(now);
        // What the others held for a new peak is told once.
        let has_new_peak = number == 0 && snapshot.has_new_peak;
        out.number(u64::from(number == last) | u64::from(has_new_peak) << 1);
        put(&mut out, &snapshot.total);
        let mut before = 0;
        for (id, row) in rows.into_iter().flatten() {
            out.number(u64::from(id.0) - before);
            before = u64::from(id.0);
            put(&mut out, row);
        }
        out.0
    };
    pieces.enumerate().map(content).collect()
}

/// When a snapshot was made, in ticks, and whether the block is its last.
pub fn head(content: &[u8]) -> Option<(u64, bool)> {
    let mut all = In::new(content);
    Some((all.number()?, all.number()? & 1 != 0))
}

/// What such a block says; `rows` is how many rows there are.
pub fn decode(content: &[u8], rows: usize) -> Option<Snapshot> {
    let mut all = In::new(content);
    let (_, flags) = (all.number()?, all.number()?);
    let total = get(&mut all)?;
    let mut snapshot = Snapshot { total, has_new_peak: flags & 2 != 0, rows: Vec::new() };
    let mut before = 0_u32;
    while !all.is_empty() {
        before = before.checked_add(all.small()?).filter(|&id| (id as usize) < rows)?;
        snapshot.rows.push((RowId(before), get(&mut all)?));
    }
    Some(snapshot)
}

fn put(out: &mut Out, row: &Row) {
    for flow in FLOWS {
        put_sum(out, &row.heap.sum(flow));
    }
    out.number(row.pages.mapped);
    out.number(row.pages.live);
    put_histogram(out, &row.sizes);
    put_histogram(out, &row.lifetimes);
    put_blocks(out, row.exchanged);
}

fn get(all: &mut In<'_>) -> Option<Row> {
    let mut row = Row::default();
    for flow in FLOWS {
        row.heap.set(flow, &get_sum(all)?);
    }
    row.pages.mapped = all.number()?;
    row.pages.live = all.number()?;
    row.sizes = get_histogram(all)?;
    row.lifetimes = get_histogram(all)?;
    row.exchanged = get_blocks(all)?;
    Some(row)
}

/// Blocks that are known one by one: bytes and number. Before them how many samples there are;
/// most often none.
fn put_sum(out: &mut Out, sum: &Sum) {
    let (exact, sampled) = sum.parts();
    let (seen, seen_bytes, sums) = sampled.map_or((0, 0, [0.0; SUMS]), Samples::parts);
    out.number(seen);
    out.number(exact.count);
    if exact.count > 0 {
        out.number(exact.bytes);
    }
    if seen > 0 {
        out.number(seen_bytes);
        sums.into_iter().for_each(|number| out.float(number));
    }
}

fn get_sum(all: &mut In<'_>) -> Option<Sum> {
    let (seen, count) = (all.number()?, all.number()?);
    let bytes = if count > 0 { all.number()? } else { 0 };
    let mut sampled = None;
    if seen > 0 {
        let seen_bytes = all.number()?;
        let mut sums = [0.0; SUMS];
        for sum in &mut sums {
            *sum = all.float()?;
        }
        sampled = Some(Samples::of_parts(seen, seen_bytes, sums));
    }
    Some(Sum::new(Exact { bytes, count }, sampled.as_ref()))
}

/// Its buckets from the first that is not empty on.
fn put_histogram(out: &mut Out, histogram: &Histogram) {
    let buckets = histogram.buckets();
    let first = buckets.iter().position(|&blocks| blocks != 0.0).unwrap_or(buckets.len());
    out.number(first as u64);
    out.number((buckets.len() - first) as u64);
    buckets[first..].iter().for_each(|&blocks| put_blocks(out, blocks));
}

fn get_histogram(all: &mut In<'_>) -> Option<Histogram> {
    let (first, more) = (usize::try_from(all.number()?).ok()?, all.count()?);
    let first = (first <= Histogram::BUCKETS).then_some(first)?;
    let mut histogram = Histogram::default();
    for bucket in first..first + more {
        histogram.add_told(bucket, get_blocks(all)?);
    }
    Some(histogram)
}

/// A number of blocks: where all are recorded it is a whole one, and short.
fn put_blocks(out: &mut Out, blocks: f64) {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is checked")]
    let whole = blocks as u32;
    if f64::from(whole) == blocks {
        out.number(u64::from(whole) << 1);
    } else {
        out.number(1);
        out.float(blocks);
    }
}

fn get_blocks(all: &mut In<'_>) -> Option<f64> {
    let coded = all.number()?;
    if coded & 1 != 0 { all.float() } else { Some(f64::from(u32::try_from(coded >> 1).ok()?)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use heapattach_profile::{Change, Facts, Kind, Sheet, Tick};

    /// Sums of some blocks: pairs of row and size, sampled or not.
    fn sheet(blocks: &[(u32, u64)], interval: u64) -> Sheet {
        let mut sheet = Sheet::new(100, 5);
        sheet.rows.extend([0, 0].into_iter());
        sheet.know(Facts { every: interval, asked: None });
        for (now, &(row, size)) in (0..).zip(blocks) {
            let kind = Kind::new(RowId(row), size, interval);
            let change = Change::Allocated { kind, kept: true, exchanged: size % 2 == 0 };
            sheet.apply(&change, Tick(now));
            if size % 3 == 0 {
                sheet.apply(&Change::Freed { kind, birth: Tick(0) }, Tick(now));
            }
        }
        sheet
    }

    fn told(sheet: &Sheet) -> Vec<String> {
        let rows = sheet.rows.all().iter().map(|row| sheet.finished(row)).chain([sheet.total()]);
        let one = |row: Row| {
            let sums = FLOWS.map(|flow| row.heap.measure(flow));
            format!(
                "{sums:?} {:?} {:?} {} {:?}",
                row.sizes, row.lifetimes, row.exchanged, row.pages
            )
        };
        rows.map(one).collect()
    }

    proptest! {
        #[test]
        fn a_snapshot_goes_on_where_it_was_made(
            blocks in prop::collection::vec((0..3u32, 0..9000u64), 0..60),
            cut in 0..60usize,
            interval in prop_oneof![Just(1_u64), Just(4096)],
        ) {
            let cut = cut.min(blocks.len());
            let mut live = sheet(&blocks[..cut], interval);
            let mut back = sheet(&[], interval);
            for piece in encode(77, &live.snapshot()) {
                prop_assert_eq!(head(&piece), Some((77, true)));
                back.resume(decode(&piece, 3).unwrap());
            }
            // Then both go on, and another snapshot is made.
            for (number, &(row, size)) in (1..).zip(&blocks[cut..]) {
                let kind = Kind::new(RowId(row), size, interval);
                live.apply(&Change::Allocated { kind, kept: true, exchanged: false }, Tick(number));
                if size % 5 == 0 {
                    live.apply(&Change::Freed { kind, birth: Tick(0) }, Tick(number));
                }
            }
            for piece in encode(78, &live.snapshot()) {
                back.resume(decode(&piece, 3).unwrap());
            }
            prop_assert_eq!(told(&back), told(&live));
        }

        #[test]
        fn any_bytes_are_survived(
            blocks in prop::collection::vec((0..3u32, 0..9000u64), 0..60),
            at: prop::sample::Index,
            by: u8,
        ) {
            for mut piece in encode(77, &sheet(&blocks, 4096).snapshot()) {
                let at = at.index(piece.len());
                piece[at] ^= by;
                if let Some(snapshot) = decode(&piece, 3) {
                    sheet(&[], 1).resume(snapshot);
                }
            }
        }
    }
}
