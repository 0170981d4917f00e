//! The sums of a session, by stack and thread and all together; they are made of changes alone, so
//! that a recording leads to the same ones.
//!
//! # The peak
//!
//! What each row had in use when most was is known at any time, at the cost of one comparison an
//! event: only the *number* of the peak is noted when one is passed; a row takes what it holds for
//! its part of the last peak when it changes for the first time after that. This is exact in the
//! order of the records, and for samples it is the peak of the estimate.

use crate::{
    block::{Kind, RowId},
    change::Change,
    estimate::Estimate,
    exact::float,
    row::{Flow, Pages, Row, Tally},
    rows::Rows,
    tick::{Tick, micros},
    unseen::{Facts, Unseen},
};

/// Changes whose rows are fetched from memory at once; more would outrun the first cache.
const TOGETHER: usize = 64;

/// The sums.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// By stack and thread.
    pub rows: Rows,
    /// Only what is asked for at any time: live, allocated and peak, and pages.
    total: Row,
    peak: f64,
    /// How many peaks were noted.
    peaks: u32,
    /// How many snapshots were made.
    snapshots: u32,
    /// How many peaks had been noted at the last snapshot.
    peaks_told: u32,
    /// What dies younger is temporary.
    temporary: u32,
    /// What is older is not spoken of, if anything.
    since: Option<Tick>,
    /// What is known besides the changes.
    known: Facts,
}

/// What has changed since the snapshot before: those rows as they are, and all together.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// All rows together.
    pub total: Row,
    /// Whether there was a higher peak; then what is not in `rows` held for it what it holds.
    pub has_new_peak: bool,
    /// In the order of their numbers.
    pub rows: Vec<(RowId, Row)>,
}

impl Sheet {
    /// Nothing yet; never more than `limit` rows. What lives less than `temporary` ticks is
    /// temporary.
    pub fn new(limit: usize, temporary: u32) -> Self {
        Self {
            rows: Rows::new(limit),
            total: Row::default(),
            peak: 0.0,
            peaks: 0,
            snapshots: 0,
            peaks_told: 0,
            temporary,
            since: None,
            known: Facts::default(),
        }
    }

    /// From now on only what is allocated from `since` on counts.
    pub fn begin_at(&mut self, since: Tick) {
        self.since = Some(since);
    }

    /// What is known besides the changes: that it was sampled so rarely at least, and how much was
    /// asked for in all.
    pub fn know(&mut self, known: Facts) {
        self.known = Facts { every: self.known.every.max(known.every), ..known };
        self.total.heap.beside(self.unseen());
    }

    /// What may be there in any sum of which no sample was seen.
    fn unseen(&self) -> Unseen {
        Unseen::new(self.known, self.total.heap.certain(Flow::Allocated))
    }

    /// Takes in what happened at `now`.
    pub fn apply(&mut self, change: &Change, now: Tick) {
        match *change {
            Change::Allocated { kind, kept, exchanged } => self.allocated(&kind, kept, exchanged),
            Change::Freed { kind, birth } if self.counts(birth, now) => {
                self.freed(&kind, now.since(birth));
            }
            Change::Restored { kind, birth, death } if self.counts(birth, now) => {
                self.restored(&kind, death.since(birth));
            }
            Change::Mapped { row, bytes, kept } => {
                self.pages(row, |pages| pages.add(bytes, kept));
            }
            Change::Unmapped { row, bytes, .. } => self.pages(row, |pages| pages.remove(bytes)),
            Change::Remained { row, bytes, .. } => self.pages(row, |pages| pages.restore(bytes)),
            Change::Freed { .. } | Change::Restored { .. } => {}
        }
    }

    /// Takes in much of what happened, each with its time in ticks.
    pub fn apply_all(&mut self, changes: &[(u64, Change)]) {
        for some in changes.chunks(TOGETHER) {
            self.rows.warm(some.iter().map(|(_, change)| change.row()));
            some.iter().for_each(|(now, change)| self.apply(change, Tick::of(*now)));
        }
    }

    /// Takes in what was counted elsewhere: so many blocks of one size that came, and went, of those that were
    /// taken with this probability, or of all.
    pub fn counted(&mut self, id: RowId, size: u64, p: Option<f64>, [came, went]: [u64; 2]) {
        let [row, total] = self.both(id);
        for tally in [&mut row.heap, &mut total.heap] {
            tally.add_many(Flow::Allocated, size, p, came);
            tally.add_many(Flow::Live, size, p, came);
        }
        row.sizes.add(size, float(came) * p.map_or(1.0, f64::recip));
        if went == 0 {
            return;
        }
        if self.is_at_peak() {
            self.note_peak();
        }
        let [row, total] = self.both(id);
        total.heap.remove_many(Flow::Live, size, p, went);
        row.heap.remove_many(Flow::Live, size, p, went);
        row.heap.add_many(Flow::Freed, size, p, went);
    }

    /// What is live and what was allocated in all rows together, for a caller that asks often.
    pub fn heap(&self) -> &Tally {
        &self.total.heap
    }

    /// All mapped pages together.
    pub fn mapped(&self) -> Pages {
        self.total.pages
    }

    /// The most bytes that were live at once. The highest of many estimates is a high one of its
    /// kind: for a session with few samples this is rather above the truth.
    pub fn peak(&self) -> Estimate {
        self.finished(&self.total).heap.measure(Flow::Peak).bytes
    }

