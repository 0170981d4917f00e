//! The rules of the check, one by one.

use super::{Amount, Block, Finding, Findings, Kind, Pointer, RootKind, Step, Way, image::Image};

const HEAP: u64 = 0x5000_0000;
const STACK: u64 = 0x7fff_0000_0000;
const LIBRARY: u64 = 0x7f00_0000_0000;

/// A heap in which what is in no block means nothing, and a stack.
fn image() -> Image {
    let mut image = Image::default();
    image.piece(HEAP..HEAP + 0x10_0000, None);
    image.piece(STACK..STACK + 0x1000, Some(RootKind::Stacks));
    image
}

fn amount(bytes: u64, blocks: u64) -> Amount {
    Amount { bytes, blocks }
}

/// Bytes and blocks: direct, indirect, possible, reachable.
fn sums(findings: &Findings) -> [(u64, u64); 4] {
    findings.sums.map(|sum| (sum.bytes, sum.blocks))
}

#[test]
fn a_block_is_lost_unless_a_root_holds_it() {
    let mut image = image();
    image.block(HEAP, 100, 1);
    image.block(HEAP + 0x100, 50, 2);
    image.write(STACK + 8, HEAP);
    let found = image.check().findings;
    assert_eq!(sums(&found), [(50, 1), (0, 0), (0, 0), (100, 1)]);
    assert_eq!(found.roots[RootKind::Stacks as usize], amount(100, 1));
}

#[test]
fn any_pointer_into_a_mapping_holds_it_and_what_it_leads_to() {
    const MAPPED: u64 = 0x6000_0000;
    let build = |pointer: u64| {
        let mut image = image();
        image.piece(MAPPED..MAPPED + 0x10_0000, Some(RootKind::Mapped));
        image.mappings = vec![Block { at: MAPPED, size: 0x10_0000, stack: 1 }];
        image.block(HEAP, 100, 2);
        image.write(MAPPED + 0x8000, HEAP);
        // It may lead to itself.
        image.write(MAPPED + 8, MAPPED + 0x5000);
        image.write(STACK + 8, pointer);
        sums(&image.check().findings)
    };
    let held = [(0, 0), (0, 0), (0, 0), (0x10_0000 + 100, 2)];
    assert_eq!([build(MAPPED), build(MAPPED + 0x7123)], [held, held]);
    assert_eq!(build(MAPPED + 0x10_0000), [(0x10_0000, 1), (100, 1), (0, 0), (0, 0)], "its end");
}

#[test]
fn a_lost_list_is_one_finding() {
    let mut image = image();
    for index in 0..1000 {
        image.block(HEAP + index * 0x40, 48, u32::from(index > 0));
        image.write(HEAP + index * 0x40, HEAP + (index + 1) * 0x40);
    }
    let found = image.check().findings;
    let held = amount(999 * 48, 999);
    let expected = Finding { kind: Kind::Direct, stack: 0, own: amount(48, 1), held };
    assert_eq!(found.all, [expected]);
    assert_eq!(sums(&found), [(48, 1), (999 * 48, 999), (0, 0), (0, 0)]);
}

#[test]
fn a_lost_ring_is_one_finding_named_by_its_lowest_block() {
    let mut image = image();
    for index in 0..1000 {
        image.block(HEAP + index * 0x40, 48, u32::try_from(index).unwrap());
        image.write(HEAP + index * 0x40 + 8, HEAP + (index + 1) % 1000 * 0x40);
    }
    let found = image.check().findings;
    assert_eq!((found.all.len(), found.all[0].stack), (1, 0));
    assert_eq!(sums(&found), [(48, 1), (999 * 48, 999), (0, 0), (0, 0)]);
}

#[test]
fn what_two_lost_blocks_share_is_counted_once() {
    let mut image = image();
    for (index, size) in [16, 24, 1000, 2000].into_iter().enumerate() {
        let index = index as u64;
        image.block(HEAP + index * 0x1000, size, u32::try_from(index).unwrap());
    }
    image.write(HEAP, HEAP + 0x2000);
    image.write(HEAP + 0x1000, HEAP + 0x2000);
    image.write(HEAP + 0x2000, HEAP + 0x3000);
    let found = image.check().findings;
    let finding = |kind, stack, own, held| Finding { kind, stack, own, held };
    assert_eq!(
        found.all,
        [
            finding(Kind::Direct, 1, amount(24, 1), amount(0, 0)),
            finding(Kind::Direct, 0, amount(16, 1), amount(0, 0)),
            finding(Kind::Indirect, 2, amount(1000, 1), amount(2000, 1)),
        ]
    );
}

#[test]
fn a_pointer_to_the_inside_makes_a_block_possibly_lost() {
    let mut image = image();
    image.block(HEAP, 100, 1);
    image.block(HEAP + 0x100, 50, 2);
    image.write(STACK, HEAP + 40);
    // What it leads to is no more certain than itself.
    image.write(HEAP + 16, HEAP + 0x100);
    assert_eq!(sums(&image.check().findings), [(0, 0), (0, 0), (150, 2), (0, 0)]);
}

