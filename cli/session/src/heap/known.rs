//! The blocks in use of a moment, their classes, and what memory is looked through for pointers to them.

use std::{collections::HashMap, ops::Range};

use heapattach_census::{
    Answer, Moment, Sink, State, Walk, Walker,
    types::{ClassId, ClassTally},
};
use heapattach_injector::moment::{Area, Scene};
use heapattach_reach::{Block, Blocks, Layout, Memory, Piece, Pointer, RootKind};

use crate::check::layout::divide;

/// What the blocks of heaps are that a runtime has within its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// Memory like any other.
    Whole,
    /// Blocks.
    Blocks,
}

/// The parts of an area that were written to.
pub(super) type Written<'w> = dyn Fn(Area) -> Vec<Area> + 'w;

/// All blocks in use, and the memory of arenas.
pub(super) type WithBooks = (Known, Vec<Range<u64>>);

/// All blocks in use.
pub(super) struct Known {
    pub(super) blocks: Blocks,
    pub(super) layout: Layout,
    /// By what blocks have in the place of a stack.
    pub(super) groups: Vec<Group>,
    /// By class.
    pub(super) names: Vec<String>,
    /// Links of a collector, which hold nothing; ascending.
    pub(super) links: Vec<u64>,
    /// Whether an allocator has size classes that are further apart than 16 bytes.
    pub(super) has_classes: bool,
    /// Why some blocks may not be as they are told.
    pub(super) doubt: Option<String>,
}

impl Known {
    /// Of memory that a process, or a clone of it, keeps.
    pub(super) fn of(
        written: &Written<'_>,
        moment: &Moment<'_>,
        scene: &Scene,
        walkers: &[&dyn Walker],
        inner: Inner,
    ) -> Result<Self, String> {
        let (known, books) = Self::blocks(moment, walkers, inner)?;
        Ok(known.with_layout(written, scene, books))
    }

    /// The same, with what is looked through; `books` are the memory of arenas.
    pub(super) fn with_layout(
        self,
        written: &Written<'_>,
        scene: &Scene,
        books: Vec<Range<u64>>,
    ) -> Self {
        Self { layout: layout(written, scene, merged(books)), ..self }
    }

    /// The blocks alone: nothing is looked through. And the memory of arenas.
    pub(super) fn blocks(
        moment: &Moment<'_>,
        walkers: &[&dyn Walker],
        inner: Inner,
    ) -> Result<WithBooks, String> {
        let mut collected = Collected::new(moment);
        let mut books: Vec<Range<u64>> = Vec::new();
        let (mut is_known, mut has_classes, mut doubt) = (false, false, None);
        for walker in walkers.iter().filter(|one| inner == Inner::Blocks || !one.is_inner()) {
            match walker.walk(moment, &mut collected) {
                Answer::Absent => {}
                Answer::Refused(why) => return Err(format!("{}: {why}", walker.name())),
                Answer::Walked(walk) => {
                    doubt = doubt.or_else(|| doubtful(*walker, &walk));
                    is_known = true;
                    has_classes |= walker.has_wide_classes();
                    books.extend(walk.arenas.iter().flat_map(|arena| arena.memory.iter().cloned()));
                    books.extend(walk.arenas.iter().flat_map(|arena| arena.books.iter().cloned()));
                }
            }
        }
        if !is_known {
            return Err("no allocator was recognised".to_owned());
        }
        let Collected { blocks, groups, types, mut links, .. } = collected;
        links.sort_unstable();
        let names = types.into_names();
        let mut by_number: Vec<Group> = vec![(None, 0); groups.len()];
        for (group, number) in groups {
            if let Some(place) = usize::try_from(number).ok().and_then(|at| by_number.get_mut(at)) {
                *place = group;
            }
        }
        let (blocks, layout, groups) = (Blocks::new(blocks), Layout::default(), by_number);
        Ok((Self { blocks, layout, groups, names, links, has_classes, doubt }, books))
    }
}

/// Where an arena is in doubt, or blocks are on their way, they may be free or have other sizes.
fn doubtful(walker: &dyn Walker, walk: &Walk) -> Option<String> {
    let why = walk.uncertainty(walker)?;
    Some(format!("the blocks of {} are not exact: {why}", walker.name()))
}

