//! The course of a session for pictures: in which span of the time blocks were allocated, and in
//! which they were freed.
//!
//! Memory is bounded: where there are too many cells, spans are put together by two.

use std::{collections::HashMap, ops::Range, time::Duration};

use crate::Recording;
use crate::{
    format::rows::Table,
    read::part::{Births, before, birth},
};
use heapattach_ledger::{Cell, Course, Fate, Ledger};
use heapattach_profile::clock::Clock;
use heapattach_profile::{Change, Exact, Kind, Samples, Sum, Tick, micros, ticks};

/// Spans of a session: a picture of a window needs no more, and each is some pixels wide.
const SPANS: u64 = 64;
/// With fewer there is not much to choose.
const FEWEST: usize = 8;
/// Cells: a page has to be sent by mail.
const CELLS: usize = 1 << 17;

/// A row, the span of births, and the fate.
type Key = (u32, u8, Fate);

/// Blocks that come and go.
#[derive(Clone, Debug, Default)]
struct Blocks {
    exact: Exact,
    sampled: Option<Box<Samples>>,
}

/// Puts cells together.
#[derive(Debug)]
struct Loom {
    /// In ticks: when each span begins.
    begins: Vec<u64>,
    cells: HashMap<Key, Blocks>,
    limit: usize,
    /// What lives shorter is freed soon.
    soon: u32,
}

/// The stack and the thread that rows have in a ledger, if they are in it, by the number of the row.
#[derive(Debug)]
pub struct Places(Vec<Option<(u32, u32)>>);

impl Places {
    /// Of these rows; `known` says which of them `ledger` has, if their stack is known.
    pub fn of(known: &[bool], table: &Table, ledger: &Ledger) -> Self {
        let mut told = ledger.rows.iter();
        let rows = known.iter().zip(&table.rows).map(|(is_known, &(stack, _))| {
            let has_stack = *is_known && (stack as usize) < table.stacks.len();
            let row = if has_stack { told.next() } else { None };
            row.map(|row| (row.stack, row.thread))
        });
        Self(rows.collect())
    }

    /// The stack of a row in the ledger, if it is there.
    pub fn stack(&self, row: u32) -> Option<u32> {
        self.0.get(row as usize).copied().flatten().map(|(stack, _)| stack)
    }
}

/// Whether growth is judged by the course of all of it.
pub fn is_judged(ledger: &Ledger) -> bool {
    ledger.about.part.is_empty() && ledger.moments.iter().any(|moment| moment.flow.is_some())
}

impl Recording {
    /// How the sums of all of it came about.
    pub(crate) fn course_of(&self, places: &Places) -> Course {
        self.course(places, 0..u64::MAX, self.length(), None)
    }

    /// How the sums of a part came about that ends at `end`; `places` are those in its ledger.
    pub(crate) fn course(
        &self,
        places: &Places,
        time: Range<u64>,
        end: u64,
        births: Option<&Births>,
    ) -> Course {
        let Some(logged_from) = self.logged_from() else {
            return Course::none("events were replaced by sums (--max-size)");
        };
        let bounds_ms = bounds(millis_up(time.start.max(logged_from)), millis_up(end));
        if bounds_ms.len() < 3 {
            return Course::none("the session was too short");
        }
        let mut loom = Loom::new(&bounds_ms, CELLS);
        let first = loom.begins[0];
        let is_meant = |now: u64, change: &Change| {
            birth(now, change).is_some_and(|birth| birth >= first)
                && births.is_none_or(|births| births.contain(now, change))
        };
        self.changes_while(0, time, is_meant, |changes| {
            changes.iter().for_each(|(now, change)| loom.note(*now, change));
            // There is nothing to be told of a program with too many stacks: the rest need not be read.
            !loom.begins.is_empty()
        });
        if loom.begins.is_empty() {
            return Course::none("the program has too many stacks");
        }
        let step = (bounds_ms.len() - 1) / loom.begins.len();
        let bounds_ms = bounds_ms.into_iter().step_by(step.max(1)).collect();
        let cells = loom.cells.into_iter().filter(|(_, blocks)| blocks.exist());
        let cells = cells.filter_map(|((row, birth, fate), blocks)| {
            let (stack, thread) = (*places.0.get(row as usize)?)?;
            let sum = Sum::new(blocks.exact, blocks.sampled.as_deref());
            Some(Cell { stack, thread, birth, fate, sum })
        });
        Course { bounds_ms, cells: cells.collect(), why_none: String::new() }
    }
}

