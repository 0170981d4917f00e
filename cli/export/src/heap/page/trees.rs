//! What is inside of what: parts of memory, and of live blocks arenas, classes, sizes or holders.

use heapattach_report::{Amount, ArenaReport, CensusReport};
use heapattach_text::quantity::bytes;
use heapattach_verdict::reconcile::PartKind;
use serde::Serialize;

/// Things that are shown inside of one.
const MOST: usize = 500;
/// What holds is told so deep.
const DEEPEST: usize = 24;
/// Rows of holders.
const GO_HOLDERS: usize = 2000;

/// A thing, and what is inside of it: the largest first.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Node {
    pub name: String,
    pub bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<Node>,
}

impl Node {
    fn new(name: impl Into<String>, bytes: u64) -> Self {
        Self { name: name.into(), bytes, blocks: None, inside: Vec::new() }
    }

    fn of(name: impl Into<String>, amount: Amount) -> Self {
        Self {
            name: name.into(),
            bytes: amount.bytes,
            blocks: Some(amount.blocks),
            inside: Vec::new(),
        }
    }

    /// With these inside, and the rest of it under a name.
    fn with(mut self, mut inside: Vec<Self>, rest: &str) -> Self {
        inside.retain(|node| node.bytes > 0);
        inside.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        inside.truncate(MOST);
        let told = inside.iter().fold(0_u64, |sum, node| sum.saturating_add(node.bytes));
        if let Some(left) = self.bytes.checked_sub(told).filter(|left| *left > 0)
            && !inside.is_empty()
        {
            inside.push(Self::new(rest, left));
            inside.sort_by_key(|node| std::cmp::Reverse(node.bytes));
        }
        self.inside = inside;
        self
    }
}

/// All of them, each with the name of what live blocks are divided by.
pub(super) fn of(report: &CensusReport) -> Vec<(&'static str, Node)> {
    let used = report.allocators.iter().flat_map(|one| &one.arenas);
    let used = used.fold(Amount::default(), |sum, arena| {
        sum.and(Amount { bytes: arena.used, blocks: arena.used_blocks })
    });
    let mut trees =
        vec![("Arenas", whole(report, by_arena(report, |arena| arena.pages.live.resident)))];
    if !report.classes.is_empty() {
        let classes = report.classes.iter().map(|row| {
            let amount = Amount { bytes: row.bytes, blocks: row.blocks };
            Node::of(format!("{} ({})", row.name, row.language.name()), amount)
        });
        let rest = "blocks that do not say their class";
        let live = Node::of("", used).with(classes.collect(), rest);
        trees.push(("Classes", whole(report, live.inside)));
    }
    let sizes = report
        .sizes
        .iter()
        .map(|row| Node::of(bytes(row.size), Amount { bytes: row.bytes(), blocks: row.used }));
    let live = Node::of("", used).with(sizes.collect(), "other sizes");
    trees.push(("Sizes", whole(report, live.inside)));
    if let Some(holders) = holders(report) {
        trees.push(("Holders", whole(report, holders)));
    }
    trees
}

/// All resident memory; what is inside of live blocks is given.
fn whole(report: &CensusReport, live: Vec<Node>) -> Node {
    let parts = report.memory.parts.iter().map(|part| {
        let node = Node::new(part.part.name(), part.resident);
        let inside = match part.part {
            PartKind::Live => return Node { inside: live.clone(), ..node },
            PartKind::Free => by_arena(report, |arena| arena.pages.free.resident),
            PartKind::Cached => by_arena(report, |arena| arena.pages.cached.resident),
            PartKind::Top => by_arena(report, |arena| arena.pages.top.resident),
            PartKind::Books => by_arena(report, |arena| arena.pages.books.resident),
            _ => Vec::new(),
        };
        node.with(inside, "others")
    });
    let parts: Vec<Node> = parts.collect();
    let sum = parts.iter().fold(0_u64, |sum, node| sum.saturating_add(node.bytes));
    Node::new("memory", sum).with(parts, "others")
}

fn by_arena(report: &CensusReport, of: impl Fn(&ArenaReport) -> u64) -> Vec<Node> {
    let nodes = report.allocators.iter().flat_map(|allocator| {
        let of = &of;
        allocator
            .arenas
            .iter()
            .map(move |arena| Node::new(format!("{}: {}", allocator.name, arena.name), of(arena)))
    });
    let sum = Node::default().with(nodes.collect(), "");
    sum.inside
}

/// What holds the blocks, as a tree; of a Go program, its objects.
fn holders(report: &CensusReport) -> Option<Vec<Node>> {
    let told = report.clone().told(GO_HOLDERS);
    if let Some(go) = told.go.as_ref().filter(|go| !go.holders.is_empty()) {
        let rows: Vec<Row> =
            go.holders.iter().map(|row| (row.before, row.name.clone(), row.own, row.all)).collect();
        return Some(tree(&rows, go.allocated));
    }
    let found = told.holders.as_ref().filter(|found| found.error.is_none())?;
    let rows = found.holders.iter().map(|row| {
        let kind = row.root.map(|root| format!(" ({})", root.words().0)).unwrap_or_default();
        (row.before, format!("{}{kind}", row.name), row.own, row.retained)
    });
    let rows: Vec<Row> = rows.collect();
    Some(tree(&rows, found.blocks))
}

/// What it goes on from, its name, its own blocks, and with all below.
type Row = (Option<u64>, String, Amount, Amount);

fn tree(rows: &[Row], all: Amount) -> Vec<Node> {
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); rows.len()];
    let mut roots = Vec::new();
    for (index, (before, ..)) in rows.iter().enumerate() {
        match before.and_then(|before| usize::try_from(before).ok()) {
            Some(before) if before < index => below[before].push(index),
            _ => roots.push(index),
        }
    }
    let inside = roots.iter().map(|&root| node(rows, &below, root, 0)).collect();
    Node::of("", all).with(inside, "smaller holders, and what no root leads to").inside
}

fn node(rows: &[Row], below: &[Vec<usize>], index: usize, depth: usize) -> Node {
    let (_, name, own, all) = &rows[index];
    let inside = match depth < DEEPEST {
        true => below[index].iter().map(|&next| node(rows, below, next, depth + 1)).collect(),
        false => Vec::new(),
    };
    let mut inside: Vec<Node> = inside;
    if !inside.is_empty() && own.bytes > 0 {
        inside.push(Node::of(format!("{name}, its own"), *own));
    }
    Node::of(name.clone(), *all).with(inside, "smaller")
}
