//! Looks at blocks while they stream by, in the order of their addresses.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    Block, Moment, Sink, State, Walker, Window,
    stats::Resident,
    types::{ClassId, ClassTally},
};

use super::{
    contents::{self, Contents, WINDOW},
    copies::{Content, Copies},
    fingerprint::Keys,
};

/// A block is far too large if it ends in so many zeroes, and they are half of it.
const LEAST_TAIL: u64 = 256;
/// Groups that are told; that are kept.
const ROWS: usize = 1000;
const MOST_GROUPS: usize = 1 << 16;
/// The clock is looked at after so many blocks.
const BLOCKS: u64 = 64;

/// What a block, or a part of it, may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WasteKind {
    /// Zeroes alone.
    Zeroes,
    /// The bytes of another block, all of them.
    Copies,
    /// The text of another block.
    TextCopies,
    /// The end of a block: zeroes, at least half of it.
    Tails,
}

/// Blocks, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasteSum {
    /// Blocks.
    pub blocks: u64,
    /// Bytes in memory or in swap.
    pub bytes: u64,
}

impl WasteSum {
    fn add(&mut self, blocks: u64, bytes: u64) {
        self.blocks = self.blocks.saturating_add(blocks);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Blocks of one kind, class and size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasteRow {
    /// What of them may be waste.
    pub kind: WasteKind,
    /// The class, if they say it; of copies that of the first.
    pub class: Option<String>,
    /// Usable bytes of each; of copies those of the first.
    pub size: u64,
    /// How many different contents copies are of; else 0.
    pub contents: u64,
    /// What may be waste.
    pub waste: WasteSum,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waste {
    /// Blocks in use that were looked at.
    pub looked_at: WasteSum,
    /// Those for which there was no time, or that could not be read.
    pub left_out: WasteSum,
    /// Blocks of zeroes alone.
    pub zeroes: WasteSum,
    /// Blocks with the bytes of another: all but one of each.
    pub copies: WasteSum,
    /// The same of text, whatever follows its end.
    pub text_copies: WasteSum,
    /// The ends of blocks.
    pub tails: WasteSum,
    /// One of so many contents was kept: with more than 1, copies and tails are estimates.
    pub one_in: u64,
    /// 95 % CI of the sum of copies and tails: plus and minus so many bytes.
    pub margin: f64,
    /// The largest groups.
    pub rows: Vec<WasteRow>,
    /// How long it may take, and how long it took, in milliseconds.
    pub limit_ms: f64,
    /// See `limit_ms`.
    pub took_ms: f64,
}

impl Waste {
    /// All of it.
    pub fn bytes(&self) -> u64 {
        [self.zeroes, self.copies, self.text_copies, self.tails]
            .iter()
            .fold(0, |all, sum| all.saturating_add(sum.bytes))
    }

    /// Of what was looked at.
    pub fn percent(&self) -> f64 {
        self.bytes() as f64 * 100.0 / self.looked_at.bytes.max(1) as f64
    }
}

/// Looks at all blocks that these walkers tell, for no longer than that.
pub fn look(moment: &Moment<'_>, walkers: &[&dyn Walker], limit: Duration) -> Waste {
    let mut tally = WasteTally::new(moment, limit);
    for walker in walkers {
        walker.walk(moment, &mut tally);
    }
    tally.finish(limit)
}

type Group = (WasteKind, Option<ClassId>, u64);

struct WasteTally<'a, 'm> {
    types: ClassTally<'a, 'm>,
    window: Window<'a, 'm>,
    resident: Resident,
    keys: Keys,
    copies: Copies,
    groups: HashMap<Group, (u64, WasteSum)>,
    waste: Waste,
    began: Instant,
    end: Instant,
    is_over: bool,
}

impl<'a, 'm> WasteTally<'a, 'm> {
    fn new(moment: &'a Moment<'m>, limit: Duration) -> Self {
        let began = Instant::now();
        Self {
            types: ClassTally::new(moment),
            window: Window::new(moment, 0..u64::MAX, WINDOW),
            resident: Resident::of(moment),
            keys: Keys::random(),
            copies: Copies::default(),
            groups: HashMap::new(),
            waste: Waste::default(),
            began,
            // A limit beyond all time is none.
            end: began.checked_add(limit).unwrap_or(began + Duration::from_secs(1 << 30)),
            is_over: false,
        }
    }

    /// Bytes of a range that are somewhere.
    fn there(&mut self, at: u64, end: u64) -> u64 {
        let amount = self.resident.overlap(&(at..end));
        amount.resident.saturating_add(amount.swapped)
    }

    fn add(
        &mut self,
        kind: WasteKind,
        (class, size): (Option<ClassId>, u64),
        more: (u64, WasteSum),
    ) {
        let sum = match kind {
            WasteKind::Zeroes => &mut self.waste.zeroes,
            WasteKind::Copies => &mut self.waste.copies,
            WasteKind::TextCopies => &mut self.waste.text_copies,
            WasteKind::Tails => &mut self.waste.tails,
        };
        let (contents, WasteSum { blocks, bytes }) = more;
        sum.add(blocks, bytes);
        let key = (kind, class, size);
        if self.groups.len() < MOST_GROUPS || self.groups.contains_key(&key) {
            let group = self.groups.entry(key).or_default();
            group.0 += contents;
            group.1.add(blocks, bytes);
        }
    }

    fn finish(mut self, limit: Duration) -> Waste {
        let copies = std::mem::take(&mut self.copies);
        for (content, stands_for) in copies.all() {
            let Content { is_text, class, size, tail, copies, bytes, .. } = *content;
            let sum = |blocks: u64, bytes: u64| {
                let [blocks, bytes] = [blocks, bytes].map(|one| one.saturating_mul(stands_for));
                WasteSum { blocks, bytes }
            };
            if copies > 0 {
                let kind = if is_text { WasteKind::TextCopies } else { WasteKind::Copies };
                self.add(kind, (class, size), (stands_for, sum(copies, bytes)));
            }
            if tail > 0 {
                self.add(WasteKind::Tails, (class, size), (0, sum(1, tail)));
            }
        }
        let Self { types, groups, mut waste, began, .. } = self;
        let names = types.into_names();
        let name = |class: ClassId| names.get(usize::try_from(class.0).ok()?).cloned();
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(group, (_, sum))| (std::cmp::Reverse(sum.bytes), *group));
        let row = |((kind, class, size), (contents, sum)): (Group, _)| WasteRow {
            kind,
            class: class.and_then(name),
            size,
            contents,
            waste: sum,
        };
        waste.rows = groups.into_iter().take(ROWS).map(row).collect();
        (waste.one_in, waste.margin) = (copies.one_in(), copies.margin());
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        (waste.limit_ms, waste.took_ms) = (millis(limit), millis(began.elapsed()));
        waste
    }
}

impl Sink for WasteTally<'_, '_> {
    fn block(&mut self, block: Block) {
        if block.state != State::Used || block.size == 0 {
            return;
        }
        let end = block.at.saturating_add(block.size);
        let bytes = self.there(block.at, end);
        let seen = self.waste.looked_at.blocks;
        self.is_over |= seen.is_multiple_of(BLOCKS) && Instant::now() > self.end;
        let found = (!self.is_over)
            .then(|| contents::of(block, &mut self.window, self.keys, self.end))
            .flatten();
        let Some(found) = found else { return self.waste.left_out.add(1, bytes) };
        self.waste.looked_at.add(1, bytes);
        self.types.block(block);
        let (class, size) = (self.types.latest(), block.size);
        match found {
            Contents::Zeroes if bytes > 0 => {
                let sum = WasteSum { blocks: 1, bytes };
                self.add(WasteKind::Zeroes, (class, size), (0, sum));
            }
            Contents::Zeroes => {}
            Contents::Text(print) => {
                self.copies.add(print, bytes, || Content::first(true, class, size, 0));
            }
            Contents::Bytes(print, zeroes) => {
                let is_much = zeroes >= LEAST_TAIL && zeroes >= size / 2;
                let tail = if is_much { self.there(end - zeroes, end) } else { 0 };
                self.copies.add(print, bytes, || Content::first(false, class, size, tail));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    const HEAP: u64 = 0x80_0000;

    fn look_at(memory: &Synthetic, blocks: &[(u64, u64)], limit: Duration) -> Waste {
        let moment = memory.moment();
        let mut tally = WasteTally::new(&moment, limit);
        for &(at, size) in blocks {
            tally.block(Block { at: HEAP + at, size, state: State::Used, arena: 0, class: 0 });
            let at = HEAP + at;
            tally.block(Block { at, size, state: State::Free, arena: 0, class: 0 });
        }
        tally.finish(limit)
    }

    fn memory() -> Synthetic {
        let mut memory = Synthetic::default();
        memory.map(HEAP..HEAP + 0x10_0000);
        // Two pages are there.
        [0, 0x1000].into_iter().for_each(|at| memory.write(HEAP + at, 1));
        for at in [0x100, 0x140, 0x180] {
            memory.write(HEAP + at, 7);
            memory.write(HEAP + at + 40, 9);
        }
        memory.write_bytes(HEAP + 0x200, b"the same text here\0garbage");
        memory.write_bytes(HEAP + 0x240, b"the same text here\0other garbage");
        memory.write(HEAP + 0x400, 1);
        memory
    }

    const BLOCKS: [(u64, u64); 7] = [
        (0x100, 48),
        (0x140, 48),
        (0x180, 48),
        (0x200, 24),
        (0x240, 24),
        // It has three pages, of which two are there; its last word that is not zero is on the second.
        (0x400, 0x2000),
        (0x4000, 0x2000),
    ];

    #[test]
    fn each_byte_counts_once_and_only_if_it_is_there() {
        let waste = look_at(&memory(), &BLOCKS, Duration::MAX);
        let sum = |blocks, bytes| WasteSum { blocks, bytes };
        assert_eq!(waste.looked_at, sum(7, 3 * 48 + 2 * 24 + 0x1c00));
        assert_eq!(waste.copies, sum(2, 96));
        assert_eq!(waste.text_copies, sum(1, 24));
        assert_eq!(waste.tails, sum(1, 0xfff));
        assert_eq!(waste.zeroes, sum(0, 0), "never touched");
        assert_eq!((waste.one_in, waste.left_out), (1, sum(0, 0)));
        let first = &waste.rows[0];
        assert_eq!((first.kind, first.size, first.contents), (WasteKind::Tails, 0x2000, 0));
        assert_eq!(waste.rows[1].contents, 1);
        let mut memory = memory();
        memory.write(HEAP + 0x4000, 0);
        memory.write(HEAP + 0x5000, 0);
        assert_eq!(look_at(&memory, &BLOCKS, Duration::MAX).zeroes, sum(1, 0x2000));
    }

    #[test]
    fn what_there_is_no_time_for_is_told() {
        let waste = look_at(&memory(), &BLOCKS, Duration::ZERO);
        assert_eq!((waste.looked_at.blocks, waste.left_out.blocks), (0, 7));
        assert_eq!(waste.percent(), 0.0);
    }
}
