//! DHAT's JSON, version 2: what valgrind's `dh_view.html` and the Firefox Profiler read.
//!
//! Three of its numbers are not told by a ledger. The most that a stack held at any time is at least
//! what it held at the common peak and at the end, and that is written. How long blocks lived is
//! known by powers of two, each block counts with the middle of its own; blocks still in use count
//! with half the session.

use std::{
    collections::HashMap,
    io::{self, BufWriter, Write},
};

use serde::Serialize;

use super::{
    harmless, notes,
    sample::{REST, Sample, by_stack},
};
use heapattach_ledger::{Call, Histogram, Ledger, Metric, stack_trie::Trie};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File {
    dhat_file_version: u32,
    mode: String,
    verb: &'static str,
    /// Whether lifetimes are told.
    bklt: bool,
    /// Whether accesses are told.
    bkacc: bool,
    /// The unit of time.
    tu: &'static str,
    #[serde(rename = "Mtu")]
    mega_tu: &'static str,
    /// Lifetimes below are short.
    tuth: u64,
    cmd: String,
    pid: i32,
    /// When most was in use, and the end.
    tg: u64,
    te: u64,
    pps: Vec<Point>,
    ftbl: Vec<String>,
}

/// A stack: in all, the most, at the peak of all, at the end.
#[derive(Serialize)]
struct Point {
    tb: u64,
    tbk: u64,
    tl: u64,
    mb: u64,
    mbk: u64,
    gb: u64,
    gbk: u64,
    eb: u64,
    ebk: u64,
    fs: Box<[u32]>,
}

/// Texts of calls, each once.
struct Frames {
    texts: Vec<String>,
    known: HashMap<String, u32>,
    /// By location: the texts of its calls, once they are known.
    of_locations: Vec<Vec<u32>>,
}

/// Writes all stacks.
pub fn write(ledger: &Ledger, out: &mut dyn Write) -> io::Result<()> {
    let about = &ledger.about;
    let mut frames = Frames::new(ledger);
    let mut points: Vec<Point> = Vec::new();
    // The reader wants no stack twice: by where its calls lead to, the point.
    let (mut calls, mut known) = (Trie::default(), HashMap::new());
    let lifetimes = lifetimes(ledger);
    for sample in by_stack(ledger) {
        let stack = frames.of(ledger, sample.stack);
        let end = calls.walk(stack.iter().rev().copied());
        let held = sample.stack.and_then(|stack| lifetimes.get(stack as usize)).copied();
        let session = about.lasted_ms.saturating_mul(1000);
        let point = Point::new(&sample, held.unwrap_or(0), session, stack);
        let next = points.len();
        match points.get_mut(*known.entry(end).or_insert(next)) {
            Some(known) => known.merge(&point),
            None => points.push(point),
        }
    }
    let top = ledger.moments.iter().rev().max_by(|a, b| a.live.total_cmp(&b.live));
    let file = File {
        dhat_file_version: 2,
        mode: mode(ledger),
        verb: "Allocated",
        bklt: true,
        bkacc: false,
        tu: "us",
        mega_tu: "s",
        tuth: about.temporary_ms.saturating_mul(1000),
        cmd: harmless::line(&about.command),
        pid: about.pid,
        tg: top.map_or(about.lasted_ms, |moment| moment.at_ms).saturating_mul(1000),
        te: about.lasted_ms.saturating_mul(1000),
        pps: points,
        ftbl: frames.texts,
    };
    let mut out = BufWriter::new(out);
    serde_json::to_writer(&mut out, &file)?;
    out.flush()
}

/// Free text, where the reader shows it first.
fn mode(ledger: &Ledger) -> String {
    let mut notes = notes::all(&ledger.about);
    // That has a place of its own.
    notes.retain(|note| !note.starts_with("command: "));
    harmless::line(&notes.join("; "))
}

