//! Everything that a ledger tells, with intervals and not rounded, for scripts.
//!
//! Tables refer to one another by index, as in the ledger. Names are as they were found: a program that
//! puts them into a page or a shell must escape them.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde_json::{Value, json};

use heapattach_ledger::{EndReason, Ledger, Metric, Row, Stack};
use heapattach_profile::Estimate;

/// Raised whenever a field changes its meaning or goes away; new fields may come.
const SCHEMA: &str = "heapattach/ledger/1";

/// Writes it.
pub fn write(ledger: &Ledger, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    // One table after the other: they may be large.
    write!(out, "{{\"schema\":\"{SCHEMA}\"")?;
    field(&mut out, "about", [about(ledger)].into_iter(), false)?;
    field(&mut out, "modules", modules(ledger), true)?;
    field(&mut out, "functions", functions(ledger), true)?;
    field(&mut out, "locations", locations(ledger), true)?;
    field(&mut out, "stacks", stacks(ledger), true)?;
    let threads = ledger.threads.iter();
    field(&mut out, "threads", threads.map(|t| json!({ "tid": t.tid, "name": t.name })), true)?;
    field(&mut out, "rows", ledger.rows.iter().map(|row| RowFields::of(row, true)), true)?;
    field(&mut out, "total", [RowFields::of(&ledger.total, false)].into_iter(), false)?;
    field(&mut out, "peak", [estimate(ledger.peak)].into_iter(), false)?;
    field(&mut out, "moments", moments(ledger), true)?;
    writeln!(out, "}}")?;
    out.flush()
}

fn field(
    out: &mut impl Write,
    name: &str,
    values: impl Iterator<Item = impl Serialize>,
    many: bool,
) -> io::Result<()> {
    write!(out, ",\n\"{name}\":{}", if many { "[" } else { "" })?;
    for (index, value) in values.enumerate() {
        write!(out, "{}", if index > 0 { ",\n" } else { "" })?;
        value.serialize(&mut serde_json::Serializer::new(&mut *out))?;
    }
    write!(out, "{}", if many { "]" } else { "" })
}

fn about(ledger: &Ledger) -> Value {
    let about = &ledger.about;
    let loss = about.loss;
    let mut told = json!({
        "pid": about.pid,
        "command": about.command,
        "began": about.began,
        "lasted_ms": about.lasted_ms,
        "every": about.every,
        "version": about.version,
        "outcome": about.outcome,
        "exit": about.exit,
        "loss": {
            "blocks": loss.blocks,
            "frees": loss.frees,
            "samples": loss.samples,
            "beyond_limit": loss.beyond_limit,
            "stacks": loss.stacks,
            "torn": loss.torn,
            "missed_frees": loss.missed_frees,
        },
        "blind": about.blind,
        "missing_symbols": about.missing_symbols,
        "ends": about.ends,
        "temporary_ms": about.temporary_ms,
    });
    if !about.types.is_empty() {
        told["types"] = json!(about.types);
    }
    told
}

fn modules(ledger: &Ledger) -> impl Iterator<Item = Value> {
    ledger.modules.iter().map(|module| {
        json!({
            "path": module.path,
            "build_id": module.build_id,
            "start": module.start,
            "end": module.end,
            "bias": module.bias,
            "file_offset": module.offset_of_start(),
        })
    })
}

fn functions(ledger: &Ledger) -> impl Iterator<Item = Value> {
    ledger.functions.iter().map(|function| {
        json!({
            "name": function.name,
            "file": function.file,
            "module": function.module,
            "is_named": function.is_named,
        })
    })
}

fn locations(ledger: &Ledger) -> impl Iterator<Item = Value> {
    ledger.locations.iter().map(|location| {
        let line =
            |line: &heapattach_ledger::Line| json!({ "function": line.function, "line": line.line });
        json!({
            "address": location.address,
            "module": location.module,
            "offset": location.offset,
            "lines": location.lines.iter().map(line).collect::<Vec<_>>(),
        })
    })
}

/// A stack; its fields, as those of all tables, are in the order of their names.
#[derive(Serialize)]
struct StackFields<'a> {
    cause: u32,
    end: EndReason,
    locations: &'a [u32],
}

