//! Programs that the rule has never seen: they were written when it was finished, and it was not
//! changed for them. What it makes of them is told in `cli/guide/growth.md`, wrong words included.

use super::{
    Kind,
    simulation::{
        EVER, Lives, Make, Program, Records, SEEDS, UPTIME, batches, cache, changing, flat,
        leaking, sine, stream, tally,
    },
};
use heapattach_profile::simulation::Random;

const DAY: f64 = 86_400.0;
const HOUR: f64 = 3600.0;
const WINDOW: f64 = 600.0;
/// No seed that the rule was made with.
const FIRST_SEED: u64 = 1000;

/// Another mathematical library may turn some verdicts.
const SLACK: u64 = 2;

/// A program, and how often of [`SEEDS`] times it is called a leak: where every block is recorded, and
/// where samples are.
struct Fresh {
    name: &'static str,
    leaks: [u64; 2],
    make: Make,
}

/// Sessions that last a random time, in a process that has been running for `attach`.
fn sessions(random: &mut Random, window: f64, attach: f64, mean: f64) -> Program {
    let own = stream(random, [0.0, attach + window], 1.0, |_| 1.0, |r, _| r.exponential(mean));
    Program { own, others: Lives::new(), attach }
}

/// Buffers that double until they are written out, some a minute: each block is a kilobyte of one.
fn logs(random: &mut Random, window: f64) -> Program {
    let (mut own, mut at) = (Lives::new(), UPTIME - 300.0);
    while at < UPTIME + window {
        let mut blocks = 1;
        for _ in 0..7 {
            let next = at + random.exponential(8.0);
            own.extend(std::iter::repeat_n((at, next), blocks));
            (at, blocks) = (next, blocks * 2);
        }
    }
    Program { own, others: Lives::new(), attach: UPTIME }
}

/// A cache that asks for what it has not got: the fuller it is, the less.
fn warming(random: &mut Random, window: f64, capacity: f64) -> Program {
    let rate = move |at: f64| 40.0 * (-(at - UPTIME + 60.0) * 40.0 / capacity).exp();
    let own = stream(random, [UPTIME - 60.0, UPTIME + window], 41.0, rate, |_, _| EVER);
    Program { own, others: Lives::new(), attach: UPTIME }
}

fn bursts(random: &mut Random, window: f64, period: f64) -> Program {
    let phase = random.unit() * period;
    let rate = move |at: f64| if (at + phase).rem_euclid(period) < 2.0 { 200.0 } else { 0.0 };
    let own = stream(random, [UPTIME, UPTIME + window], 200.0, rate, |_, _| EVER);
    Program { own, others: Lives::new(), attach: UPTIME }
}

fn beside(mut program: Program, others: Program) -> Program {
    program.others = others.own;
    program
}

const HEALTHY: [Fresh; 14] = [
    Fresh {
        name: "nine of ten for 1 s, one for 1000 s",
        leaks: [0, 0],
        make: |r, w| {
            flat(r, w, 20.0, UPTIME, |r| {
                let mean = if r.unit() < 0.1 { 1000.0 } else { 1.0 };
                r.exponential(mean)
            })
        },
    },
    Fresh {
        name: "sessions of 2 h, process of a day",
        leaks: [0, 0],
        make: |r, w| sessions(r, w, DAY, 2.0 * HOUR),
    },
    Fresh {
        name: "sessions of 2 h, process of 2 h",
        leaks: [0, 0],
        make: |r, w| sessions(r, w, 2.0 * HOUR, 2.0 * HOUR),
    },
    Fresh {
        name: "sessions of 2 h, process of 30 min",
        leaks: [34, 5],
        make: |r, w| sessions(r, w, HOUR / 2.0, 2.0 * HOUR),
    },
    Fresh {
        name: "sessions of 1 h, load of the day rising",
        leaks: [0, 0],
        make: |r, w| {
            let rate = |at| 1.0 + 0.8 * sine(at, DAY);
            changing(r, w, DAY, 2.0, rate, HOUR)
        },
    },
    Fresh {
        name: "sessions of exactly 700 s",
        leaks: [0, 0],
        make: |r, w| flat(r, w, 10.0, UPTIME, |_| 700.0),
    },
    Fresh {
        name: "cache that fills evenly, and is far from full",
        leaks: [SEEDS, SEEDS],
        make: |r, w| flat(r, w, 10.0, 0.0, |_| EVER),
    },
    Fresh {
        name: "cache that is hit ever more often",
        leaks: [0, 0],
        make: |r, w| warming(r, w, 8000.0),
    },
    Fresh {
        name: "full cache under the load of the day",
        leaks: [0, 0],
        make: |r, w| {
            let mut program = cache(r, w, 20.0, 15_000);
            let attach = program.attach;
            // As if time went faster and slower.
            let turn = |at: f64| attach + (at - attach) * (1.0 + 0.2 * sine(at - attach, DAY));
            program.own.iter_mut().for_each(|life| *life = (turn(life.0), turn(life.1)));
            program
        },
    },
    Fresh {
        name: "pool of connections, each for 30 min",
        leaks: [0, 0],
        make: |r, w| flat(r, w, 0.5, UPTIME, |_| HOUR / 2.0),
    },
    Fresh { name: "batches of 300 s", leaks: [0, 0], make: |r, w| batches(r, w, 20.0, 300.0) },
    Fresh { name: "batches of 900 s", leaks: [8, 8], make: |r, w| batches(r, w, 20.0, 900.0) },
    Fresh { name: "buffers that double until written out", leaks: [0, 0], make: logs },
    Fresh {
        name: "lifetimes of all lengths",
        leaks: [0, 0],
        // Like those of files: half of what has reached an age reaches three times of it.
        make: |r, w| flat(r, w, 20.0, UPTIME, |r| 0.1 * r.unit().powf(-1.6)),
    },
];

