//! Who had memory in use, from the function that caused an allocation to its callers.
//!
//! Only what is listed becomes a node. All stacks are followed outwards at the same time, call by call, and one
//! that has come to a call which is too little to be listed is followed no further: a call has no more than
//! those that it was called by, so nothing behind it is listed either.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use crate::{harmless, sample::by_stack};
use heapattach_ledger::{Call, Ledger, Metric};

/// Calls of a path, as many as massif has.
const DEPTH: usize = 30;
/// A hundredth: what is less is not listed.
const SHARE: u64 = 100;

const ROOT: &str = "(heap allocation functions) malloc/new/new[], --alloc-fns, etc.";

/// What is listed; the first node is all of it.
pub struct Tree<'a> {
    ledger: &'a Ledger,
    nodes: Vec<Node>,
}

#[derive(Clone, Default)]
struct Node {
    bytes: u64,
    /// A location, and which of its calls.
    call: (u32, u32),
    /// Those that are listed, by their bytes.
    below: Vec<u32>,
    /// Bytes and number of those that are not.
    left_out: (u64, usize),
}

/// A stack that is followed.
struct Path {
    stack: u32,
    /// Its next call: a place among its locations, and which of the calls there.
    next: (u32, u32),
    /// Where the calls before that lead to.
    node: u32,
    bytes: u64,
}

/// The calls of a ledger by number: those of two locations are one if they look alike.
struct Calls {
    /// By location, the number of its calls that come before its own.
    before: Vec<usize>,
    /// By these, as far as they were asked for.
    numbers: Vec<Option<u32>>,
    /// By address, function and line.
    known: HashMap<(u64, u32, Option<u32>), u32>,
}

impl<'a> Tree<'a> {
    /// Of the bytes of a metric.
    pub fn new(ledger: &'a Ledger, metric: Metric) -> Self {
        let mut tree = Self { ledger, nodes: vec![Node::default()] };
        let mut paths = Vec::new();
        for sample in by_stack(ledger) {
            let bytes = sample.amount(metric).bytes;
            tree.nodes[0].bytes = tree.nodes[0].bytes.saturating_add(bytes);
            if let Some(stack) = sample.stack.filter(|_| bytes > 0) {
                paths.push(Path::from_cause(ledger, stack, bytes));
            }
        }
        let mut calls = Calls::of(ledger);
        for _ in 0..DEPTH {
            tree.follow(&mut paths, &mut calls);
        }
        let ranks: Vec<u64> = tree.nodes.iter().map(|node| node.bytes).collect();
        for node in &mut tree.nodes {
            node.below.sort_by_key(|&below| std::cmp::Reverse(ranks[below as usize]));
        }
        tree
    }

    /// All bytes.
    pub fn bytes(&self) -> u64 {
        self.nodes[0].bytes
    }

    /// Follows the paths by a call; those that end, or that lead to what is not listed, are over.
    fn follow(&mut self, paths: &mut Vec<Path>, calls: &mut Calls) {
        /// Where paths lead to, and the node, if it becomes one.
        struct Next {
            from: u32,
            call: (u32, u32),
            bytes: u64,
            node: Option<u32>,
        }
        let (mut all, mut known): (Vec<Next>, HashMap<(u32, u32), u32>) = Default::default();
        paths.retain_mut(|path| {
            let Some(call) = path.step(self.ledger) else { return false };
            let next = u32::try_from(all.len()).unwrap_or(u32::MAX);
            let at = *known.entry((path.node, calls.number(self.ledger, call))).or_insert(next);
            if at == next {
                all.push(Next { from: path.node, call, bytes: 0, node: None });
            }
            let sum = &mut all[at as usize].bytes;
            *sum = sum.saturating_add(path.bytes);
            path.node = at;
            true
        });
        let total = self.bytes();
        for next in &mut all {
            let &mut Next { from, call, bytes, .. } = next;
            if bytes.saturating_mul(SHARE) >= total {
                let node = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
                next.node = Some(node);
                self.nodes[from as usize].below.push(node);
                self.nodes.push(Node { bytes, call, ..Node::default() });
            } else {
                let (sum, places) = &mut self.nodes[from as usize].left_out;
                (*sum, *places) = (sum.saturating_add(bytes), *places + 1);
            }
        }
        paths.retain_mut(|path| {
            let node = all[path.node as usize].node;
            path.node = node.unwrap_or(0);
            node.is_some()
        });
    }

    /// Each node before those below it; how many of them follow is the first number.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut open = vec![(0_u32, 0_usize)];
        let mut left_out: Vec<(usize, u64, usize)> = Vec::new();
        while let Some((at, depth)) = open.pop() {
            write_left_out(&mut left_out, depth, out)?;
            let node = &self.nodes[at as usize];
            let (bytes, places) = node.left_out;
            let lines = node.below.len() + usize::from(places > 0);
            let name = if at == 0 { ROOT.to_owned() } else { self.name(node) };
            writeln!(out, "{:depth$}n{lines}: {} {name}", "", node.bytes)?;
            if places > 0 {
                left_out.push((depth + 1, bytes, places));
            }
            open.extend(node.below.iter().rev().map(|&below| (below, depth + 1)));
        }
        write_left_out(&mut left_out, 0, out)
    }

    fn name(&self, node: &Node) -> String {
        let (location, line) = node.call;
        let location = self.ledger.locations.get(location as usize);
        let call = location.and_then(|at| self.ledger.calls_at(at).nth(line as usize));
        call.map_or(String::new(), |call| place(&call))
    }
}