impl Blocks {
    fn add(&mut self, kind: &Kind) {
        match kind.probability() {
            None => self.exact.add(kind.size),
            Some(p) => self.sampled.get_or_insert_default().add(kind.size, p),
        }
    }

    fn remove(&mut self, kind: &Kind) {
        match kind.probability() {
            None => self.exact.remove(kind.size),
            Some(p) => self.sampled.get_or_insert_default().remove(kind.size, p),
        }
    }

    fn merge(&mut self, other: &Self) {
        self.exact.merge(&other.exact);
        if let Some(more) = &other.sampled {
            self.sampled.get_or_insert_default().merge(more);
        }
    }

    fn exist(&self) -> bool {
        self.exact.count > 0 || self.sampled.as_ref().is_some_and(|samples| samples.seen() > 0)
    }
}

impl Loom {
    fn new(bounds_ms: &[u64], limit: usize) -> Self {
        let begins = bounds_ms.iter().map(|&ms| ticks(Duration::from_millis(ms)));
        let begins = begins.take(bounds_ms.len() - 1);
        let (begins, cells) = (begins.collect(), HashMap::new());
        Self { begins, cells, limit, soon: Clock::temporary() }
    }

    fn note(&mut self, now: u64, change: &Change) {
        if self.begins.is_empty() {
            return;
        }
        match *change {
            Change::Allocated { kind, kept, .. } => {
                let fate = if kept { Fate::Held } else { Fate::Unknown };
                self.put(&kind, self.span(now), fate);
            }
            Change::Freed { kind, birth } => self.moved(&kind, before(now, birth), now, true),
            Change::Restored { kind, birth, death } => {
                self.moved(&kind, before(now, birth), before(now, death), false);
            }
            Change::Mapped { .. } | Change::Unmapped { .. } | Change::Remained { .. } => {}
        }
    }

    /// A live block was freed, or (`is_freed` is false) a freed one is live again.
    fn moved(&mut self, kind: &Kind, birth: u64, death: u64, is_freed: bool) {
        let lifetime = Tick::of(death).since(Tick::of(birth));
        let freed = Fate::Freed { span: self.span(death), is_soon: lifetime < self.soon };
        let (from, to) = if is_freed { (Fate::Held, freed) } else { (freed, Fate::Held) };
        let birth = self.span(birth);
        if let Some(blocks) = self.cells.get_mut(&(kind.row.0, birth, from)) {
            blocks.remove(kind);
        }
        self.put(kind, birth, to);
    }

    fn put(&mut self, kind: &Kind, birth: u8, fate: Fate) {
        self.cells.entry((kind.row.0, birth, fate)).or_default().add(kind);
        if self.cells.len() > self.limit {
            self.cells.retain(|_, blocks| blocks.exist());
            while self.cells.len() > self.limit / 4 * 3 && !self.begins.is_empty() {
                self.halve();
            }
        }
    }

    /// Puts spans together by two.
    fn halve(&mut self) {
        if self.begins.len() <= FEWEST {
            // It was all for nothing.
            self.begins.clear();
            self.cells = HashMap::new();
            return;
        }
        self.begins = self.begins.iter().copied().step_by(2).collect();
        for ((row, birth, fate), blocks) in std::mem::take(&mut self.cells) {
            let fate = match fate {
                Fate::Freed { span, is_soon } => Fate::Freed { span: span / 2, is_soon },
                other => other,
            };
            self.cells.entry((row, birth / 2, fate)).or_default().merge(&blocks);
        }
    }

    fn span(&self, now: u64) -> u8 {
        let after = self.begins.partition_point(|begin| *begin <= now);
        u8::try_from(after.saturating_sub(1)).unwrap_or(u8::MAX)
    }
}

/// A number of spans that can be halved often.
fn bounds(from: u64, to: u64) -> Vec<u64> {
    let length = to.saturating_sub(from);
    let most = SPANS.min(length);
    let spans = if most < 2 { 0 } else { 1 << most.ilog2() };
    let part = |span: u64| u128::from(length) * u128::from(span) / u128::from(spans);
    let at = |span| from + u64::try_from(part(span)).unwrap_or(length);
    if spans == 0 { Vec::new() } else { (0..=spans).map(at).collect() }
}

