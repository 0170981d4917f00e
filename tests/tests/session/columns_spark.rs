//! The guide's growth query, by Spark on the same files as DuckDB.

use heapattach_tests::{
    Folder,
    command::Heapattach,
    compile::is_there,
    oracle::columnar::{DUCKDB, python},
    skip::skip,
};
use serde_json::Value;

use crate::columns::{queries, record};

/// A query, and all its rows as JSON. One thread, and no port for a browser.
const SPARK: &str = "
import json, sys
from pyspark.sql import SparkSession
build = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')
for name, value in {'spark.driver.bindAddress': '127.0.0.1', 'spark.driver.host': '127.0.0.1',
                    'spark.sql.shuffle.partitions': '1', 'spark.driver.memory': '512m',
                    'spark.sql.session.timeZone': 'UTC', 'spark.ui.showConsoleProgress': 'false',
                    'spark.driver.extraJavaOptions': '-XX:TieredStopAtLevel=1'}.items():
    build = build.config(name, value)
spark = build.getOrCreate()
rows = [list(row) for query in json.loads(sys.argv[1]) for row in spark.sql(query).collect()]
spark.stop()
print(json.dumps(rows, default=str))";

/// The same query in the words of Spark, as the guide has it: it takes a folder, and finds its days and services.
fn of_spark(query: &str) -> String {
    let mut told = String::new();
    let mut rest = query;
    while let Some((before, after)) = rest.split_once("read_parquet('") {
        let (path, after) = after.split_once("/*/*/*.parquet'").expect("a path of the guide");
        let (_, after) = after.split_once(')').expect("its end");
        told.push_str(&format!("{before}parquet.`{path}`"));
        rest = after;
    }
    told + rest
}

#[test]
fn spark_answers_as_duckdb_does() {
    if !is_there("java") {
        return skip("no java here, which Spark needs", "apt-get install default-jre-headless");
    }
    let folder = Folder::new("columns-spark");
    let out = folder.0.join("out").display().to_string();
    for (host, word) in [("m1", "k"), ("m2", "kfw"), ("m3", "kf")] {
        let Some(recording) = record(&folder, host, word) else { return };
        let words = ["report", &recording, "--format", "parquet", "-o", &out, "--host", host];
        Heapattach::new(words).run().expect(0);
    }
    let all = queries(&out, "    with ");
    let growth = all.first().expect("one of the guide");
    let sums =
        "select count(*), sum(live_bytes), sum(allocated_bytes), sum(freed_blocks) from sums";
    let of = |table: &str| sums.replace("from sums", &format!("from {table}"));
    let spoken = [of_spark(growth), of(&format!("parquet.`{out}/sums`"))];
    let spoken = serde_json::json!(spoken).to_string();
    let Some(told) = python("pyspark", SPARK, &spoken) else { return };
    let mut expected = Vec::new();
    for query in [growth.clone(), of(&format!("read_parquet('{out}/sums/**')"))] {
        let Some(rows) = python("duckdb", DUCKDB, &query) else { return };
        expected.extend(rows.as_array().expect("rows").iter().cloned());
    }
    assert!(expected.len() > 2, "{expected:?}");
    assert_eq!(told, Value::from(expected));
}
