//! Tables of Parquet and requests of OpenTelemetry, read by the programs of others.

use std::{fs, path::Path};

use heapattach_tests::{
    Folder,
    command::Heapattach,
    compile::Source,
    oracle::columnar::{CHDB, DUCKDB, python},
};
use serde_json::Value;

/// The guide's chapter, whose queries are tried.
const CHAPTER: &str = include_str!("../../../cli/guide/columns.md");

/// Name, unit and sum of each profile; a stack without names is an error.
const OTLP: &str = "
import json, sys
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
request = service.ExportProfilesServiceRequest()
request.ParseFromString(open(sys.argv[1], 'rb').read())
d = request.dictionary
for table in d.location_table, d.function_table, d.mapping_table, d.stack_table, d.link_table:
    assert table[0].ByteSize() == 0
assert d.string_table[0] == ''
told = []
for profile in request.resource_profiles[0].scope_profiles[0].profiles:
    kind = profile.sample_type
    for sample in profile.samples:
        for place in d.stack_table[sample.stack_index].location_indices:
            for line in d.location_table[place].lines:
                assert d.string_table[d.function_table[line.function_index].name_strindex]
    total = sum(sample.values[0] for sample in profile.samples)
    told.append([d.string_table[kind.type_strindex], d.string_table[kind.unit_strindex], total])
print(json.dumps(told))";

/// The queries of the chapter that begin so, of the tables below a folder.
pub fn queries(folder: &str, begin: &str) -> Vec<String> {
    let blocks = CHAPTER.split("\n\n").filter(|block| block.starts_with(begin));
    blocks.map(|block| block.replace("FOLDER", folder)).collect()
}

/// A recording of a program of known size.
pub fn record(folder: &Folder, name: &str, word: &str) -> Option<String> {
    let program = Source::new("several_leaks.c").build()?;
    let recording = folder.0.join(name).display().to_string();
    let run = Heapattach::new(["run", "--all", "-o", &recording, "--"]).arg(&program).arg(word);
    run.run();
    assert!(Path::new(&recording).exists(), "{recording}");
    Some(recording)
}

/// The total of `--format json`, by metric and unit.
fn truth(recording: &str) -> impl Fn(&str, &str) -> i64 {
    let words = ["report", recording, "--format", "json", "--metric", "heap", "-o", "-"];
    let told = Heapattach::new(words).run().expect(0).stdout;
    let told: Value = serde_json::from_str(&told).expect("JSON");
    move |metric, unit| {
        let value = told["total"][metric][unit]["value"].as_f64().expect("a number");
        format!("{value:.0}").parse().expect("a whole number")
    }
}

#[test]
fn tables_have_the_sums_of_the_report_and_survive_hostile_names() {
    let folder = Folder::new("columns");
    let Some(recording) = record(&folder, "a.heapattach", "kfw") else { return };
    let truth = truth(&recording);
    let service = "a'b\"; drop/..\u{e9}\n";
    let out = folder.0.join("out").display().to_string();
    for limit in ["1", "20"] {
        let words = ["report", &recording, "--format", "parquet", "-o", &out, "--metric", "heap"];
        let more = ["--service", service, "--host", "web'7\u{1f980}", "--limit", limit];
        Heapattach::new([&words[..], &more].concat()).run().expect(0);
        let columns = "host, sum(live_bytes)::bigint, sum(live_blocks)::bigint, \
            sum(allocated_bytes)::bigint, sum(allocated_blocks)::bigint, \
            sum(freed_bytes)::bigint, bool_and(live_bytes between live_bytes_low and live_bytes_high)";
        let query = format!("select {columns} from read_parquet('{out}/sums/**') group by host");
        let Some(rows) = python("duckdb", DUCKDB, &query) else { return };
        let expected = serde_json::json!([[
            "web'7\u{1f980}",
            truth("live", "bytes"),
            truth("live", "blocks"),
            truth("allocated", "bytes"),
            truth("allocated", "blocks"),
            truth("freed", "bytes"),
            true,
        ]]);
        // A program that goes on into another interval has rows of both: sums of what was allocated are
        // the same, and what is in use at the end is in the last.
        let is_one = python(
            "duckdb",
            DUCKDB,
            &format!("select count(distinct start) from read_parquet('{out}/sums/**')"),
        );
        if is_one == Some(serde_json::json!([[1]])) {
            assert_eq!(rows, expected);
        }
    }
    assert!(truth("allocated", "bytes") > 0);
    let query = format!(
        "select count(*), sum(allocated_blocks) from file('{out}/sums/**/*.parquet', Parquet)"
    );
    if let Some(rows) = python("chdb", CHDB, &query) {
        assert_eq!(rows[0][1].as_i64(), Some(truth("allocated", "blocks")));
    }
    let query = format!(
        "select distinct service from read_parquet('{out}/session/**', hive_partitioning = true)"
    );
    let services = python("duckdb", DUCKDB, &query).expect("it was there");
    assert_eq!(services, serde_json::json!([["a'b\"; drop/..\u{e9} "]]));
}