impl Path {
    /// A stack from the call that caused the allocation on.
    fn from_cause(ledger: &Ledger, stack: u32, bytes: u64) -> Self {
        let mut path = Self { stack, next: (0, 0), node: 0, bytes };
        let cause = ledger.stacks.get(stack).map_or(0, |stack| stack.cause);
        let _ = (0..cause).try_for_each(|_| path.step(ledger).map(drop));
        path
    }

    /// Its next call, if there is one: the location, and which of the calls there.
    fn step(&mut self, ledger: &Ledger) -> Option<(u32, u32)> {
        let locations = ledger.stacks.get(self.stack)?.locations;
        loop {
            let (place, line) = self.next;
            let at = *locations.get(place as usize)?;
            let location = ledger.locations.get(at as usize);
            if location.is_some_and(|location| (line as usize) < location.lines.len()) {
                self.next.1 += 1;
                return Some((at, line));
            }
            self.next = (place + 1, 0);
        }
    }
}

impl Calls {
    fn of(ledger: &Ledger) -> Self {
        let mut all = 0;
        let before = ledger.locations.iter().map(|location| {
            let before = all;
            all += location.lines.len();
            before
        });
        let before = before.collect();
        Self { before, numbers: vec![None; all], known: HashMap::new() }
    }

    fn number(&mut self, ledger: &Ledger, (at, line): (u32, u32)) -> u32 {
        let Self { before, numbers, known } = self;
        *numbers[before[at as usize] + line as usize].get_or_insert_with(|| {
            let location = &ledger.locations[at as usize];
            let line = &location.lines[line as usize];
            let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
            *known.entry((location.address, line.function, line.line)).or_insert(next)
        })
    }
}

/// Of the nodes that are over, the last of what is below each: what was too little to be listed.
fn write_left_out(
    left_out: &mut Vec<(usize, u64, usize)>,
    depth: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    while let Some((own, bytes, places)) = left_out.pop_if(|(own, ..)| *own > depth) {
        let places = match places {
            1 => "1 place,".to_owned(),
            places => format!("{places} places, all"),
        };
        writeln!(out, "{:own$}n0: {bytes} in {places} below massif's threshold (1.00%)", "")?;
    }
    Ok(())
}

/// `0x4005BB: make_node (list.c:12)`, or `(in /usr/bin/list)` where no source is known.
fn place(call: &Call<'_>) -> String {
    let name = harmless::line(&call.function.name);
    let file = call.function.file.rsplit('/').next().unwrap_or_default();
    let behind = match (file.is_empty(), call.line) {
        (false, Some(line)) => format!("{file}:{line}"),
        (false, None) => file.to_owned(),
        (true, _) => format!("in {}", call.module.path),
    };
    format!("0x{:X}: {name} ({})", call.location.address, harmless::line(&behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::large_ledger;

    fn text(ledger: &Ledger, metric: Metric) -> String {
        let mut text = Vec::new();
        Tree::new(ledger, metric).write(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Of each line its depth, how many follow below it, and its bytes.
    fn lines(text: &str) -> Vec<(usize, usize, u64)> {
        let line = |line: &str| {
            let rest = line.trim_start();
            let (below, rest_of) = rest.strip_prefix('n').unwrap().split_once(": ").unwrap();
            let bytes = rest_of.split(' ').next().unwrap().parse().unwrap();
            (line.len() - rest.len(), below.parse().unwrap(), bytes)
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn each_node_has_as_many_below_it_as_it_says_and_no_more_bytes_than_its_own() {
        let ledger = large_ledger::ledger("/src/a.c");
        let text = text(&ledger, Metric::Live);
        let lines = lines(&text);
        assert!(lines.len() > 10, "{text}");
        for (at, &(depth, below, bytes)) in lines.iter().enumerate() {
            let own = lines[at + 1..].iter().take_while(|line| line.0 > depth);
            let next: Vec<u64> = own.filter(|l| l.0 == depth + 1).map(|line| line.2).collect();
            assert_eq!(next.len(), below, "line {at} of {text}");
            assert!(next.iter().sum::<u64>() <= bytes, "line {at} of {text}");
        }
        let deepest = lines.iter().map(|line| line.0).max();
        assert!(deepest > Some(1), "{deepest:?}");
    }

    #[test]
    fn a_call_that_is_met_at_two_locations_is_one() {
        let mut ledger = heapattach_ledger::sample::ledger();
        ledger.stacks.edit(1, |stack| stack.cause = 0);
        let twin = ledger.locations[ledger.stacks.get(1).unwrap().locations[0] as usize].clone();
        ledger.locations.push(twin);
        let last = u32::try_from(ledger.locations.len() - 1).unwrap();
        let before = text(&ledger, Metric::Live);
        ledger.stacks.edit(1, |stack| stack.locations[0] = last);
        assert_eq!(text(&ledger, Metric::Live), before);
    }
}
