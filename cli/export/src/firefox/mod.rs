//! The Firefox Profiler's "processed" format, compressed: what profiler.firefox.com opens.
//!
//! The bytes of one metric are native allocations, all at the end of the session, since a ledger
//! does not tell when each was made; what the process held in time are counters.

mod tables;

use std::io::{self, BufWriter, IntoInnerError, Write};

use flate2::{Compression, write::GzEncoder};
use serde::Serialize;
use serde_json::{Value, json};

use super::{harmless, notes, sample::samples};
use heapattach_ledger::{Ledger, Metric, Module, Thread};
use tables::{Shared, Tables};

/// Since this version of the format all threads share their tables. Readers upgrade older ones.
const VERSION: u32 = 60;

#[derive(Serialize)]
struct Profile {
    meta: Value,
    libs: Vec<Value>,
    counters: Value,
    shared: Shared,
    threads: Vec<ThreadTables>,
}

/// A thread, and what may be of any length in it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThreadTables {
    native_allocations: Allocations,
    #[serde(flatten)]
    rest: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Allocations {
    time: Vec<u64>,
    weight: Vec<u64>,
    weight_type: &'static str,
    stack: Vec<Option<u32>>,
    length: usize,
}

/// Writes the bytes of a metric, by thread.
pub fn write(ledger: &Ledger, metric: Metric, out: &mut dyn Write) -> io::Result<()> {
    let mut tables = Tables::new(ledger);
    let mut by_thread: Vec<Vec<Told>> = vec![Vec::new(); ledger.threads.len().max(1)];
    for sample in samples(ledger) {
        let bytes = sample.amount(metric).bytes;
        by_thread[sample.thread as usize].push((sample.stack, bytes));
    }
    let (mut threads, mut weights) = (Vec::new(), Vec::new());
    for (index, samples) in by_thread.iter().enumerate() {
        // The counters need a thread, too.
        if !samples.is_empty() || index == 0 {
            let of = ledger.threads.get(index).cloned().unwrap_or_default();
            let told = thread(&mut tables, &of, threads.is_empty(), samples);
            weights.push(
                told.native_allocations.weight.iter().fold(0, |sum: u64, w| sum.saturating_add(*w)),
            );
            threads.push(told);
        }
    }
    let profile = Profile {
        meta: meta(ledger, metric, &weights),
        libs: ledger.modules.iter().map(library).collect(),
        counters: counters(ledger),
        shared: tables.shared(),
        threads,
    };
    // Numbers that mostly grow: more effort takes thrice the time and makes little of them.
    let mut out = BufWriter::new(GzEncoder::new(out, Compression::fast()));
    serde_json::to_writer(&mut out, &profile)?;
    out.into_inner().map_err(IntoInnerError::into_error)?.finish()?.flush()
}

/// With what each thread has of the metric: those that have something are shown, and the one with
/// most is what is looked at first.
fn meta(ledger: &Ledger, metric: Metric, weights: &[u64]) -> Value {
    let about = &ledger.about;
    let notes = notes::all(about);
    let notes = notes.iter().map(
        |note| json!({ "label": "heapattach", "format": "string", "value": harmless::line(note) }),
    );
    let shown: Vec<usize> = (0..weights.len()).filter(|&index| weights[index] > 0).collect();
    // Of several the first.
    let selected = (0..weights.len()).rev().max_by_key(|&index| weights[index]);
    json!({
        "initialSelectedThreads": selected.as_slice(),
        "initialVisibleThreads": if shown.is_empty() { vec![0] } else { shown },
        "interval": 1,
        "startTime": about.began.saturating_mul(1000),
        "profilingStartTime": 0,
        // What happens at the end of a range is not in it.
        "profilingEndTime": about.lasted_ms.saturating_add(1),
        "processType": 0,
        "product": format!("{} memory of process {}", metric.name(), about.pid),
        "arguments": harmless::line(&about.command),
        "importedFrom": "heapattach",
        "stackwalk": 1,
        "version": 27,
        "preprocessedProfileVersion": VERSION,
        "categories": [{ "name": "Other", "color": "grey", "subcategories": ["Other"] }],
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "markerSchema": [],
        "extra": [{ "label": "Recording", "entries": notes.collect::<Vec<_>>() }],
    })
}

