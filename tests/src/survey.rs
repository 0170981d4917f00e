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

/// The call numbered `point`, for messages.
#[must_use]
pub fn name(calls: &[String], point: u64) -> String {
    let index = usize::try_from(point).ok().and_then(|point| point.checked_sub(1));
    let call = index.and_then(|index| calls.get(index));
    format!("{point} ({})", call.map_or("beyond the last", String::as_str))
}
