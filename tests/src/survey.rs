//! Trying many points of failure, and telling of all that go wrong, not of the first only.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    fixture::{Fixture, Launch},
    trace::Before,
};

/// Points that went wrong, with what was said about each.
#[derive(Debug, Default)]
pub struct Survey {
    tried: usize,
    wrong: Vec<(u64, String)>,
}

/// How many of them are told in full.
const TOLD: usize = 5;
/// In one attach and detach the target's registers are not its own, and no rescue is prepared, from
/// its first injected call to its second, and in its last one. No more than so many steps long.
const WINDOWS: usize = 2;
const LONGEST_WINDOW: u64 = 9;

impl Survey {
    /// Tries each point on a living fixture; after one that went wrong, on a fresh fixture.
    ///
    /// `None` when the machine has no compiler for the fixture.
    ///
    /// # Panics
    /// If the fixture does not start.
    pub fn of(
        file: &str,
        points: impl IntoIterator<Item = u64>,
        mut attempt: impl FnMut(&mut Fixture, &Before, u64),
    ) -> Option<Self> {
        let mut survey = Self::default();
        let mut target = None;
        for point in points {
            let (mut fixture, before) = match target.take() {
                Some(target) => target,
                None => {
                    let mut fixture = Launch::new(file)?.start();
                    let before = Before::of(&mut fixture);
                    (fixture, before)
                }
            };
            let tried = catch_unwind(AssertUnwindSafe(|| {
                attempt(&mut fixture, &before, point);
                before.assert_equal(&mut fixture, &format!("after point {point}"));
                fixture.advance(1);
            }));
            survey.tried += 1;
            match tried {
                Ok(()) => target = Some((fixture, before)),
                Err(said) => {
                    let text = said.downcast_ref::<String>().map_or("?", String::as_str);
                    survey.wrong.push((point, text.to_owned()));
                }
            }
        }
        if let Some((fixture, _)) = target {
            fixture.finish();
        }
        Some(survey)
    }

    /// How many points were tried.
    #[must_use]
    pub fn tried(&self) -> usize {
        self.tried
    }

    /// The stretches of points in which all that went wrong did, first and last.
    fn stretches(&self) -> Vec<(u64, u64)> {
        let mut points: Vec<u64> = self.wrong.iter().map(|&(point, _)| point).collect();
        points.sort_unstable();
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        for point in points {
            match stretches.last_mut() {
                Some((first, last)) if point - *first < LONGEST_WINDOW => *last = point,
                _ => stretches.push((point, point)),
            }
        }
        stretches
    }

    /// Prints where points went wrong, and panics if that was elsewhere than in the two short
    /// windows of an attach and detach, which the command measures and states.
    ///
    /// # Panics
    /// If so.
    pub fn assert_well_outside_windows(&self, what: &str, name: impl Fn(u64) -> String) {
        let stretches = self.stretches();
        for &(first, last) in &stretches {
            println!("{what}: the target is lost from {} to {}", name(first), name(last));
        }
        if stretches.len() > WINDOWS {
            self.assert_all_well(what, name);
        }
    }

    /// Panics if any point went wrong; `name` says what a point is called.
    ///
    /// # Panics
    /// If so.
    pub fn assert_all_well(&self, what: &str, name: impl Fn(u64) -> String) {
        let points: Vec<_> = self.wrong.iter().map(|&(point, _)| name(point)).collect();
        let told: Vec<_> = self.wrong.iter().take(TOLD).map(|(_, said)| said.as_str()).collect();
        assert!(
            self.wrong.is_empty(),
            "{what}: {} of {} points went wrong: {}\n{}",
            self.wrong.len(),
            self.tried,
            points.join(", "),
            told.join("\n----\n")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathers_points_into_stretches_no_longer_than_a_window() {
        let wrong = [40, 22, 25, 30, 41, 34].map(|point| (point, String::new()));
        let survey = Survey { tried: 50, wrong: wrong.into() };
        assert_eq!(survey.stretches(), [(22, 30), (34, 41)]);
    }
}