fn stacks(ledger: &Ledger) -> impl Iterator<Item = StackFields<'_>> {
    ledger.stacks.iter().map(|Stack { locations, end, cause }| StackFields {
        cause,
        end,
        locations,
    })
}

fn moments(ledger: &Ledger) -> impl Iterator<Item = Value> {
    ledger.moments.iter().map(|moment| {
        json!({
            "at_ms": moment.at_ms,
            "live": moment.live,
            "allocated": moment.allocated,
            "blocks": moment.blocks,
            "ends": moment.ends,
            "mapped": moment.mapped,
            "own_mapped": moment.own_mapped,
            "rss": moment.rss,
            "pss": moment.pss,
            "anonymous": moment.anonymous,
            "cgroup": moment.cgroup,
            "cgroup_limit": moment.cgroup_limit,
        })
    })
}

/// A row. One that is of no stack alone has no place.
#[derive(Serialize)]
struct RowFields {
    allocated: SumFields,
    freed: SumFields,
    lifetimes_us: Vec<f64>,
    live: SumFields,
    mapped: u64,
    mapped_live: u64,
    peak: SumFields,
    reallocated: f64,
    sizes: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<u32>,
    temporary: SumFields,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<u32>,
}

/// Blocks together.
#[derive(Serialize)]
struct SumFields {
    blocks: EstimateFields,
    bytes: EstimateFields,
    records: u64,
}

/// An estimate with the ends of its interval.
#[derive(Serialize)]
struct EstimateFields {
    high: f64,
    low: f64,
    value: f64,
}

impl RowFields {
    fn of(row: &Row, has_place: bool) -> Self {
        let sum = |metric: Metric| {
            let measure = row.measure(metric);
            let (bytes, blocks) = (estimate(measure.bytes), estimate(measure.count));
            SumFields { blocks, bytes, records: row.heap.samples(metric.into()) }
        };
        Self {
            allocated: sum(Metric::Allocated),
            freed: sum(Metric::Freed),
            lifetimes_us: row.lifetimes.buckets(),
            live: sum(Metric::Live),
            mapped: row.mapped,
            mapped_live: row.mapped_live,
            peak: sum(Metric::Peak),
            reallocated: row.reallocated,
            sizes: row.sizes.buckets(),
            stack: has_place.then_some(row.stack),
            temporary: sum(Metric::Temporary),
            thread: has_place.then_some(row.thread),
        }
    }
}

fn estimate(Estimate { value, low, high }: Estimate) -> EstimateFields {
    EstimateFields { high, low, value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    fn parsed(ledger: &Ledger) -> Value {
        let mut file = Vec::new();
        write(ledger, &mut file).unwrap();
        serde_json::from_slice(&file).unwrap()
    }

    #[test]
    fn all_tables_are_told() {
        let ledger = sample::ledger();
        let told = parsed(&ledger);
        assert_eq!(told["schema"], SCHEMA);
        assert_eq!(told["about"]["command"], "list --long");
        let place = &told["locations"][1];
        assert_eq!(
            place["lines"],
            json!([{ "function": 1, "line": 12 }, { "function": 2, "line": 40 }])
        );
        let row = &told["rows"][0];
        assert_eq!(row["live"]["bytes"]["value"], 64_000.0);
        assert_eq!(
            row["live"]["blocks"],
            json!({ "value": 1000.0, "low": 1000.0, "high": 1000.0 })
        );
        assert_eq!(row["sizes"].as_array().map(Vec::len), Some(8));
        assert_eq!(told["total"]["allocated"]["blocks"]["value"], 71_510.0);
        assert_eq!(told["total"].get("stack"), None);
        assert_eq!(told["moments"].as_array().map(Vec::len), Some(21));
    }

    #[test]
    fn hostile_names_and_numbers_are_still_json() {
        let mut ledger = sample::ledger();
        ledger.functions[0].name = "\"}\n\u{2028}</script>\\".to_owned();
        ledger.moments[0].live = f64::NAN;
        ledger.rows[0].reallocated = f64::INFINITY;
        let told = parsed(&ledger);
        assert_eq!(told["functions"][0]["name"], ledger.functions[0].name);
        assert_eq!(told["moments"][0]["live"], Value::Null);
    }
}
