//! A small heap of a made-up release, written word by word: what is in it is known, and any word of it can be
//! damaged.

use heapattach_census::{Answer, Moment, Walker, synthetic::Synthetic};
use proptest::prelude::*;

use super::{
    goroutine::Goroutine,
    heap::Sum,
    layout::{Field, Layout, Variables},
    objects::{ByCode, GraphError, Objects, types},
    paths::Paths,
    roots::Holder,
    types::Types,
    waiting,
    walker::Runtime,
};

const ARENA: u64 = 0xc0_0000_0000;
const RUNTIME: u64 = 0x7f00_0000_0000;
const PROGRAM: u64 = 0x40_0000;
/// Parts of the runtime's memory.
const MHEAP: u64 = RUNTIME;
const ALLGS: u64 = RUNTIME + 0x100;
const MODULE: u64 = RUNTIME + 0x200;
const SPANS: u64 = RUNTIME + 0x1000;
const LIST: u64 = RUNTIME + 0x2000;
const BITS: u64 = RUNTIME + 0x3000;
const SUDOG: u64 = RUNTIME + 0x4000;
const MACHINE: u64 = RUNTIME + 0x4800;
const GS: u64 = RUNTIME + 0x5000;
const STACKS: u64 = RUNTIME + 0x8000;
/// Parts of the program's.
const TYPES: u64 = PROGRAM;
const NAMES: u64 = PROGRAM + 0x800;
const MASKS: u64 = PROGRAM + 0xc00;
const DATA: u64 = PROGRAM + 0x1000;
/// Types.
const NODE: u64 = TYPES;
const LEAF: u64 = TYPES + 0x100;
const POINTER: u64 = TYPES + 0x200;
const FIELDS: u64 = TYPES + 0x300;
/// Objects: nodes of 64 bytes, leaves of 16, and frames of 1024.
const NODES: u64 = ARENA;
const LEAVES: u64 = ARENA + 0x2000;
const FRAMES: u64 = ARENA + 0x4000;

/// Every field has a place of its own in its structure.
fn layout() -> Layout {
    let mut next = std::cell::RefCell::new(std::collections::HashMap::<String, u64>::new());
    let find = |name: &str| {
        let short = name.strip_prefix("runtime.")?;
        let (structure, _) = short.split_once('.')?;
        let is_absent = short.contains("heapArena.") && short != "heapArena.spans";
        if is_absent || short.contains("Cleanup") || short.contains("cleanup") {
            return None;
        }
        let mut all = next.borrow_mut();
        let at = all.entry(structure.to_owned()).or_default();
        let own = *at;
        *at += if name == "runtime.mheap.allspans" { 24 } else { 8 };
        Some(Field { at: own, size: 8 })
    };
    let layout = Layout::of(26, &find).unwrap();
    next.get_mut().clear();
    layout
}

fn variables() -> Variables {
    Variables {
        mheap: MHEAP,
        allgs: ALLGS,
        module: MODULE,
        allfin: None,
        cleanups: None,
        profile_rate: None,
    }
}

/// A global leads to node 0, that to node 1 and a leaf; a goroutine that waits for ever has a leaf and its
/// channel; a frame of a known type leads to a leaf, and the global to it; a node and a leaf are garbage.
fn heap() -> Synthetic {
    let layout = layout();
    let mut memory = Synthetic::default();
    memory.map(ARENA..ARENA + 0x6000);
    memory.map(RUNTIME..RUNTIME + 0x10000);
    memory.map(PROGRAM..PROGRAM + 0x2000);
    let span = &layout.span;
    memory.write(span.allspans.place(MHEAP), LIST);
    memory.write(span.allspans.place(MHEAP) + 8, 3);
    let spans = [
        (NODES, 64, 120, 5 << 1, 4),
        (LEAVES, 16, 512, 2 << 1 | 1, 6),
        (FRAMES, 1024, 8, 32 << 1, 1),
    ];
    for (number, (base, size, slots, class, allocated)) in (0..).zip(spans) {
        let at = SPANS + number * 0x100;
        memory.write(LIST + number * 8, at);
        let fields = [
            (span.start, base),
            (span.pages, 1),
            (span.size, size),
            (span.count, slots),
            (span.free_index, allocated),
            (span.alloc_bits, BITS),
            (span.alloc_count, allocated),
            (span.class, class),
            (span.state, 1),
        ];
        fields.iter().for_each(|(field, value)| memory.write(field.place(at), *value));
    }
    // Nodes: words 0 and 1 are pointers.
    for slot in 0..120_u64 {
        let word = slot * 8;
        let at = NODES + 0x2000 - 128 + word / 64 * 8;
        let bits = (0..8).fold(0_u64, |bits, slot| bits | 0b11 << (slot * 8));
        memory.write(at, bits);
    }
    memory.write(NODES, NODES + 64);
    memory.write(NODES + 8, LEAVES);
    memory.write(NODES + 2 * 64, LEAVES + 16);
    // A frame: its type is before it, and then it is a node.
    memory.write(FRAMES, NODE);
    memory.write(FRAMES + 16, LEAVES + 32);
    program(&mut memory, &layout);
    goroutines(&mut memory, &layout);
    memory
}

