//! Reference paths: from the variable or the function that holds it, field by field, to each object; objects
//! with the same path are one.
//!
//! The form is goref's, so that its users read it at once: `main.cache`, `entries. ([]main.entry)`,
//! `[0]. (main.entry)`, `$mapkey. (string)`, `$mapval. (*main.user)`, and `$sub_objects$` for what only the
//! garbage collector's masks lead to.

use std::{collections::HashMap, rc::Rc};

use super::{
    heap::{Object, Sum, index},
    mark::Parent,
    objects::Objects,
    quick_hash::QuickMap,
    roots::Holder,
    types::{Descriptor, Kind},
    typing::{ObjectType, Shape, is_entries},
};

/// Longer paths end there, and so do all once there are so many different ones.
const DEEPEST: u32 = 256;
const MOST_NODES: usize = 1 << 20;
/// Elements of an array with an index of their own.
const INDEXES: u64 = 10;
/// Structures are nested so deep at most.
const MOST_LABELS: usize = 32;

/// Tells what a root is called.
pub type RootName<'n> = &'n mut dyn FnMut(&Holder) -> Vec<String>;

/// No node.
const NONE: u32 = u32::MAX;

/// The end of a path.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// The path that it goes on from.
    pub before: Option<u32>,
    /// What is added: the number of a label.
    pub label: u32,
    depth: u32,
    /// Objects whose path it is.
    pub own: Sum,
    /// These, and those of all paths that go on from here.
    pub all: Sum,
}

/// All paths.
#[derive(Debug, Default)]
pub struct Paths {
    /// Their ends; each comes after the one that it goes on from.
    pub nodes: Vec<Node>,
    /// Labels.
    pub labels: Vec<String>,
    /// By object: its node.
    of: Vec<u32>,
}

struct Build<'o, 'a, 'm> {
    objects: &'o Objects<'a, 'm>,
    paths: Paths,
    children: QuickMap<(u32, u32), u32>,
    numbers: HashMap<String, u32>,
    /// By the kind of an object and an offset in it: what is added.
    steps: QuickMap<(u32, u64), Rc<[u32]>>,
    sub_objects: u32,
}

impl Paths {
    /// Finds them; `name` tells what a root is called, and the fields of a variable that it lies in.
    pub fn of(objects: &Objects<'_, '_>, name: RootName<'_>) -> Self {
        let paths = Self { of: vec![NONE; objects.heap.slots()], ..Self::default() };
        let (children, numbers, steps) = Default::default();
        let mut build = Build { objects, paths, children, numbers, steps, sub_objects: 0 };
        build.sub_objects = build.label("$sub_objects$");
        build.run(name);
        build.paths.add_up();
        build.paths
    }

    /// The path of an object, if it is reached.
    pub fn node_of(&self, object: Object) -> Option<u32> {
        self.of.get(index(object)).copied().filter(|node| *node != NONE)
    }

    /// The labels of a path, from the root on.
    pub fn labels_of(&self, node: u32) -> Vec<&str> {
        let mut labels = Vec::new();
        let mut next = Some(node);
        while let Some(node) = next.and_then(|node| self.nodes.get(index(node))) {
            labels.push(self.labels.get(index(node.label)).map_or("", String::as_str));
            next = node.before;
        }
        labels.reverse();
        labels
    }

    /// The paths that hold most, and all that they go on from; ascending.
    pub fn largest(&self, count: usize) -> Vec<u32> {
        let mut nodes: Vec<u32> = (0..).take(self.nodes.len()).collect();
        // A path holds no less than what goes on from it, and comes before it.
        nodes.sort_by_key(|node| (std::cmp::Reverse(self.nodes[index(*node)].all.bytes), *node));
        nodes.truncate(count);
        nodes.sort_unstable();
        nodes
    }

    fn add_up(&mut self) {
        for number in (0..self.nodes.len()).rev() {
            let (all, before) = (self.nodes[number].all, self.nodes[number].before);
            if let Some(before) = before.and_then(|before| self.nodes.get_mut(index(before))) {
                before.all.objects += all.objects;
                before.all.bytes += all.bytes;
            }
        }
    }
}