/// A stack, if it is one, and its bytes.
type Told = (Option<u32>, u64);

/// One thread, and the bytes of its stacks.
fn thread(
    tables: &mut Tables<'_>,
    thread: &Thread,
    is_main: bool,
    samples: &[Told],
) -> ThreadTables {
    let told = || samples.iter().filter(|(_, bytes)| *bytes > 0);
    let stacks: Vec<_> = told().map(|(stack, _)| tables.stack(*stack)).collect();
    let weights: Vec<_> = told().map(|(_, bytes)| *bytes).collect();
    let lasted = tables.ledger.about.lasted_ms;
    let name = if thread.tid == 0 { "all threads".to_owned() } else { thread.name.clone() };
    let pid = tables.ledger.about.pid;
    let length = weights.len();
    let time = vec![lasted; length];
    let native_allocations =
        Allocations { time, weight: weights, weight_type: "bytes", stack: stacks, length };
    let rest = json!({
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": null,
        "registerTime": 0,
        "unregisterTime": null,
        "pausedRanges": [],
        "name": harmless::line(&name),
        "isMainThread": is_main,
        "pid": pid.to_string(),
        "tid": thread.tid,
        "samples": {
            "stack": [], "time": [], "weight": null, "weightType": "samples", "length": 0,
        },
        "markers": {
            "data": [], "name": [], "startTime": [], "endTime": [], "phase": [],
            "category": [], "length": 0,
        },
    });
    ThreadTables { native_allocations, rest }
}

fn library(module: &Module) -> Value {
    let path = harmless::line(&module.path);
    let name = path.rsplit('/').next().unwrap_or_default();
    let code_id = (!module.build_id.is_empty()).then_some(&module.build_id);
    json!({
        "arch": std::env::consts::ARCH,
        "name": name,
        "path": path,
        "debugName": name,
        "debugPath": path,
        "breakpadId": breakpad_id(&module.build_id),
        "codeId": code_id,
    })
}

/// The identity of a build as a GUID, whose first three numbers are stored with their low bytes
/// first, and an age.
fn breakpad_id(build_id: &str) -> String {
    let digits = build_id.bytes().filter(u8::is_ascii_hexdigit).map(char::from);
    let digits: Vec<char> = digits.chain(std::iter::repeat('0')).take(32).collect();
    let byte = |index: usize| [digits[2 * index], digits[2 * index + 1]];
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let guid: String = order.into_iter().flat_map(byte).collect();
    guid.to_ascii_uppercase() + "0"
}