fn program(memory: &mut Synthetic, layout: &Layout) {
    let module = &layout.module;
    let fields = [
        (module.text, PROGRAM),
        (module.end, PROGRAM + 0x2000),
        (module.types, TYPES),
        (module.etypes, TYPES + 0x1000),
        (module.data, DATA),
        (module.edata, DATA + 0x40),
        (module.data_mask, MASKS),
        (module.data_mask_bits, 8),
        (module.bss_mask, MASKS),
    ];
    fields.iter().for_each(|(field, value)| memory.write(field.place(MODULE), *value));
    memory.write(MASKS, 0b101);
    memory.write(DATA, NODES);
    memory.write(DATA + 16, FRAMES + 8);
    // size, bytes with pointers, kind, name
    type_(memory, NODE, [1000, 16, 25, 0], "*main.Node");
    type_(memory, LEAF, [16, 0, 25, 0], "*main.Leaf");
    type_(memory, POINTER, [8, 8, 22, LEAF], "**main.Leaf");
    memory.write(NODE + 32, MASKS + 8);
    memory.write(MASKS + 8, 0b10);
    memory.write(NODE + 56, FIELDS);
    memory.write(NODE + 64, 1);
    memory.write(FIELDS, NAMES + 0x300);
    memory.write(FIELDS + 8, POINTER);
    memory.write(FIELDS + 16, 8);
    name(memory, NAMES + 0x300, "leaf");
}

fn type_(memory: &mut Synthetic, at: u64, [size, pointers, kind, element]: [u64; 4], named: &str) {
    memory.write(at, size);
    memory.write(at + 8, pointers);
    // A hash; flags: an extra star; alignment; kind.
    memory.write(at + 16, at & 0xffff | 2 << 32 | 8 << 40 | 8 << 48 | kind << 56);
    memory.write(at + 40, NAMES + (at - TYPES) - TYPES);
    memory.write(at + 48, element);
    name(memory, NAMES + (at - TYPES), named);
}

fn name(memory: &mut Synthetic, at: u64, text: &str) {
    memory.write_bytes(at, &[0, u8::try_from(text.len()).unwrap()]);
    memory.write_bytes(at + 2, text.as_bytes());
}

fn goroutines(memory: &mut Synthetic, layout: &Layout) {
    let fields = &layout.goroutine;
    memory.write(ALLGS, GS);
    memory.write(ALLGS + 8, 1);
    let at = GS + 0x100;
    memory.write(GS, at);
    let values = [
        (fields.low, STACKS),
        (fields.high, STACKS + 0x1000),
        (fields.sp, STACKS + 0xf00),
        (fields.pc, PROGRAM + 0x10),
        (fields.bp, STACKS + 0xf80),
        (fields.status, 4),
        (fields.id, 17),
        (fields.waiting, SUDOG),
        (fields.machine, MACHINE),
        (fields.start_pc, PROGRAM + 0x20),
        (fields.go_pc, PROGRAM + 0x30),
    ];
    values.iter().for_each(|(field, value)| memory.write(field.place(at), *value));
    memory.write(layout.waiting.channel.place(SUDOG), NODES + 3 * 64);
    memory.write(STACKS + 0xf80, 0);
    memory.write(STACKS + 0xfa0, LEAVES + 48);
    memory.write(STACKS + 0xfa8, NODES + 3 * 64);
}

fn read<'a, 'm>(
    moment: &'a Moment<'m>,
    types: &'a Types<'a, 'm>,
    layout: &Layout,
    variables: &Variables,
) -> Result<Objects<'a, 'm>, GraphError> {
    let goroutines = Goroutine::all(moment, layout, variables);
    Objects::read(
        moment,
        types,
        (layout, variables),
        goroutines,
        (&|_| None, &|_| true),
        ByCode::NOTHING,
    )
}

fn named(holder: &Holder) -> Vec<String> {
    match holder {
        Holder::Variable(at) => vec![format!("main.variable{}", (at - DATA) / 8)],
        Holder::Finalizer => vec!["$finalizer".to_owned()],
        Holder::Stack(..) => vec!["main.worker".to_owned()],
    }
}

