//! Every kind of target, and what the guide promises of each.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Instant,
};

use heapattach_tests::{
    matrix::{cells, pairs::gaps, rows, trial},
    seed::seed,
};

/// Programs that are looked at at the same time.
const AT_ONCE: usize = 2;

#[test]
fn every_two_values_that_can_come_together_do_so_in_some_cell() {
    let gaps = gaps(&cells());
    assert!(gaps.is_empty(), "{}", gaps.join("\n"));
}

#[test]
fn the_readme_promises_what_is_proved_and_nothing_else() {
    let wrong = rows::differences();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unproved = rows::without_proof();
    assert!(unproved.is_empty(), "no proof of {unproved:?}");
}

/// Those whose name has all the words of `HEAPATTACH_CELL`, or all cells.
#[test]
fn every_cell_comes_out_as_it_should() {
    let words = std::env::var("HEAPATTACH_CELL").unwrap_or_default();
    let is_meant = |name: String| words.split_whitespace().all(|word| name.contains(word));
    let cells: Vec<_> = cells().into_iter().filter(|cell| is_meant(cell.to_string())).collect();
    assert!(!cells.is_empty(), "no cell is named {words}");
    let (next, failed, seed) = (AtomicUsize::new(0), Mutex::new(Vec::new()), seed());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, SeqCst)) {
                    let began = Instant::now();
                    let held = catch_unwind(AssertUnwindSafe(|| trial::hold(cell, seed)));
                    println!("{cell}: {held:?} in {:.1?}", began.elapsed());
                    if held.is_err() {
                        failed.lock().expect("no panic in between").push(cell.to_string());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic in between");
    assert!(failed.is_empty(), "{} of {}, seed {seed}: {failed:#?}", failed.len(), cells.len());
}
