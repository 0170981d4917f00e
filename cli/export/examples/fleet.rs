//! Writes a day of a fleet that never was, made from recordings:
//!
//! ```text
//! cargo run --release -p heapattach-export --features simulation --example fleet -- \
//!     --machines 1000 -o FOLDER RECORDING...
//! ```
//!
//! With `--sessions` as `report --format parquet` writes it, with files for each session; else as it is when files
//! were merged.

use std::{
    env, fs,
    io::{self, BufWriter},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
};

use heapattach_export::columns::{
    Fill,
    fleet::{Fleet, Layout, Pattern},
};
use heapattach_ledger::Memory;
use heapattach_recording::{Part, Recording};

/// Processes of a machine.
const PROCESSES: u32 = 50;
/// The 26th of November 2026.
const DAY_MS: i64 = 1_795_651_200_000;

fn main() -> io::Result<()> {
    let (mut machines, mut folder, mut layout) = (3, PathBuf::new(), Layout::Merged);
    let mut patterns = Vec::new();
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| io::Error::other("a word is missing"));
        match word.as_str() {
            "--machines" => machines = next()?.parse().map_err(io::Error::other)?,
            "--sessions" => layout = Layout::Sessions,
            "-o" => folder = next()?.into(),
            recording => patterns.push(pattern(Path::new(recording))?),
        }
    }
    if patterns.is_empty() || folder.as_os_str().is_empty() {
        return Err(io::Error::other("usage: [--machines N] [--sessions] -o FOLDER RECORDING..."));
    }
    let fleet = Fleet { machines, processes: PROCESSES, day_ms: DAY_MS, layout };
    let next = AtomicU32::new(0);
    let work = || -> io::Result<()> {
        loop {
            let service = next.fetch_add(1, Relaxed);
            if service >= fleet.services() {
                return Ok(());
            }
            let pattern = &patterns[service as usize % patterns.len()];
            fleet.write(service, pattern, &mut |path, fill| save(&folder.join(path), fill))?;
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let working: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = working.into_iter().map(|one| one.join().expect("it does not panic"));
        ended.collect()
    })
}

fn pattern(path: &Path) -> io::Result<Pattern> {
    let recording = Recording::open(path).map_err(io::Error::other)?;
    let whole = recording.ledger(None).of(Memory::All);
    let part = |window| {
        let part = Part { window: Some(window), ..Part::default() };
        recording.part(&part).of(Memory::All)
    };
    Ok(Pattern::of(&whole, part))
}

fn save(path: &Path, fill: Fill<'_>) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut out = BufWriter::new(fs::File::create(path)?);
    fill(&mut out)
}