#[test]
fn what_is_reached_and_by_whom_is_known_and_so_are_types() {
    let (memory, layout, variables) = (heap(), layout(), variables());
    let moment = memory.moment();
    let types = types(&moment, &layout, &variables);
    let objects = read(&moment, &types, &layout, &variables).unwrap();
    assert_eq!(objects.heap.counted, Sum { objects: 11, bytes: 4 * 64 + 6 * 16 + 1024 });
    assert_eq!(objects.heap.counted, objects.heap.allocated());
    // All but node 2 and leaves 1, 4 and 5.
    assert_eq!(objects.marks.reached, Sum { objects: 7, bytes: 3 * 64 + 3 * 16 + 1024 });
    let leaf = objects.heap.find(LEAVES + 32).unwrap().0;
    assert_eq!(objects.name(leaf).as_deref(), Some("main.Leaf"));
    let frame = objects.heap.find(FRAMES).unwrap().0;
    assert_eq!(objects.name(frame).as_deref(), Some("main.Node"));
    let paths = Paths::of(&objects, &mut named);
    let path = |object| paths.labels_of(paths.node_of(object).unwrap()).join(" > ");
    assert_eq!(path(leaf), "main.variable2 > leaf. (*main.Leaf)");
    let held = objects.heap.find(LEAVES).unwrap().0;
    assert_eq!(path(held), "main.variable0 > $sub_objects$");
    assert_eq!(objects.leaked.goroutines, [0]);
    assert_eq!(objects.leaked.retained, [Sum { objects: 2, bytes: 16 + 64 }]);
    let groups = waiting::by_place(&objects.leaked, &objects.goroutines, &|code| {
        Some(
            ["main.wait", "main.worker", "main.serve"]
                [usize::try_from((code - PROGRAM) / 16 - 1).unwrap()]
            .to_owned(),
        )
    });
    assert_eq!(
        (groups[0].function.as_str(), groups[0].created_by.as_str()),
        ("main.wait", "main.serve")
    );
}

#[test]
fn a_channel_that_a_variable_leads_to_is_not_waited_on_for_ever() {
    let (mut memory, layout, variables) = (heap(), layout(), variables());
    memory.write(NODES + 64, NODES + 3 * 64);
    let moment = memory.moment();
    let types = types(&moment, &layout, &variables);
    let objects = read(&moment, &types, &layout, &variables).unwrap();
    assert!(objects.leaked.goroutines.is_empty());
}

#[test]
fn the_walk_tells_objects_free_slots_and_the_books_of_the_runtime() {
    let (memory, layout, variables) = (heap(), layout(), variables());
    let moment = memory.moment();
    let runtime = Runtime { version: "go1.26".to_owned(), layout, variables };
    let mut blocks = Vec::new();
    let Answer::Walked(walk) = runtime.walk(&moment, &mut blocks) else {
        panic!("a heap is there")
    };
    assert!(walk.is_exact(), "{:?}", walk.trust);
    let bytes = walk.arenas[0].bytes;
    assert_eq!((bytes.used_blocks, bytes.used, bytes.all()), (11, 1376, 0x6000));
    assert_eq!(blocks.len(), 120 + 512 + 8);
    assert_eq!(walk.arenas[2].bytes.books, 0x10000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn damaged_memory_is_told_within_bounds(
        damage in prop::collection::vec((0..10_usize, 0..0x200_u64, prop_oneof![
            any::<u64>(),
            (0..0x6000_u64).prop_map(|at| ARENA + at),
            (0..0x10000_u64).prop_map(|at| RUNTIME + at),
            (0..0x2000_u64).prop_map(|at| PROGRAM + at),
            0..64_u64,
            Just(u64::MAX),
            Just(1 << 40),
        ]), 1..12),
    ) {
        let (mut memory, layout, variables) = (heap(), layout(), variables());
        let places = [MHEAP, ALLGS, MODULE, SPANS, LIST, SUDOG, GS + 0x100, TYPES, NODES, FRAMES];
        for (place, word, value) in damage {
            memory.write(places[place] + word * 8, value);
        }
        let moment = memory.moment();
        let types = types(&moment, &layout, &variables);
        if let Ok(objects) = read(&moment, &types, &layout, &variables) {
            prop_assert!(objects.marks.reached.objects <= objects.heap.slots() as u64);
            let paths = Paths::of(&objects, &mut |_| vec!["root".to_owned()]);
            let all: u64 = paths.nodes.iter().map(|node| node.own.objects).sum();
            prop_assert_eq!(all, objects.marks.reached.objects);
            for (kind, _) in objects.kinds() {
                let _ = objects.name_of_kind(kind);
            }
        }
        let runtime = Runtime { version: String::new(), layout, variables };
        let _ = runtime.walk(&moment, &mut ());
    }
}
