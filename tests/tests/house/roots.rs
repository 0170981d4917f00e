//! The root of each library: lines that run, and what it never knows.

use super::sources::{members, read, root};

/// Members that are no library to build on: what runs in the target, the command, and what is of tests.
const OTHERS: [&str; 6] =
    ["payload/abi", "payload", "cli", "cli/instruction_count", "cli/test_folder", "tests"];

/// Lines of code in the first block of a root that a test runs, or compiles, where it needs a live target.
fn example(docs: &str) -> usize {
    let mut lines = docs.lines();
    let begins = |line: &str| matches!(line.trim(), "```" | "```no_run");
    // Blocks of another kind have an end that looks like a beginning.
    while let Some(line) = lines.next() {
        if begins(line) {
            let code = lines.take_while(|line| !line.trim().starts_with("```"));
            return code.filter(|line| !line.trim().is_empty()).count();
        } else if line.trim().starts_with("```") {
            lines.find(|line| line.trim() == "```");
        }
    }
    0
}

#[test]
fn each_library_begins_with_lines_that_run_and_says_what_it_never_knows() {
    let picture = "A crate.\n```text\na -> b\n```\n";
    assert_eq!((example(picture), example(&format!("{picture}```\nf();\n\ng();\n```"))), (0, 2));
    let libraries: Vec<_> =
        members().into_iter().filter(|one| !OTHERS.contains(&&one[..])).collect();
    assert!(libraries.len() > 20, "{libraries:?}");
    for library in libraries {
        let text = read(&root().join(&library).join("src/lib.rs"));
        let docs: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("//!")).collect();
        let docs = docs.join("\n");
        assert!((4..=40).contains(&example(&docs)), "{library}: {} lines run", example(&docs));
        let absences =
            ["nows no", "No I/O", "no command line", "no process", "never stops", "No process"];
        assert!(absences.iter().any(|words| docs.contains(words)), "{library} has no absence");
    }
}

#[test]
fn the_front_page_names_every_crate_and_its_job() {
    let page = read(&root().join("cli/src/lib.rs"));
    let row = |name: &str| page.lines().any(|line| line.starts_with(&format!("//! | [`{name}`](")));
    let of_tests = &OTHERS[3..];
    let named = members().into_iter().filter(|one| one != "cli" && !of_tests.contains(&&one[..]));
    let names = named.map(|one| one.rsplit('/').next().unwrap_or_default().to_owned());
    let missing: Vec<String> = names.filter(|name| !row(name)).collect();
    assert!(missing.is_empty() && row("session") && !row("nothing"), "{missing:?}");
}