    /// The bytes of the highest peak so far, without the interval.
    pub fn peak_bytes(&self) -> f64 {
        self.peak.max(self.heap().bytes(Flow::Live))
    }

    /// A row, or the total, as if this was the end: with its part of the peak.
    pub fn finished(&self, row: &Row) -> Row {
        let mut row = row.clone();
        if row.peaks != self.peaks || self.is_at_peak() {
            row.heap.note_peak();
        }
        row.heap.beside(self.unseen());
        row
    }

    /// All rows as if this was the end.
    pub fn into_rows(mut self) -> Vec<Row> {
        if self.is_at_peak() {
            self.note_peak();
        }
        let (peaks, unseen) = (self.peaks, self.unseen());
        let mut rows = self.rows.into_all();
        rows.iter_mut().filter(|row| row.peaks != peaks).for_each(|row| row.heap.note_peak());
        rows.iter_mut().for_each(|row| row.heap.beside(unseen));
        rows
    }

    /// All rows together, as if this was the end.
    pub fn total(&self) -> Row {
        let mut total = Row::default();
        self.rows.all().iter().for_each(|row| total.merge(&self.finished(row)));
        total
    }

    /// What is to be known besides the last snapshot; another one begins here.
    pub fn snapshot(&mut self) -> Snapshot {
        if self.is_at_peak() {
            self.note_peak();
        }
        let all = (0..).zip(self.rows.all());
        let changed = all.filter(|(_, row)| row.snapshots == self.snapshots && row.is_known());
        let rows = changed.map(|(number, row)| (RowId(number), self.finished(row))).collect();
        self.snapshots = self.snapshots.wrapping_add(1);
        let has_new_peak = std::mem::replace(&mut self.peaks_told, self.peaks) != self.peaks;
        Snapshot { total: self.finished(&self.total), has_new_peak, rows }
    }

    /// Goes on from a snapshot, the one before being known already.
    pub fn resume(&mut self, snapshot: Snapshot) {
        let Snapshot { total, has_new_peak, rows } = snapshot;
        // The part that others have in a new peak is what they held before and hold still.
        self.peaks = self.peaks.wrapping_add(u32::from(has_new_peak));
        let (peaks, snapshots) = (self.peaks, self.snapshots);
        self.peak = total.heap.bytes(Flow::Peak);
        self.total = Row { peaks, snapshots, ..total };
        self.know(self.known);
        for (id, row) in rows {
            let own = self.rows.get_mut(id);
            *own = Row { stack: own.stack, thread: own.thread, peaks, snapshots, ..row };
        }
    }

    fn is_at_peak(&self) -> bool {
        self.total.heap.bytes(Flow::Live) > self.peak
    }

    fn note_peak(&mut self) {
        self.peak = self.total.heap.bytes(Flow::Live);
        self.peaks = self.peaks.wrapping_add(1);
    }

    fn counts(&self, birth: Tick, now: Tick) -> bool {
        self.since.is_none_or(|since| now.since(birth) <= now.since(since))
    }

    fn allocated(&mut self, kind: &Kind, kept: bool, exchanged: bool) {
        let blocks = kind.probability().map_or(1.0, f64::recip);
        let every = u64::from(kind.interval());
        if every > self.known.every {
            self.know(Facts { every, ..self.known });
        }
        let [row, total] = self.both(kind.row);
        for tally in [&mut row.heap, &mut total.heap] {
            tally.add(Flow::Allocated, kind);
            if kept {
                tally.add(Flow::Live, kind);
            }
        }
        row.sizes.add(kind.size, blocks);
        if exchanged {
            row.exchanged += blocks;
        }
    }

    fn freed(&mut self, kind: &Kind, lifetime: u32) {
        // Only what goes can end a peak: on the way up there is nothing to note.
        if self.is_at_peak() {
            self.note_peak();
        }
        let is_temporary = lifetime < self.temporary;
        let [row, total] = self.both(kind.row);
        total.heap.remove(Flow::Live, kind);
        row.heap.remove(Flow::Live, kind);
        row.heap.add(Flow::Freed, kind);
        if is_temporary {
            row.heap.add(Flow::Temporary, kind);
        }
        row.lifetimes.add(micros(lifetime), kind.probability().map_or(1.0, f64::recip));
    }

    fn restored(&mut self, kind: &Kind, lifetime: u32) {
        let is_temporary = lifetime < self.temporary;
        let [row, total] = self.both(kind.row);
        total.heap.add(Flow::Live, kind);
        row.heap.add(Flow::Live, kind);
        row.heap.remove(Flow::Freed, kind);
        if is_temporary {
            row.heap.remove(Flow::Temporary, kind);
        }
        row.lifetimes.add(micros(lifetime), -kind.probability().map_or(1.0, f64::recip));
    }

    fn pages(&mut self, row: RowId, change: impl Fn(&mut Pages)) {
        let [row, total] = self.both(row);
        change(&mut row.pages);
        change(&mut total.pages);
    }

    /// A row that is about to change, and the total.
    fn both(&mut self, row: RowId) -> [&mut Row; 2] {
        let (peaks, snapshots) = (self.peaks, self.snapshots);
        let (row, total) = (self.rows.get_mut(row), &mut self.total);
        row.snapshots = snapshots;
        if row.peaks != peaks {
            row.heap.note_peak();
            row.peaks = peaks;
        }
        if total.peaks != peaks {
            total.heap.note_peak();
            total.peaks = peaks;
        }
        [row, total]
    }
}
