//! Programs that are watched for growth: the healthy ones may never be said to grow, whatever the seed,
//! even at a limit of next to nothing; those that leak must be.

use super::alarm::Alarm;
use heapattach_profile::simulation::Random;

const SEEDS: u64 = 1000;
const WINDOW: f64 = 60.0;
/// How long each is watched, after as long a time to settle, in seconds.
const WATCHED: f64 = 600.0;
/// Next to nothing: one small block a minute.
const LIMIT: f64 = 1.0;

/// Blocks that come by chance, each for a lifetime of its own: bytes in use, at the ends of steps.
struct Churn {
    /// Blocks a second.
    rate: f64,
    /// Bytes, on average.
    size: f64,
    /// Part of the blocks that are never freed.
    leaked: f64,
}

impl Churn {
    /// Values at the times that an alarm asks for, from the attach on.
    fn course(
        &self,
        random: &mut Random,
        mut life: impl FnMut(&mut Random) -> f64,
    ) -> Vec<(f64, f64)> {
        let period = Alarm::new(LIMIT, WINDOW).period();
        let count = number(2.0 * WATCHED / period);
        let mut gains = vec![0.0; count + 1];
        let mut at = 0.0;
        loop {
            at += random.exponential(1.0 / self.rate);
            let (birth, size) = (number(at / period), random.exponential(self.size));
            let Some(gain) = gains.get_mut(birth) else { break };
            *gain += size;
            let is_leaked = random.unit() < self.leaked;
            let death = number((at + life(random)) / period);
            if let Some(gain) = gains.get_mut(death).filter(|_| !is_leaked) {
                *gain -= size;
            }
        }
        let mut sum = 0.0;
        let sums = gains.iter().enumerate().map(|(number, gain)| {
            sum += gain;
            (number as f64 * period - WATCHED, sum)
        });
        sums.filter(|(at, _)| *at >= 0.0).collect()
    }
}

fn number(steps: f64) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let number = steps as usize;
    number
}

fn is_told(limit: f64, course: &[(f64, f64)]) -> bool {
    let mut alarm = Alarm::new(limit, WINDOW);
    course.iter().any(|&(at, value)| alarm.take(at, value).is_some())
}

/// In how many of the seeds a program is said to grow.
fn told(limit: f64, course: impl Fn(&mut Random) -> Vec<(f64, f64)>) -> u64 {
    let seeds = 1..=SEEDS;
    let is_told = |seed: &u64| {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        is_told(limit, &course(&mut random))
    };
    seeds.filter(is_told).count() as u64
}

const HEALTHY: Churn = Churn { rate: 4.0, size: 10_000.0, leaked: 0.0 };

#[test]
fn blocks_that_come_and_go_are_never_called_growth() {
    for mean in [0.5, 10.0, 60.0, 200.0] {
        let life = |random: &mut Random| random.exponential(mean);
        assert_eq!(told(LIMIT, |random| HEALTHY.course(random, life)), 0, "blocks of {mean} s");
    }
    let life = |random: &mut Random| 10_f64.powf(3.0 * random.unit() - 1.0);
    assert_eq!(told(LIMIT, |random| HEALTHY.course(random, life)), 0, "lifetimes of all lengths");
    let batch = |random: &mut Random| 20.0 + random.unit();
    assert_eq!(told(LIMIT, |random| HEALTHY.course(random, batch)), 0, "sessions of 20 s");
}

#[test]
fn noise_of_any_colour_is_never_called_growth() {
    let period = Alarm::new(LIMIT, WINDOW).period();
    let times: Vec<f64> = (0..number(WATCHED / period)).map(|n| n as f64 * period).collect();
    let white = |random: &mut Random| times.iter().map(|&at| (at, 1e6 * random.normal())).collect();
    assert_eq!(told(LIMIT, white), 0, "white");
    let red = |random: &mut Random| {
        let mut value = 0.0;
        let step = |&at: &f64| {
            value = 0.98 * value + 1e6 * random.normal();
            (at, value)
        };
        times.iter().map(step).collect()
    };
    assert_eq!(told(LIMIT, red), 0, "red");
    // Large blocks that come seldom and stay: their times are chance.
    let stairs = |random: &mut Random| {
        let mut value = 0.0;
        let step = |&at: &f64| {
            value += if random.unit() < period / 15.0 { 1e8 * random.unit() } else { 0.0 };
            value *= if random.unit() < period / 120.0 { 0.3 } else { 1.0 };
            (at, value)
        };
        times.iter().map(step).collect()
    };
    assert_eq!(told(LIMIT, stairs), 0, "stairs");
}

#[test]
fn a_leak_beside_churn_is_found_at_its_rate_and_not_far_above_it() {
    let leak = Churn { rate: 40.0, leaked: 0.2, ..HEALTHY };
    let life = |random: &mut Random| random.exponential(5.0);
    let rate = leak.rate * leak.leaked * leak.size;
    let at_half = told(rate / 4.0, |random| leak.course(random, life));
    assert!(at_half > SEEDS * 95 / 100, "{at_half} of {SEEDS}");
    let above = told(rate * 1.5, |random| leak.course(random, life));
    assert_eq!(above, 0, "at a limit that it does not reach");
}