impl Known {
    /// The same, where blocks that do not say their class have one of these names, by its number.
    pub(super) fn renamed(self, name: &dyn Fn(u32) -> Option<u32>, names: Vec<String>) -> Self {
        let Self { mut blocks, mut groups, names: mut all, .. } = self;
        let first = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let mut numbers: HashMap<Group, u32> = groups.iter().copied().zip(0..).collect();
        blocks.set_stacks(|number, block| {
            let has_class = groups.get(block.stack as usize).is_some_and(|group| group.0.is_some());
            let Some(name) = name(number).filter(|_| !has_class) else { return block.stack };
            let group = (Some(ClassId(first.saturating_add(name))), block.size);
            *numbers.entry(group).or_insert_with(|| {
                groups.push(group);
                u32::try_from(groups.len() - 1).unwrap_or(u32::MAX)
            })
        });
        all.extend(names);
        Self { blocks, groups, names: all, ..self }
    }

    /// The number of the class of a block, if it says it: where its name is among the names.
    pub(super) fn class_of(&self, block: &Block) -> Option<usize> {
        let class = self.groups.get(block.stack as usize)?.0?;
        usize::try_from(class.0).ok().filter(|class| *class < self.names.len())
    }

    /// The name of the class of a block, if it says it.
    pub(super) fn class(&self, block: &Block) -> Option<(ClassId, &str)> {
        let class = self.groups.get(block.stack as usize)?.0?;
        Some((class, self.names.get(usize::try_from(class.0).ok()?)?))
    }
}

/// A class, or none, and a size.
pub(super) type Group = (Option<ClassId>, u64);

/// Groups that were met just before: most blocks are of few, and a table that a target cannot make slow takes longer.
const RECENT: usize = 256;

/// Blocks in use, with the number of their group in the place of a stack.
struct Collected<'a, 'm> {
    blocks: Vec<Block>,
    groups: HashMap<Group, u32>,
    recent: [Option<(Group, u32)>; RECENT],
    types: ClassTally<'a, 'm>,
    links: Vec<u64>,
}

impl<'a, 'm> Collected<'a, 'm> {
    fn new(moment: &'a Moment<'m>) -> Self {
        let (blocks, groups, links) = Default::default();
        Self { blocks, groups, recent: [None; RECENT], types: ClassTally::new(moment), links }
    }
}

impl Collected<'_, '_> {
    fn number(&mut self, group: Group) -> u32 {
        let (class, size) = group;
        let mixed = (size >> 4) ^ class.map_or(0, |class| u64::from(class.0)).wrapping_mul(31);
        let recent = &mut self.recent[usize::try_from(mixed).unwrap_or_default() % RECENT];
        if let Some((_, number)) = recent.filter(|(known, _)| *known == group) {
            return number;
        }
        let next = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        let number = *self.groups.entry(group).or_insert(next);
        *recent = Some((group, number));
        number
    }
}

impl Sink for Collected<'_, '_> {
    fn block(&mut self, block: heapattach_census::Block) {
        if block.state != State::Used {
            return;
        }
        self.types.block(block);
        self.links.extend(self.types.latest_links());
        let group = (self.types.latest(), block.size);
        let stack = self.number(group);
        self.blocks.push(Block { at: block.at, size: block.size, stack });
    }
}

/// The memory of the moment.
pub(super) struct Picture<'a, 'm> {
    moment: &'a Moment<'m>,
    /// What is read as nothing: two words each.
    links: &'a [u64],
}

impl<'a, 'm> Picture<'a, 'm> {
    pub(super) fn of(moment: &'a Moment<'m>) -> Self {
        Self { moment, links: &[] }
    }

    /// Without the links of a collector.
    pub(super) fn without(moment: &'a Moment<'m>, links: &'a [u64]) -> Self {
        Self { moment, links }
    }
}

impl Memory for Picture<'_, '_> {
    fn read(&mut self, at: u64, buffer: &mut [u8]) {
        let read = self.moment.read(at, buffer);
        buffer[read..].fill(0);
        let end = at.saturating_add(buffer.len() as u64);
        let first = self.links.partition_point(|&link| link.saturating_add(16) <= at);
        for &link in self.links[first..].iter().take_while(|&&link| link < end) {
            let from = usize::try_from(link.saturating_sub(at)).unwrap_or(usize::MAX);
            let behind = usize::try_from(link.saturating_add(16) - at).unwrap_or(usize::MAX);
            let behind = behind.min(buffer.len());
            buffer[from.min(behind)..behind].fill(0);
        }
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
        unaligned: false,
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