impl Build<'_, '_, '_> {
    fn run(&mut self, name: RootName<'_>) {
        let objects = self.objects;
        let mut queue = Vec::new();
        for (number, root) in (0..).zip(&objects.roots.all) {
            if objects.marks.parent(root.target) == Parent::Root(number) {
                let mut node = None;
                for text in name(&root.holder) {
                    let label = self.label(&text);
                    node = Some(self.child(node, label));
                }
                if let Some(node) = node {
                    self.assign(root.target, node, &mut queue);
                }
            }
        }
        let mut next = Vec::new();
        while !queue.is_empty() {
            for object in queue.drain(..) {
                self.object(object, &mut next);
            }
            std::mem::swap(&mut queue, &mut next);
        }
    }

    /// The objects that this one leads to on a shortest way.
    fn object(&mut self, object: Object, queue: &mut Vec<Object>) {
        let objects = self.objects;
        let kind = objects.typing.number(object);
        let from = self.paths.of[index(object)];
        for edge in objects.references.edges(object) {
            let is_own = objects.marks.parent(edge.target) == Parent::Object(object);
            if !is_own || self.paths.of[index(edge.target)] != NONE {
                continue;
            }
            let offset = edge.offset() - self.head(object).min(edge.offset());
            let mut node = from;
            for label in self.steps(kind, offset).iter() {
                let is_again = *label == self.sub_objects
                    && self.paths.nodes.get(index(node)).is_some_and(|own| own.label == *label);
                if !is_again {
                    node = self.child(Some(node), *label);
                }
            }
            self.assign(edge.target, node, queue);
        }
    }

    /// Bytes of an object before its value.
    fn head(&self, object: Object) -> u64 {
        let span = self.objects.heap.span_of(object);
        self.objects.typing.head(span)
    }

    fn assign(&mut self, object: Object, node: u32, queue: &mut Vec<Object>) {
        self.paths.of[index(object)] = node;
        let size = self.objects.heap.span_of(object).size;
        if let Some(own) = self.paths.nodes.get_mut(index(node)) {
            own.own.add(size);
            own.all.add(size);
        }
        queue.push(object);
    }

    fn label(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = u32::try_from(self.paths.labels.len()).unwrap_or(NONE);
        self.paths.labels.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    fn child(&mut self, before: Option<u32>, label: u32) -> u32 {
        let key = (before.unwrap_or(NONE), label);
        if let Some(node) = self.children.get(&key) {
            return *node;
        }
        let depth = before.map_or(0, |before| self.paths.nodes[index(before)].depth + 1);
        let is_full = self.paths.nodes.len() >= MOST_NODES || depth >= DEEPEST;
        if let Some(before) = before.filter(|_| is_full) {
            return before;
        }
        let number = u32::try_from(self.paths.nodes.len()).unwrap_or(NONE);
        let (own, all) = Default::default();
        self.paths.nodes.push(Node { before, label, depth, own, all });
        self.children.insert(key, number);
        number
    }

    /// What a pointer at an offset in an object of a kind adds to a path.
    fn steps(&mut self, kind: u32, offset: u64) -> Rc<[u32]> {
        let own = self.objects.typing.kind(kind);
        let offset = self.folded(own, offset);
        if let Some(known) = self.steps.get(&(kind, offset)) {
            return Rc::clone(known);
        }
        let texts = match own {
            Some(own) => self.texts(own, offset),
            None => vec!["$sub_objects$".to_owned()],
        };
        let labels: Rc<[u32]> = texts.iter().map(|text| self.label(text)).collect();
        self.steps.insert((kind, offset), Rc::clone(&labels));
        labels
    }

    /// Elements of arrays behind the first ones are all the same.
    fn folded(&self, own: Option<ObjectType>, offset: u64) -> u64 {
        let Some(own) = own else { return 0 };
        let size = match own.shape {
            Shape::Array => self.objects.types.get(own.of),
            Shape::Groups => {
                self.objects.types.get(own.of).and_then(|map| self.objects.types.group(&map))
            }
            Shape::Value
            | Shape::Text
            | Shape::Tiny
            | Shape::Map
            | Shape::Tables
            | Shape::Table
            | Shape::Chan
            | Shape::Closure => None,
        };
        match (size.map_or(0, |of| of.size), own.shape) {
            (0, _) => offset,
            (size, Shape::Array) => (offset / size).min(INDEXES) * size + offset % size,
            (size, _) => offset % size,
        }
    }

    fn texts(&self, own: ObjectType, offset: u64) -> Vec<String> {
        let types = self.objects.types;
        let Some(of) = types.get(own.of) else { return Vec::new() };
        let mut texts = Vec::new();
        match own.shape {
            Shape::Value => self.within(of, offset, &mut texts),
            // The runtime notes the type of groups themselves before them.
            Shape::Array if types.name(&of).is_some_and(|name| is_entries(&name)) => {
                self.within(of, offset % of.size.max(1), &mut texts);
                entry(&mut texts);
            }
            Shape::Array if of.size > 0 => {
                texts.push(element(offset / of.size, types.name(&of)));
                self.within(of, offset % of.size, &mut texts);
            }
            Shape::Groups => {
                if let Some(group) = types.group(&of) {
                    self.within(group, offset, &mut texts);
                    entry(&mut texts);
                }
            }
            Shape::Closure => texts.push("$sub_objects$".to_owned()),
            Shape::Array
            | Shape::Text
            | Shape::Tiny
            | Shape::Map
            | Shape::Tables
            | Shape::Table
            | Shape::Chan => {}
        }
        texts
    }

    /// The fields and elements that an offset lies in.
    fn within(&self, of: Descriptor, offset: u64, texts: &mut Vec<String>) {
        let types = self.objects.types;
        let (mut of, mut offset) = (of, offset);
        while texts.len() < MOST_LABELS {
            match of.kind {
                Kind::Struct => {
                    let Some((name, place, part)) = types.field_at(&of, offset) else { return };
                    let named = types.name(&part).unwrap_or_default();
                    texts.push(format!("{name}. ({named})"));
                    offset -= place;
                    of = part;
                }
                Kind::Array => {
                    let Some(part) = types.element(&of).filter(|part| part.size > 0) else {
                        return;
                    };
                    texts.push(element(offset / part.size, types.name(&part)));
                    offset %= part.size;
                    of = part;
                }
                Kind::Plain
                | Kind::Chan
                | Kind::Func
                | Kind::Interface
                | Kind::Map
                | Kind::Pointer
                | Kind::Slice
                | Kind::String
                | Kind::Unsafe => return,
            }
        }
    }
}

