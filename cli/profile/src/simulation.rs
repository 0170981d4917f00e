//! A made-up program whose allocations are all known, seen through the sampler of the payload.

use heapattach_process::{
    addr::RemoteAddr,
    event::{Event, Origin, StackId, What},
};

use crate::{Estimate, Flow, Histogram, Limits, Profile, Tick, micros};

/// SplitMix64: the same numbers for the same seed, everywhere and for ever.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// Sixty-four random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Above 0 and below 1.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// One of `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64).try_into().expect("it is below n")
    }

    /// The index of one of so many things.
    pub fn pick(&mut self, things: usize) -> usize {
        self.below(things as u64).try_into().expect("it is below a usize")
    }

    /// A time between events that come at random.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    /// With mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// A site: how many blocks of what sizes, and how many in a hundred of them may be freed.
struct Shape {
    blocks: u64,
    mortal: u64,
    sizes: fn(&mut Random) -> u64,
}

/// Twelve sites as programs have them, 10 to 80 samples each at an interval of 16 KiB.
const SHAPES: [Shape; 12] = [
    Shape { blocks: 12_000, mortal: 70, sizes: |_| 64 },
    Shape { blocks: 4_000, mortal: 50, sizes: |r| 100 + r.below(301) },
    Shape { blocks: 1_000, mortal: 30, sizes: |_| 1_000 },
    Shape { blocks: 1_500, mortal: 60, sizes: |r| 1 << (4 + r.below(9)) },
    Shape { blocks: 180, mortal: 90, sizes: |_| 4_096 },
    Shape { blocks: 80, mortal: 50, sizes: |_| 8_192 },
    Shape { blocks: 60, mortal: 50, sizes: |r| 12_000 + r.below(4_000) },
    Shape { blocks: 100, mortal: 80, sizes: |r| if r.below(5) == 0 { 90_000 } else { 3_000 } },
    Shape { blocks: 700, mortal: 40, sizes: |r| if r.below(10) == 0 { 10_000 } else { 200 } },
    Shape { blocks: 500, mortal: 40, sizes: |_| 512 },
    Shape { blocks: 150, mortal: 20, sizes: |r| 1 + r.below(4_000) },
    Shape { blocks: 3_000, mortal: 30, sizes: |_| 24 },
];

/// Moments of a run.
const MOMENTS: usize = 4;

/// Whether the sizes of a site go from a few bytes to thousands.
pub fn is_mixed(site: usize) -> bool {
    matches!(site, 3 | 10)
}

/// A sum that is known, and the variance its best unbiased estimate must have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// The true sum.
    pub truth: f64,
    /// `sum of value² (1-p)/p`.
    pub variance: f64,
}

impl Known {
    fn add(&mut self, value: f64, p: f64) {
        self.truth += value;
        self.variance += value * value * (1.0 - p) / p;
    }
}

/// What is known of some blocks: their bytes and their number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Their bytes.
    pub bytes: Known,
    /// Their number.
    pub count: Known,
}

impl Sums {
    fn add(&mut self, block: &Made) {
        self.bytes.add(block.size as f64, block.p);
        self.count.add(1.0, block.p);
    }
}

struct Made {
    site: usize,
    /// When it was made, in steps.
    born: usize,
    size: u64,
    p: f64,
    /// Its address and stamp, if it was sampled.
    sampled: Option<(RemoteAddr, u64)>,
}

/// What there was, and what the profile saw of it. The last site is all of them together.
#[derive(Debug)]
pub struct Run {
    /// What the profile says.
    pub profile: Profile,
    /// All blocks by site.
    pub allocated: [Sums; 13],
    /// The blocks live at the end by site.
    pub live: [Sums; 13],
    /// The numbers of blocks by the bucket of their size.
    pub sizes: Vec<Known>,
    /// The numbers of blocks freed by the bucket of their lifetime; a step of the program is a tick.
    pub lifetimes: Vec<Known>,
    /// Bytes live at some steps: what there were, and what was thought then.
    pub moments: Vec<(Known, Estimate)>,
}

/// Lets the program run once. It spends the same time at each of the intervals.
pub fn run(seed: u64, intervals: &[u64]) -> Run {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut lots: Vec<usize> = Vec::new();
    for (site, shape) in SHAPES.iter().enumerate() {
        lots.extend(std::iter::repeat_n(site, shape.blocks.try_into().expect("small")));
    }
    let (mut allocated, mut live) = ([Sums::default(); 13], [Sums::default(); 13]);
    let mut sizes = vec![Known::default(); Histogram::BUCKETS];
    let (mut lifetimes, mut moments) = (sizes.clone(), Vec::new());
    let mut profile = Profile::new(Limits { blocks: 10_000, ranges: 1, rows: 12 }, 1);
    let mut events = Vec::new();
    let mut blocks: Vec<Made> = Vec::new();
    let steps = lots.len();
    let (mut interval, mut countdown) = (0, 0.0);
    for step in 0..steps {
        let now = intervals[step * intervals.len() / steps];
        if now != interval {
            interval = now;
            countdown = -random.unit().ln() * interval as f64;
        }
        let site = lots[random.pick(steps)];
        let size = (SHAPES[site].sizes)(&mut random);
        let mut made = Made { site, born: step, size, p: 1.0, sampled: None };
        let mut taken = size >= interval;
        if !taken {
            made.p = -(-(size as f64) / interval as f64).exp_m1();
            countdown -= size as f64;
            taken = countdown <= 0.0;
            if taken {
                countdown = -random.unit().ln() * interval as f64;
            }
        }
        let stamp = 2 * step as u64;
        if taken {
            let at = RemoteAddr::new(16 * (step as u64 + 1));
            let stack = StackId(u32::try_from(site).expect("one of twelve") + 1);
            events.push(Event {
                stamp,
                origin: Origin::default(),
                what: What::Allocated { at, size, stack, interval },
            });
            made.sampled = Some((at, stamp));
        }
        sizes[Histogram::bucket(size)].add(1.0, made.p);
        allocated[site].add(&made);
        allocated[12].add(&made);
        blocks.push(made);
        let victim = random.pick(blocks.len());
        if random.below(100) < SHAPES[blocks[victim].site].mortal {
            let gone = blocks.swap_remove(victim);
            let lifetime = micros((step - gone.born) as u64);
            lifetimes[Histogram::bucket(lifetime)].add(1.0, gone.p);
            if let Some((at, name)) = gone.sampled {
                events.push(Event {
                    stamp: stamp + 1,
                    origin: Origin::default(),
                    what: What::Freed { at, block: Some(name) },
                });
            }
        }
        let now = Tick(u32::try_from(step).expect("some ten thousand"));
        profile.apply(&events, now, &mut ());
        events.clear();
        if step % (steps / MOMENTS) == steps / MOMENTS - 1 {
            let mut known = Known::default();
            blocks.iter().for_each(|block| known.add(block.size as f64, block.p));
            moments.push((known, profile.sheet().heap().measure(Flow::Live).bytes));
        }
    }
    for block in &blocks {
        live[block.site].add(block);
        live[12].add(block);
    }
    Run { profile, allocated, live, sizes, lifetimes, moments }
}
