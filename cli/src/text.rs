//! The report as a person reads it.

use std::{
    fmt::{self, Write},
    time::Duration,
};

use crate::{
    heap_text::write_heap,
    quantity::{bytes, count, time},
    report::{FunctionReport, Report},
    stack_report::write_stacks,
    symbols::Missing,
};

/// Callers shown per function.
const CALLERS: usize = 5;

/// Writes the whole report.
pub fn report(report: &Report) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write_report(&mut out, report);
    out
}

fn write_report(out: &mut String, report: &Report) -> fmt::Result {
    let counted = time(Duration::from_millis(report.counted_ms));
    writeln!(out, "process {} ({}), counted for {counted}", report.pid, report.command)?;
    if let Some(why) = &report.why {
        writeln!(out, "ended: {why}")?;
    }
    if !report.functions.is_empty() {
        write_heap(out, &report.heap, report.rss)?;
    }
    writeln!(out, "\n{:>16} {:>12}  {:<8} function (exact)", "calls", "bytes", "hooked")?;
    for row in report.functions.iter().filter(|row| row.calls > 0) {
        write_function(out, row)?;
    }
    if report.functions.is_empty() {
        writeln!(out, "  no function was hooked")?;
    }
    write_list(
        out,
        "not hooked",
        report.not_hooked.iter().map(|n| format!("{} ({}): {}", n.function, n.module, n.why)),
    )?;
    write_list(out, "not seen", report.blind.iter().cloned())?;
    write_cost(out, report)?;
    write_stacks(out, &report.stacks)?;
    write_state(out, report)?;
    write_list(out, "without debug information", report.missing_symbols.iter().map(missing))?;
    if let Some(file) = &report.recording {
        writeln!(out, "recorded in {} ({})", file.path.display(), bytes(file.bytes))?;
    }
    Ok(())
}

fn write_function(out: &mut String, row: &FunctionReport) -> fmt::Result {
    let via = if row.via == "slots" { format!("{} slots", row.slots) } else { row.via.clone() };
    let names = std::iter::once(&row.function).chain(&row.aliases).cloned().collect::<Vec<_>>();
    let (calls, size) = (count(row.calls), bytes(row.bytes));
    writeln!(out, "{calls:>16} {size:>12}  {via:<8} {} in {}", names.join(", "), row.module)?;
    if let Some(why) = &row.why_slots {
        writeln!(out, "{:>39}by slots, since {why}", "")?;
    }
    for caller in row.callers.iter().take(CALLERS) {
        let (calls, size) = (count(caller.calls), bytes(caller.bytes));
        writeln!(out, "{calls:>16} {size:>12}  {:<8}   from {}", "", caller.module)?;
    }
    match row.callers.len().saturating_sub(CALLERS) {
        0 => Ok(()),
        more => writeln!(out, "{:>39}  and {more} more modules", ""),
    }
}

fn write_cost(out: &mut String, report: &Report) -> fmt::Result {
    writeln!(out)?;
    for why in ["attach", "module", "detach"] {
        let stops: Vec<_> = report.stops.iter().filter(|stop| stop.why == why).collect();
        let Some(threads) = stops.iter().map(|stop| stop.threads).max() else { continue };
        let micros = |us: f64| time(Duration::from_secs_f64(us.max(0.0) / 1e6));
        let total = stops.iter().map(|stop| stop.stopped_us).sum();
        let longest = stops.iter().map(|stop| stop.stopped_us).fold(0.0, f64::max);
        write!(out, "stopped for {why}: {} ({threads} threads", micros(total))?;
        match stops.len() {
            1 => writeln!(out, ")")?,
            n => writeln!(out, ", {n} stops, the longest {})", micros(longest))?,
        }
    }
    writeln!(
        out,
        "memory added while attached: {} used, {} of address space",
        bytes(report.memory.used),
        bytes(report.memory.reserved)
    )?;
    writeln!(out, "window in which a killed tracer would have hurt: {:.0} us", report.window_us)
}

fn write_state(out: &mut String, report: &Report) -> fmt::Result {
    let page = report.stub_page.as_ref();
    match (report.target.as_str(), page) {
        ("restored", None) => writeln!(out, "target: as it was found")?,
        ("restored", Some(at)) => writeln!(
            out,
            "target: as it was found, but for one page of jumps at {at} that may still be in use"
        )?,
        (other, _) => writeln!(out, "target: {other}")?,
    }
    if !report.children.is_empty() {
        writeln!(out, "forked meanwhile and cleaned up: {} processes", report.children.len())?;
    }
    write_list(out, "left", report.left.iter().cloned())?;
    if report.target == "altered" {
        writeln!(out, "clean up with: heapattach detach -p {}", report.pid)?;
    }
    Ok(())
}

fn missing(missing: &Missing) -> String {
    let id = missing.build_id.as_deref().unwrap_or("none");
    format!("{} (build id {id}): {}; {}", missing.module, missing.why, missing.cure)
}

fn write_list(
    out: &mut String,
    title: &str,
    items: impl ExactSizeIterator<Item = String>,
) -> fmt::Result {
    if items.len() > 0 {
        writeln!(out, "\n{title}:")?;
    }
    items.into_iter().try_for_each(|item| writeln!(out, "  {item}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::CallerReport;

    #[test]
    fn a_report_names_functions_callers_and_what_stays() {
        let row = FunctionReport {
            function: "malloc".to_owned(),
            module: "libc.so.6".to_owned(),
            via: "entry".to_owned(),
            calls: 1234,
            bytes: 2048,
            callers: vec![CallerReport { module: "app".to_owned(), calls: 1234, bytes: 2048 }],
            ..FunctionReport::default()
        };
        let mut report = Report::new(7, "app".to_owned());
        report.functions.push(row);
        report.target = "restored".to_owned();
        report.missing_symbols.push(Missing {
            module: "/lib/libx.so".to_owned(),
            build_id: Some("ab0102".to_owned()),
            addresses: 7,
            why: "no source lines".to_owned(),
            cure: "apt-get install libx-dbgsym".to_owned(),
        });
        let text = super::report(&report);
        assert!(text.contains("1 234      2.0 KiB  entry    malloc in libc.so.6"), "{text}");
        assert!(text.contains("from app"), "{text}");
        let missing =
            "/lib/libx.so (build id ab0102): no source lines; apt-get install libx-dbgsym\n";
        assert!(text.contains(missing), "{text}");
        assert!(text.contains("target: as it was found\n"), "{text}");
    }
}
