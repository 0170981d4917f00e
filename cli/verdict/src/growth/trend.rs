//! Whether something grew steadily, and by how much: a test on what came in equal steps of time.
//!
//! What is held is a sum of comings and goings, so that neighbouring values of it are alike and a
//! line through them always seems certain. Its steps are not alike: they are what is tested, in
//! steps short and long, as what comes in bursts is steady only in the long ones.

/// How many steps a window is cut into, and Student's quantiles for as many less one: that of 0.1 %
/// on one side, and that of 5 % on both.
const SCALES: [Scale; 2] = [
    Scale { steps: 24, certain: 3.485, interval: 2.069 },
    Scale { steps: 8, certain: 4.785, interval: 2.365 },
];

#[derive(Clone, Copy, Debug)]
struct Scale {
    steps: usize,
    certain: f64,
    interval: f64,
}

/// A rate of growth, per second, with its interval of 95 %.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trend {
    /// The rate.
    pub rate: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Whether it is certain to be positive.
    pub is_growth: bool,
}

impl Trend {
    /// Of values at times in their order; `None` if there are too few, or they make no sense.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let (first, last) = (points.first()?, points.last()?);
        let length = last.0 - first.0;
        let is_sane = points.iter().all(|(at, value)| at.is_finite() && value.is_finite());
        if !is_sane || length <= 0.0 || !points.is_sorted_by(|a, b| a.0 <= b.0) {
            return None;
        }
        let rate = (last.1 - first.1) / length;
        let mut trend: Option<Self> = None;
        for scale in SCALES.iter().filter(|scale| points.len() > scale.steps) {
            let error = error(points, scale.steps) * scale.steps as f64 / length;
            let is_growth = rate > scale.certain * error && rate > 0.0;
            let half = scale.interval * error;
            let other = trend.unwrap_or(Self { rate, low: rate, high: rate, is_growth: false });
            trend = Some(Self {
                rate,
                low: other.low.min(rate - half),
                high: other.high.max(rate + half),
                is_growth: other.is_growth || is_growth,
            });
        }
        trend
    }
}

/// The value at a time: what was known last, and its part of what came next.
pub fn value_at(points: &[(f64, f64)], at: f64) -> f64 {
    let after = points.partition_point(|point| point.0 <= at);
    let Some(before) = after.checked_sub(1).and_then(|before| points.get(before)) else {
        return points.first().map_or(0.0, |point| point.1);
    };
    match points.get(after) {
        Some(next) => before.1 + (next.1 - before.1) * (at - before.0) / (next.0 - before.0),
        None => before.1,
    }
}

/// The standard error of the mean of the steps.
fn error(points: &[(f64, f64)], steps: usize) -> f64 {
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    let at = |step: usize| first + (last - first) * step as f64 / steps as f64;
    let gains: Vec<f64> = (0..steps)
        .map(|step| value_at(points, at(step + 1)) - value_at(points, at(step)))
        .collect();
    let mean = gains.iter().sum::<f64>() / steps as f64;
    let squares: f64 = gains.iter().map(|gain| (gain - mean).powi(2)).sum();
    (squares / (steps - 1) as f64 / steps as f64).sqrt()
}
