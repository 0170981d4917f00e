//! A program's own way of giving blocks back that is hard to hook, or cannot be: what went by it is not
//! called leaked.

use heapattach_tests::{
    check,
    compile::Source,
    truth::{EXACT, run, whole},
};

#[test]
fn a_free_that_leaves_the_flags_alone_is_hooked_all_the_same() {
    let Some(program) = Source::new("frees_nothing.c").build() else { return };
    let clean = check::run(&program, &[], &[], &[]);
    assert_eq!((clean.code, clean.lost()), (Some(0), [(0, 0); 3]), "{}", clean.talk);
    let leaks = check::run(&program, &["lose"], &[], &[]);
    assert_eq!((leaks.code, leaks.sum("direct")), (Some(23), (150, 3)), "{}", leaks.talk);
    let (_, report) = run(&EXACT, &program, &[]);
    assert_eq!(report.calls_of("free"), 990, "{report:#?}");
    assert_eq!(whole(report.heap.live.blocks.value), 10);
    assert!(report.not_hooked.iter().all(|not| not.function != "free"), "{report:#?}");
}

#[test]
fn where_a_free_cannot_be_hooked_nothing_is_called_leaked() {
    let Some(program) = Source::new("frees_nothing.c").flag("-DNOTHING").build() else { return };
    for words in [&[][..], &["lose"]] {
        let result = check::run(&program, words, &[], &[]);
        assert_eq!((result.code, result.lost()), (Some(6), [(0, 0); 3]), "{}", result.talk);
        let doubts = result.check()["doubts"].to_string();
        assert!(doubts.contains("free of") && doubts.contains("unseen"), "{doubts}");
    }
    for hooks in ["auto", "slots", "entry"] {
        let (_, report) = run(&[&EXACT[..], &["--hooks", hooks]].concat(), &program, &[]);
        let names: Vec<&str> = report.not_hooked.iter().map(|not| not.function.as_str()).collect();
        assert!(names.contains(&"free"), "{hooks}: {names:?}");
    }
}

/// A program whose allocator is preloaded, by way of env: only the program is to have it.
fn with_library(flags: &[&str], words: &[&str]) -> Option<check::Result> {
    let library =
        flags.iter().fold(Source::new("frees_nothing.c"), |library, flag| library.flag(flag));
    let library =
        library.flag("-DNOTHING").flag("-DLIBRARY").flag("-shared").flag("-fPIC").build()?;
    let program = Source::new("frees_nothing.c").flag("-DPROGRAM").build()?;
    let preload = format!("LD_PRELOAD={}", library.display());
    let program = program.display().to_string();
    let words = [&[&*preload, &*program], words].concat();
    Some(check::run("/usr/bin/env".as_ref(), &words, &[], &[]))
}

#[test]
fn where_a_library_calls_its_own_free_past_the_hooks_nothing_is_called_leaked() {
    let Some(dropped) = with_library(&["-DPAST"], &["drop"]) else { return };
    assert_eq!((dropped.code, dropped.lost()), (Some(6), [(0, 0); 3]), "{}", dropped.talk);
    let doubts = dropped.check()["doubts"].to_string();
    assert!(doubts.contains("free of") && doubts.contains("the library's own calls"), "{doubts}");
    // One that has no such call is judged as ever, though its entry is not hooked either.
    let Some(clean) = with_library(&[], &[]) else { return };
    assert_eq!((clean.code, clean.lost()), (Some(0), [(0, 0); 3]), "{}", clean.talk);
    let Some(leaks) = with_library(&[], &["lose"]) else { return };
    assert_eq!((leaks.code, leaks.sum("direct")), (Some(23), (150, 3)), "{}", leaks.talk);
}