fn element(index: u64, name: Option<String>) -> String {
    let name = name.unwrap_or_default();
    match index {
        index if index < INDEXES => format!("[{index}]. ({name})"),
        _ => format!("[10+]. ({name})"),
    }
}

/// What a map keeps its entries in is of no interest: from the key or the value on.
fn entry(texts: &mut Vec<String>) {
    let of = |text: &String| {
        let (name, rest) = text.split_once(". ")?;
        match name {
            "key" => Some((1, format!("$mapkey. {rest}"))),
            "elem" => Some((1, format!("$mapval. {rest}"))),
            // Before go1.24 a bucket has an array of each; the element says what it is of.
            "keys" => Some((2, "$mapkey. ".to_owned())),
            "elems" => Some((2, "$mapval. ".to_owned())),
            _ => None,
        }
    };
    let Some((at, (used, mut first))) =
        texts.iter().enumerate().find_map(|(at, text)| Some((at, of(text)?)))
    else {
        return texts.clear();
    };
    if used == 2
        && let Some((_, rest)) = texts.get(at + 1).and_then(|text| text.split_once(". "))
    {
        first.push_str(rest);
    }
    texts.drain(..(at + used).min(texts.len()));
    texts.insert(0, first);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_of(texts: &[&str]) -> Vec<String> {
        let mut texts = texts.iter().map(|text| (*text).to_owned()).collect();
        entry(&mut texts);
        texts
    }

    #[test]
    fn entries_of_maps_are_keys_and_values_whatever_the_runtime_keeps_them_in() {
        let group = entry_of(&["slots. ([8]struct)", "[3]. (struct)", "elem. (*main.T)"]);
        assert_eq!(group, ["$mapval. (*main.T)"]);
        let bucket = entry_of(&["keys. ([8]main.K)", "[7]. (main.K)", "name. (string)"]);
        assert_eq!(bucket, ["$mapkey. (main.K)", "name. (string)"]);
        assert!(entry_of(&["overflow. (uintptr)"]).is_empty());
    }

    #[test]
    fn the_largest_paths_come_with_those_that_they_go_on_from() {
        let node = |before, bytes| {
            let own = Sum { objects: 1, bytes };
            Node { before, label: 0, depth: 0, own, all: own }
        };
        let nodes = vec![node(None, 1), node(Some(0), 5), node(None, 9), node(Some(1), 7)];
        let mut paths = Paths { nodes, ..Paths::default() };
        paths.add_up();
        assert_eq!(paths.nodes[0].all, Sum { objects: 3, bytes: 13 });
        assert_eq!(paths.largest(3), [0, 1, 2]);
        assert_eq!(paths.largest(1), [0]);
    }

    #[test]
    fn elements_behind_the_tenth_are_one() {
        assert_eq!(element(9, Some("*T".to_owned())), "[9]. (*T)");
        assert_eq!(element(10, Some("*T".to_owned())), "[10+]. (*T)");
        assert_eq!(element(4711, None), "[10+]. ()");
    }
}
