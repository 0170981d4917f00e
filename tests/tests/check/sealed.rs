//! Pointers in memory that cannot be written hold like others: sealed data, and code that was made at run time.

use heapattach_tests::{check, compile::Source};

const BLOCKS: u64 = 10;
const BYTES: u64 = BLOCKS * (1000 + 1001 + 1002);

#[test]
fn what_sealed_memory_and_made_code_lead_to_is_not_lost() {
    let Some(program) = Source::new("sealed.c").build() else { return };
    let result = check::run(&program, &["keep"], &[], &[]);
    assert_eq!((result.code, result.lost()[0]), (Some(0), (0, 0)), "{}", result.talk);
    let result = check::run(&program, &["lose"], &[], &[]);
    assert_eq!((result.code, result.lost()[0]), (Some(23), (BYTES, 3 * BLOCKS)), "{}", result.talk);
}
