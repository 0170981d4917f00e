//! Who may have allocated the blocks that a session did not record, by recorded ones that are like them.

mod lives;

use std::collections::{BTreeMap, HashMap};

use heapattach_ledger::{FrameReport, Ledger};
use heapattach_profile::Range;
use heapattach_reach::Amount;
use heapattach_verdict::place::Place;
use serde::{Deserialize, Serialize};

use super::{heap::frames, sites::together};
use lives::Lives;

/// So much of the recorded blocks of a group must be of one place, or no place is told for all of it.
const PURE: f64 = 0.95;
/// Of a normal distribution, for an interval of 95 %.
const WIDTH: f64 = 1.96;
/// Places that are told.
const ROWS: usize = 500;

/// As a moment knows it: groups of blocks that are alike in class, size and holders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LikelyReport {
    /// Blocks in use that were not recorded.
    pub unrecorded: Amount,
    /// Of these, the ones that are like too few recorded ones, or of small groups.
    pub unlike: Amount,
    /// Those of most bytes.
    pub groups: Vec<LikelyGroup>,
    /// Why something is missing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub missing: Option<String>,
}

/// Blocks that are alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LikelyGroup {
    /// Those that were not recorded.
    pub unrecorded: Amount,
    /// By stack: the number of its first row, recorded blocks of it, and how many these stand for.
    pub sites: Vec<(u32, u32, f64)>,
}

/// The same by place.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LikelySites {
    /// Blocks in use that were not recorded.
    pub unrecorded: Amount,
    /// Of these, the ones that are like recorded blocks of one place.
    pub likely: Amount,
    /// Which part of the recorded blocks that are like these is of that place.
    pub purity: f64,
    /// Those that are like recorded blocks of several places.
    pub spread: Amount,
    /// Those that are like recorded blocks of one place whose blocks of the session are freed sooner than that these could
    /// be its.
    #[serde(default)]
    pub outlived: Amount,
    /// Those that are like too few recorded blocks, or none.
    pub unlike: Amount,
    /// Those of most bytes first.
    pub rows: Vec<LikelySite>,
    /// Why something is missing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub missing: Option<String>,
}

/// A place, and what it may have allocated.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LikelySite {
    /// The frame that caused the allocations, in words.
    pub place: String,
    /// Which of `frames` that is: those before it are allocators and the like.
    pub cause: usize,
    /// The calls that led to it in the stack of most blocks, innermost first.
    pub frames: Vec<FrameReport>,
    /// Blocks of groups that are this place's.
    pub likely: Amount,
    /// Which part of the recorded blocks of these groups is.
    pub purity: f64,
    /// How many recorded blocks that is known by.
    pub samples: u64,
    /// Its part, in bytes, of groups that several places have, as these allocate now.
    pub spread: Range,
    /// Blocks of groups that would be this place's, if what it allocated in the session had not been freed within half
    /// of that.
    #[serde(default)]
    pub outlived: Amount,
}

