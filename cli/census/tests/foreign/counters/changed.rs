//! Books that were overwritten: every look ends, soon and without a panic.

use std::{
    collections::BTreeMap,
    ops::Range,
    process::Command,
    time::{Duration, Instant},
};

use heapattach_census::{Live, Memory, Moment, counters};

use crate::program::{build, library};

use super::told::Told;

/// A look takes some milliseconds here.
const MOST: Duration = Duration::from_secs(30);

/// Memory of a process at rest, with some words changed.
struct Flipped<'a> {
    live: &'a Live,
    words: BTreeMap<u64, u64>,
}

impl Memory for Flipped<'_> {
    fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let read = self.live.read(at, buffer);
        let end = at.saturating_add(read as u64);
        for (word, value) in self.words.range(at.saturating_sub(7)..end) {
            for (own, byte) in (*word..).zip(value.to_le_bytes()) {
                if (at..end).contains(&own) {
                    buffer[usize::try_from(own - at).unwrap()] = byte;
                }
            }
        }
        read
    }

    fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.live.present(range)
    }
}

/// Words among the variables of the module with that in its name, and where these lead to.
fn places(moment: &Moment<'_>, module: &str) -> Vec<u64> {
    let image = moment.images().iter().find(|image| image.path.contains(module)).unwrap();
    let mut places = Vec::new();
    for part in image.data.iter().flat_map(|range| moment.present(range)) {
        for at in part.step_by(8) {
            let Some(word) = moment.word(at).filter(|word| *word != 0) else { continue };
            places.push(at);
            if moment.region(word).is_some_and(|region| region.is_private_memory()) {
                places.extend([0, 8, 24, 64, 4096, 10_400, 29_480, 78_936].map(|more| word + more));
            }
        }
    }
    places
}

#[test]
fn a_look_at_changed_books_ends() {
    let cases = [
        ("libjemalloc.so.2", "libjemalloc2", "libjemalloc"),
        ("libtcmalloc_minimal.so.4", "google-perftools", "libtcmalloc"),
        ("libmimalloc.so.2", "libmimalloc2.0", "libmimalloc"),
        ("libc.so.6", "libc6", "libc.so"),
    ];
    let Some(program) = build("cc", "own_numbers.c", &[]) else { return };
    for (name, package, module) in cases {
        let Some(library) = library(name, package) else { continue };
        let mut command = Command::new(&program);
        if module != "libc.so" {
            command.env("LD_PRELOAD", library);
        }
        let told = Told::start(command.args(["2", "5000"]));
        let process = told.process();
        let live = Live::open(&process).unwrap();
        let regions = Live::regions(&process).unwrap();
        let moment = Moment::new(&live, regions.clone(), Vec::new());
        let places = places(&moment, module);
        assert!(places.len() > 100, "{}", places.len());
        let own = counters::find(&moment);
        let mut x = 0x1234_5678_9abc_def1_u64;
        let mut chance = |below: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x % below.max(1)
        };
        let mut found = 0;
        for round in 0..120 {
            let mut flipped = Flipped { live: &live, words: BTreeMap::new() };
            for _ in 0..1 + chance(1 << (round % 10)) {
                let at = places[usize::try_from(chance(places.len() as u64)).unwrap()] & !7;
                let other = places[usize::try_from(chance(places.len() as u64)).unwrap()];
                let old = moment.word(at).unwrap_or(0);
                let word = match chance(6) {
                    0 => 0,
                    1 => u64::MAX,
                    2 => old ^ 1 << chance(64),
                    3 => other,
                    4 => chance(u64::MAX),
                    _ => at,
                };
                flipped.words.insert(at, word);
            }
            let began = Instant::now();
            let changed = Moment::new(&flipped, regions.clone(), Vec::new());
            // Places of sound books are read in changed ones, as well as those that are found there.
            let fresh = counters::find(&changed);
            found += fresh.iter().chain(&own).filter_map(|place| place.read(&changed)).count();
            assert!(began.elapsed() < MOST, "{module}, round {round}: {:?}", began.elapsed());
        }
        eprintln!("{module}: {found} answers");
        assert!(found > 0);
    }
}
