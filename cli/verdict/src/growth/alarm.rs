//! Whether something grows now, at some rate at least: asked again and again while it is watched, for
//! hours, and yet not answered by noise.
//!
//! What is compared are floors, the least value in each step of a window: what is allocated and freed
//! within a step does not raise them. Their gains are tested by Student's t, in each half of the window
//! on its own, so that a question that is asked a thousand times is not answered by the one look that
//! chance favours; and as in [`super::trend`] in steps of two lengths, for what comes in bursts.

use std::collections::VecDeque;

use super::flow::Flow;
use heapattach_abi::flow::CLASSES;
use heapattach_ledger::Moment;
use heapattach_profile::Estimate;

/// Steps in each half of the window; the floors between them are one more.
const HALF: usize = 12;
const STEPS: usize = 2 * HALF;

/// What grows does so in each of these parts of the window, by this part of its rate at least: else it grew,
/// and may be full by now.
const PART: usize = 6;
const EVEN: f64 = 0.25;

/// How many steps are taken together, and Student's quantiles for half a window of these: that of
/// 0.01 % on one side; and, for the whole window, that of 5 % on both.
const SCALES: [Scale; 2] = [
    Scale { joined: 1, certain: 5.453, interval: 2.069 },
    Scale { joined: 2, certain: 9.678, interval: 2.201 },
];

#[derive(Clone, Copy, Debug)]
struct Scale {
    joined: usize,
    certain: f64,
    interval: f64,
}

/// Where a window says nothing certain, one of twice the length may, and so on: what comes and goes
/// stays as large, while growth adds up.
const WINDOWS: i32 = 5;

/// Watches one value.
#[derive(Clone, Debug)]
pub struct Alarm {
    /// The shortest window first.
    spans: Vec<Span>,
}

/// Growth that is certain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Bytes per second, with the 95 % CI.
    pub rate: Estimate,
    /// Over how long it was seen, in seconds.
    pub window: f64,
}

/// One window.
#[derive(Clone, Debug)]
struct Span {
    /// Bytes per second.
    limit: f64,
    /// Seconds.
    step: f64,
    /// Of the steps that are over, the oldest first.
    floors: VecDeque<f64>,
    /// The number of the step that goes on, and its floor.
    now: Option<(u64, f64)>,
}

impl Alarm {
    /// For growth by `limit` bytes per second or more, over a window of so many seconds, or longer.
    pub fn new(limit: f64, window: f64) -> Self {
        let span = |number| {
            let step = window.max(f64::MIN_POSITIVE) * 2_f64.powi(number) / STEPS as f64;
            Span { limit, step, floors: VecDeque::new(), now: None }
        };
        Self { spans: (0..WINDOWS).map(span).collect() }
    }

    /// How often it is to be told a value, in seconds.
    pub fn period(&self) -> f64 {
        self.spans.first().map_or(1.0, |span| span.step / 5.0)
    }

    /// Takes a value at a time in seconds; how it grows, if it certainly grows by the limit or faster.
    pub fn take(&mut self, at: f64, value: f64) -> Option<Pace> {
        if !at.is_finite() || !value.is_finite() || at < 0.0 {
            return None;
        }
        // Every window hears of it.
        self.spans.iter_mut().fold(None, |told, span| told.or(span.take(at, value)))
    }
}

impl Span {
    fn take(&mut self, at: f64, value: f64) -> Option<Pace> {
        let number = whole(at / self.step);
        match &mut self.now {
            Some((current, floor)) if *current == number => {
                *floor = floor.min(value);
                None
            }
            now => {
                let over = now.replace((number, value));
                // What happened in a step that was slept over is not known: it begins anew.
                let is_next =
                    over.is_some_and(|(current, _)| current.checked_add(1) == Some(number));
                if !is_next {
                    self.floors.clear();
                }
                self.floors.extend(over.filter(|_| is_next).map(|(_, floor)| floor));
                if self.floors.len() > STEPS + 1 {
                    self.floors.pop_front();
                }
                self.judge()
            }
        }
    }

    fn judge(&self) -> Option<Pace> {
        if self.floors.len() <= STEPS {
            return None;
        }
        let floors: Vec<f64> = self.floors.iter().copied().collect();
        let gains: Vec<f64> = floors.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let limit = self.limit * self.step;
        let (first, last) = gains.split_at(HALF);
        let is_certain = [first, last].into_iter().all(|half| {
            SCALES.iter().any(|scale| {
                let (mean, error) = mean(half, scale.joined);
                mean - scale.certain * error >= limit
            })
        });
        let all = mean(&gains, 1).0;
        let is_even = gains.chunks(PART).all(|part| mean(part, 1).0 >= EVEN * all);
        let window = self.step * STEPS as f64;
        (is_certain && is_even).then(|| Pace { rate: self.rate(&gains), window })
    }

    fn rate(&self, gains: &[f64]) -> Estimate {
        let (rate, _) = mean(gains, 1);
        let half = SCALES.iter().map(|scale| scale.interval * mean(gains, scale.joined).1);
        let half = half.fold(0.0, f64::max);
        let [value, low, high] = [rate, rate - half, rate + half].map(|gain| gain / self.step);
        Estimate { value, low, high }
    }
}

