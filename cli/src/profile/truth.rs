//! Do the 95 % intervals hold the truth in 95 % of cases? A thousand made-up programs tell.

use super::{
    Estimate, Flow, Measure,
    simulation::{Known, Run, Sums, run},
};

/// How some estimates compare with what they estimate.
#[derive(Debug, Default)]
struct Score {
    cases: f64,
    covered: f64,
    /// Widths of the intervals, in those of an interval made with the true variance.
    width: f64,
    /// Errors in true standard deviations, and their squares.
    error: f64,
    error_squared: f64,
}

impl Score {
    fn add(&mut self, estimate: Estimate, known: &Known) {
        let deviation = known.variance.sqrt();
        let error = (estimate.value - known.truth) / deviation;
        self.cases += 1.0;
        let holds = (estimate.low..=estimate.high).contains(&known.truth);
        self.covered += f64::from(u8::from(holds));
        self.width += (estimate.high - estimate.low) / (2.0 * 1.96 * deviation);
        self.error += error;
        self.error_squared += error * error;
    }

    fn coverage(&self) -> f64 {
        100.0 * self.covered / self.cases
    }

    fn width(&self) -> f64 {
        self.width / self.cases
    }

    /// The mean error in standard errors of the mean.
    fn bias(&self) -> f64 {
        self.error / self.error_squared.sqrt()
    }
}

const NAMES: [&str; 8] = [
    "allocated bytes, total",
    "allocated count, total",
    "live bytes, total",
    "live count, total",
    "allocated bytes, top sites",
    "allocated count, top sites",
    "live bytes, top sites",
    "live count, top sites",
];

fn score(run: &Run, scores: &mut [Score; 8]) {
    let flows = [(Flow::Allocated, &run.allocated), (Flow::Live, &run.live)];
    for (half, (flow, known)) in flows.into_iter().enumerate() {
        let mut add = |first: usize, measure: Measure, known: &Sums| {
            scores[first].add(measure.bytes, &known.bytes);
            scores[first + 1].add(measure.count, &known.count);
        };
        add(2 * half, run.profile.heap().measure(flow), &known[12]);
        for site in run.profile.sites_by(flow) {
            let index = site.stack.0 as usize - 1;
            // Those that are truly on top: whoever chooses by the estimate chooses the lucky ones.
            let above = known[..12].iter().filter(|other| other.bytes.truth > known[index].bytes.truth);
            if above.count() < 10 {
                add(4 + 2 * half, site.heap.measure(flow), &known[index]);
            }
        }
    }
}

fn scores(seeds: u64, intervals: &[u64]) -> [Score; 8] {
    let mut scores = Default::default();
    for seed in 1..=seeds {
        score(&run(seed, intervals), &mut scores);
    }
    for (name, score) in NAMES.iter().zip(&scores) {
        println!(
            "{name:28} covered {:.2} %, width {:.3}, bias {:+.2} standard errors",
            score.coverage(),
            score.width(),
            score.bias()
        );
    }
    scores
}

fn expect_good(scores: &[Score; 8]) {
    for (name, score) in NAMES.iter().zip(scores) {
        let (coverage, width, bias) = (score.coverage(), score.width(), score.bias());
        assert!((93.5..=96.5).contains(&coverage), "{name}: {coverage:.2} % covered");
        assert!(width <= 1.1, "{name}: {width:.3} times the width in theory");
        assert!(bias.abs() <= 3.0, "{name}: {bias:+.2} standard errors of bias");
    }
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    expect_good(&scores(1_000, &[16_384]));
}

#[test]
fn intervals_hold_the_truth_when_the_sampling_interval_changes_in_mid_run() {
    expect_good(&scores(1_000, &[16_384, 32_768, 8_192, 16_384]));
}

/// More cases than anyone waits for at each commit, to see past the noise of a thousand.
#[test]
#[ignore = "takes minutes: cargo test --release -p heapattach --lib profile::truth -- --ignored --nocapture"]
fn intervals_hold_the_truth_over_many_more_runs() {
    let steady = scores(20_000, &[16_384]);
    let changing = scores(20_000, &[16_384, 32_768, 8_192, 16_384]);
    expect_good(&steady);
    expect_good(&changing);
}