/// The next whole millisecond: what a reader can type begins there.
fn millis_up(ticks: u64) -> u64 {
    micros(ticks).div_ceil(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Part;
    use crate::sample::waves;
    use heapattach_ledger::{Metric, Row};
    use heapattach_test_folder::Folder;

    /// What a window of whole spans says of each row, by stack and thread.
    fn told(course: &Course, from: u8, to: u8) -> HashMap<(u32, u32), [Sum; 4]> {
        let mut rows: HashMap<_, [Sum; 4]> = HashMap::new();
        for cell in course.cells.iter().filter(|cell| (from..to).contains(&cell.birth)) {
            let [live, allocated, freed, temporary] =
                rows.entry((cell.stack, cell.thread)).or_default();
            allocated.merge(&cell.sum);
            match cell.fate {
                Fate::Freed { span, is_soon } if span < to => {
                    freed.merge(&cell.sum);
                    if is_soon {
                        temporary.merge(&cell.sum);
                    }
                }
                Fate::Held | Fate::Freed { .. } => live.merge(&cell.sum),
                Fate::Unknown => {}
            }
        }
        rows
    }

    fn assert_same(ours: &Sum, row: &Row, metric: Metric) {
        // What may be unseen is known of the whole.
        let ours = ours.clone().beside(row.heap.unseen());
        let (ours, theirs) = (ours.measure(), row.measure(metric));
        for (ours, theirs) in [(ours.bytes, theirs.bytes), (ours.count, theirs.count)] {
            let pairs =
                [(ours.value, theirs.value), (ours.low, theirs.low), (ours.high, theirs.high)];
            let near = |(a, b): (f64, f64)| (a - b).abs() <= 1e-6 * a.abs().max(1.0);
            assert!(pairs.into_iter().all(near), "{metric:?}: {ours:?} {theirs:?}");
        }
    }

    #[test]
    fn any_window_of_spans_says_what_a_part_of_the_recording_says() {
        for interval in [1, 4096] {
            let folder = Folder::new(&format!("course-{interval}"));
            let path = folder.0.join("a");
            waves(&path, interval);
            let recording = Recording::open(&path).unwrap();
            let part = Part { with_course: true, ..Part::default() };
            let whole = recording.part(&part);
            let bounds = &whole.course.bounds_ms;
            assert_eq!(bounds.len(), 65, "{}", whole.course.why_none);
            let stack = |ledger: &Ledger, stack: u32| {
                ledger.stacks.get(stack).map(|stack| stack.locations.to_vec())
            };
            for (from, to) in [(0, 64), (0, 1), (10, 11), (20, 40), (63, 64), (30, 64)] {
                let at = |span: u8| Duration::from_millis(bounds[usize::from(span)]);
                let end = if to == 64 { Duration::from_secs(9999) } else { at(to) };
                let window = recording.ledger(Some(at(from)..end));
                let told = told(&whole.course, from, to);
                assert_eq!(told.len(), window.rows.len(), "{from} to {to}");
                for row in &window.rows {
                    let is_it = |(number, thread): &&(u32, u32)| {
                        *thread == row.thread && stack(&whole, *number) == stack(&window, row.stack)
                    };
                    let ours = &told[told.keys().find(is_it).unwrap()];
                    let metrics =
                        [Metric::Live, Metric::Allocated, Metric::Freed, Metric::Temporary];
                    metrics.iter().zip(ours).for_each(|(&m, ours)| assert_same(ours, row, m));
                }
            }
        }
    }

    #[test]
    fn too_many_cells_make_the_spans_longer_and_then_there_are_none() {
        let bounds: Vec<u64> = (0..=64).map(|span| span * 10).collect();
        let of = |limit, rows: u32| {
            let mut loom = Loom::new(&bounds, limit);
            for step in 0..6400_u64 {
                let row = u32::try_from(step).unwrap() % rows;
                let kind = Kind::new(heapattach_profile::RowId(row), 8, 1);
                loom.note(step * 4 / 10, &Change::Allocated { kind, kept: true, exchanged: false });
                let birth = Tick::of(step * 4 / 10);
                loom.note(step * 4 / 10 + 1, &Change::Freed { kind, birth });
            }
            let blocks: u64 = loom.cells.values().map(|blocks| blocks.exact.count).sum();
            (loom.begins.len(), blocks)
        };
        assert_eq!(of(100_000, 10), (64, 6400));
        let (spans, blocks) = of(1000, 20);
        assert!((FEWEST..64).contains(&spans) && blocks == 6400, "{spans} {blocks}");
        assert_eq!(of(100, 1000), (0, 0));
    }

    #[test]
    fn spans_are_a_power_of_two_and_cover_the_time() {
        assert_eq!(bounds(1000, 65_000).len(), 65);
        assert_eq!((bounds(0, 7), bounds(5, 6)), (vec![0, 1, 3, 5, 7], Vec::new()));
        assert_eq!(bounds(0, u64::MAX).last(), Some(&u64::MAX));
        assert!(bounds(9, 3).is_empty());
    }
}
