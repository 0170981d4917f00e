//! What a reader of `profile.proto` finds in an exported one.

use super::{
    decoded::{Decoded, all, number, unpacked},
    *,
};
use heapattach_ledger::{Memory, sample};

#[test]
fn a_sample_begins_with_what_caused_the_allocation() {
    let read = Decoded::new(&sample::ledger(), Metric::Live);
    let types = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"];
    assert_eq!(read.types()[..4], types);
    assert_eq!(read.text(number(&read.profile, field::DEFAULT_SAMPLE_TYPE)), "inuse_space");
    let (names, values) = read.sample(0);
    assert_eq!(names, ["make_node", "grow_list", "main"]);
    assert_eq!(values, [1500, 96_000, 1000, 64_000, 0, 0]);
    let label = |key: &str, text: &str, number| (key.to_owned(), text.to_owned(), number);
    assert_eq!(read.labels(0), [label("allocator", "malloc", 0)]);
    let worker = [
        label("thread", "worker", 0),
        label("thread_id", "", 4711),
        label("allocator", "malloc", 0),
    ];
    assert_eq!(read.labels(2), worker);
}

#[test]
fn what_a_slot_saw_is_never_called_in_use() {
    let mut file = Vec::new();
    write_slot(&sample::ledger(), &mut file).unwrap();
    let read = Decoded::of(&file);
    let types = ["alloc_objects", "alloc_space", "survived_objects", "survived_space"];
    assert_eq!(read.types()[..4], types);
    assert!(read.types()[4..].iter().all(|name| !name.contains("live")), "{:?}", read.types());
    assert_eq!(read.text(number(&read.profile, field::DEFAULT_SAMPLE_TYPE)), "survived_space");
    assert_eq!(read.sample(0).1, [1500, 96_000, 1000, 64_000, 0, 0]);
}

#[test]
fn what_was_before_is_less_by_that_much() {
    let (now, mut base) = (sample::ledger(), sample::ledger());
    base.functions[1].name = "old_node".to_owned();
    let mut file = Vec::new();
    write_difference(&now, &base, Metric::Live, &mut file).unwrap();
    let read = Decoded::of(&file);
    let values = |index| {
        let (names, values) = read.sample(index);
        (names, values.into_iter().map(u64::cast_signed).collect::<Vec<_>>())
    };
    let names = |first: &str| [first, "grow_list", "main"].map(str::to_owned).to_vec();
    assert_eq!(values(0), (names("make_node"), vec![1500, 96_000, 1000, 64_000, 0, 0]));
    assert_eq!(values(4), (names("old_node"), vec![-1500, -96_000, -1000, -64_000, 0, 0]));
    // What is mapped is what it was.
    let main = ["[mapped by libc.so.6]", "malloc", "main"].map(str::to_owned).to_vec();
    let (mapped, live) = (1 << 20, 1 << 19);
    assert_eq!(values(3), (main.clone(), vec![0, 0, 0, 0, mapped, live]));
    assert_eq!(values(7), (main, vec![0, 0, 0, 0, -mapped, -live]));
}

#[test]
fn mapped_memory_has_types_and_samples_of_its_own() {
    let ledger = sample::ledger();
    let read = Decoded::new(&ledger, Metric::Live);
    assert_eq!(read.types()[4..], ["mapped_space", "mapped_live_space"]);
    let (names, values) = read.sample(3);
    assert_eq!(names, ["[mapped by libc.so.6]", "malloc", "main"], "main is the trigger");
    assert_eq!(values, [0, 0, 0, 0, 1 << 20, 1 << 19]);
    let only = Decoded::new(&ledger.of(Memory::Mapped), Metric::Live);
    let types = ["mapped_objects", "mapped_space", "mapped_live_objects", "mapped_live_space"];
    assert_eq!(only.types(), types);
    assert_eq!(only.text(number(&only.profile, field::DEFAULT_SAMPLE_TYPE)), "mapped_live_space");
    assert_eq!(only.sample(0).1, [256, 1 << 20, 128, 1 << 19]);
}

#[test]
fn an_inlined_allocator_is_left_out_of_its_location() {
    let mut ledger = sample::ledger();
    ledger.stacks.edit(0, |stack| stack.cause = 2);
    let read = Decoded::new(&ledger, Metric::Live);
    assert_eq!(read.sample(0).0, ["grow_list", "main"]);
    assert_eq!(read.labels(0)[0].1, "make_node");
    // Where there is nothing but allocators nothing is left out.
    ledger.stacks.edit(0, |stack| stack.cause = 99);
    let read = Decoded::new(&ledger, Metric::Live);
    assert_eq!(read.sample(0).0, ["malloc", "make_node", "grow_list", "main"]);
}

#[test]
fn another_metric_comes_as_a_fifth_and_is_shown_first() {
    let read = Decoded::new(&sample::ledger(), Metric::Peak);
    assert_eq!(read.types()[4..6], ["peak_objects", "peak_space"]);
    assert_eq!(read.text(number(&read.profile, field::DEFAULT_SAMPLE_TYPE)), "peak_space");
    assert_eq!(read.sample(0).1[4..6], [1200, 76_800]);
}

#[test]
fn mappings_tell_their_builds_and_the_program_comes_first() {
    let mut ledger = sample::ledger();
    ledger.modules.swap(0, 1);
    let read = Decoded::new(&ledger, Metric::Live);
    let mappings = all(&read.profile, field::MAPPING);
    assert_eq!(number(&mappings[0], 1), 2);
    assert_eq!(read.text(number(&mappings[0], 5)), "/usr/bin/list");
    assert_eq!(read.text(number(&mappings[0], 6)), "0123456789abcdef0123456789abcdef01234567");
}

#[test]
fn losses_are_comments_and_no_name_spans_lines() {
    let mut ledger = sample::ledger();
    ledger.about.loss.frees = 3;
    ledger.functions[3].name = "a\nb".to_owned();
    let read = Decoded::new(&ledger, Metric::Live);
    let comments = unpacked(&all(&read.profile, field::COMMENT)[0]);
    let comments: Vec<_> = comments.iter().map(|&index| read.text(index)).collect();
    assert!(comments.iter().any(|note| note.starts_with("3 records of freed blocks were dropped")));
    assert_eq!(read.sample(1).0, ["a b"]);
}

#[test]
fn what_is_in_use_is_not_told_to_be_of_a_duration() {
    let read = Decoded::new(&sample::ledger(), Metric::Live);
    /// `duration_nanos`: readers take a profile that has it for what happened in that time.
    const DURATION_NANOS: u64 = 10;
    assert!(
        all(&read.profile, DURATION_NANOS).is_empty() && number(&read.profile, DURATION_NANOS) == 0
    );
    assert!(number(&read.profile, field::TIME_NANOS) > 0, "or it is not read at all");
    let comments = unpacked(&all(&read.profile, field::COMMENT)[0]);
    let mut comments = comments.iter().map(|&index| read.text(index));
    assert!(comments.any(|note| note.starts_with("counted for ")), "where is it then?");
}