impl LikelyReport {
    /// With the names that a ledger of the session has; `stack` tells which of its stacks a row has.
    pub fn placed(&self, ledger: &Ledger, stack: &impl Fn(u32) -> Option<u32>) -> LikelySites {
        let mut places = Places { ledger, stack, words: HashMap::new() };
        let all = self.groups.iter().flat_map(|group| &group.sites);
        let wanted = all.filter_map(|(row, ..)| places.words(stack(*row)?)).collect();
        let lives = Lives::of(ledger, wanted, &mut |stack| places.words(stack));
        let lives_of = |own: &OfPlace| own.words.as_ref().and_then(|words| lives.get(words));
        let mut told = LikelySites {
            unrecorded: self.unrecorded,
            unlike: self.unlike,
            missing: self.missing.clone(),
            ..LikelySites::default()
        };
        let mut rows: BTreeMap<String, Sums> = BTreeMap::new();
        let (mut pure, mut seen) = (0, 0);
        for group in &self.groups {
            let by_place = places.of(group);
            let all: u64 = by_place.iter().map(|own| own.count).sum();
            let weight: f64 = by_place.iter().map(|own| own.weight).sum();
            let top = by_place.iter().max_by_key(|own| own.count);
            let Some(top) = top.filter(|_| weight > 0.0) else {
                add(&mut told.unlike, group.unrecorded);
                continue;
            };
            #[allow(clippy::cast_precision_loss)]
            let is_pure = top.words.is_some() && top.count as f64 >= PURE * all as f64;
            if is_pure && lives_of(top).is_some_and(|lives| lives.are_short()) {
                add(&mut told.outlived, group.unrecorded);
                let row = rows.entry(top.words.clone().unwrap_or_default()).or_default();
                row.see(top);
                add(&mut row.outlived, group.unrecorded);
                continue;
            }
            if is_pure {
                add(&mut told.likely, group.unrecorded);
                let row = rows.entry(top.words.clone().unwrap_or_default()).or_default();
                row.see(top);
                add(&mut row.likely, group.unrecorded);
                row.pure += top.count;
                row.samples += all;
                (pure, seen) = (pure + top.count, seen + all);
                continue;
            }
            add(&mut told.spread, group.unrecorded);
            for own in &by_place {
                let words = own.words.clone().unwrap_or_else(|| Place::unknown().words());
                let row = rows.entry(words).or_default();
                row.see(own);
                row.spread = together(row.spread, part(group.unrecorded.bytes, own, weight, all));
            }
        }
        told.purity = share(pure, seen);
        let rows = rows.into_iter().map(|(place, sums)| places.row(place, &sums));
        told.rows = rows.collect();
        let weight = |row: &LikelySite| {
            #[allow(clippy::cast_precision_loss)]
            let known = row.likely.bytes.saturating_add(row.outlived.bytes) as f64;
            known + row.spread.value
        };
        told.rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        told.rows.truncate(ROWS);
        told
    }
}

#[allow(clippy::cast_precision_loss)]
fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

fn add(sum: &mut Amount, other: Amount) {
    sum.bytes = sum.bytes.saturating_add(other.bytes);
    sum.blocks = sum.blocks.saturating_add(other.blocks);
}

/// Its part of so many bytes, by what `all` recorded blocks tell.
#[allow(clippy::cast_precision_loss)]
fn part(bytes: u64, own: &OfPlace, weight: f64, all: u64) -> Range {
    let part = own.weight / weight;
    // Not certain even where all that were seen are of one place.
    let wide = WIDTH * (part * (1.0 - part) / all as f64).sqrt() + 1.0 / all as f64;
    let of = |part: f64| bytes as f64 * part.clamp(0.0, 1.0);
    Range { value: of(part), low: of(part - wide), high: of(part + wide) }
}

/// Recorded blocks of a group that are of one place.
struct OfPlace {
    words: Option<String>,
    /// The stack of most of them, and how many that has.
    stack: Option<u32>,
    most: u32,
    count: u64,
    weight: f64,
}

#[derive(Default)]
struct Sums {
    stack: Option<u32>,
    most: u32,
    likely: Amount,
    pure: u64,
    samples: u64,
    spread: Range,
    outlived: Amount,
}

impl Sums {
    fn see(&mut self, own: &OfPlace) {
        if own.most > self.most {
            (self.stack, self.most) = (own.stack, own.most);
        }
    }
}

struct Places<'a, S> {
    ledger: &'a Ledger,
    stack: &'a S,
    words: HashMap<u32, Option<String>>,
}

impl<S: Fn(u32) -> Option<u32>> Places<'_, S> {
    /// The place of a stack, in words.
    fn words(&mut self, stack: u32) -> Option<String> {
        let ledger = self.ledger;
        let words = self.words.entry(stack);
        words.or_insert_with(|| Some(Place::of(&ledger.cause(stack)?).words())).clone()
    }

    fn of(&mut self, group: &LikelyGroup) -> Vec<OfPlace> {
        let mut all: Vec<OfPlace> = Vec::new();
        for &(row, count, weight) in &group.sites {
            let stack = (self.stack)(row);
            let words = stack.and_then(|stack| self.words(stack));
            let at = all.iter().position(|own| own.words == words).unwrap_or_else(|| {
                all.push(OfPlace { words, stack, most: 0, count: 0, weight: 0.0 });
                all.len() - 1
            });
            let own = &mut all[at];
            if count > own.most {
                (own.stack, own.most) = (stack, count);
            }
            own.count += u64::from(count);
            own.weight += weight;
        }
        all
    }

    fn row(&self, place: String, sums: &Sums) -> LikelySite {
        let stack = sums.stack.and_then(|stack| self.ledger.stacks.get(stack));
        LikelySite {
            place,
            cause: stack.map_or(0, |stack| stack.cause as usize),
            frames: sums.stack.map(|stack| frames(self.ledger, stack)).unwrap_or_default(),
            likely: sums.likely,
            purity: share(sums.pure, sums.samples),
            samples: sums.samples,
            spread: sums.spread,
            outlived: sums.outlived,
        }
    }
}

