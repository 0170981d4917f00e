//! What live sessions write for machines: their numbers are others each time, but each field is where it
//! was, of the kind that it was, and the words that scripts compare are the same.
//!
//! Where a change is intended, `HEAPATTACH_GOLDEN=write cargo test --test session live_golden` writes what is
//! there now; the difference of the files tells it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    time::Duration,
};

use heapattach_tests::{
    command::{Heapattach, Hooks},
    compile::{Source, folder, is_there},
    fixture::Launch,
    report::fresh_file,
};
use serde_json::Value;

/// Fields whose words scripts compare.
const COMPARED: [&str; 4] = ["schema", "outcome", "target", "via"];

/// Of each place in the result what is found there.
type Schema = BTreeMap<String, BTreeSet<String>>;

fn collect(value: &Value, place: &str, schema: &mut Schema) {
    let last = place.rsplit('.').next().unwrap_or_default();
    let kind = match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) => "yes or no".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::String(word) if COMPARED.contains(&last) => format!("the word {word}"),
        Value::String(_) => "a text".to_owned(),
        Value::Array(items) => {
            items.iter().for_each(|item| collect(item, &format!("{place}[]"), schema));
            "a list".to_owned()
        }
        Value::Object(fields) => {
            // Ends of stacks and modules are counted by their names.
            let is_name = |field: &str| last == "ends" || field.starts_with('/');
            let name =
                |field: &str| if is_name(field) { "NAME".to_owned() } else { field.to_owned() };
            for (field, value) in fields {
                collect(value, &format!("{place}.{}", name(field)), schema);
            }
            "fields".to_owned()
        }
    };
    schema.entry(place.to_owned()).or_default().insert(kind);
}

fn schema_of(text: &str) -> Schema {
    let value: Value =
        serde_json::from_str(text).unwrap_or_else(|e| panic!("no JSON: {e}: {text}"));
    let mut schema = Schema::new();
    collect(&value, "", &mut schema);
    schema
}

fn written(schema: &Schema) -> String {
    let line = |(place, kinds): (&String, &BTreeSet<String>)| {
        format!("{place}: {}\n", kinds.iter().cloned().collect::<Vec<_>>().join(" | "))
    };
    schema.iter().map(line).collect()
}

fn read(text: &str) -> Schema {
    let parts = text.lines().filter_map(|line| line.split_once(": "));
    let kinds = |kinds: &str| kinds.split(" | ").map(str::to_owned).collect();
    parts.map(|(place, all)| (place.to_owned(), kinds(all))).collect()
}

/// Whether what lies around this place is empty, or not there, so that nothing can be in it.
fn is_in_nothing(place: &str, shown: &Schema) -> bool {
    let ends = place.match_indices(['.', '[']).map(|(end, _)| &place[..end]);
    ends.skip(1).any(|around| {
        let kinds = shown.get(around);
        let has_nothing = |kinds: &BTreeSet<String>| {
            kinds.contains("nothing") || kinds.contains("a list") || around.ends_with("ends")
        };
        kinds.is_none_or(has_nothing)
    })
}

/// Whether nothing is known of this place: what it is in was empty, or not there.
fn was_not_told(place: &str, kept: &Schema) -> bool {
    let is_nothing =
        |around: &str| kept.get(around).is_some_and(|kinds| kinds.iter().eq(["nothing"]));
    let lists = place.match_indices("[]").map(|(at, _)| (&place[..at], &place[..at + 2]));
    let was_empty =
        |(list, item): (&str, &str)| kept.contains_key(list) && !kept.contains_key(item);
    is_nothing(place)
        || place.match_indices(['.', '[']).any(|(end, _)| is_nothing(&place[..end]))
        || lists.into_iter().any(was_empty)
}

/// What is another thing than it was.
fn differences(kept: &Schema, shown: &Schema) -> Vec<String> {
    let mut differing = Vec::new();
    for (place, kinds) in shown.iter().filter(|(place, _)| !was_not_told(place, kept)) {
        match kept.get(place) {
            None => differing.push(format!("{place} is new: {kinds:?}")),
            Some(known) => {
                let fresh: Vec<_> = kinds.difference(known).collect();
                if !fresh.is_empty() {
                    differing.push(format!("{place} was {known:?}, is {fresh:?} too"));
                }
            }
        }
    }
    let gone = kept.keys().filter(|place| !shown.contains_key(*place));
    let gone = gone.filter(|place| !is_in_nothing(place, shown));
    differing.extend(gone.map(|place| format!("{place} is gone")));
    differing
}

fn kept_in(name: &str) -> PathBuf {
    folder().join("golden/live").join(name).with_extension("schema")
}