#[test]
fn a_pointer_behind_the_end_holds_nothing() {
    for (size, offset) in [(96, 96), (8, 8), (100, 104), (0, 8)] {
        let mut image = image();
        image.block(HEAP, size, 1);
        image.write(HEAP, 1);
        image.write(STACK, HEAP + offset);
        assert_eq!(sums(&image.check().findings)[0], (size, 1), "{size} {offset}");
    }
}

#[test]
fn arrays_of_objects_are_held_by_their_first_element() {
    // The number of elements, the size of the block, whether that fits.
    for (elements, size, fits) in [(3, 8 + 3 * 20, true), (7, 8 + 60, false), (0, 8, true)] {
        let mut image = image();
        image.block(HEAP, size, 1);
        image.write(HEAP, elements);
        image.write(STACK, HEAP + 8);
        let kind = if fits { Kind::Reachable } else { Kind::Possible };
        assert_eq!(image.check().findings.sum(kind), amount(size, 1), "{elements}");
    }
}

#[test]
fn shared_strings_are_held_by_their_first_letter() {
    for (length, room, owners, fits) in [(5, 30, 0, true), (31, 30, 0, false), (5, 90, 0, false)] {
        let mut image = image();
        image.block(HEAP, 24 + 31, 1);
        [length, room, owners].into_iter().zip(0..).for_each(|(word, index)| {
            image.write(HEAP + index * 8, word);
        });
        image.write(STACK, HEAP + 24);
        let kind = if fits { Kind::Reachable } else { Kind::Possible };
        assert_eq!(image.check().findings.sum(kind).blocks, 1, "{length} {room}");
    }
}

#[test]
fn an_object_is_held_by_its_second_base_class() {
    for (second, kind) in [(LIBRARY + 0x2100, Kind::Reachable), (7, Kind::Possible)] {
        let mut image = image();
        image.layout.code.push(LIBRARY..LIBRARY + 0x1000);
        image.layout.files.push(LIBRARY..LIBRARY + 0x3000);
        image.block(HEAP, 64, 1);
        image.write(HEAP, LIBRARY + 0x2000);
        image.write(HEAP + 32, second);
        image.write(LIBRARY + 0x2000, LIBRARY + 0x10);
        image.write(LIBRARY + 0x2108, LIBRARY + 0x20);
        image.write(STACK, HEAP + 32);
        assert_eq!(image.check().findings.sum(kind), amount(64, 1), "{second:#x}");
    }
}

#[test]
fn what_is_in_no_block_of_the_heap_holds_only_where_it_is_unknown() {
    for (root, kind) in [(None, Kind::Direct), (Some(RootKind::Heap), Kind::Reachable)] {
        let mut image = Image::default();
        image.piece(HEAP..HEAP + 0x10_0000, root);
        image.block(HEAP + 0x100, 72, 1);
        image.write(HEAP + 0x800, HEAP + 0x100);
        assert_eq!(image.check().findings.sum(kind), amount(72, 1), "{root:?}");
    }
}

#[test]
fn a_free_chunk_is_no_pointer_into_the_block_before_it() {
    let mut image = Image::default();
    image.piece(HEAP..HEAP + 0x10_0000, Some(RootKind::Heap));
    // 72 bytes fill their chunk of 80 up to the last word, where the next one's head begins.
    image.block(HEAP + 0x100, 72, 1);
    image.write(HEAP + 0x800, HEAP + 0x100 + 64);
    assert_eq!(image.check().findings.sum(Kind::Direct), amount(72, 1));
}

#[test]
fn a_word_that_is_not_aligned_or_not_whole_is_none() {
    let mut image = image();
    image.block(HEAP, 100, 1);
    image.block(HEAP + 0x100, 20, 2);
    image.write(STACK + 4, HEAP);
    image.write(STACK + 16, HEAP + 0x100);
    image.write(HEAP + 0x110, HEAP);
    assert_eq!(image.check().findings.sum(Kind::Direct), amount(100, 1));
}

#[test]
fn a_word_at_any_byte_counts_where_that_is_wanted_but_not_beyond_its_block() {
    let build = |unaligned: bool| {
        let mut image = image();
        image.block(HEAP, 0x51, 1);
        image.block(HEAP + 0x100, 0x20, 2);
        image.block(HEAP + 0x200, 0x10, 3);
        image.block(HEAP + 0x10_0000 - 0x20, 0x10, 4);
        image.layout.unaligned = unaligned;
        image.write(STACK + 13, HEAP);
        image.write(HEAP + 0x49, HEAP + 0x100);
        // One byte of it is no more of the block.
        image.write(HEAP + 0x119, HEAP + 0x200);
        // It lies in two of the pieces that are read at once.
        image.write(HEAP + (256 << 10) - 3, HEAP + 0x10_0000 - 0x20);
        sums(&image.check().findings)
    };
    assert_eq!(build(true)[3], (0x71, 2));
    assert_eq!(build(false)[3], (0, 0));
}

