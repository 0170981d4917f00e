//! Programs whose growth is known, judged by the rule: none of the healthy ones may be said to leak,
//! and every leak must be found in the window that is long enough for the word.

use super::{Case, Cell, Cohort, Judgement, Kind, judge};
use heapattach_profile::simulation::Random;

/// Spans of a window, as recordings are told in.
const SPANS: usize = 64;
/// How long most programs have been running when the user looks, in seconds.
pub const UPTIME: f64 = 6000.0;
/// Bytes of a block where every one is recorded, and where few are: those between so many bytes.
const SMALL: f64 = 1024.0;
const LARGE: f64 = 65_536.0;
const EVERY: f64 = 524_288.0;
/// Each program is run with so many seeds.
pub const SEEDS: u64 = 40;

/// Lives for ever.
pub const EVER: f64 = f64::INFINITY;

/// When blocks come and go, in seconds since the start of the process.
pub type Lives = Vec<(f64, f64)>;

/// Blocks of a stack, and those of the same size that others allocate.
pub struct Program {
    /// Its own.
    pub own: Lives,
    /// Those of others.
    pub others: Lives,
    /// When the window begins; the process is that old.
    pub attach: f64,
}

/// How the blocks are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// Every one of them.
    All,
    /// Samples.
    Some,
}

/// Makes a program for a window of some seconds.
pub type Make = fn(&mut Random, f64) -> Program;

/// Blocks that come at a rate that changes in time and never exceeds `most`, each with its lifetime.
pub fn stream(
    random: &mut Random,
    time: [f64; 2],
    most: f64,
    rate: impl Fn(f64) -> f64,
    mut life: impl FnMut(&mut Random, f64) -> f64,
) -> Lives {
    let (mut all, mut at) = (Lives::new(), time[0]);
    loop {
        at += random.exponential(1.0 / most);
        if at >= time[1] {
            return all;
        }
        if random.unit() * most < rate(at) {
            let life = life(random, at);
            all.push((at, at + life));
        }
    }
}

/// What the rule says of a program.
pub fn said(program: &Program, window: f64, records: Records, random: &mut Random) -> Judgement {
    let (size, taken) = match records {
        Records::All => (SMALL, 1.0),
        Records::Some => (LARGE, -(-LARGE / EVERY).exp_m1()),
    };
    let (begin, end) = (program.attach, program.attach + window);
    let span = window / SPANS as f64;
    let within = |at: f64| {
        let number = (0..SPANS).rfind(|&number| at >= begin + span * number as f64);
        number.filter(|_| at < end)
    };
    let mut gains = [0.0; SPANS];
    let (mut asked, mut cells, mut all) = (0.0, Vec::new(), Vec::new());
    let own = program.own.iter().map(|life| (true, *life));
    for (is_own, (birth, death)) in own.chain(program.others.iter().map(|life| (false, *life))) {
        if death < begin || birth >= end {
            continue;
        }
        let death = within(death);
        if let Some(death) = death {
            gains[death] -= size;
        }
        let Some(birth) = within(birth) else { continue };
        gains[birth] += size;
        asked += size;
        if taken == 1.0 || random.unit() < taken {
            let blocks = 1.0 / taken;
            let (squares, bytes) = (blocks * blocks, size * blocks);
            let cell = Cell { birth, death, blocks, squares, bytes };
            all.push(cell);
            cells.extend(is_own.then_some(cell));
        }
    }
    let mut net = vec![(0.0, 0.0)];
    for (number, gain) in gains.iter().enumerate() {
        net.push(((number + 1) as f64 * span, net[number].1 + gain));
    }
    let (cohort, all) = (Cohort::new(SPANS, cells), Cohort::new(SPANS, all));
    let old = |age| all.held(age);
    let (cohort, ladder) = (&cohort, None);
    judge(&Case { cohort, ladder, net: &net, asked, old: &old, window, uptime: end })
}

/// How often each word is said of a program.
pub fn tally(make: Make, window: f64, records: Records, first_seed: u64) -> [u64; 5] {
    let mut words = [0; 5];
    for seed in first_seed..first_seed + SEEDS {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ window.to_bits());
        let program = make(&mut random, window);
        words[said(&program, window, records, &mut random).kind as usize] += 1;
    }
    words
}

/// Blocks that come at a flat rate since long before the attach.
pub fn flat(
    random: &mut Random,
    window: f64,
    rate: f64,
    before: f64,
    mut life: impl FnMut(&mut Random) -> f64,
) -> Program {
    let time = [UPTIME - before, UPTIME + window];
    let own = stream(random, time, rate, |_| rate, |random, _| life(random));
    Program { own, others: Lives::new(), attach: UPTIME }
}

/// Blocks that live some time, of a load that changes; its clock begins at the attach.
pub fn changing(
    random: &mut Random,
    window: f64,
    attach: f64,
    most: f64,
    rate: impl Fn(f64) -> f64,
    mean: f64,
) -> Program {
    let time = [(attach - 10.0 * mean).max(0.0), attach + window];
    let own = stream(random, time, most, |at| rate(at - attach), |r, _| r.exponential(mean));
    Program { own, others: Lives::new(), attach }
}

/// A full cache: blocks live until so many others have come after them.
pub fn cache(random: &mut Random, window: f64, rate: f64, capacity: usize) -> Program {
    let before = (2.0 * capacity as f64 / rate).min(UPTIME);
    let mut program = flat(random, window, rate, before, |_| EVER);
    for number in 0..program.own.len() {
        program.own[number].1 = program.own.get(number + capacity).map_or(EVER, |next| next.0);
    }
    program
}