/// Of the blocks of each stack that were freed, together, in microseconds.
fn lifetimes(ledger: &Ledger) -> Vec<u64> {
    let mut sums = vec![0_u64; ledger.stacks.count()];
    for row in &ledger.rows {
        let Some(sum) = sums.get_mut(row.stack as usize) else { continue };
        for (bucket, blocks) in row.lifetimes.buckets().iter().enumerate() {
            let (low, high) = Histogram::range(bucket);
            let middle = low / 2 + high / 2;
            *sum = sum.saturating_add(product(middle, *blocks));
        }
    }
    sums
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn product(number: u64, times: f64) -> u64 {
    (number as f64 * times.max(0.0)).round() as u64
}

impl Point {
    fn new(sample: &Sample, lifetimes: u64, session: u64, fs: Box<[u32]>) -> Self {
        let [all, peak, end] =
            [Metric::Allocated, Metric::Peak, Metric::Live].map(|metric| sample.amount(metric));
        Self {
            tb: all.bytes,
            tbk: all.blocks,
            tl: lifetimes.saturating_add((session / 2).saturating_mul(end.blocks)),
            mb: peak.bytes.max(end.bytes),
            mbk: peak.blocks.max(end.blocks),
            gb: peak.bytes,
            gbk: peak.blocks,
            eb: end.bytes,
            ebk: end.blocks,
            fs,
        }
    }

    fn merge(&mut self, other: &Self) {
        let numbers = |point: &mut Self, add: &mut dyn FnMut(&mut u64)| {
            let Self { tb, tbk, tl, mb, mbk, gb, gbk, eb, ebk, fs: _ } = point;
            [tb, tbk, tl, mb, mbk, gb, gbk, eb, ebk].into_iter().for_each(add);
        };
        let Self { tb, tbk, tl, mb, mbk, gb, gbk, eb, ebk, fs: _ } = other;
        let mut more = [tb, tbk, tl, mb, mbk, gb, gbk, eb, ebk].into_iter();
        numbers(self, &mut |sum| *sum = sum.saturating_add(*more.next().unwrap_or(&0)));
    }
}

impl Frames {
    fn new(ledger: &Ledger) -> Self {
        let of_locations = vec![Vec::new(); ledger.locations.len()];
        Self { texts: vec!["[root]".to_owned()], known: HashMap::new(), of_locations }
    }

    /// The innermost first.
    fn of(&mut self, ledger: &Ledger, stack: Option<u32>) -> Box<[u32]> {
        let Some(stack) = stack else { return [self.index(REST.to_owned())].into() };
        let locations = ledger.stacks.get(stack).map_or(&[][..], |stack| stack.locations);
        let mut frames = Vec::with_capacity(locations.len());
        for &at in locations {
            let Some(location) = ledger.locations.get(at as usize) else { continue };
            if self.of_locations[at as usize].is_empty() {
                let calls = ledger.calls_at(location);
                self.of_locations[at as usize] =
                    calls.map(|call| self.index(text(&call))).collect();
            }
            frames.extend(&self.of_locations[at as usize]);
        }
        frames.into()
    }

    fn index(&mut self, text: String) -> u32 {
        let Self { texts, known, .. } = self;
        *known.entry(text).or_insert_with_key(|text| {
            texts.push(text.clone());
            u32::try_from(texts.len() - 1).unwrap_or(0)
        })
    }
}

/// As valgrind writes it.
fn text(call: &Call<'_>) -> String {
    let (address, name) = (call.location.address, harmless::line(&call.function.name));
    let file = &call.function.file;
    let place = match call.line {
        _ if file.is_empty() => format!("in {}", harmless::line(&call.module.path)),
        None => harmless::line(file),
        Some(line) => format!("{}:{line}", harmless::line(file)),
    };
    format!("0x{address:X}: {name} ({place})")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use heapattach_ledger::sample;

    fn parsed(ledger: &Ledger) -> Value {
        let mut file = Vec::new();
        write(ledger, &mut file).unwrap();
        serde_json::from_slice(&file).unwrap()
    }

    #[test]
    fn each_stack_is_a_point_with_its_calls() {
        let told = parsed(&sample::ledger());
        let frames = [
            "[root]",
            "0x700000001234: malloc (malloc/malloc.c:3000)",
            "0x401100: make_node (list.c:12)",
            "0x401100: grow_list (list.c:40)",
            "0x402200: main (main.c:7)",
            "0x403300: work<int>(std::string const&) (work.cc:99)",
        ];
        assert_eq!(told["ftbl"], json!(frames));
        // 500 blocks lived 256 to 511 us, 1000 are held for half of 20 seconds.
        let lifetimes = 500 * 383 + 1000_u64 * 10_000_000;
        let first = json!({
            "tb": 96_000, "tbk": 1500, "tl": lifetimes, "mb": 76_800, "mbk": 1200,
            "gb": 76_800, "gbk": 1200, "eb": 64_000, "ebk": 1000, "fs": [1, 2, 3, 4],
        });
        assert_eq!(told["pps"][0], first);
        assert_eq!(told["pps"].as_array().map(Vec::len), Some(3));
        assert_eq!((&told["te"], &told["tg"]), (&json!(20_000_000), &json!(20_000_000)));
        assert_eq!((&told["dhatFileVersion"], &told["Mtu"]), (&json!(2), &json!("s")));
    }

    #[test]
    fn stacks_that_read_alike_are_one_point() {
        let mut ledger = sample::ledger();
        let first = ledger.stacks.get(0).map(|stack| stack.locations.to_vec());
        ledger.stacks.edit(1, |stack| stack.locations = first.unwrap());
        let told = parsed(&ledger);
        assert_eq!(told["pps"].as_array().map(Vec::len), Some(2));
        assert_eq!(told["pps"][0]["eb"], 104_960);
    }

    #[test]
    fn a_call_without_a_file_is_in_its_module() {
        let mut ledger = sample::ledger();
        ledger.functions[3].file.clear();
        ledger.functions[3].name = "\"\n</script>".to_owned();
        let told = parsed(&ledger);
        assert_eq!(told["ftbl"][4], "0x402200: \" </script> (in /usr/bin/list)");
    }
}
