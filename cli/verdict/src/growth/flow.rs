//! What came and went of each size, since before the attach: exact, out of the moments of a session.

use std::{borrow::Cow, collections::BTreeMap, ops::RangeInclusive};

use heapattach_abi::flow::CLASSES;

use super::{Trend, sizes::Sizes};
use heapattach_ledger::{Course, Fate, Moment};

/// Classes of size.
pub type Classes = RangeInclusive<usize>;

/// Counts of blocks by class, at moments.
#[derive(Clone, Debug)]
pub struct Flow<'a> {
    moments: Cow<'a, [Moment]>,
    /// What requests take.
    pub sizes: Sizes,
}

impl<'a> Flow<'a> {
    /// Out of these; `None` if it was not counted.
    pub fn of(moments: &'a [Moment]) -> Option<Self> {
        let last = moments.iter().rev().find_map(|moment| moment.flow.as_ref())?;
        Some(Self { moments: moments.into(), sizes: Sizes::of(last) })
    }

    /// Of a program that was recorded from its first block on: there is no older one whose going could
    /// be missed, so records tell what counts would, with any allocator.
    pub fn of_records(course: &Course) -> Self {
        let sizes = Sizes::default();
        let spans = course.bounds_ms.len().saturating_sub(1);
        let mut turns: Vec<BTreeMap<u64, [f64; 2]>> = vec![BTreeMap::new(); spans];
        for cell in &course.cells {
            let measure = cell.sum.measure();
            let blocks = measure.count.value;
            if !blocks.is_finite() || blocks <= 0.0 {
                continue;
            }
            let class = sizes.class_of(measure.bytes.value / blocks) as u64;
            let death = match cell.fate {
                Fate::Freed { span, .. } => Some(usize::from(span)),
                Fate::Held | Fate::Unknown => None,
            };
            let both = [Some(usize::from(cell.birth)), death];
            for (way, span) in both.into_iter().enumerate() {
                if let Some(turn) = span.and_then(|span| turns.get_mut(span)) {
                    turn.entry(class).or_default()[way] += blocks;
                }
            }
        }
        let mut sums: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
        let ends = course.bounds_ms.iter().skip(1);
        let moments = turns.into_iter().zip(ends).map(|(turn, &at_ms)| {
            for (class, [came, went]) in turn {
                let sum = sums.entry(class).or_default();
                *sum = [sum[0] + came, sum[1] + went];
            }
            let flow =
                sums.iter().map(|(class, [came, went])| [*class, whole(*came), whole(*went)]);
            Moment { at_ms, flow: Some(flow.collect()), ..Moment::default() }
        });
        Self { moments: moments.collect::<Vec<_>>().into(), sizes }
    }

    /// Bytes that more came than went of some classes, at times in seconds since counting began.
    pub fn net(&self, classes: &Classes) -> Vec<(f64, f64)> {
        self.sums(classes, |[came, went]| came as f64 - went as f64)
    }

    /// Bytes that came in all.
    pub fn asked(&self, classes: &Classes) -> f64 {
        let came = self.sums(classes, |[came, _]| came as f64);
        came.last().map_or(0.0, |(_, bytes)| *bytes)
    }

    /// Blocks that came in all, of any size.
    pub fn blocks(&self) -> f64 {
        let last = self.moments.iter().rev().find_map(|moment| moment.flow.as_ref());
        last.map_or(0.0, |flow| counted(flow).map(|(_, came, _)| came as f64).sum())
    }

    /// Growth of everything.
    pub fn trend(&self) -> Option<Trend> {
        Trend::of(&self.net(&(0..=CLASSES - 1)))
    }

    fn sums(&self, classes: &Classes, of: impl Fn([u64; 2]) -> f64) -> Vec<(f64, f64)> {
        let told = self.moments.iter().filter_map(|moment| {
            let flow = moment.flow.as_ref()?;
            let own = counted(flow).filter(|(class, ..)| classes.contains(class));
            let sum = own.map(|(class, came, went)| of([came, went]) * self.sizes.middle(class));
            let sum = sum.sum();
            Some((moment.at_ms as f64 / 1000.0, sum))
        });
        // The counts begin with the hooks.
        std::iter::once((0.0, 0.0)).chain(told.filter(|(at, _)| *at > 0.0)).collect()
    }
}

fn whole(number: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let whole = number.round() as u64;
    whole
}

/// The classes of a moment, without what is noted of requests behind them.
fn counted(flow: &[[u64; 3]]) -> impl Iterator<Item = (usize, u64, u64)> {
    let class = |number| usize::try_from(number).ok().filter(|class| *class < CLASSES);
    flow.iter().filter_map(move |&[number, came, went]| Some((class(number)?, came, went)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_the_session_counts_when_it_goes() {
        let moment = |at_ms, flow| Moment { at_ms, flow: Some(flow), ..Moment::default() };
        let moments = [
            moment(1000, vec![[4, 10, 30], [64, 1, 0]]),
            Moment { at_ms: 1500, ..Moment::default() },
            moment(2000, vec![[4, 20, 30], [u64::MAX, u64::MAX, 0]]),
        ];
        let flow = Flow::of(&moments).unwrap();
        assert_eq!(flow.net(&(4..=4)), [(0.0, 0.0), (1.0, -1280.0), (2.0, -640.0)]);
        assert_eq!(flow.asked(&(0..=4)), 1280.0);
        assert!(Flow::of(&moments[1..2]).is_none());
    }
}
