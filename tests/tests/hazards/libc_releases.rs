//! C libraries of other releases: what holds beside the system's own holds beside each of them.

use heapattach_tests::{
    attached::Attached,
    check,
    command::Hooks,
    compile::Source,
    fixture::Launch,
    libc_release::{Libc, RELEASES},
    trace::Before,
};

const LEAKS: i32 = 23;

#[test]
fn a_program_of_each_release_is_attached_to_and_left_as_it_was() {
    for release in RELEASES {
        let Some(libc) = Libc::release(release) else { continue };
        let Some(program) = libc.program(Source::new("steady.c")).build() else { return };
        for loader in ["map", "dlopen"] {
            let mut fixture = Launch::program(&program).start();
            let before = Before::of(&mut fixture);
            for hooks in [Hooks::Auto, Hooks::Entry, Hooks::Slots] {
                let command = Attached::command(fixture.pid(), hooks).arg("--loader").arg(loader);
                let attached = Attached::start(command, &mut fixture);
                fixture.advance(20);
                let report = attached.end();
                assert!(report.calls() > 0, "{release}, {loader}, {hooks:?}: nothing was counted");
                // The dynamic loader keeps what it wrote of a library that it had loaded.
                if loader == "map" {
                    before.assert_equal(&mut fixture, &format!("{release}, after {hooks:?}"));
                }
            }
            fixture.finish();
        }
    }
}

/// Words in freed memory hold nothing, with all tunables: a check that takes one release's
/// arenas or caches for another's finds less.
#[test]
fn what_is_unreachable_is_found_whatever_the_release_and_its_tuning() {
    for release in RELEASES {
        let Some(libc) = Libc::release(release) else { continue };
        let Some(program) = libc.program(Source::new("stale_in_heap.c")).build() else { return };
        for tuned in [
            "glibc.malloc.arena_max=8",
            "glibc.malloc.arena_max=1",
            "glibc.malloc.hugetlb=2",
            "glibc.malloc.tcache_count=0",
            "glibc.malloc.tcache_max=4194304",
        ] {
            for threads in [0, 3] {
                let words = [&*threads.to_string()];
                let result = check::run(&program, &words, &[("GLIBC_TUNABLES", tuned)], &[]);
                let expected = (1000 + 2000 * threads, 1 + threads);
                let what = format!("{release}, {tuned}, {threads}: {}", result.report);
                assert_eq!(result.sum("direct"), expected, "{what}");
                assert_eq!(result.sum("indirect"), (0, 0), "{what}");
                assert_eq!(result.code, Some(LEAKS), "{what}: {}", result.talk);
            }
        }
    }
}
