//! Looks for forms in what has a name, and in what was found by its form.

use std::{cell::Cell, collections::HashMap, ops::Range, time::Instant};

use heapattach_reach::Blocks;

use crate::Moment;

use super::forms::{Shape, View};

/// The clock is looked at after so many words.
const WORDS: usize = 4096;
/// Tables of functions of trait objects.
const MOST_TABLES: usize = 1 << 16;
/// Nodes that are followed, in all.
const NODES: u64 = 1 << 28;

/// What is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Languages {
    /// Containers of libstdc++.
    pub cpp: bool,
    /// Trait objects, texts and tables of Rust.
    pub rust: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Shapes {
    /// By block.
    pub found: Vec<Option<Shape>>,
    /// Addresses of tables of functions, by their numbers.
    pub tables: Vec<u64>,
    /// Whether there was no time for all.
    pub is_over: bool,
}

/// Looks in these ranges, and in the blocks that `is_named` and that have no form of their own then.
pub fn search(
    moment: &Moment<'_>,
    blocks: &Blocks,
    ranges: &[Range<u64>],
    is_named: &dyn Fn(u32) -> bool,
    languages: Languages,
    has_classes: bool,
    end: Instant,
) -> Shapes {
    let images = || moment.images().iter().map(|image| &image.range);
    let modules = images().map(|range| range.start).min().unwrap_or(0)
        ..images().map(|range| range.end).max().unwrap_or(0);
    let left = Cell::new(NODES);
    let mut search = Search {
        view: View { moment, blocks, has_classes, modules, left },
        found: vec![Found::None; blocks.len()],
        waiting: Vec::new(),
        tables: HashMap::new(),
        languages,
    };
    // A table of functions says enough: trait objects are looked for in all blocks.
    let from = blocks
        .all()
        .iter()
        .enumerate()
        .rev()
        .filter(|(number, _)| languages.rust || u32::try_from(*number).is_ok_and(is_named));
    let from = from.map(|(_, block)| block.at..block.end()).chain(ranges.iter().cloned());
    let is_over = !search.run(from, is_named, end) || search.view.left.get() == 0;
    let mut tables = vec![0; search.tables.len()];
    for (table, number) in &search.tables {
        if let Some(place) = tables.get_mut(*number as usize) {
            *place = *table;
        }
    }
    let told = |found: Found| match found {
        Found::Of(shape) => Some(shape),
        Found::None | Found::Several => None,
    };
    Shapes { found: search.found.into_iter().map(told).collect(), tables, is_over }
}

/// What is known of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    None,
    Of(Shape),
    Several,
}

struct Search<'a, 'm> {
    view: View<'a, 'm>,
    found: Vec<Found>,
    waiting: Vec<Range<u64>>,
    tables: HashMap<u64, u32>,
    languages: Languages,
}

impl Search<'_, '_> {
    /// Looks at these ranges, and at what is found before the next. Whether all was looked at.
    fn run(
        &mut self,
        mut ranges: impl Iterator<Item = Range<u64>>,
        is_named: &dyn Fn(u32) -> bool,
        end: Instant,
    ) -> bool {
        let mut seen = 0_usize;
        while let Some(range) = self.waiting.pop().or_else(|| ranges.next()) {
            let mut at = range.start.next_multiple_of(8);
            while at.saturating_add(16) <= range.end {
                seen += 1;
                if seen.is_multiple_of(WORDS) && Instant::now() > end {
                    return false;
                }
                self.look(at, is_named);
                at += 8;
            }
        }
        true
    }

    fn look(&mut self, at: u64, is_named: &dyn Fn(u32) -> bool) {
        if self.languages.cpp {
            self.containers(at, is_named);
        }
        if self.languages.rust {
            self.of_rust(at, is_named);
        }
    }

    fn of_rust(&mut self, at: u64, is_named: &dyn Fn(u32) -> bool) {
        if let Some(number) = self.view.rust_text(at, !self.languages.cpp) {
            self.note(number, Shape::RustText, is_named);
        }
        if let Some(number) = self.view.rust_table(at) {
            self.note(number, Shape::RustTable, is_named);
        }
        if let Some((number, table)) = self.view.trait_object(at)
            && (self.tables.len() < MOST_TABLES || self.tables.contains_key(&table))
        {
            let next = u32::try_from(self.tables.len()).unwrap_or(u32::MAX);
            let number_of = *self.tables.entry(table).or_insert(next);
            self.note(number, Shape::Trait(number_of), is_named);
        }
    }

    fn containers(&mut self, at: u64, is_named: &dyn Fn(u32) -> bool) {
        // Most words lead nowhere; a map begins with the colour of its head.
        let Some(word) = self.view.moment.word(at) else { return };
        let is_in = self.view.blocks.span().contains(&word);
        if is_in {
            if let Some(number) = self.view.text(at) {
                self.note(number, Shape::Text, is_named);
            }
            if let Some((number, _)) = self.view.array(at) {
                self.note(number, Shape::Array, is_named);
            }
            self.all(self.view.list(at), Shape::ListNode, is_named);
            if let Some((table, pieces)) = self.view.deque(at) {
                self.note(table, Shape::DequeTable, is_named);
                self.all(Some(pieces), Shape::DequePiece, is_named);
            }
        }
        if let Some((table, nodes)) = self.view.hash(at) {
            table.into_iter().for_each(|table| self.note(table, Shape::HashTable, is_named));
            self.all(Some(nodes), Shape::HashNode, is_named);
        }
        if word & 0xffff_ffff == 0 {
            self.all(self.view.tree(at), Shape::TreeNode, is_named);
        }
    }

    fn all(&mut self, nodes: Option<Vec<u32>>, shape: Shape, is_named: &dyn Fn(u32) -> bool) {
        for node in nodes.unwrap_or_default() {
            self.note(node, shape, is_named);
        }
    }

    fn note(&mut self, number: u32, shape: Shape, is_named: &dyn Fn(u32) -> bool) {
        if is_named(number) {
            return;
        }
        let found = &mut self.found[number as usize];
        match *found {
            Found::None => {
                *found = Found::Of(shape);
                let block = self.view.blocks.get(number);
                // Behind the links of a node: from each of them its chain looks like one.
                let links = match shape {
                    Shape::Text | Shape::HashTable | Shape::RustText | Shape::DequeTable => {
                        block.size
                    }
                    Shape::Array | Shape::Trait(_) | Shape::RustTable | Shape::DequePiece => 0,
                    Shape::ListNode => 16,
                    Shape::TreeNode => 32,
                    Shape::HashNode => 8,
                };
                if self.languages.cpp {
                    self.waiting.push(block.at.saturating_add(links)..block.end());
                }
            }
            Found::Of(known) if known == shape => {}
            Found::Of(_) | Found::Several => *found = Found::Several,
        }
    }
}