fn compare(name: &str, text: &str) {
    let (path, shown) = (kept_in(name), schema_of(text));
    let kept = read(&fs::read_to_string(&path).unwrap_or_default());
    if std::env::var_os("HEAPATTACH_GOLDEN").is_some_and(|value| value == "write") {
        fs::create_dir_all(path.parent().expect("in a folder")).expect("a folder of ours");
        return fs::write(path, written(&shown)).expect("a file of ours");
    }
    let differing = differences(&kept, &shown);
    assert!(differing.is_empty(), "{}:\n{}", path.display(), differing.join("\n"));
}

#[test]
fn the_result_of_a_run_has_the_fields_that_it_had() {
    let Some(program) = Source::new("from_start.c").build() else { return };
    let file = fresh_file();
    let command = Heapattach::new(["run", "--all", "--json", "--no-record", "--report"]).arg(&file);
    command.arg("--").arg(program).run().expect(0);
    compare("run", &fs::read_to_string(file).expect("a report"));
}

/// The places of a list of sites, with what is in use of each.
fn places(sites: &Value) -> Vec<(String, f64)> {
    let sites = sites.as_array().expect("a list");
    let place = |site: &Value| {
        let live = site["live"]["blocks"]["value"].as_f64().expect("a number");
        (site["place"].as_str().expect("a text").to_owned(), live)
    };
    sites.iter().map(place).collect()
}

/// Both lists of one result come from the same ledger: one name for one place, and no site without anything.
#[test]
fn sites_of_the_heap_are_those_of_the_summary_and_none_is_empty() {
    let Some(program) = Source::new("several_leaks.c").build() else { return };
    let script = folder().join("golden/frames.py");
    let mut programs = vec![vec![program.into_os_string(), "kfh".into()]];
    if is_there("python3") {
        let code = "import os, runpy, sys; kept = runpy.run_path(sys.argv[1]); os._exit(0)";
        programs.push(vec!["python3".into(), "-c".into(), code.into(), script.into_os_string()]);
    }
    for words in programs {
        let file = fresh_file();
        let command =
            Heapattach::new(["run", "--all", "--json", "--no-record", "--report"]).arg(&file);
        words.iter().fold(command.arg("--"), |command, word| command.arg(word)).run();
        let text = fs::read_to_string(file).expect("a report");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let of_heap = &report["heap"]["sites"];
        for site in of_heap.as_array().expect("a list") {
            let bytes = |what: &str| site[what]["bytes"]["value"].as_f64().expect("a number");
            let mapped = site["mapped"].as_u64().expect("a number");
            assert!(bytes("live") + bytes("allocated") > 0.0 || mapped > 0, "{words:?}: {site:#}");
        }
        let of_summary = places(&report["summary"]["sites"]);
        assert!(!of_summary.is_empty(), "{words:?} has nothing in use: {text}");
        let live = places(of_heap).into_iter().filter(|(_, live)| *live > 0.0);
        assert_eq!(of_summary, live.take(of_summary.len()).collect::<Vec<_>>(), "{words:?}");
    }
}

#[test]
fn the_result_of_a_check_has_the_fields_that_it_had() {
    let Some(program) = Source::new("several_leaks.c").build() else { return };
    let file = fresh_file();
    let command = Heapattach::new(["check", "--json", "--report"]).arg(&file);
    command.arg("--").arg(program).run().expect(23);
    compare("check", &fs::read_to_string(file).expect("a report"));
}

#[test]
fn the_result_of_an_attach_has_the_fields_that_it_had() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let fixture = launch.start();
    let mut command = Heapattach::attach(fixture.pid(), Duration::from_millis(200), Hooks::Auto);
    for option in ["--all", "--no-record"] {
        command = command.arg(option);
    }
    let outcome = command.run().expect(0);
    fixture.finish();
    compare("attach", &outcome.stdout);
}

#[test]
fn what_is_another_field_or_another_word_is_found() {
    let kept =
        schema_of(r#"{"outcome":"exited","counts":[{"bytes":1}],"why":null,"last":{"a":1}}"#);
    let found = |text| differences(&kept, &schema_of(text)).len();
    assert_eq!(
        found(r#"{"outcome":"exited","counts":[{"bytes":7}],"why":null,"last":{"a":2}}"#),
        0
    );
    assert_eq!(found(r#"{"outcome":"exited","counts":[],"why":null,"last":{"a":2}}"#), 0);
    assert_eq!(found(r#"{"outcome":"over","counts":[],"why":null,"last":{"a":2}}"#), 1);
    assert_eq!(
        found(r#"{"outcome":"exited","counts":[{"bytes":"7"}],"why":null,"last":{"a":2}}"#),
        1
    );
    assert_eq!(found(r#"{"outcome":"exited","counts":[],"why":"x","last":{"a":2}}"#), 0);
    assert_eq!(found(r#"{"outcome":"exited","counts":[],"why":null,"last":null}"#), 1);
    assert_eq!(found(r#"{"outcome":"exited","counts":[],"why":null,"last":{"b":2}}"#), 2);
    assert_eq!(found(r#"{"outcome":"exited","why":null,"last":{"a":2}}"#), 1);
    assert_eq!(read(&written(&kept)), kept);
}
