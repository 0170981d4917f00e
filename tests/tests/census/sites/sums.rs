//! What the blocks of a session occupy and keep, by who allocated them: beside a program that knows by
//! malloc_usable_size and by addresses, with all blocks recorded and with samples, of glibc and jemalloc.

use heapattach_test_folder::Folder;
use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    fixture::{Fixture, Launch},
    json_schema::faults,
};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::remedies::trim::preloaded;

const DONE: i32 = 0;
const FAILED: i32 = 1;
const INTERRUPTED: i32 = 130;
/// Blocks of 33 bytes, and of 500 bytes of which one of a hundred stays.
const BLOCKS: u64 = 60_000;
const ROUNDED: f64 = 33.0;
const PINNED: f64 = 500.0;

/// The truth, as the program tells it.
struct Truth {
    rounded: f64,
    pinned: f64,
    kept: f64,
}

/// A session in which it allocates; its document, and its report as it is shown again.
fn session(fixture: &mut Fixture, interval: &str) -> (Value, String, Truth) {
    let folder = Folder::new("site-sums");
    let recording = folder.0.join("a.heapattach");
    let path = recording.to_str().expect("a path of ours");
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--census").arg("-o").arg(path);
    let attached =
        Attached::start(command.arg(format!("--every={interval}")).arg("--on-full=wait"), fixture);
    fixture.step(1, BLOCKS);
    let running = attached.into_command();
    running.signal(Signal::SIGINT);
    let document = running.wait().expect(INTERRUPTED).stdout;
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let schema = Heapattach::new(["schema", "report"]).run().expect(DONE).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    assert_eq!(faults(&schema, &document), [""; 0]);
    let told = Heapattach::new(["report", path]).run().expect(DONE).stdout;
    sites_are_told_of_the_moment_alone(&folder, &told);
    #[allow(clippy::cast_precision_loss)]
    let [rounded, pinned, kept] = [2, 3, 4].map(|step| fixture.step(step, 0) as f64);
    (document["census"]["sites"].clone(), told, Truth { rounded, pinned, kept })
}

/// `heap --view pins` of the second moment's file has the rows that the report has; without the recording no names.
fn sites_are_told_of_the_moment_alone(folder: &Folder, report: &str) {
    let (moment, recording) =
        (folder.0.join("a.after.heapattach-moment"), folder.0.join("a.heapattach"));
    let look = || {
        let words = ["heap", "--view", "pins", moment.to_str().expect("a path of ours")];
        Heapattach::new(words).run()
    };
    let pin = |text: &str| {
        let mut lines = text.lines();
        lines
            .find(|line| line.contains("pin (rounded.c") && line.contains(" < allocate"))
            .map(str::to_owned)
    };
    let (told, row) = (look().expect(DONE).stdout, pin(report).expect("a row"));
    let own = pin(&told).unwrap_or_else(|| panic!("no pin: {told}"));
    let words = |row: &str| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&own), words(&row));
    let elsewhere = folder.0.join("elsewhere");
    std::fs::rename(&recording, &elsewhere).expect("renamed");
    let outcome = look().expect(FAILED);
    assert!(pin(&outcome.stdout).is_none(), "{outcome:?}");
    assert!(outcome.stderr.contains("who allocated them is in"), "{outcome:?}");
    std::fs::rename(&elsewhere, &recording).expect("renamed");
}

/// The stack that a function caused.
fn site<'a>(sites: &'a Value, function: &str) -> &'a Value {
    let mut rows = sites["rows"].as_array().expect("rows").iter();
    let found = rows.find(|row| row["place"].as_str().is_some_and(|at| at.starts_with(function)));
    found.unwrap_or_else(|| panic!("no {function}: {sites}"))
}

fn number(value: &Value, name: &str) -> f64 {
    value[name]["value"].as_f64().unwrap_or_else(|| panic!("no {name}: {value}"))
}

fn is_in_interval(value: &Value, name: &str, truth: f64) {
    let end = |end: &str| value[name][end].as_f64().expect("a number");
    let (low, high) = (end("low"), end("high"));
    // The interval is one of 95 %: beside it, by as much again, is not where a wrong sum would be.
    let room = high - low;
    assert!(low - room <= truth && truth <= high + room, "{name}: {truth} not in {value}");
}

/// All sums are exact where every block is recorded.
fn is_true(fixture: &mut Fixture) {
    let (sites, told, truth) = session(fixture, "1");
    #[allow(clippy::cast_precision_loss)]
    let blocks = BLOCKS as f64;
    let rounded = site(&sites, "keep_rounded");
    assert_eq!(number(rounded, "blocks"), blocks, "{sites}");
    assert_eq!(number(rounded, "requested"), blocks * ROUNDED, "{sites}");
    assert_eq!(number(rounded, "occupied"), truth.rounded, "{sites}");
    let pin = site(&sites, "pin");
    assert_eq!(number(pin, "blocks"), blocks / 100.0, "{sites}");
    assert_eq!(number(pin, "requested"), blocks / 100.0 * PINNED, "{sites}");
    assert_eq!(number(pin, "occupied"), truth.pinned, "{sites}");
    let kept = number(pin, "pinned");
    println!("{kept} B kept, {} B by addresses", truth.kept);
    // At both ends of the range are blocks of others.
    assert!((kept - truth.kept).abs() <= truth.kept / 50.0, "{kept} B, {} B", truth.kept);
    assert_eq!(sites["found"], sites["recorded"], "nothing was freed since: {sites}");
    // `fill` has nothing left.
    let rows = sites["rows"].as_array().expect("rows").iter();
    let places: Vec<&Value> = rows.map(|row| &row["place"]).collect();
    assert!(places.iter().all(|at| !at.to_string().contains("fill")), "{places:?}");
    let row = told.lines().find(|line| line.contains("pin (rounded.c") && line.contains(" 600 "));
    assert!(row.is_some_and(|row| row.contains(" < allocate")), "{told}");
    assert!(told.contains("Keeps most free memory") && told.contains("Most rounding"), "{told}");
}

#[test]
fn requested_occupied_and_pinned_bytes_are_what_the_program_knows() {
    let Some(mut fixture) = Launch::new("rounded.c").map(Launch::start) else { return };
    is_true(&mut fixture);
    fixture.finish();
}

#[test]
fn with_jemalloc_blocks_have_the_size_of_their_class() {
    let Some(library) = preloaded("libjemalloc.so.2") else { return };
    // Slabs of a page: what keeps one is on it.
    let Some(launch) = Launch::new("rounded.c") else { return };
    let launch = launch.env("LD_PRELOAD", library).env("MALLOC_CONF", "slab_sizes:512-512:1");
    let mut fixture = launch.start();
    is_true(&mut fixture);
    fixture.finish();
}

#[test]
fn sampled_blocks_stand_for_the_others() {
    let Some(mut fixture) = Launch::new("rounded.c").map(Launch::start) else { return };
    let (sites, _, truth) = session(&mut fixture, "16K");
    let rounded = site(&sites, "keep_rounded");
    is_in_interval(rounded, "occupied", truth.rounded);
    let samples = sites["recorded"].as_u64().expect("a number");
    assert!(samples < BLOCKS / 20, "{samples} of {BLOCKS} were sampled");
    let pin = site(&sites, "pin");
    is_in_interval(pin, "occupied", truth.pinned);
    is_in_interval(pin, "pinned", truth.kept);
    fixture.finish();
}
