//! Trying many points of failure, and telling of all that go wrong, not of the first only.

use std::{
    collections::HashMap,
    ops::RangeInclusive,
    panic::{AssertUnwindSafe, catch_unwind},
};

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

/// Where a fault came, as the command itself says: how often it had changed a thread's registers,
/// this call included, and whether the call is such a change.
#[derive(Clone, Copy, Debug)]
pub struct Struck {
    changes: usize,
    is_change: bool,
}

impl Struck {
    /// From what the command said, if the fault came to be.
    #[must_use]
    pub fn read(talk: &str) -> Option<Self> {
        let line = talk.lines().find(|l| l.contains("faults: call") && l.ends_with("changes"))?;
        let (call, rest) = line.split_once(" is ")?.1.split_once(", after ")?;
        let changes = rest.strip_suffix(" changes")?.parse().ok()?;
        Some(Self { changes, is_change: call == CHANGE })
    }

    /// The call it would have been in an undisturbed run, or one beside it.
    fn in_undisturbed(self, calls: &[String]) -> Option<u64> {
        let nth = self.changes.checked_sub(1)?;
        let change = *changes(calls).get(nth)?;
        Some(if self.is_change { change } else { change + 1 })
    }
}

/// How many of them are told in full.
const TOLD: usize = 5;
/// The call that changes a thread's registers, as the command's own trace has it.
const CHANGE: &str = "PTRACE_SETREGS";

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

    /// Prints where points went wrong, and panics if any of them lies outside the windows of
    /// `calls`, the calls of an undisturbed run. `struck` knows where the fault of each came.
    ///
    /// # Panics
    /// If so.
    pub fn assert_well_outside_windows(
        &self,
        what: &str,
        calls: &[String],
        struck: &HashMap<u64, Struck>,
    ) {
        let windows = windows(calls);
        let place = |point| {
            let known = struck.get(point).and_then(|struck| struck.in_undisturbed(calls));
            known.unwrap_or(*point)
        };
        for window in &windows {
            let lost = self.wrong.iter().filter(|(p, _)| window.contains(&place(p))).count();
            println!(
                "{what}: the window is calls {} to {}, {lost} points went wrong in it",
                window.start(),
                window.end()
            );
        }
        let outside = |point| !windows.iter().any(|window| window.contains(&place(point)));
        let wrong = self.wrong.iter().filter(|(point, _)| outside(point)).cloned().collect();
        Self { tried: self.tried, wrong }.assert_all_well(what, |point| name(calls, point));
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

/// The calls between which the target's registers are not its own and nothing of ours in the target
/// could give them back: from its first injected call to its second, and around its last one.
fn windows(calls: &[String]) -> Vec<RangeInclusive<u64>> {
    match changes(calls)[..] {
        [first, second, .., last_but_one, last] => vec![first..=second, last_but_one..=last],
        _ => Vec::new(),
    }
}

/// The calls that change registers.
fn changes(calls: &[String]) -> Vec<u64> {
    (1_u64..).zip(calls).filter(|(_, call)| *call == CHANGE).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_windows_are_around_the_first_and_the_last_injected_call() {
        let calls = ["mmap", CHANGE, "go", CHANGE, "go", CHANGE, "go", CHANGE, "go", CHANGE, "end"];
        assert_eq!(windows(&calls.map(str::to_owned)), [2..=4, 8..=10]);
        assert!(windows(&[]).is_empty());
    }

    #[test]
    fn a_fault_is_placed_by_what_the_command_did_before_it() {
        let calls = ["mmap", CHANGE, "go", CHANGE, "go", "wait", "go"].map(str::to_owned);
        let place =
            |talk: &str| Struck::read(talk).and_then(|struck| struck.in_undisturbed(&calls));
        let said = |call| format!("x\nheapattach: faults: call 9 is {call} changes\ny");
        assert_eq!(place(&said("PTRACE_SETREGS, after 2")), Some(4));
        assert_eq!(place(&said("PTRACE_CONT, after 1")), Some(3));
        assert_eq!(place(&said("PTRACE_CONT, after 0")), None);
        assert_eq!(place("heapattach: faults: call 9 is PTRACE_CONT"), None);
    }
}
