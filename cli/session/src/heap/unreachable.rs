//! Blocks in use that no pointer leads to: leaked before the look. Told only where every block of the
//! process is known: what no walker knows could lead to any of them.

use std::{collections::HashMap, ops::Range};

use heapattach_census::{
    Answer, Moment, Sink, State, Trust, Walk, Walker,
    types::{ClassId, ClassTally},
    walkers,
};
use heapattach_injector::moment::{Area, Scene};
use heapattach_reach::{
    Block, Blocks, Checked, Finding, Kind, Layout, Memory, Piece, Pointer, RootKind, look,
};
use heapattach_report::{UnreachableGroup, UnreachableReport};

use crate::check::layout::divide;

/// Groups that are told, the largest first.
const GROUPS: usize = 100;

/// The parts of an area that were written to.
pub(super) type Written<'w> = dyn Fn(Area) -> Vec<Area> + 'w;

/// Looks for them in memory that a process, or a clone of it, keeps.
pub(super) fn find(
    written: &Written<'_>,
    moment: &Moment<'_>,
    scene: &Scene,
    walkers: &[&dyn Walker],
) -> Result<UnreachableReport, String> {
    let mut collected = Collected::new(moment);
    let mut books: Vec<Range<u64>> = Vec::new();
    let mut is_known = false;
    // What inner heaps have is looked through as a whole: their blocks are the runtime's to collect.
    for walker in walkers.iter().filter(|walker| !walker.is_inner()) {
        match walker.walk(moment, &mut collected) {
            Answer::Absent => {}
            Answer::Refused(why) => return Err(format!("{}: {why}", walker.name())),
            Answer::Walked(walk) => {
                check(walker.name(), &walk)?;
                is_known = true;
                books.extend(walk.arenas.iter().flat_map(|arena| arena.memory.iter().cloned()));
                books.extend(walk.arenas.iter().flat_map(|arena| arena.books.iter().cloned()));
            }
        }
    }
    if !is_known {
        return Err("no allocator was recognised".to_owned());
    }
    let Collected { blocks, groups, types } = collected;
    let names = types.into_names();
    let layout = layout(written, scene, merged(books));
    let blocks = Blocks::new(blocks);
    let seen = look(&blocks, &layout, &mut Picture(moment), 0);
    let checked = seen.conclude(&blocks, &mut |_| false);
    let mut by_number: Vec<Group> = vec![(None, 0); groups.len()];
    for (group, number) in groups {
        if let Some(place) = usize::try_from(number).ok().and_then(|at| by_number.get_mut(at)) {
            *place = group;
        }
    }
    Ok(told(&checked, &by_number, &names))
}

/// Where an arena is in doubt, blocks may be free or have other sizes.
fn check(name: &str, walk: &Walk) -> Result<(), String> {
    match &walk.trust {
        Trust::Exact => Ok(()),
        Trust::Inexact(doubts) => {
            let why = doubts.first().map(|doubt| doubt.why.clone()).unwrap_or_default();
            Err(format!("the blocks of {name} are not exact: {why}"))
        }
    }
}

/// A class, or none, and a size.
type Group = (Option<ClassId>, u64);

/// Blocks in use, with the number of their group in the place of a stack.
struct Collected<'a, 'm> {
    blocks: Vec<Block>,
    groups: HashMap<Group, u32>,
    types: ClassTally<'a, 'm>,
}

impl<'a, 'm> Collected<'a, 'm> {
    fn new(moment: &'a Moment<'m>) -> Self {
        Self { blocks: Vec::new(), groups: HashMap::new(), types: ClassTally::new(moment) }
    }
}

impl Sink for Collected<'_, '_> {
    fn block(&mut self, block: heapattach_census::Block) {
        if block.state != State::Used {
            return;
        }
        self.types.block(block);
        let next = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        let stack = *self.groups.entry((self.types.latest(), block.size)).or_insert(next);
        self.blocks.push(Block { at: block.at, size: block.size, stack });
    }
}

/// The memory of the moment.
struct Picture<'a, 'm>(&'a Moment<'m>);

impl Memory for Picture<'_, '_> {
    fn read(&mut self, at: u64, buffer: &mut [u8]) {
        let read = self.0.read(at, buffer);
        buffer[read..].fill(0);
    }
}

/// What is looked through. In the memory of arenas only blocks mean anything.
fn layout(written: &Written<'_>, scene: &Scene, books: Vec<Range<u64>>) -> Layout {
    let areas = scene.areas.iter().cloned().flat_map(written);
    let pieces = |area: Area| {
        // Registers and stacks can lie in a block: they count as what they are.
        let is_own = matches!(area.holder, RootKind::Stacks | RootKind::Tls);
        let books: &[Range<u64>] = if is_own { &[] } else { &books };
        let root = (area.holder != RootKind::Heap).then_some(area.holder);
        let parts = divide(&area.range, books).into_iter();
        parts
            .map(move |(range, is_book)| Piece { range, root: root.filter(|_| !is_book) })
            .collect::<Vec<_>>()
    };
    let pointers = scene.pointers.iter().map(|pointer| Pointer {
        word: pointer.word,
        root: pointer.holder,
        holds_whole: pointer.is_whole,
    });
    Layout {
        pieces: areas.flat_map(pieces).collect(),
        pointers: pointers.collect(),
        code: scene.code.clone(),
        files: scene.files.clone(),
    }
}

/// Ascending, and no two overlap.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

fn told(checked: &Checked, groups: &[Group], names: &[String]) -> UnreachableReport {
    let [direct, indirect, possible, _] = checked.findings.sums;
    let leaked = |finding: &&Finding| matches!(finding.kind, Kind::Direct | Kind::Possible);
    let row = |finding: &Finding| {
        let index = usize::try_from(finding.stack).unwrap_or(usize::MAX);
        let (class, size) = groups.get(index).copied().unwrap_or_default();
        let class = class.and_then(|class| names.get(usize::try_from(class.0).ok()?));
        UnreachableGroup {
            kind: finding.kind,
            class: class.cloned(),
            size,
            own: finding.own,
            held: finding.held,
        }
    };
    let all = checked.findings.all.iter().filter(leaked);
    UnreachableReport {
        direct,
        indirect,
        possible,
        groups: all.take(GROUPS).map(row).collect(),
        error: None,
    }
}

/// All of it: what a moment tells of this process.
pub(super) fn report(
    written: &Written<'_>,
    moment: &Moment<'_>,
    scene: &Scene,
) -> UnreachableReport {
    let found = find(written, moment, scene, &walkers::ALL);
    found.unwrap_or_else(|error| UnreachableReport {
        error: Some(error),
        ..UnreachableReport::default()
    })
}
