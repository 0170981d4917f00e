//! Tables of Parquet, read by engines of others.

use std::process::Command;

use serde_json::Value;

use crate::skip::skip;

/// A query of the tables, and all its rows as JSON; texts beyond JSON become texts.
/// Where a query takes long it draws a bar on standard output.
pub const DUCKDB: &str = "
import duckdb, json, sys
duckdb.sql('set enable_progress_bar = false')
print(json.dumps(duckdb.sql(sys.argv[1]).fetchall(), default=str))";

/// The same, of another engine.
pub const CHDB: &str = "
import chdb, sys
print('[[' + str(chdb.query(sys.argv[1], 'CSV')).strip() + ']]')";

/// What Python says, as JSON; nothing, if it lacks that module.
pub fn python(module: &str, script: &str, argument: &str) -> Option<Value> {
    let is_there = Command::new("python3").args(["-c", &format!("import {module}")]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        skip(
            &format!("python3 has no {module}"),
            "pip install duckdb chdb-core opentelemetry-proto 'pyspark<4'",
        );
        return None;
    }
    let output =
        Command::new("python3").args(["-c", script, argument]).output().expect("it is there");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{argument}: {error}");
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}
