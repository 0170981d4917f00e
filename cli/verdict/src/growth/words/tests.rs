//! What is said of growth, and what is not.

use super::*;
use heapattach_ledger::{Cell, Fate, Metric, sample};
use heapattach_profile::Sum;

const SPANS: u8 = 64;

/// Ten minutes in which one stack keeps ten blocks a span, and another gives all of them back.
fn leaking() -> Ledger {
    let mut ledger = sample::ledger();
    (ledger.about.lasted_ms, ledger.about.up_ms) = (640_000, 6_000_000);
    ledger.total.set(Metric::Allocated, &Sum::exact(4000, 20 * u64::from(SPANS)));
    ledger.course.bounds_ms = (0..=u64::from(SPANS)).map(|span| span * 10_000).collect();
    let class = heapattach_abi::flow::class(4016) as u64;
    ledger.moments = (1..=u64::from(SPANS))
        .map(|span| heapattach_ledger::Moment {
            at_ms: span * 10_000,
            flow: Some(vec![[class, 20 * span, 10 * span]]),
            ..heapattach_ledger::Moment::default()
        })
        .collect();
    ledger.rows.iter_mut().for_each(|row| row.sizes = heapattach_ledger::Histogram::default());
    for birth in 0..SPANS {
        let cell = |stack, fate| Cell { stack, thread: 0, birth, fate, sum: Sum::exact(4000, 10) };
        ledger.course.cells.push(cell(0, Fate::Held));
        ledger.course.cells.push(cell(2, Fate::Freed { span: birth, is_soon: true }));
    }
    ledger
}

fn growth(ledger: &Ledger) -> Growth {
    Growth::of(ledger, |stack| format!("stack {stack}")).expect("sizes were counted")
}

#[test]
fn a_leak_is_told_with_the_numbers_that_make_it_one() {
    let growth = growth(&leaking());
    assert_eq!(growth.kind, Kind::Leaking);
    let [one] = &growth.stacks[..] else { panic!("one stack: {:?}", growth.stacks) };
    assert_eq!((one.stack, one.excuse.as_str()), (0, ""));
    assert!(growth.text.contains("stack 0 leaks: its sizes by"), "{}", growth.text);
    assert!(growth.text.contains("cannot be told from leaks"), "{}", growth.text);
}

#[test]
fn a_short_window_and_a_young_process_are_reasons_not_to_say_it() {
    let mut young = leaking();
    young.about.up_ms = 1000;
    assert!(growth(&young).text.contains("too young"), "{}", growth(&young).text);
    assert!(growth(&young).unexcused() > 0.0);
    let mut short = leaking();
    short.about.lasted_ms /= 64;
    short.course.bounds_ms.iter_mut().for_each(|bound| *bound /= 64);
    short.moments.iter_mut().for_each(|moment| moment.at_ms /= 64);
    let growth = growth(&short);
    assert_eq!(growth.kind, Kind::Growing);
    assert!(growth.text.contains("not called a leak: that takes 10 min"), "{}", growth.text);
}

#[test]
fn blocks_of_another_allocator_are_no_growth_of_ours() {
    let mut ledger = leaking();
    ledger.total.set(Metric::Allocated, &Sum::exact(4000, 1 << 20));
    assert!(Growth::of(&ledger, |_| String::new()).is_none());
}

#[test]
fn a_program_seen_from_its_start_is_judged_whatever_allocator_it_has() {
    let mut ledger = leaking();
    ledger.moments.iter_mut().for_each(|moment| moment.flow = Some(Vec::new()));
    assert!(Growth::of(&ledger, |_| String::new()).is_none());
    ledger.about.from_start = true;
    let growth = growth(&ledger);
    assert_eq!(growth.kind, Kind::Leaking, "{}", growth.text);
    // As many go as come.
    for cell in &mut ledger.course.cells {
        cell.fate = Fate::Freed { span: cell.birth, is_soon: true };
    }
    let growth = Growth::of(&ledger, |_| String::new()).unwrap();
    assert_eq!((growth.kind, growth.unexcused()), (Kind::Steady, 0.0), "{}", growth.text);
    assert!(growth.headline.starts_with("Steady: "), "{}", growth.text);
}

