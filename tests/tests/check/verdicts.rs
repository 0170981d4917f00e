//! `heapattach check` exits as it is to on every leaking and every clean fixture.

use heapattach_tests::check::verdicts::{Verdict, all};

#[test]
fn every_fixture_exits_with_the_status_that_is_to_come() {
    let Some(verdicts) = all(|_| ()) else { return };
    let wrong: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.is_right()).collect();
    assert!(verdicts.len() > 40 && wrong.is_empty(), "{wrong:#?}");
}
