//! When a story stops, and how far it is by then: as fast as what was measured.

use heapattach_ledger::Moment;

/// The story has at most so many moments.
const MOMENTS: usize = 64;

/// How far the story is at a moment, from 0 to 1.
#[derive(Clone)]
pub struct Pace {
    /// When, and what else was measured.
    pub moment: Moment,
    /// Of what is in use at the peak.
    pub risen: f64,
    /// Of the way from the peak to the end.
    pub fallen: f64,
    /// Of all blocks that do not stay.
    pub passed: f64,
}

/// The moments at which the story stops, the last two at the peak and at the end.
pub fn paces(moments: &[Moment]) -> Vec<Pace> {
    let end = moments.last().cloned().unwrap_or_default();
    let top = (0..moments.len()).rev().max_by(|&a, &b| moments[a].live.total_cmp(&moments[b].live));
    let top = top.unwrap_or(0);
    let peak = moments.get(top).cloned().unwrap_or_default();
    let step = moments.len().div_ceil(MOMENTS).max(1);
    let (mut at_ms, mut risen, mut passed) = (0, 0.0_f64, 0.0_f64);
    let mut paces = Vec::new();
    for (index, moment) in moments.iter().enumerate() {
        let last = index + 1 == moments.len();
        if index % step != 0 && index != top && !last {
            continue;
        }
        // No reader expects time to go back.
        at_ms = at_ms.max(moment.at_ms);
        let moment = Moment { at_ms, ..moment.clone() };
        passed = passed.max(part(moment.blocks, end.blocks));
        risen = if index >= top { 1.0 } else { risen.max(part(moment.live, peak.live)).min(0.999) };
        let since = moment.at_ms.saturating_sub(peak.at_ms);
        let all = end.at_ms.saturating_sub(peak.at_ms);
        let fallen = if index > top { part(float(since), float(all)) } else { 0.0 };
        paces.push(Pace { moment, risen, fallen, passed });
    }
    if top + 1 >= moments.len() {
        // Nothing was seen after the peak, or nothing at all.
        let peak = Pace { moment: end.clone(), risen: 1.0, fallen: 0.0, passed: 1.0 };
        paces.pop();
        paces.extend([peak.clone(), peak]);
    }
    if let Some(pace) = paces.last_mut() {
        (pace.fallen, pace.passed) = (1.0, 1.0);
    }
    paces
}

fn part(some: f64, all: f64) -> f64 {
    let part = some / all;
    if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
}

/// The nearest floating-point number.
#[allow(clippy::cast_precision_loss)]
pub fn float(number: u64) -> f64 {
    number as f64
}
