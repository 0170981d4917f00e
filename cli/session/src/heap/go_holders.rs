//! What would be freed with what holds it, of the objects of a Go program: by dominators, from variables, finalizers
//! and stacks, as for the blocks of any other heap.
//!
//! The runtime lists the structures of all goroutines, and they lead to what each waits on: that counts as theirs
//! only where nothing else leads to it.

use std::{collections::HashMap, time::Instant};

use heapattach_golang::graph::{heap::index, objects::Objects, roots::Holder};
use heapattach_reach::{Above, Amount, Group, Holding, Links, RootKind, RootWord, rows};
use heapattach_report::HoldersReport;

use super::{
    holders::told,
    labels::{Names, sized},
    suspects::suspects,
    wanted::HeapFilter,
};

/// Roots that have a name of their own; the others have one together.
const MOST: usize = 1 << 16;
/// What lists all goroutines.
const GOROUTINES: &str = "runtime.allgs";

/// Pointers from object to object, without those to the structures of goroutines.
struct Pointers<'o> {
    objects: &'o Objects<'o, 'o>,
    is_goroutine: &'o [bool],
}

impl Links for Pointers<'_> {
    fn count(&self) -> usize {
        self.is_goroutine.len()
    }

    fn each(&self, from: u32, to: impl FnMut(u32)) {
        let targets = self.objects.references.edges(from).iter().map(|edge| edge.target);
        targets.filter(|target| !self.is_goroutine[index(*target)]).for_each(to);
    }
}

/// Roots by their names.
#[derive(Default)]
struct Groups {
    by_name: HashMap<(RootKind, String), u32>,
    names: Vec<(RootKind, String)>,
}

impl Groups {
    /// The group of the last of these names, each of which is a part of the one before.
    fn of(&mut self, kind: RootKind, names: impl IntoIterator<Item = String>) -> Group {
        let mut own = None;
        for name in names {
            let number = self.number(kind, name);
            own = Some(Group { number, within: own.map(|above: Group| above.number) });
        }
        own.unwrap_or_else(|| Group { number: self.number(kind, String::new()), within: None })
    }

    fn number(&mut self, kind: RootKind, name: String) -> u32 {
        let name = if self.names.len() < MOST { name } else { "others".to_owned() };
        *self.by_name.entry((kind, name)).or_insert_with_key(|key| {
            self.names.push(key.clone());
            u32::try_from(self.names.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

/// The names of objects: their types, or, where these are not known, their sizes.
struct Classes {
    /// By the number of a kind.
    by_kind: Vec<Option<u32>>,
    by_size: HashMap<u64, u32>,
    names: Vec<String>,
}

impl Classes {
    fn of(objects: &Objects<'_, '_>) -> Self {
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut names = Vec::new();
        let mut number = |name: String| {
            *numbers.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                u32::try_from(names.len() - 1).unwrap_or(u32::MAX)
            })
        };
        let kinds = (0..).take(objects.typing.kinds() + 1);
        let by_kind =
            kinds.map(|kind| objects.name_of_kind(kind).map(&mut number)).collect::<Vec<_>>();
        let sizes = objects.heap.spans.iter().map(|span| span.size);
        let by_size = sizes.map(|size| (size, number(sized(size)))).collect();
        Self { by_kind, by_size, names }
    }

    /// The number of the type's name, if that is known.
    fn known(&self, objects: &Objects<'_, '_>, object: u32) -> Option<u32> {
        self.by_kind.get(index(objects.typing.number(object))).copied().flatten()
    }

    fn number(&self, objects: &Objects<'_, '_>, object: u32) -> u32 {
        let size = || self.by_size.get(&objects.heap.span_of(object).size).copied();
        self.known(objects, object).or_else(size).unwrap_or(0)
    }
}

/// Who holds what; `name` tells what a root is called: a function, and the variable of it.
pub(super) fn report(
    objects: &Objects<'_, '_>,
    filter: &HeapFilter,
    name: &mut dyn FnMut(&Holder) -> Vec<String>,
) -> HoldersReport {
    let began = Instant::now();
    let (is_goroutine, words) = roots(objects);
    let mut groups = Groups::default();
    let mut group = |word: &RootWord| match objects.roots.all.get(place(word.at)) {
        Some(root) => groups.of(kind(&root.holder), name(&root.holder)),
        None => groups.of(RootKind::Globals, [GOROUTINES.to_owned()]),
    };
    let size = |object| objects.heap.span_of(object).size;
    let pointers = Pointers { objects, is_goroutine: &is_goroutine };
    let holding = Holding::of_links(pointers, words, &mut group, &size);
    let classes = Classes::of(objects);
    let counted = |object| {
        let class = classes.known(objects, object).and_then(|own| classes.names.get(index(own)));
        let size = size(object);
        filter.counts(class.map(String::as_str), size).then_some(size)
    };
    let names = Names::new(classes.names.clone(), &groups.names);
    let label = |node: Above| names.number(node, |object| classes.number(objects, object));
    let folded = rows(&holding, &label, &counted);
    let counted = objects.heap.counted;
    let mut report = HoldersReport {
        blocks: Amount { bytes: counted.bytes, blocks: counted.objects },
        reached: holding.all(),
        holders: told(&folded, &names, filter),
        ..HoldersReport::default()
    };
    let beyond = objects.references.beyond_limit;
    report.doubt =
        (beyond > 0).then(|| format!("{beyond} pointers found no room and hold nothing"));
    if *filter == HeapFilter::default() {
        report.suspects = suspects(&report.holders, report.reached);
    }
    report.took_ms = began.elapsed().as_secs_f64() * 1e3;
    report
}

/// Which objects are structures of goroutines; and all roots: `at` is the number of a root, and none of these
/// is what those structures have.
fn roots(objects: &Objects<'_, '_>) -> (Vec<bool>, Vec<RootWord>) {
    let mut is_goroutine = vec![false; objects.heap.slots()];
    let mut words = Vec::new();
    for goroutine in &objects.goroutines {
        let Some((object, _)) = objects.heap.find(goroutine.at) else { continue };
        if objects.marks.is_reached(object)
            && !std::mem::replace(&mut is_goroutine[index(object)], true)
        {
            // The weakest of all.
            words.push(RootWord { at: u64::MAX, block: object, kind: RootKind::Registers });
        }
    }
    for (number, root) in (0..).zip(&objects.roots.all) {
        if !is_goroutine[index(root.target)] {
            // What a variable leads to is not held by a word that may be left over.
            let kind = if root.is_stale { RootKind::Registers } else { kind(&root.holder) };
            words.push(RootWord { at: number, block: root.target, kind });
        }
    }
    (is_goroutine, words)
}

fn place(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The runtime notes finalizers in memory that it mapped for itself.
fn kind(holder: &Holder) -> RootKind {
    match holder {
        Holder::Variable(_) => RootKind::Globals,
        Holder::Finalizer => RootKind::Mapped,
        Holder::Stack(..) => RootKind::Stacks,
    }
}