#[test]
fn the_queries_of_the_guide_run_on_recordings() {
    let folder = Folder::new("columns-guide");
    let out = folder.0.join("out").display().to_string();
    for (host, word) in [("m1", "k"), ("m2", "kfw"), ("m3", "kf")] {
        let Some(recording) = record(&folder, host, word) else { return };
        let words = ["report", &recording, "--format", "parquet", "-o", &out, "--host", host];
        Heapattach::new(words).run().expect(0);
    }
    let indented = queries(&out, "    with ");
    assert_eq!(indented.len(), 4, "growth, growth out of sums, builds, services");
    for (query, columns) in indented.iter().zip([7, 7, 4, 3]) {
        let Some(rows) = python("duckdb", DUCKDB, query) else { return };
        let rows = rows.as_array().expect("rows");
        assert!(!rows.is_empty(), "{query}");
        assert!(rows.iter().all(|row| row.as_array().is_some_and(|row| row.len() == columns)));
    }
}

#[test]
fn a_request_of_opentelemetry_has_the_sums_of_the_report() {
    let folder = Folder::new("otlp");
    let Some(recording) = record(&folder, "a.heapattach", "kfw") else { return };
    let file = folder.0.join("a.otlp.pb").display().to_string();
    let words = ["report", &recording, "--format", "otlp", "--metric", "heap", "-o", &file];
    Heapattach::new(words).run().expect(0);
    let truth = truth(&recording);
    assert!(fs::metadata(&file).is_ok_and(|file| file.len() > 0));
    let module = "opentelemetry.proto.profiles.v1development";
    let Some(told) = python(module, OTLP, &file) else { return };
    let expected = serde_json::json!([
        ["alloc_space", "bytes", truth("allocated", "bytes")],
        ["alloc_objects", "count", truth("allocated", "blocks")],
        ["inuse_space", "bytes", truth("live", "bytes")],
        ["inuse_objects", "count", truth("live", "blocks")],
    ]);
    assert_eq!(told, expected);
}

#[test]
fn what_tables_cannot_be_of_is_refused_by_name() {
    let folder = Folder::new("columns-refused");
    let Some(recording) = record(&folder, "a.heapattach", "k") else { return };
    for (more, why) in [
        (&[][..], "name it with -o"),
        (&["-o", "-"], "not to standard output"),
        (&["-o", "/tmp/x", "--since", "1s"], "no --since"),
        (&["-o", "/tmp/x", "--age", "1s.."], "--age"),
    ] {
        let words = [&["report", recording.as_str(), "--format", "parquet"], more].concat();
        let refused = Heapattach::new(words).run().expect(2);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
    let words = ["report", &recording, "--host", "x"];
    assert!(Heapattach::new(words).run().expect(2).stderr.contains("--format parquet"));
}