fn counters(ledger: &Ledger) -> Value {
    let counter = |name: &str, about: &str, values: Vec<(u64, f64)>| {
        // Each is told as the change since the one before.
        let before = std::iter::once(0.0).chain(values.iter().map(|(_, value)| *value));
        let changes: Vec<f64> =
            values.iter().zip(before).map(|((_, now), before)| (now - before).round()).collect();
        json!({
            "name": name,
            "category": "Memory",
            "description": about,
            "pid": ledger.about.pid.to_string(),
            "mainThreadIndex": 0,
            "samples": {
                "time": values.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
                "count": changes,
                "length": values.len(),
            },
        })
    };
    let live = ledger.moments.iter().map(|moment| (moment.at_ms, moment.live)).collect();
    #[allow(clippy::cast_precision_loss)]
    let rss = ledger.moments.iter().filter_map(|m| m.rss.map(|rss| (m.at_ms, rss as f64)));
    json!([
        counter("live", "In use, of blocks allocated since the attach", live),
        counter("RSS", "Memory of the process in pages", rss.collect()),
    ])
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::sample::REST;
    use heapattach_ledger::sample;
    use heapattach_profile::Sum;

    fn parsed(ledger: &Ledger, metric: Metric) -> Value {
        let (mut file, mut text) = (Vec::new(), String::new());
        write(ledger, metric, &mut file).unwrap();
        GzDecoder::new(&file[..]).read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn at(table: &Value, index: &Value) -> Value {
        table[usize::try_from(index.as_u64().unwrap()).unwrap()].clone()
    }

    /// The names of a stack, the innermost first.
    fn names(profile: &Value, stack: &Value) -> Vec<String> {
        let (shared, mut stack) = (&profile["shared"], stack.clone());
        let mut names = Vec::new();
        while !stack.is_null() {
            let frame = at(&shared["stackTable"]["frame"], &stack);
            let function = at(&shared["frameTable"]["func"], &frame);
            let name = at(&shared["funcTable"]["name"], &function);
            names.push(at(&shared["stringArray"], &name).as_str().unwrap().to_owned());
            stack = at(&shared["stackTable"]["prefix"], &stack);
        }
        names
    }

    #[test]
    fn bytes_are_allocations_of_their_threads() {
        let told = parsed(&sample::ledger(), Metric::Allocated);
        let [main, worker] = &told["threads"].as_array().unwrap()[..] else { panic!("{told}") };
        assert_eq!((&main["name"], &worker["name"]), (&json!("all threads"), &json!("worker")));
        let first = &main["nativeAllocations"];
        assert_eq!(first["weight"], json!([96_000, 40_960]));
        let stack = names(&told, &first["stack"][0]);
        assert_eq!(stack, ["malloc", "make_node", "grow_list", "main"]);
        assert_eq!(told["threads"][1]["nativeAllocations"]["weight"], json!([1_120_000]));
    }

    #[test]
    fn the_thread_with_most_is_looked_at_first_and_an_empty_one_is_not_shown() {
        let told = parsed(&sample::ledger(), Metric::Allocated);
        assert_eq!(told["meta"]["initialSelectedThreads"], json!([1]));
        assert_eq!(told["meta"]["initialVisibleThreads"], json!([0, 1]));
        let shown = |weights: &[u64]| {
            let told = meta(&Ledger::default(), Metric::Live, weights);
            (told["initialSelectedThreads"].clone(), told["initialVisibleThreads"].clone())
        };
        assert_eq!(shown(&[0, 5, 9, 9]), (json!([2]), json!([1, 2, 3])));
        assert_eq!(shown(&[0]), (json!([0]), json!([0])));
    }

    #[test]
    fn all_columns_of_a_table_have_its_length() {
        let told = parsed(&sample::ledger(), Metric::Live);
        let tables = told["shared"].as_object().unwrap().values().filter(|t| t.is_object());
        for table in tables.chain([&told["threads"][0]["nativeAllocations"]]) {
            for column in table.as_object().unwrap().values().filter_map(Value::as_array) {
                assert_eq!(json!(column.len()), table["length"], "{table}");
            }
        }
    }

    #[test]
    fn counters_tell_changes() {
        let told = parsed(&sample::ledger(), Metric::Live);
        let counts = &told["counters"][0]["samples"]["count"];
        assert_eq!(
            (&counts[0], &counts[1], &counts[20]),
            (&json!(0.0), &json!(5248.0), &json!(5248.0))
        );
        assert_eq!(told["counters"][1]["samples"]["count"][0], 10_000_000.0);
    }

    #[test]
    fn what_has_no_stack_and_what_has_no_good_name_is_told_too() {
        let mut ledger = sample::ledger();
        ledger.total.add(Metric::Live, &Sum::exact(100, 3));
        ledger.functions[3].name = "\"\n</script>".to_owned();
        let told = parsed(&ledger, Metric::Live);
        let stacks = &told["threads"][0]["nativeAllocations"]["stack"];
        assert_eq!(names(&told, &stacks[1]), ["malloc", "\" </script>"]);
        assert_eq!(names(&told, &stacks[2]), [REST]);
    }

    #[test]
    fn a_build_is_known_to_symbol_servers() {
        let id = breakpad_id("0123456789abcdef0123456789abcdef01234567");
        assert_eq!(id, "67452301AB89EFCD0123456789ABCDEF0");
        assert_eq!(breakpad_id(""), "0".repeat(33));
    }
}