#[cfg(test)]
mod tests {
    use heapattach_ledger::{Metric, sample};
    use heapattach_profile::{Births, SPANS, Sum};

    use super::*;

    fn group(bytes: u64, sites: &[(u32, u32, f64)]) -> LikelyGroup {
        let unrecorded = Amount { bytes, blocks: bytes / 10 };
        LikelyGroup { unrecorded, sites: sites.to_vec() }
    }

    #[test]
    fn a_group_is_of_a_place_where_that_has_nearly_all_of_what_was_recorded() {
        let ledger = sample::ledger();
        let groups = vec![
            // 39 of 40, and a part of what is not known.
            group(4000, &[(0, 30, 30.0), (1, 9, 9.0), (u32::MAX, 1, 0.0)]),
            group(1000, &[(0, 60, 75.0), (2, 40, 25.0)]),
            group(500, &[(u32::MAX, 40, 40.0)]),
            group(70, &[]),
        ];
        let report = LikelyReport {
            unrecorded: Amount { bytes: 6000, blocks: 600 },
            unlike: Amount { bytes: 430, blocks: 43 },
            groups,
            missing: None,
        };
        // Two rows are of one place.
        let stack = |row: u32| (row < 3).then_some(row / 2);
        let told = report.placed(&ledger, &stack);
        let bytes = |amount: &Amount| amount.bytes;
        assert_eq!(
            [&told.unrecorded, &told.likely, &told.spread, &told.unlike].map(bytes),
            [6000, 4000, 1500, 500]
        );
        assert!((told.purity - 0.975).abs() < 1e-9);
        let first = &told.rows[0];
        assert_eq!((first.likely.bytes, first.samples), (4000, 40));
        assert_eq!(first.place, Place::of(&ledger.cause(0).unwrap()).words());
        assert!((first.spread.value - 750.0).abs() < 1e-9);
        assert!(first.spread.low > 640.0 && first.spread.low < first.spread.value, "{told:?}");
        let spread: f64 = told.rows.iter().map(|row| row.spread.value).sum();
        assert!((spread - 1500.0).abs() < 1e-9, "{told:?}");
    }

    /// All blocks that are like those of the first place, of which so many records were freed, and so many of each part of
    /// the session are in use.
    fn told(freed: u64, births: Option<[u32; SPANS]>) -> LikelySites {
        let mut ledger = sample::ledger();
        let in_use: u32 = births.iter().flatten().sum();
        for (metric, blocks) in [(Metric::Freed, freed), (Metric::Live, in_use.into())] {
            ledger.rows[0].set(metric, &Sum::exact(64, blocks));
        }
        ledger.births.retain(|(stack, _)| *stack != 0);
        let of = |records: [u32; SPANS]| Births { records, bytes: records.map(u64::from) };
        ledger.births.extend(births.map(|records| (0, of(records))));
        let groups = vec![group(4000, &[(0, 30, 30.0)])];
        let unrecorded = Amount { bytes: 4000, blocks: 400 };
        let report = LikelyReport { unrecorded, groups, ..LikelyReport::default() };
        report.placed(&ledger, &|row| Some(row))
    }

    #[test]
    fn older_blocks_are_not_of_a_place_whose_blocks_are_freed_within_half_of_the_session() {
        let late = [0, 0, 0, 0, 0, 0, 0, 30];
        let told_as = |told: &LikelySites| (told.likely.blocks, told.outlived.blocks);
        let short = told(1000, Some(late));
        assert_eq!(told_as(&short), (0, 400), "{short:?}");
        assert_eq!((short.rows[0].outlived.blocks, short.rows[0].samples), (400, 0));
        // One lives on; few are freed; fewer than are in use; when they were allocated is not known.
        let likely = [
            told(1000, Some([0, 0, 0, 1, 0, 0, 0, 29])),
            told(19, Some([0, 0, 0, 0, 0, 0, 0, 10])),
            told(29, Some(late)),
            told(1000, None),
        ];
        assert_eq!(likely.map(|told| told_as(&told)), [(400, 0); 4]);
    }
}