/// A vector that `realloc` makes larger by the same amount, ten times a span.
fn vector() -> Ledger {
    let mut ledger = leaking();
    ledger.course.cells.clear();
    ledger.moments.clear();
    let mut flow = std::collections::BTreeMap::<u64, [u64; 2]>::new();
    let class = |step: u64| heapattach_abi::flow::class(1000 * step + 16) as u64;
    for span in 0..SPANS {
        for step in 1 + 10 * u64::from(span)..=10 + 10 * u64::from(span) {
            flow.entry(class(step)).or_default()[0] += 1;
            if step > 1 {
                flow.entry(class(step - 1)).or_default()[1] += 1;
            }
            let last = step % 10 == 0;
            let fate = match span + 1 {
                SPANS if last => Fate::Held,
                next => Fate::Freed { span: if last { next } else { span }, is_soon: true },
            };
            let sum = Sum::exact(1000 * step, 1);
            ledger.course.cells.push(Cell { stack: 0, thread: 0, birth: span, fate, sum });
        }
        ledger.moments.push(heapattach_ledger::Moment {
            at_ms: 10_000 * (u64::from(span) + 1),
            flow: Some(flow.iter().map(|(class, [came, went])| [*class, *came, *went]).collect()),
            ..heapattach_ledger::Moment::default()
        });
    }
    ledger.total.set(Metric::Allocated, &Sum::exact(1000, 640));
    ledger.rows.truncate(1);
    ledger.rows[0].set(Metric::Allocated, &Sum::exact(1000, 640));
    ledger.rows[0].reallocated = 639.0;
    ledger
}

#[test]
fn a_vector_that_grows_by_realloc_and_never_shrinks_is_a_leak_like_any_other() {
    let growing = growth(&vector());
    assert_eq!(growing.kind, Kind::Leaking, "{}", growing.text);
    // Told of one by one, though, nothing of it gets old.
    let mut plain = vector();
    plain.rows[0].reallocated = 0.0;
    let first = plain.course.cells[0].clone();
    plain.course.cells.push(Cell { fate: Fate::Held, ..first });
    assert_ne!(growth(&plain).kind, Kind::Leaking);
}

#[test]
fn a_vector_that_grows_by_new_and_copy_is_a_leak_like_any_other() {
    let mut copied = vector();
    copied.rows[0].reallocated = 0.0;
    // One a span; all within a span are freed in it.
    let growing = growth(&copied);
    assert_eq!(growing.kind, Kind::Leaking, "{}", growing.text);
    assert!(growing.text.contains("one block at a time, ever larger"), "{}", growing.text);
    // The same blocks, and one more that stays: they are not one.
    let mut other = copied;
    let first = other.course.cells[0].clone();
    other.course.cells.push(Cell { fate: Fate::Held, ..first });
    assert_ne!(growth(&other).kind, Kind::Leaking);
}

#[test]
fn the_headline_neither_claims_nor_denies_more_than_its_interval() {
    let told = |kind, low, high, is_significant| {
        let bytes_per_minute = Range { value: (low + high) / 2.0, low, high };
        Growth { kind, bytes_per_minute, is_significant, ..Growth::default() }.headline()
    };
    let beyond = "does not grow beyond chance";
    assert!(told(Kind::Steady, -1.0, 7.0, false).contains(beyond));
    let uneven = told(Kind::Steady, 1.6, 7.0, false);
    assert!(uneven.starts_with("Grew: ") && !uneven.contains(beyond), "{uneven}");
    let grows = told(Kind::Growing, 1.6, 7.0, true);
    assert!(grows.starts_with("Grows: the heap grows by 4 B a minute"), "{grows}");
    let places = told(Kind::Growing, -1.0, 7.0, false);
    assert!(places.starts_with("Grows in places, but the heap as a whole does not"), "{places}");
    assert!(told(Kind::Leaking, 1.0, 7.0, true).starts_with("Leaks: "));
    assert!(told(Kind::Turnover, -7.0, -1.0, false).contains("shrinks"));
}

#[test]
fn what_the_allocator_keeps_is_told() {
    let mut ledger = leaking();
    ledger.course.cells.clear();
    for (number, moment) in (0..).zip(&mut ledger.moments) {
        moment.rss = Some((10 + number) << 20);
        moment.flow.iter_mut().flatten().for_each(|[_, came, went]| *went = *came);
    }
    let growth = growth(&ledger);
    assert!(growth.is_retained && growth.kind == Kind::Steady, "{growth:?}");
}

#[test]
fn numbers_of_a_hostile_file_are_no_reason_to_fail() {
    let mut ledger = leaking();
    ledger.about.lasted_ms = u64::MAX;
    ledger.course.bounds_ms = vec![u64::MAX, 0, 7];
    ledger.course.cells.iter_mut().for_each(|cell| cell.birth = u8::MAX);
    for (moment, at_ms) in ledger.moments.iter_mut().zip([u64::MAX, 0, 5].into_iter().cycle()) {
        moment.at_ms = at_ms;
        moment.flow = Some(vec![[u64::MAX; 3], [3, u64::MAX, 0], [0; 3]]);
    }
    assert!(growth(&ledger).text.len() < 2000);
    ledger.course.bounds_ms.clear();
    assert!(!growth(&ledger).text.is_empty());
}
