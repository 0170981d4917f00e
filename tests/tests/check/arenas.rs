//! Checks know the C library's heaps and their bookkeeping, with all tunables: words in freed memory
//! hold nothing.

use heapattach_tests::{check, compile::Source};

const TUNABLES: &str = "GLIBC_TUNABLES";

#[test]
fn words_in_memory_that_was_given_back_hold_nothing_however_the_allocator_was_tuned() {
    let Some(program) = Source::new("stale_in_heap.c").build() else { return };
    // Without huge pages at hand the heaps are small ones all the same.
    for tuned in [
        "glibc.malloc.arena_max=8",
        "glibc.malloc.arena_max=1",
        "glibc.malloc.hugetlb=1",
        "glibc.malloc.hugetlb=2",
        "glibc.malloc.tcache_count=0",
    ] {
        for threads in [0, 3] {
            let result = check::run(&program, &[&threads.to_string()], &[(TUNABLES, tuned)], &[]);
            let expected = (1000 + 2000 * threads, 1 + threads);
            assert_eq!(result.sum("direct"), expected, "{tuned}, {threads}: {}", result.report);
            assert_eq!(result.sum("indirect"), (0, 0), "{tuned}, {threads}");
            assert_eq!(result.code, Some(23), "{tuned}, {threads}: {}", result.talk);
        }
    }
}
