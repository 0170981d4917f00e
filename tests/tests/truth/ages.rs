//! Blocks by their age, beside what a program says that has blocks of two ages; and the time that a
//! part of a recording is about.

use heapattach_tests::{
    command::{Heapattach, Outcome},
    compile::Source,
    recorded::Recorded,
};
use serde_json::Value;

/// The young ones come so long after the old ones, and the end so long after these.
const WAIT: &str = "1500";
const REST: &str = "500";
/// Between both ages, at the end.
const BETWEEN: &str = "1s";

/// What the program says: blocks and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Truth {
    blocks: f64,
    bytes: f64,
}

fn run(arguments: &[&str]) -> Outcome {
    Heapattach::new(arguments).run().expect(0)
}

fn path(file: &Recorded) -> &str {
    file.0.to_str().expect("a path of ours")
}

fn truth(told: &str, name: &str) -> Truth {
    let line = told.lines().find_map(|line| line.strip_prefix(name)).expect("it says so");
    let mut numbers = line.split_whitespace().map(|number| number.parse().expect("a number"));
    let mut next = || numbers.next().expect("two of them");
    Truth { blocks: next(), bytes: next() }
}

/// Runs the program, and gives its file and what it says of the old and of the young ones.
fn recorded(option: &str) -> Option<(Recorded, [Truth; 2])> {
    recorded_of("two_ages.c", option)
}

fn recorded_of(source: &str, option: &str) -> Option<(Recorded, [Truth; 2])> {
    let program = Source::new(source).build()?;
    let program = program.to_str().expect("a path of ours");
    let file = Recorded::new();
    let told = run(&["run", option, "-o", path(&file), "--", program, WAIT, REST]).stdout;
    let both = ["old", "young"].map(|name| truth(&told, name));
    Some((file, both))
}

fn view(file: &Recorded, view: &str, options: &[&str]) -> Value {
    let told = run(&[&["report", path(file), "--view", view, "--json"], options].concat());
    serde_json::from_str(&told.stdout).expect("JSON")
}

/// What functions of this name hold.
fn held(sites: &Value, name: &str) -> Value {
    let rows = sites["sites"].as_array().expect("a list").iter();
    let mut own = rows.filter(|row| row["function"] == name);
    own.next().cloned().unwrap_or(Value::Null)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn blocks_of_either_age_are_those_that_the_program_says() {
    let Some((file, both)) = recorded("--all") else { return };
    let (older, younger) = (format!("{BETWEEN}.."), format!("..{BETWEEN}"));
    let ages = [older.as_str(), younger.as_str()];
    for ((age, truth), (name, other)) in
        ages.iter().zip(both).zip([("old_ones", "young_ones"), ("young_ones", "old_ones")])
    {
        let sites = view(&file, "sites", &["--age", age]);
        let own = held(&sites, name);
        assert_eq!(number(&own["bytes"]["value"]), truth.bytes, "{age}: {own:#}");
        assert_eq!(number(&own["blocks"]["value"]), truth.blocks, "{age}");
        assert_eq!(held(&sites, other), Value::Null, "{age}: {sites:#}");
        assert!(sites["part"][0].as_str().is_some_and(|part| part.contains("before the end")));
        // Every other view and file is of the same blocks.
        let tree = view(&file, "tree", &["--age", age]);
        assert_eq!(tree["total"]["bytes"], sites["total"]["bytes"]);
        let folded = run(&["report", path(&file), "--format", "collapsed", "--age", age]).stdout;
        assert!(folded.contains(name) && !folded.contains(other), "{folded}");
        let text = run(&["report", path(&file), "--age", age]).stdout;
        assert!(text.contains("ONLY      blocks allocated "), "{text}");
    }
    let both_of =
        |options: &[&str]| number(&view(&file, "sites", options)["total"]["bytes"]["value"]);
    let sum = both_of(&["--age", ages[0]]) + both_of(&["--age", ages[1]]);
    assert_eq!(sum, both_of(&[]), "a block is of one age or of the other");
    // Looked at before the young ones came, the old ones were young.
    assert_eq!(both_of(&["--until", "800ms", "--age", "..5s"]), both_of(&["--until", "800ms"]));
    assert_eq!(both_of(&["--age", "1h.."]), 0.0);
    let refused = Heapattach::new(["report", path(&file), "--age", BETWEEN]).run().expect(2);
    assert!(refused.stderr.contains("`1s..`"), "{}", refused.stderr);
}

#[test]
fn mappings_of_either_age_are_those_that_the_program_says() {
    // Calls that failed make none younger.
    let Some((file, both)) = recorded_of("two_ages_mapped.c", "--hide-frames=none") else { return };
    let (older, younger) = (format!("{BETWEEN}.."), format!("..{BETWEEN}"));
    for (age, truth, name) in [(&older, both[0], "old_ones"), (&younger, both[1], "young_ones")] {
        let sites = view(&file, "sites", &["--metric", "own", "--age", age]);
        let total = &sites["total"];
        assert_eq!(number(&total["bytes"]["value"]), truth.bytes, "{age}: {sites:#}");
        let folded = run(&["report", path(&file), "--format", "collapsed", "--age", age]).stdout;
        assert!(folded.contains(&format!(";{name};map;[mapped] ")), "{age}: {folded}");
        assert_eq!(number(&total["blocks"]["value"]), truth.blocks, "{age}: {sites:#}");
    }
    let all = view(&file, "sites", &["--metric", "own"]);
    let sum = both[0].bytes + both[1].bytes;
    assert_eq!(number(&all["total"]["bytes"]["value"]), sum, "{all:#}");
}

#[test]
fn samples_tell_the_same_within_their_intervals() {
    let Some((file, both)) = recorded("--every=32KiB") else { return };
    let (older, younger) = (format!("{BETWEEN}.."), format!("..{BETWEEN}"));
    for ((age, truth), name) in [older, younger].iter().zip(both).zip(["old_ones", "young_ones"]) {
        let own = held(&view(&file, "sites", &["--age", age]), name);
        for (range, truth) in [(&own["bytes"], truth.bytes), (&own["blocks"], truth.blocks)] {
            let [value, low, high] = ["value", "low", "high"].map(|end| number(&range[end]));
            // 95 in 100 hold it; here the rest have half as much again.
            let reach = |end: f64| value + (end - value) * 1.5;
            assert!(low < high, "an estimate without an interval: {range}");
            assert!(reach(low) <= truth && truth <= reach(high), "{age}: {truth} not in {range}");
        }
    }
    // Sizes, lifetimes and moments are estimates, too.
    for name in ["sizes", "lifetimes"] {
        let classes = view(&file, name, &[]);
        let has_interval = |class: &Value| number(&class["low"]) < number(&class["high"]);
        let classes = classes["classes"].as_array().expect("a list");
        assert!(!classes.is_empty() && classes.iter().any(has_interval), "{name}: {classes:#?}");
    }
    let moments = view(&file, "timeline", &[]);
    let last = moments["moments"].as_array().and_then(|all| all.last()).expect("a moment");
    assert!(number(&last["live_ends"][0]) < number(&last["live_ends"][1]), "{last:#}");
}
