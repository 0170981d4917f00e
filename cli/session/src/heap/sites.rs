//! The recorded blocks of a session in a moment: requested against occupied bytes, and what is kept beside them, by
//! stack, with 95 % intervals where blocks were sampled.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
};

use heapattach_census::{
    Moment, Walker,
    pins::{self, Found},
};
use heapattach_profile::{Estimate, Exact, Kind, Measure, RecordedBlock, Samples, Unseen};
use heapattach_report::{SiteRow, SiteSums, SitesReport};

use super::cold::Cold;

use crate::recorded::Recorded;

/// Rows that keep most free bytes, as many of most rounding, and as many with most that was not written.
const ROWS: usize = 500;

/// Looks for them.
pub(super) fn report(
    moment: &Moment<'_>,
    walkers: &[&dyn Walker],
    (recorded, cold): (&Recorded, Option<&Cold>),
) -> SitesReport {
    let addresses: Vec<u64> = recorded.blocks.iter().map(|block| block.at).collect();
    let found = pins::find(moment, walkers, &addresses);
    sum(recorded, &found, cold)
}

fn sum(
    Recorded { blocks, left_out }: &Recorded,
    all: &[Found],
    cold: Option<&Cold>,
) -> SitesReport {
    let mut sites: HashMap<u32, Site> = HashMap::new();
    let (mut total, mut count) = (Site::default(), 0);
    for (RecordedBlock { at, kind }, found) in blocks.iter().zip(all) {
        // At that address is another one by now.
        if found.usable < kind.size || found.usable == 0 {
            continue;
        }
        count += 1;
        let cold = cold.map(|cold| cold.overlap(*at..at.saturating_add(found.usable)));
        total.add(kind, found, cold);
        sites.entry(kind.row.0).or_default().add(kind, found, cold);
    }
    let sums = sites.iter().map(|(row, site)| SiteRow { row: *row, sums: site.sums() });
    SitesReport {
        recorded: blocks.len() as u64 + left_out,
        found: count,
        left_out: *left_out,
        total: total.sums(),
        rows: largest(sums.collect()),
        likely: None,
    }
}

/// The largest of each kind, those that keep most first.
fn largest(mut rows: Vec<SiteRow>) -> Vec<SiteRow> {
    let by = |value: f64, row: &SiteRow| (Reverse(value.max(0.0).to_bits()), row.row);
    rows.sort_by_key(|row| by(row.sums.rounding(), row));
    let mut most: BTreeSet<u32> = rows.iter().take(ROWS).map(|row| row.row).collect();
    rows.sort_by_key(|row| by(row.sums.not_written(), row));
    most.extend(
        rows.iter().take_while(|row| row.sums.not_written() > 0.0).take(ROWS).map(|row| row.row),
    );
    rows.sort_by_key(|row| by(row.sums.pinned.value, row));
    let mut place = 0;
    rows.retain(|row| {
        place += 1;
        place <= ROWS || most.contains(&row.row)
    });
    rows
}

/// The sums of a stack.
#[derive(Default)]
struct Site {
    requested: Values,
    occupied: Values,
    pinned: Values,
    cold: Option<Values>,
}

impl Site {
    fn add(&mut self, kind: &Kind, found: &Found, cold: Option<u64>) {
        let probability = kind.probability();
        self.requested.add(kind.size, probability);
        self.occupied.add(found.usable, probability);
        self.pinned.add(whole(found.kept), probability);
        if let Some(cold) = cold {
            self.cold.get_or_insert_default().add(cold, probability);
        }
    }

    fn sums(&self) -> SiteSums {
        let bytes = |values: &Values| bounded(values.measure().bytes).into();
        SiteSums {
            blocks: bounded(self.requested.measure().count).into(),
            requested: bytes(&self.requested),
            occupied: bytes(&self.occupied),
            pinned: bytes(&self.pinned),
            cold: self.cold.as_ref().map(bytes),
        }
    }
}

/// Values of blocks, of which each taken one stands for others.
#[derive(Default)]
struct Values {
    exact: Exact,
    sampled: Samples,
}

impl Values {
    fn add(&mut self, value: u64, probability: Option<f64>) {
        match probability {
            None => self.exact.add(value),
            Some(probability) => self.sampled.add(value, probability),
        }
    }

    fn measure(&self) -> Measure {
        self.exact.and(self.sampled.measure(Unseen::default()))
    }
}

fn bounded(estimate: Estimate) -> Estimate {
    Estimate { low: estimate.low.max(0.0), ..estimate }
}

/// Bytes, to the nearest.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(bytes: f64) -> u64 {
    bytes.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use heapattach_profile::RowId;

    use super::*;

    fn block(row: u32, size: u64, interval: u64) -> RecordedBlock {
        RecordedBlock { at: 0, kind: Kind::new(RowId(row), size, interval) }
    }

    #[test]
    fn blocks_that_are_all_known_are_added_up() {
        let blocks = vec![block(1, 100, 1), block(1, 33, 1), block(2, 10, 1), block(3, 90, 1)];
        let found = |usable, kept| Found { usable, kept };
        // The last one was freed, and what is there now has less room.
        let all = [found(104, 4000.0), found(40, 10.4), found(24, 0.0), found(72, 3.0)];
        let report = sum(&Recorded { blocks, left_out: 0 }, &all, None);
        assert_eq!((report.recorded, report.found), (4, 3));
        let told = |sums: &SiteSums| {
            [&sums.blocks, &sums.requested, &sums.occupied, &sums.pinned].map(|range| range.value)
        };
        let rows: Vec<_> = report.rows.iter().map(|row| (row.row, told(&row.sums))).collect();
        assert_eq!(rows, [(1, [2.0, 133.0, 144.0, 4010.0]), (2, [1.0, 10.0, 24.0, 0.0])]);
        assert_eq!(told(&report.total), [3.0, 143.0, 168.0, 4010.0]);
        assert_eq!(report.total.pinned.low, report.total.pinned.high);
    }

    #[test]
    fn a_sampled_block_stands_for_others_as_rare_as_itself() {
        let recorded = Recorded { blocks: vec![block(1, 1000, 100_000); 9], left_out: 0 };
        let report = sum(&recorded, &[Found { usable: 1024, kept: 3072.0 }; 9], None);
        let weight = 1.0 / (1.0 - (-0.01_f64).exp());
        let SiteSums { requested, occupied, pinned, .. } = &report.rows[0].sums;
        let is = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-9;
        assert!(is(requested.value, 9000.0 * weight) && is(occupied.value, 9.0 * 1024.0 * weight));
        assert!(is(pinned.value, 27_648.0 * weight) && pinned.low < pinned.value);
        assert!(pinned.high > pinned.value, "{pinned:?}");
    }
}
