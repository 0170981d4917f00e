//! Who holds the blocks of a process: by dominators from its roots, with the paths that lead to some.

use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

use heapattach_census::{Moment, walkers};
use heapattach_injector::moment::Scene;
use heapattach_reach::{Above, Amount, Holding, Memory, Row, rows};
use heapattach_report::{HolderRow, HoldersReport, PathReport, PathStep};

use super::{
    known::{Inner, Known, Picture, WithBooks, Written},
    labels::{Labels, Names},
    roots::Roots,
    source::Source,
    suspects::suspects,
    typed,
    wanted::{HeapFilter, WhoHolds},
};

/// Rows that are kept, those that retain most; less than this part of all is not. Less of them are told.
const ROWS: usize = 20_000;
const LEAST: u64 = 200_000;
/// Blocks whose paths are looked at, spread over all of them; paths that are told; steps of each.
const LOOKED_AT: usize = 2048;
const PATHS: usize = 20;
const STEPS: usize = 100;
/// So much of a block is read for the place of a pointer.
const MOST_READ: u64 = 1 << 20;

/// Looks for them in memory that a process, or a clone of it, keeps, or a core. Blocks that are not `known` yet are named by
/// debug data, too, if that is wanted.
pub(super) fn report(
    source: Source<'_>,
    written: &Written<'_>,
    (moment, scene): (&Moment<'_>, &Scene),
    filter: &HeapFilter,
    wanted: Option<&WhoHolds>,
    (known, with_types): (Option<WithBooks>, bool),
) -> HoldersReport {
    let began = Instant::now();
    let known = match known {
        Some((known, books)) => Ok(known.with_layout(written, scene, books)),
        None => {
            let known = Known::of(written, moment, scene, &walkers::ALL, Inner::Blocks);
            match with_types {
                true => known.map(|known| typed::renamed(known, source, moment)),
                false => known,
            }
        }
    };
    let mut report = match known {
        Ok(known) => of_known(&known, source, moment, scene, filter, wanted),
        Err(error) => HoldersReport { error: Some(error), ..HoldersReport::default() },
    };
    report.took_ms = began.elapsed().as_secs_f64() * 1e3;
    report
}

fn of_known(
    known: &Known,
    source: Source<'_>,
    moment: &Moment<'_>,
    scene: &Scene,
    filter: &HeapFilter,
    wanted: Option<&WhoHolds>,
) -> HoldersReport {
    let maps = source.maps();
    let mut roots = Roots::new(source, moment, scene, &maps);
    let mut picture = Picture::without(moment, &known.links);
    let group = &mut |word: &_| roots.group(word);
    let holding = Holding::of(&known.blocks, &known.layout, &mut picture, group);
    let labels = Labels::new(known, &roots.names);
    let mut report = HoldersReport { doubt: known.doubt.clone(), ..HoldersReport::default() };
    for block in known.blocks.all() {
        report.blocks.add(block.size);
    }
    report.reached = holding.all();
    if holding.beyond_limit > 0 {
        let text = format!("{} pointers found no room and hold nothing", holding.beyond_limit);
        report.doubt.get_or_insert(text);
    }
    let counted = |block| {
        let block = known.blocks.get(block);
        filter.counts(labels.class(block), block.size).then_some(block.size)
    };
    let folded = rows(&holding, &|node| labels.of(node), &counted);
    report.holders = told(&folded, &labels.names, filter);
    if *filter == HeapFilter::default() {
        report.suspects = suspects(&report.holders, report.reached);
    }
    if let Some(wanted) = wanted {
        report.paths = paths(known, &holding, &labels, &mut picture, wanted);
        if report.paths.is_empty() {
            report.not_found = Some(match wanted {
                WhoHolds::Address(at) => {
                    format!("no block in use that a root leads to has the address {at:#x}")
                }
                WhoHolds::Type(class) => {
                    format!(
                        "no block in use that a root leads to is of a class with {class:?} in it"
                    )
                }
            });
        }
    }
    report
}

/// The rows that retain most, each behind what is above it.
pub(super) fn told(rows: &[Row], names: &Names<'_>, filter: &HeapFilter) -> Vec<HolderRow> {
    let mut counts: Vec<bool> = Vec::with_capacity(rows.len());
    let mut all: u64 = 0;
    for row in rows {
        let is_counted = match row.above {
            Some(above) => counts[above],
            None => filter.counts_root(names.name(row.label)),
        };
        all += if row.above.is_none() { row.all.bytes } else { 0 };
        counts.push(is_counted);
    }
    let is_told = |index: &usize| {
        counts[*index] && rows[*index].all.bytes > 0 && rows[*index].all.bytes >= all / LEAST
    };
    let mut order: Vec<usize> = (0..rows.len()).filter(is_told).collect();
    // What is above has not less, and a lower index: it is not left out before what is below it.
    order.sort_by_key(|&index| std::cmp::Reverse(rows[index].all.bytes));
    order.truncate(ROWS);
    order.sort_unstable();
    let numbers: HashMap<usize, u64> = order.iter().copied().zip(0..).collect();
    let row = |&index: &usize| {
        let row = &rows[index];
        HolderRow {
            before: row.above.and_then(|above| numbers.get(&above).copied()),
            // A variable below its function is no other root.
            root: names.root(row.first).filter(|_| row.above.is_none()),
            name: names.name(row.label).to_owned(),
            own: row.own,
            retained: row.all,
        }
    };
    order.iter().map(row).collect()
}

/// Paths to blocks; those through the same names are one.
fn paths(
    known: &Known,
    holding: &Holding,
    labels: &Labels<'_>,
    memory: &mut impl Memory,
    wanted: &WhoHolds,
) -> Vec<PathReport> {
    let all: Vec<u32> = match wanted {
        WhoHolds::Address(at) => known.blocks.containing(*at).into_iter().collect(),
        WhoHolds::Type(class) => {
            let is_such = |block: &&heapattach_reach::Block| {
                labels.class(block).is_some_and(|own| own.contains(class.as_str()))
            };
            let numbered = (0..).zip(known.blocks.all());
            numbered.filter(|(_, block)| is_such(block)).map(|(number, _)| number).collect()
        }
    };
    let mut alike: BTreeMap<Vec<u32>, (Amount, Vec<Above>)> = BTreeMap::new();
    for &block in all.iter().step_by(all.len().div_ceil(LOOKED_AT).max(1)) {
        let path = holding.path(block);
        if path.is_empty() {
            continue;
        }
        let mut names: Vec<u32> = path.iter().map(|&node| labels.of(node)).collect();
        names.dedup();
        let (amount, _) = alike.entry(names).or_insert_with(|| (Amount::default(), path));
        amount.add(known.blocks.get(block).size);
    }
    let mut alike: Vec<_> = alike.into_values().collect();
    alike.sort_by_key(|(amount, _)| std::cmp::Reverse(amount.bytes));
    alike.truncate(PATHS);
    let report = |(amount, path): (Amount, Vec<Above>)| PathReport {
        amount,
        steps: steps(known, labels, &path, memory),
    };
    alike.into_iter().map(report).collect()
}

fn steps(
    known: &Known,
    labels: &Labels<'_>,
    path: &[Above],
    memory: &mut impl Memory,
) -> Vec<PathStep> {
    let mut steps: Vec<PathStep> = Vec::new();
    let mut last = None;
    for (index, &node) in path.iter().enumerate() {
        let label = labels.of(node);
        let count = u64::from(matches!(node, Above::Block(_)));
        let is_full = steps.len() == STEPS;
        match steps.last_mut().filter(|_| last == Some(label)) {
            Some(step) => step.blocks += count,
            None if is_full => break,
            None => {
                let name = labels.names.name(label).to_owned();
                steps.push(PathStep { name, blocks: count, offset: None });
            }
        }
        last = Some(label);
        let next = path.get(index + 1).filter(|&&next| labels.of(next) != label);
        if let (Some(step), Above::Block(from), Some(Above::Block(to))) =
            (steps.last_mut(), node, next)
        {
            step.offset = offset(known, from, *to, memory);
        }
    }
    steps
}

/// Where in a block the first pointer to another one lies.
fn offset(known: &Known, from: u32, to: u32, memory: &mut impl Memory) -> Option<u64> {
    let block = known.blocks.get(from);
    let mut bytes = vec![0; usize::try_from(block.size.min(MOST_READ)).ok()?];
    memory.read(block.at, &mut bytes);
    let (words, _) = bytes.as_chunks::<8>();
    let leads = |word: &[u8; 8]| known.blocks.containing(u64::from_le_bytes(*word)) == Some(to);
    words.iter().position(leads).map(|index| index as u64 * 8)
}
