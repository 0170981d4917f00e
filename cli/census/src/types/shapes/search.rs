//! Looks for forms in what has a name, and in what was found by its form.

use std::{cell::Cell, collections::HashMap, ops::Range, time::Instant};

use heapattach_reach::Blocks;

use crate::Moment;

use super::{
    forms::{Shape, View},
    rust_arrays::{Arrays, Head},
    rust_columns::Columns,
    rust_counted::Counted,
};

/// The clock is looked at after so many words.
const WORDS: usize = 4096;
/// Tables of functions of trait objects.
const MOST_TABLES: usize = 1 << 16;
/// Arrays of Rust whose elements are looked at: of those that have so many at least.
const MOST_HEADS: usize = 1 << 20;
const LEAST_ELEMENTS: u64 = 4;
/// Nodes that are followed, in all.
const NODES: u64 = 1 << 28;

/// What is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Languages {
    /// Containers of libstdc++.
    pub cpp: bool,
    /// Those of libc++.
    pub libcpp: bool,
    /// Trait objects, texts, tables, arrays and counted values of Rust.
    pub rust: bool,
}

impl Languages {
    /// Whether there are containers of C++.
    fn has_cpp(self) -> bool {
        self.cpp || self.libcpp
    }
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
        arrays: Arrays::default(),
        decided: Vec::new(),
        heads: Vec::new(),
        counted: Counted::default(),
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
    // Of what was not looked at there may be pointers, and places that have something else.
    if !is_over {
        search.end(is_named);
    }
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
    arrays: Arrays,
    /// Elements of arrays: other forms say more, wherever they are found.
    decided: Vec<u32>,
    /// Where the heads of some of them are.
    heads: Vec<Head>,
    counted: Counted,
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
        loop {
            let found = self.waiting.pop();
            // What was found by its form is looked at once more: its pointers are counted already.
            let is_first = found.is_none();
            let Some(range) = found.or_else(|| ranges.next()) else { return true };
            let mut at = range.start.next_multiple_of(8);
            while at.saturating_add(8) <= range.end {
                seen += 1;
                if seen.is_multiple_of(WORDS) && Instant::now() > end {
                    return false;
                }
                self.look(at, is_named);
                if self.languages.rust && is_first {
                    self.pointers(at);
                }
                at += 8;
            }
            let found = self.arrays.end(&range);
            self.decide(found);
        }
    }

    fn decide(&mut self, found: Vec<Head>) {
        self.decided.extend(found.iter().map(|(_, number)| *number));
        let room = MOST_HEADS.saturating_sub(self.heads.len());
        let blocks = self.view.blocks;
        let has_some = |(_, number): &Head| blocks.get(*number).size >= LEAST_ELEMENTS * 8;
        self.heads.extend(found.into_iter().filter(has_some).take(room));
    }

    fn look(&mut self, at: u64, is_named: &dyn Fn(u32) -> bool) {
        if self.languages.has_cpp() {
            self.containers(at, is_named);
        }
        if self.languages.rust {
            self.of_rust(at, is_named);
        }
    }

    /// What is known only when all was looked at.
    fn end(&mut self, is_named: &dyn Fn(u32) -> bool) {
        let [several, single] = self.counted.all(&self.view);
        for number in &several {
            self.note_unless_known(*number, Shape::RustCounted, is_named);
        }
        let rest = self.arrays.rest();
        self.decide(rest);
        for number in std::mem::take(&mut self.decided) {
            self.note_unless_known(number, Shape::RustArray, is_named);
        }
        // What the elements of arrays say of one another.
        let heads = std::mem::take(&mut self.heads);
        let is_array = |number: u32| self.found[number as usize] == Found::Of(Shape::RustArray);
        let columns = Columns { several: &several, single: &single };
        let found = columns.look(&self.view, heads, &is_array);
        for (number, shape) in found {
            self.note_unless_known(number, shape, is_named);
        }
    }

    fn pointers(&mut self, at: u64) {
        if let Some(word) = self.view.moment.word(at)
            && self.view.blocks.span().contains(&word)
        {
            self.counted.add(&self.view, word);
        }
        if let Some(triple) = self.view.rust_array(at) {
            self.arrays.add(at, triple);
        }
    }

    fn of_rust(&mut self, at: u64, is_named: &dyn Fn(u32) -> bool) {
        if let Some(number) = self.view.rust_text(at, !self.languages.has_cpp()) {
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
        // Most words lead nowhere; a map of libstdc++ begins with the colour of its head, a text of libc++ with its room.
        let Some(word) = self.view.moment.word(at) else { return };
        let Languages { cpp, libcpp, .. } = self.languages;
        let is_within = self.view.blocks.span().contains(&word);
        // Each of these begins with a pointer to the beginning of a block.
        let is_block = is_within && self.view.block(word).is_some();
        if is_block {
            if let Some((number, _)) = self.view.array(at) {
                self.note(number, Shape::Array, is_named);
            }
            self.all(self.view.list(at), Shape::ListNode, is_named);
            let text = cpp.then(|| self.view.text(at)).flatten();
            text.into_iter().for_each(|number| self.note(number, Shape::Text, is_named));
            let deque = cpp.then(|| self.view.deque(at)).flatten();
            let other = libcpp.then(|| self.view.libcpp_deque(at)).flatten();
            for (table, pieces) in deque.into_iter().chain(other) {
                self.note(table, Shape::DequeTable, is_named);
                self.all(Some(pieces), Shape::DequePiece, is_named);
            }
            if libcpp {
                self.all(self.view.libcpp_tree(at), Shape::TreeNode, is_named);
            }
        } else if libcpp
            && !is_within
            && let Some(number) = self.view.libcpp_text(at)
        {
            self.note(number, Shape::Text, is_named);
        }
        // A table of one slot lies in the head itself.
        if (is_block || at.checked_add(48) == Some(word))
            && let Some((table, nodes)) = self.view.hash(at)
        {
            table.into_iter().for_each(|table| self.note(table, Shape::HashTable, is_named));
            self.all(Some(nodes), Shape::HashNode, is_named);
        }
        if cpp && word & 0xffff_ffff == 0 {
            self.all(self.view.tree(at), Shape::TreeNode, is_named);
        }
    }

    fn all(&mut self, nodes: Option<Vec<u32>>, shape: Shape, is_named: &dyn Fn(u32) -> bool) {
        for node in nodes.unwrap_or_default() {
            self.note(node, shape, is_named);
        }
    }

    /// A form that says less than others.
    fn note_unless_known(&mut self, number: u32, shape: Shape, is_named: &dyn Fn(u32) -> bool) {
        let known = self.found[number as usize];
        if matches!(known, Found::None | Found::Of(Shape::RustCounted)) {
            self.note(number, shape, is_named);
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
                    Shape::Array
                    | Shape::Trait(_)
                    | Shape::RustTable
                    | Shape::RustArray
                    | Shape::RustCounted
                    | Shape::DequePiece => 0,
                    Shape::ListNode => 16,
                    Shape::TreeNode => 32,
                    Shape::HashNode => 8,
                };
                if self.languages.has_cpp() {
                    self.waiting.push(block.at.saturating_add(links)..block.end());
                }
            }
            Found::Of(known) if known == shape => {}
            // The part of a table that leads to pieces is an array in the head of libc++'s.
            Found::Of(Shape::DequeTable) if shape == Shape::Array => {}
            Found::Of(_) | Found::Several => *found = Found::Several,
        }
    }
}
