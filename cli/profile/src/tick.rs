//! Time as the profile counts it: small enough to be kept with each block.

use std::time::Duration;

/// How long a tick is.
const MICROS: u64 = 250;

/// Ticks since counting began. They go around after some twelve days: what lives longer than that
/// seems to have lived as much less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick(pub u32);

impl Tick {
    /// So long after the beginning.
    pub fn after(time: Duration) -> Self {
        Self::of(ticks(time))
    }

    /// Of all ticks since the beginning.
    pub fn of(ticks: u64) -> Self {
        Self(u32::try_from(ticks & u64::from(u32::MAX)).unwrap_or_default())
    }

    /// Ticks from an earlier one to this.
    pub fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// This many earlier.
    pub fn minus(self, ticks: u32) -> Self {
        Self(self.0.wrapping_sub(ticks))
    }
}

/// How many ticks a time is.
pub fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_micros() / u128::from(MICROS)).unwrap_or(u64::MAX)
}

/// How many microseconds so many ticks are.
pub fn micros(ticks: impl Into<u64>) -> u64 {
    ticks.into().saturating_mul(MICROS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_right_beyond_the_end_of_the_count() {
        let week = Duration::from_secs(7 * 86_400);
        let (birth, death) =
            (Tick::after(week * 2 - Duration::from_secs(3)), Tick::after(week * 2));
        assert_eq!(micros(death.since(birth)), 3_000_000);
        assert_eq!(birth.minus(5), Tick(birth.0 - 5));
    }
}
