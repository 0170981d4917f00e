//! The schemas that the command prints describe what it writes: every document that is kept with the tests,
//! and what it writes now. No field is left out, none is missing. Where a field was added its schema in
//! `cli/schemas/` needs it, too; where one changed its meaning the number at the end of `schema` is raised.

use std::{fs, path::PathBuf};

use heapattach_tests::{
    command::Heapattach,
    compile::{Source, folder},
    json_schema::faults,
};
use serde_json::{Value, json};

fn schema(name: &str) -> Value {
    let printed = Heapattach::new(["schema", name]).run().expect(0).stdout;
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Of a view the schema of that view: of several, faults would be those of the nearest.
fn of_view(schema: &Value, document: &Value) -> Value {
    let name = document["schema"].as_str().and_then(|name| name.split('/').nth(2));
    let name = format!("#/$defs/view_{}", name.expect("a view has a name"));
    json!({ "$ref": name, "$defs": schema["$defs"] })
}

fn assert_fits(schema: &Value, document: &Value, what: &str) {
    assert_eq!(faults(schema, document), [""; 0], "{what}");
}

#[test]
fn every_document_that_is_kept_is_as_its_schema_says() {
    let (view, ledger) = (schema("view"), schema("ledger"));
    let folders = fs::read_dir(folder().join("golden/shown")).expect("a folder of ours").flatten();
    let files = folders.flat_map(|one| fs::read_dir(one.path()).into_iter().flatten().flatten());
    let files: Vec<PathBuf> = files
        .map(|file| file.path())
        .filter(|file| file.extension() == Some("json".as_ref()))
        .collect();
    assert!(files.len() > 50, "{files:?}");
    for file in files {
        let document = parsed(&fs::read_to_string(&file).expect("a file of ours"));
        let is_ledger = file.file_name() == Some("export.json".as_ref());
        let schema = if is_ledger { ledger.clone() } else { of_view(&view, &document) };
        assert_fits(&schema, &document, &file.display().to_string());
    }
}

#[test]
fn a_difference_of_several_moments_is_as_the_schema_says() {
    let of = |name: &str| folder().join("golden").join(name).to_string_lossy().into_owned();
    let [before, after] = ["before.heapattach", "after.heapattach"].map(of);
    let told = Heapattach::new(["diff", &before, &after, &before, "--json"]).run().expect(0).stdout;
    let document = parsed(&told);
    assert_fits(&of_view(&schema("view"), &document), &document, "three moments");
    assert!(document["sites"].as_array().is_some_and(|sites| !sites.is_empty()), "{document}");
}

#[test]
fn what_sessions_write_is_as_the_schema_says() {
    let Some(program) = Source::new("from_start.c").build() else { return };
    let Some(suite) = Source::new("leaky_suite.c").build() else { return };
    let report = schema("report");
    for options in [&["--all"][..], &["--flow"], &["--all", "--follow-forks"]] {
        let command = Heapattach::new(["run", "--json", "--no-record"].iter().chain(options));
        let talk = command.arg("--").arg(&program).arg("one").arg("two").run().stderr;
        assert_fits(&report, &parsed(&talk), &format!("{options:?}"));
    }
    let family = Heapattach::new(["run", "--json", "--follow-forks", "--no-record", "--"]);
    let talk = family.arg(&suite).arg("suite").run().stderr;
    let document = parsed(&talk);
    assert!(document["processes"].as_array().is_some_and(|others| others.len() > 5), "{talk}");
    assert_fits(&report, &document, "a family");
}

#[test]
fn what_checks_write_is_as_the_schema_says() {
    let Some(suite) = Source::new("leaky_suite.c").build() else { return };
    let check = schema("check");
    let written = |options: &[&str], words: &[&str]| {
        let mut command = Heapattach::new(["check", "--json"].iter().chain(options));
        command = command.arg("--").arg(&suite);
        for word in words {
            command = command.arg(*word);
        }
        parsed(&command.run().stderr)
    };
    let of_one = written(&["--retained-by", "top", "--flow", "--max-peak", "1B"], &["lose", "7"]);
    assert!(of_one["findings"]["leaks"].as_array().is_some_and(|leaks| leaks.len() == 1));
    assert_fits(&check, &of_one, "one process");
    assert_fits(&check, &written(&["--follow-forks"], &["suite"]), "a family");
    assert_fits(&check, &written(&["--every", "100ms"], &["lose", "0"]), "several checks");
    let refused = Heapattach::new(["check", "--json", "--", "/nowhere/x"]).run().stderr;
    assert_fits(&check, &parsed(&refused), "a program that is not there");
}

#[test]
fn a_document_that_was_changed_is_not_as_its_schema_says() {
    let (view, ledger) = (schema("view"), schema("ledger"));
    let golden = |name: &str| {
        parsed(
            &fs::read_to_string(folder().join("golden/shown").join(name)).expect("a file of ours"),
        )
    };
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 6] = [
        ("before/view-sites.json", |document| {
            document["schema"] = "heapattach/view/sites/2".into()
        }),
        ("before/view-sites.json", |document| document["sites"][0]["bytes"] = 7.into()),
        ("before/view-sites.json", |document| document["new"] = 7.into()),
        ("before/view-summary.json", |document| {
            document["verdict"].as_object_mut().expect("an object").remove("text");
        }),
        ("before/export.json", |document| document["rows"][0]["stack"] = (-1).into()),
        ("before/export.json", |document| {
            document["about"].as_object_mut().expect("an object").remove("loss");
        }),
    ];
    for (number, (name, change)) in changes.into_iter().enumerate() {
        let mut document = golden(name);
        let schema =
            if name.contains("export") { ledger.clone() } else { of_view(&view, &document) };
        assert_fits(&schema, &document, name);
        change(&mut document);
        assert_eq!(faults(&schema, &document).len(), 1, "change {number} of {name}");
    }
}

#[test]
fn the_schemas_are_listed_with_the_commands_that_write_them() {
    let listed = Heapattach::new(["schema"]).run().expect(0).stdout;
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    let all =
        ["report", "check", "heap", "heap-diff", "allocator", "view", "ledger", "top", "agent"];
    assert_eq!(names, all);
    let chapter = include_str!("../../../cli/guide/pipelines.md");
    let table = chapter.split("| schema | written by |").nth(1).expect("the table of the guide");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let rows = rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), all);
    assert!(Heapattach::new(["schema", "nonsense"]).run().code() == Some(2));
}