#[test]
fn the_operands_of_code_made_at_run_time_hold_wherever_they_lie() {
    const CODE: u64 = 0x6000_0000;
    const SIZE: u64 = 0x10_0000;
    let found = |offset: u64, is_from_a_file: bool| {
        let mut image = image();
        image.piece(CODE..CODE + SIZE, Some(RootKind::Mapped));
        image.layout.code.push(CODE..CODE + SIZE);
        if is_from_a_file {
            image.layout.files.push(CODE..CODE + SIZE);
        }
        image.block(HEAP, 100, 1);
        image.write(CODE + offset, HEAP);
        sums(&image.check().findings)
    };
    let (held, lost) = ([(0, 0), (0, 0), (0, 0), (100, 1)], [(100, 1), (0, 0), (0, 0), (0, 0)]);
    // At its beginning and end, and across what is read in one go.
    for offset in [0, 3, SIZE - 8, SIZE - 9, (256 << 10) - 1, (256 << 10) - 7, 256 << 10] {
        assert_eq!(found(offset, false), held, "{offset:#x}");
    }
    assert_eq!([found(SIZE - 7, false), found(3, true), found(8, true)], [lost, lost, held]);
}

#[test]
fn a_pointer_can_hold_the_whole_block_it_leads_into() {
    for (holds_whole, kind) in [(true, Kind::Reachable), (false, Kind::Possible)] {
        let mut image = image();
        image.block(HEAP, 0x1000, 1);
        let pointer = Pointer { word: HEAP + 0x800, root: RootKind::Stacks, holds_whole };
        image.layout.pointers.push(pointer);
        assert_eq!(image.check().findings.sum(kind), amount(0x1000, 1));
    }
}

#[test]
fn a_block_may_be_longer_than_what_is_read_at_once() {
    let mut image = Image::default();
    image.piece(HEAP..HEAP + 0x100_0000, None);
    image.piece(STACK..STACK + 8, Some(RootKind::Stacks));
    image.block(HEAP + 0x10, 0xff_0000, 1);
    image.block(HEAP + 0xff_1000, 64, 2);
    image.write(HEAP + 0xf0_0000, HEAP + 0xff_1000);
    image.write(STACK, HEAP + 0x10);
    assert_eq!(image.check().findings.sum(Kind::Reachable).blocks, 2);
}

#[test]
fn what_a_large_block_left_behind_when_it_shrank_holds_nothing() {
    // A chunk with pages of its own says so in the word before the block.
    for (flags, kind) in [(2, Kind::Direct), (0, Kind::Reachable)] {
        let mut image = image();
        image.piece(LIBRARY..LIBRARY + 0x3_1000, Some(RootKind::Mapped));
        image.block(HEAP, 64, 1);
        image.block(LIBRARY + 16, 200_000, 2);
        image.write(STACK, LIBRARY + 16);
        image.write(LIBRARY + 8, 0x3_1000 | flags);
        image.write(LIBRARY + 200_016, HEAP);
        assert_eq!(image.check().findings.sum(kind).bytes % 200_000, 64, "{flags}");
    }
}

#[test]
fn who_holds_a_block_is_told_by_the_shortest_way_from_a_root() {
    let mut image = image();
    image.piece(LIBRARY..LIBRARY + 0x1000, Some(RootKind::Globals));
    // A variable holds a table, whose third word leads to a list, whose last node holds the block.
    image.block(HEAP, 64, 1);
    image.write(LIBRARY + 0x20, HEAP);
    image.write(HEAP + 16, HEAP + 0x100);
    for node in 0..5 {
        image.block(HEAP + 0x100 + node * 0x40, 48, 2);
        image.write(HEAP + 0x100 + node * 0x40, HEAP + 0x140 + node * 0x40);
    }
    image.write(HEAP + 0x200, 0);
    image.write(HEAP + 0x208, HEAP + 0x1000);
    image.block(HEAP + 0x1000, 5000, 3);
    let checked = image.check();
    let site = checked.retained.iter().find(|site| site.stack == 3).unwrap();
    let step = |stack, blocks, offset| Step { stack, blocks, offset };
    let steps = vec![step(1, 1, Some(16)), step(2, 5, Some(8)), step(3, 1, None)];
    let way = Way {
        root: RootKind::Globals,
        at: LIBRARY + 0x20,
        roots: 1,
        steps,
        amount: amount(5000, 1),
    };
    assert_eq!(site.ways, [way]);
    assert_eq!((site.all, site.looked_at), (amount(5000, 1), amount(5000, 1)));
}