/// The mean gain of a step, and its standard error by steps joined to so many.
fn mean(gains: &[f64], joined: usize) -> (f64, f64) {
    let all: Vec<f64> = gains.chunks(joined).map(|steps| steps.iter().sum::<f64>()).collect();
    let (count, by) = (all.len() as f64, joined as f64);
    let mean = all.iter().sum::<f64>() / count;
    let squares: f64 = all.iter().map(|gain| (gain - mean).powi(2)).sum();
    (mean / by, (squares / (count - 1.0) / count).sqrt() / by)
}

/// Bytes that more were allocated than freed since counting began, blocks older than that included, out
/// of what a moment knows of sizes; with the number of blocks that were allocated.
pub fn net(moment: &Moment) -> Option<(f64, f64)> {
    let flow = Flow::of(std::slice::from_ref(moment))?;
    let (_, net) = *flow.net(&(0..=CLASSES - 1)).last()?;
    Some((net, flow.blocks()))
}

fn whole(number: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let whole = number as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: f64 = 60.0;
    const LIMIT: f64 = 1000.0;

    /// What is said first of values told ten times a second, and when.
    fn first(seconds: u32, value: impl Fn(f64) -> f64) -> Option<(f64, Pace)> {
        let mut alarm = Alarm::new(LIMIT, WINDOW);
        (0..seconds * 10).map(|tenth| f64::from(tenth) / 10.0).find_map(|at| {
            let pace = alarm.take(at, value(at))?;
            Some((at, pace))
        })
    }

    #[test]
    fn even_growth_is_told_as_soon_as_a_window_is_over() {
        let (at, Pace { rate, window }) = first(100, |at| 5e6 + 2.0 * LIMIT * at).unwrap();
        assert!((WINDOW..WINDOW + 5.0).contains(&at) && (window - WINDOW).abs() < 1e-6, "{at}");
        assert!((rate.value - 2.0 * LIMIT).abs() < 1.0, "{rate:?}");
        assert!(first(600, |at| 0.9 * LIMIT * at).is_none(), "slower than the limit");
        assert!(first(600, |at| -2.0 * LIMIT * at).is_none(), "it shrinks");
    }

    #[test]
    fn growth_in_bursts_has_an_interval() {
        let bursts = |at: f64| 5000.0 * LIMIT * (at / 2.0 + 0.3 * at.sin());
        let (_, Pace { rate, .. }) = first(300, bursts).unwrap();
        let told = 2500.0 * LIMIT;
        assert!(rate.low < told && told < rate.high && rate.low > LIMIT, "{rate:?}");
    }

    #[test]
    fn what_is_hidden_by_what_comes_and_goes_is_seen_in_a_longer_window() {
        let (at, pace) =
            first(1200, |at| 5.0 * LIMIT * at + 60.0 * LIMIT * (at * 0.9).sin()).unwrap();
        assert!(at > 2.0 * WINDOW && pace.window > 1.5 * WINDOW, "{at} {pace:?}");
        let told = 5.0 * LIMIT;
        assert!(pace.rate.low < told && told < pace.rate.high, "{pace:?}");
    }

    #[test]
    fn steps_and_saws_and_what_is_over_are_no_growth() {
        assert!(first(600, |at| if at > 90.0 { 1e9 } else { 0.0 }).is_none(), "one large block");
        assert!(first(600, |at| 1e8 * (at / 7.0).fract()).is_none(), "a collector's saw");
        assert!(first(600, |at| 1e8 * (at / 25.0).fract()).is_none(), "a slow one");
        assert!(first(600, |at| 1e7 * at.min(50.0)).is_none(), "it grew until it was filled");
    }

    #[test]
    fn what_was_slept_over_is_not_made_up() {
        let mut alarm = Alarm::new(LIMIT, WINDOW);
        let grows = |at: u32| (f64::from(at), 1e6 * f64::from(at));
        let told = (0..50).chain(100..150).map(grows).find_map(|(at, value)| alarm.take(at, value));
        assert_eq!(told, None);
        assert!((150..170).map(grows).find_map(|(at, value)| alarm.take(at, value)).is_some());
    }

    #[test]
    fn nonsense_is_survived() {
        let mut alarm = Alarm::new(f64::NAN, 0.0);
        for value in [f64::NAN, f64::INFINITY, -1e300, 1e300] {
            for at in [f64::NAN, -1.0, 0.0, 1e300, f64::INFINITY] {
                assert_eq!(alarm.take(at, value), None);
            }
        }
    }

    #[test]
    fn older_blocks_count_in_what_is_in_use() {
        let flow = Some(vec![[4, 10, 30], [64, 1, 0]]);
        let moment = Moment { at_ms: 1000, flow, ..Moment::default() };
        assert_eq!(net(&moment), Some((-20.0 * 64.0 + 1152.0, 11.0)));
        assert_eq!(net(&Moment::default()), None);
    }
}
