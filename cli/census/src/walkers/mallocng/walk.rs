//! From groups to blocks, and what is compared.

use std::collections::BTreeMap;

use crate::{Arena, Block, Check, Moment, Sink, State, Walk};

use super::{
    context::{CLASSES, Context},
    group::{Group, HEADER, Slot, UNIT},
};

const PAGE: u64 = 4096;
/// Groups lie in slots of larger ones, which do so less often than this.
const DEEPEST: u32 = 16;

struct Telling<'a, 'm> {
    moment: &'a Moment<'m>,
    sink: &'a mut dyn Sink,
    index: u32,
    arena: Arena,
    /// Groups that were not met yet.
    groups: BTreeMap<u64, Group>,
    broken: u64,
}

/// Blocks of one set of variables.
pub fn walk(moment: &Moment<'_>, context: &Context, walk: &mut Walk, sink: &mut dyn Sink) {
    let index = u32::try_from(walk.arenas.len()).unwrap_or(u32::MAX);
    let (groups, broken) = context.groups(moment);
    let mut slots = vec![0_u64; CLASSES as usize];
    for group in groups.values().filter(|group| group.is_made) {
        if let Some(slots) = slots.get_mut(group.class as usize) {
            *slots += u64::from(group.slots);
        }
    }
    let arena = Arena { name: "heap".to_owned(), ..Arena::default() };
    let mut telling = Telling { moment, sink, index, arena, groups, broken: 0 };
    let mut end = 0;
    // One that lies in a slot begins behind the one that it lies in.
    while let Some((at, group)) = telling.groups.pop_first() {
        if at < end {
            telling.broken += 1;
            continue;
        }
        let range = group.range();
        end = range.end;
        let slots = UNIT + group.stride * u64::from(group.slots);
        telling.arena.bytes.books += range.end - range.start - slots;
        telling.sink.unit(range.clone());
        telling.arena.memory.push(range);
        telling.group(&group, 0);
    }
    let Telling { mut arena, broken: slots_broken, .. } = telling;
    arena.bytes.books += PAGE * context.areas.len() as u64;
    arena.books = context.areas.iter().map(|area| *area..*area + PAGE).collect();
    arena.books.sort_by_key(|range| range.start);
    arena.system = Some(arena.bytes.all());
    walk.arenas.push(arena);
    let threads = moment.threads().len().max(1) as u64;
    let check = |what, found, told, slack| Check { what, found, told, slack };
    let place = Some(index);
    let differ = slots.iter().zip(&context.usage).map(|(found, told)| found.abs_diff(*told)).sum();
    walk.check(place, check("slots of classes, counted otherwise", differ, 0, 0));
    walk.check(place, check("books that lead to no group", broken, 0, 0));
    // One is taken before its header is written.
    walk.check(place, check("slots without a header", slots_broken, 0, threads));
    walk.in_flight += slots_broken.min(threads);
    if !context.is_whole {
        walk.doubt(place, "the areas of books end in nothing: corrupted?".to_owned());
    }
}

impl Telling<'_, '_> {
    fn group(&mut self, group: &Group, depth: u32) {
        self.arena.bytes.books += UNIT;
        for index in 0..group.slots {
            let slot = group.slot(self.moment, index);
            let (block, state) = match slot {
                Slot::Free(at) => ((at, group.stride - HEADER), State::Free),
                Slot::Block(at, size) => ((at, size), State::Used),
                Slot::Group(at) => {
                    self.nested(group, at, depth);
                    continue;
                }
                Slot::Broken(_) => {
                    self.broken += 1;
                    self.arena.bytes.books += group.stride;
                    continue;
                }
            };
            let (at, size) = block;
            self.arena.bytes.add(state, size);
            self.arena.bytes.books += group.stride.saturating_sub(size);
            self.sink.block(Block { at, size, state, arena: self.index, class: group.class });
        }
    }

    /// What lies in a slot at an address.
    fn nested(&mut self, outer: &Group, at: u64, depth: u32) {
        let inner = self
            .groups
            .get(&at)
            .filter(|inner| depth < DEEPEST && inner.mapped == 0 && inner.bytes() <= outer.stride);
        match inner.cloned() {
            Some(inner) => {
                self.groups.remove(&at);
                self.arena.bytes.books += outer.stride - inner.bytes();
                self.group(&inner, depth + 1);
            }
            None => {
                self.broken += 1;
                self.arena.bytes.books += outer.stride;
            }
        }
    }
}