const LEAKS: [Fresh; 8] = [
    Fresh {
        name: "5 % of blocks of 1 s, load of the day",
        leaks: [SEEDS, SEEDS],
        make: |r, w| {
            let rate = |at: f64| 40.0 * (1.0 + 0.5 * sine(at - UPTIME, DAY));
            let life = |r: &mut Random, _| if r.unit() < 0.05 { EVER } else { r.exponential(1.0) };
            let own = stream(r, [UPTIME - 20.0, UPTIME + w], 60.0, rate, life);
            Program { own, others: Lives::new(), attach: UPTIME }
        },
    },
    Fresh {
        name: "5 % of blocks of 1 s, load doubles",
        leaks: [0, 0],
        make: |r, w| {
            let rate = |at| if at > UPTIME + w / 2.0 { 60.0 } else { 30.0 };
            let life = |r: &mut Random, _| if r.unit() < 0.05 { EVER } else { r.exponential(1.0) };
            let own = stream(r, [UPTIME - 20.0, UPTIME + w], 60.0, rate, life);
            Program { own, others: Lives::new(), attach: UPTIME }
        },
    },
    Fresh { name: "one in 15 s", leaks: [0, 0], make: |r, w| leaking(r, w, 1.0 / 15.0, 1.0, 1.0) },
    Fresh {
        name: "1 % beside churn of the same stack",
        leaks: [SEEDS, 5],
        make: |r, w| leaking(r, w, 60.0, 0.01, 2.0),
    },
    Fresh {
        name: "5 a second beside churn of others, 100 a second",
        leaks: [SEEDS, SEEDS],
        make: |r, w| {
            let own = leaking(r, w, 5.0, 1.0, 1.0);
            beside(own, flat(r, w, 100.0, 100.0, |r| r.exponential(5.0)))
        },
    },
    Fresh {
        name: "10 a second beside a full cache of the same size",
        leaks: [0, 0],
        make: |r, w| {
            let own = leaking(r, w, 10.0, 1.0, 1.0);
            beside(own, cache(r, w, 10.0, 10_000))
        },
    },
    Fresh {
        name: "bursts of 2 s each 120 s",
        leaks: [SEEDS, 39],
        make: |r, w| bursts(r, w, 120.0),
    },
    Fresh { name: "bursts of 2 s each 290 s", leaks: [18, 18], make: |r, w| bursts(r, w, 290.0) },
];

/// Both ways of recording, in the order of [`Fresh::leaks`].
fn words(fresh: &Fresh) -> [[u64; 5]; 2] {
    [Records::All, Records::Some].map(|records| tally(fresh.make, WINDOW, records, FIRST_SEED))
}

fn said(words: &[u64; 5], kind: Kind) -> u64 {
    words[kind as usize]
}

#[test]
fn healthy_programs_are_called_leaks_where_the_readme_says_so() {
    println!("steady turnover warming growing leaking; every block, then samples");
    for fresh in &HEALTHY {
        let both = words(fresh);
        println!("{:50} {both:?}", fresh.name);
        for (words, most) in both.iter().zip(fresh.leaks) {
            assert!(said(words, Kind::Leaking) <= most + SLACK, "{}: {words:?}", fresh.name);
        }
    }
}

#[test]
fn leaks_are_found_as_often_as_the_readme_says() {
    for fresh in &LEAKS {
        let both = words(fresh);
        println!("{:50} {both:?}", fresh.name);
        for (words, least) in both.iter().zip(fresh.leaks) {
            assert!(said(words, Kind::Leaking) + SLACK >= least, "{}: {words:?}", fresh.name);
        }
    }
}