/// Blocks are in use until all are freed together.
pub fn batches(random: &mut Random, window: f64, rate: f64, period: f64) -> Program {
    let phase = random.unit() * period;
    let time = [UPTIME - 2.0 * period, UPTIME + window];
    let life = |_: &mut Random, at: f64| period - (at + phase).rem_euclid(period);
    let own = stream(random, time, rate, |_| rate, life);
    Program { own, others: Lives::new(), attach: UPTIME }
}

/// Blocks of which some are never freed.
pub fn leaking(random: &mut Random, window: f64, rate: f64, part: f64, mean: f64) -> Program {
    flat(random, window, rate, 10.0 * mean, |random| {
        if random.unit() < part { EVER } else { random.exponential(mean) }
    })
}

/// A sine of some period.
pub fn sine(at: f64, period: f64) -> f64 {
    (std::f64::consts::TAU * at / period).sin()
}

/// Doubles in the middle of the window.
fn step(random: &mut Random, window: f64, mean: f64) -> Program {
    let rate = |at| if at > window / 2.0 { 40.0 } else { 20.0 };
    changing(random, window, UPTIME, 40.0, rate, mean)
}

fn lognormal(random: &mut Random, window: f64, median: f64) -> Program {
    flat(random, window, 20.0, UPTIME, |random| median * random.normal().exp())
}

/// The programs that the rule was made with.
const HEALTHY: [(&str, Make); 10] = [
    ("lognormal lifetimes, 30 s", |r, w| lognormal(r, w, 30.0)),
    ("lognormal lifetimes, 120 s", |r, w| lognormal(r, w, 120.0)),
    ("load like a sine of 40 s", |r, w| {
        changing(r, w, UPTIME, 30.0, |at| 15.0 * (1.0 + sine(at, 40.0)), 20.0)
    }),
    ("load twice as high from the middle on, 10 s", |r, w| step(r, w, 10.0)),
    ("load twice as high from the middle on, 120 s", |r, w| step(r, w, 120.0)),
    ("load rising for a while", |r, w| {
        changing(r, w, UPTIME, 40.0, |at| 20.0 * (1.0 + sine(at - 75.0, 300.0)), 20.0)
    }),
    ("full cache", |r, w| cache(r, w, 20.0, 2000)),
    ("cache that hardly changes", |r, w| cache(r, w, 0.5, 1000)),
    ("batches of 20 s", |r, w| batches(r, w, 20.0, 20.0)),
    ("process of one minute", |r, w| changing(r, w, 60.0, 20.0, |_| 20.0, 120.0)),
];

/// Leaks of its making, and whether samples are enough to know them for what they are.
const LEAKS: [(&str, bool, Make); 5] = [
    ("everything", true, |r, w| leaking(r, w, 20.0, 1.0, 1.0)),
    ("20 % of blocks of 60 s", false, |r, w| leaking(r, w, 20.0, 0.2, 60.0)),
    ("5 % of blocks of 1 s", true, |r, w| leaking(r, w, 40.0, 0.05, 1.0)),
    ("one in 5 s", false, |r, w| leaking(r, w, 0.2, 1.0, 1.0)),
    ("bursts of 1 s each 20 s", true, |r, w| {
        let rate = |at: f64| if at.rem_euclid(20.0) < 1.0 { 40.0 } else { 0.0 };
        let own = stream(r, [UPTIME, UPTIME + w], 40.0, rate, |_, _| EVER);
        Program { own, others: Lives::new(), attach: UPTIME }
    }),
];

const LEAK: usize = Kind::Leaking as usize;
const GROWS: usize = Kind::Growing as usize;

#[test]
fn no_healthy_program_is_said_to_leak() {
    for (name, make) in HEALTHY {
        for (window, records) in
            [(60.0, Records::All), (600.0, Records::All), (600.0, Records::Some)]
        {
            let words = tally(make, window, records, 1);
            assert_eq!(words[LEAK], 0, "{name}, {window} s, {records:?}: {words:?}");
        }
    }
}

#[test]
fn every_leak_is_found_in_ten_minutes() {
    for (name, by_samples, make) in LEAKS {
        let words = tally(make, 600.0, Records::All, 1);
        assert_eq!(words[LEAK], SEEDS, "{name}: {words:?}");
        let words = tally(make, 600.0, Records::Some, 1);
        assert_eq!(words[LEAK] + words[GROWS], SEEDS, "{name}: {words:?}");
        assert!(!by_samples || words[LEAK] == SEEDS, "{name}: {words:?}");
    }
}

#[test]
fn a_minute_is_never_enough_for_the_word() {
    for (name, _, make) in LEAKS {
        let words = tally(make, 60.0, Records::All, 1);
        assert_eq!(words[LEAK], 0, "{name}: {words:?}");
        // One in 5 s is too little to report.
        assert!(words[GROWS] >= 35 || name == "one in 5 s", "{name}: {words:?}");
    }
}

#[test]
fn flat_load_seldom_grows() {
    for (name, make) in HEALTHY.into_iter().filter(|(name, _)| !name.starts_with("load")) {
        let words = tally(make, 600.0, Records::All, 100);
        assert!(words[GROWS] == 0 || name.starts_with("process"), "{name}: {words:?}");
    }
}
