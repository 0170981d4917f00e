//! `--follow`: who holds most, again and again, out of what was recorded until then. Done by the
//! command, so that the tracing process has nothing to do with it.

use std::{
    collections::HashMap,
    fmt::{self, Write},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::{
    ledger::{Call, Ledger, Metric},
    profile::Sum,
    quantity::{bytes, count, time},
    recording::{Mark, Recording, Store},
};

/// Lines of one look.
const LINES: usize = 10;
/// What is marked is in the file after so long at the latest, or the disk has trouble.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks at a recording that is being written.
#[derive(Debug)]
pub struct Follower {
    store: Option<Store>,
}

impl Follower {
    /// Where the session is written to, unless it is said later.
    pub fn new(store: Option<Store>) -> Self {
        Self { store }
    }

    /// How things were when this was marked.
    pub fn look(&mut self, file: Option<&Path>, mark: &Mark) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let recording = match (file, &self.store) {
                (Some(file), _) => Recording::open(file).ok(),
                (None, store) => store.as_ref().and_then(Store::read),
            };
            let is_there = |recording: &Recording| recording.marks().contains(mark);
            match recording {
                Some(recording) if is_there(&recording) || Instant::now() > deadline => {
                    return text(&recording.ledger(None), mark);
                }
                None if Instant::now() > deadline => return "nothing is recorded yet".to_owned(),
                _ => thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

fn text(ledger: &Ledger, mark: &Mark) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut out, ledger, mark);
    out
}

fn write(out: &mut String, ledger: &Ledger, mark: &Mark) -> fmt::Result {
    let after = time(Duration::from_millis(mark.at_ms));
    let live = ledger.total.measure(Metric::Live);
    let allocated = ledger.total.measure(Metric::Allocated);
    let (held, asked) = (whole(live.bytes.value), whole(allocated.bytes.value));
    writeln!(out, "after {after}: {} held of {} asked for", bytes(held), bytes(asked))?;
    let mut places: HashMap<String, Sum> = HashMap::new();
    for row in &ledger.rows {
        let place =
            ledger.cause(row.stack).map_or_else(|| "[unknown]".to_owned(), |call| name(&call));
        places.entry(place).or_default().merge(&row.sum(Metric::Live));
    }
    let mut places: Vec<_> =
        places.into_iter().map(|(place, sum)| (sum.measure(), place)).collect();
    places.sort_by(|(a, left), (b, right)| {
        b.bytes.value.total_cmp(&a.bytes.value).then_with(|| left.cmp(right))
    });
    for (sum, place) in places.iter().filter(|(sum, _)| sum.bytes.value >= 1.0).take(LINES) {
        let (size, blocks) = (bytes(whole(sum.bytes.value)), count(whole(sum.count.value)));
        writeln!(out, "{size:>12} {blocks:>12}  {place}")?;
    }
    Ok(())
}

fn name(call: &Call<'_>) -> String {
    match call.line {
        Some(line) if !call.function.file.is_empty() => {
            format!("{} ({}:{line})", call.function.name, call.function.file)
        }
        _ => call.function.name.clone(),
    }
}

fn whole(number: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let whole = number.round() as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::sample;

    #[test]
    fn those_that_hold_most_come_first() {
        let text = text(&sample::ledger(), &Mark { at_ms: 1500, why: String::new() });
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("after 1.5"), "{text}");
        assert!(lines[1].contains("make_node (list.c:12)"), "{text}");
        assert!(lines[2].contains("grow_list") || lines[2].contains("main"), "{text}");
        assert_eq!(lines.len(), 3);
    }
}
