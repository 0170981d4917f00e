//! Whether a comparison came out well, and what it says.

use std::{
    cmp::Reverse,
    fmt::{self, Display, Formatter},
};

use super::comparison::{Cause, Comparison, Wrong};

/// Causes that are told.
const TOLD: usize = 12;

impl Comparison {
    /// Whether there are at least so many allocations, at least such a share of them from right
    /// stacks, and every module is among those.
    ///
    /// # Errors
    /// What is not so.
    pub fn judge(&self, minimum: u64, share: f64) -> Result<(), String> {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let right = self.right as f64 / self.allocations.max(1) as f64;
        let missed = &self.missed_modules;
        if self.unnoted > 0 {
            return Err(format!("the oracle itself did not see {} stacks", self.unnoted));
        }
        if self.allocations < minimum {
            return Err(format!("{} allocations are too few", self.allocations));
        }
        if right < share {
            return Err(format!("{right} of them are right, not {share}"));
        }
        if missed.is_empty() { Ok(()) } else { Err(format!("no right stack through {missed:?}")) }
    }

    /// Panics unless [`Comparison::judge`] finds it good.
    ///
    /// # Panics
    /// If it does not.
    pub fn assert_good(&self, what: &str, minimum: u64, share: f64) {
        println!("{what}: {self}");
        self.judge(minimum, share).unwrap_or_else(|why| panic!("{what}: {why}: {self}"));
    }

    /// Panics unless the program did in the session exactly what was recorded: for programs that
    /// rest at its begin and end, and of whose allocations none fails.
    ///
    /// # Panics
    /// If it does not.
    pub fn assert_same_counts(&self, what: &str) {
        let some: Vec<_> = self.differing.iter().take(5).collect();
        let number = self.differing.len();
        assert!(
            some.is_empty(),
            "{what}: {number} stacks are recorded more or less often than they were seen (by so many): {some:#?}"
        );
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { allocations, stacks, right, right_stacks, deepest, .. } = self;
        write!(
            f,
            "{right} of {allocations} allocations and {right_stacks} of {stacks} stacks are "
        )?;
        writeln!(f, "right, the longest has {deepest} frames; {} modules", self.modules.len())?;
        let mut wrong: Vec<_> = self.wrong.iter().collect();
        wrong.sort_by_key(|(_, wrong)| Reverse(wrong.allocations));
        for (Cause { end, from, wanted }, wrong) in wrong.iter().take(TOLD) {
            let Wrong { stacks, allocations, example } = wrong;
            writeln!(f, "  {allocations} in {stacks}: {end}, from {from} not to {wanted}")?;
            writeln!(f, "    {}", example.join(" "))?;
        }
        let more = wrong.len().saturating_sub(TOLD);
        if more > 0 { writeln!(f, "  and {more} more causes") } else { Ok(()) }
    }
}
