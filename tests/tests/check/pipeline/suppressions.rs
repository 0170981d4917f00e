//! `heapattach check` in a pipeline: leaks that are known, and rules that are not needed any more.

use heapattach_tests::check::pipeline::Pipeline;

const VALGRIND: &str = "{\n   a name\n   Memcheck:Leak\n   match-leak-kinds: definite\n   \
                        fun:make_*\n   fun:known\n   ...\n   fun:main\n}\n";

#[test]
fn every_form_of_a_rule_is_used_or_reported_as_unused() {
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    let used = [
        ("leak:known", "leak:known"),
        ("# a remark\n\nleak:^known$", "leak:^known$"),
        ("leak:make_*er", "leak:make_*er"),
        ("leak:several_leaks.c", "leak:several_leaks.c"),
        ("leak:/several_leaks$", "leak:/several_leaks$"),
        (VALGRIND, "a name"),
    ];
    for (text, name) in used {
        let file = pipeline.file("used.supp", text);
        let options =
            ["--suppressions", &file, "--print-suppressions", "--fail-on-unused-suppressions"];
        let outcome = pipeline.check(&options, &["k"]);
        let talk = &outcome.stderr;
        assert_eq!(outcome.status.code(), Some(0), "{name}: {talk}");
        assert!(talk.contains("Suppressions used:\n  count      bytes template\n"), "{talk}");
        assert!(talk.contains(&format!(" {name} ({file}:")), "{name}: {talk}");
        assert!(talk.contains("Suppressed: 104 byte(s) in 2 object(s)"), "{name}: {talk}");
    }
    for text in ["leak:^know$", "leak:known.c", &VALGRIND.replace("fun:main", "fun:other")] {
        let file = pipeline.file("unused.supp", text);
        let options = ["--suppressions", &file, "--max-leak", "1KiB"];
        let outcome = pipeline.check(&options, &["k"]);
        let talk = &outcome.stderr;
        assert_eq!(outcome.status.code(), Some(0), "{text}: {talk}");
        assert!(
            talk.contains("Suppressions that match no leak, and can be removed:\n"),
            "{text}: {talk}"
        );
        let strict = [&options[..], &["--fail-on-unused-suppressions"]].concat();
        let outcome = pipeline.check(&strict, &["k"]);
        assert_eq!(outcome.status.code(), Some(23), "{text}: {}", outcome.stderr);
        let said = "LIMIT     --fail-on-unused-suppressions allows 0, found 1\n";
        assert!(outcome.stderr.contains(said), "{text}: {}", outcome.stderr);
    }
}

#[test]
fn what_only_a_suppressed_block_leads_to_is_quiet_too() {
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    let one = pipeline.file("holder.supp", "leak:make_holder\n");
    let other = pipeline.file("fresh.supp", "leak:fresh\n");
    let outcome = pipeline.check(&["--suppressions", &one], &["kf"]);
    assert_eq!(outcome.status.code(), Some(23), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("33 byte(s) leaked in 1 allocation"), "{}", outcome.stderr);
    let both = ["--suppressions", &one, "--suppressions", &other];
    let outcome = pipeline.check(&both, &["kf"]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("Suppressed: 137 byte(s) in 3 object(s)"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn lines_that_are_made_for_leaks_keep_these_leaks_quiet() {
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    let outcome = pipeline.check(&["--gen-suppressions"], &["kf"]);
    let title = "# Suppressions for these leaks:\n";
    let from = outcome.stderr.find(title).expect("they are told") + title.len();
    let lines: String = outcome.stderr[from..]
        .lines()
        .take_while(|line| !line.is_empty())
        .fold(String::new(), |all, line| all + line + "\n");
    assert_eq!(lines, "leak:make_holder\nleak:fresh\n");
    let file = pipeline.file("made.supp", &lines);
    let outcome = pipeline.check(&["--suppressions", &file], &["kf"]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
}

#[test]
fn the_built_in_list_can_be_switched_off() {
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    let usual = pipeline.check(&["--print-suppressions"], &["t"]);
    assert_eq!(usual.status.code(), Some(0), "{}", usual.stderr);
    assert!(usual.stderr.contains("leak:^tzset_internal$ (built in)"), "{}", usual.stderr);
    let without = pipeline.check(&["--no-builtin-suppressions"], &["t"]);
    assert_eq!(without.status.code(), Some(23), "{}", without.stderr);
}

#[test]
fn a_program_may_bring_its_own_list() {
    for flags in [&["-DOWN_LIST"][..], &["-DOWN_LIST", "-O0"], &["-DOWN_LIST", "-no-pie"]] {
        let Some(pipeline) = Pipeline::build(flags) else { return };
        let own = pipeline.check(&["--print-suppressions"], &["f"]);
        assert_eq!(own.status.code(), Some(0), "{flags:?}: {}", own.stderr);
        assert!(own.stderr.contains("leak:^fresh$ (the target)"), "{flags:?}: {}", own.stderr);
        let without = pipeline.check(&["--no-embedded-suppressions"], &["f"]);
        assert_eq!(without.status.code(), Some(23), "{flags:?}: {}", without.stderr);
    }
    let Some(pipeline) = Pipeline::build(&["-DODD_LIST"]) else { return };
    let odd = pipeline.check(&[], &["f"]);
    assert_eq!(odd.status.code(), Some(23), "{}", odd.stderr);
    let said = "NOTE      __lsan_default_suppressions is not understood: its code at 0x";
    assert!(odd.stderr.contains(said), "{}", odd.stderr);
}

#[test]
fn a_file_of_rules_that_is_none_is_refused_before_anything_runs() {
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    let file = pipeline.file("odd.supp", "leak:a\nrace:b\n");
    for (path, said) in [
        (file.as_str(), "odd.supp: line 2 is not a `leak:PATTERN`: `race:b`"),
        ("/nowhere/x.supp", "/nowhere/x.supp cannot be read: No such file"),
    ] {
        let outcome = pipeline.check(&["--suppressions", path], &["k"]);
        assert_eq!(outcome.status.code(), Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
}
