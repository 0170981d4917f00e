//! A running sum of floating-point numbers that can be undone: what was added and taken away
//! again leaves nothing behind, though weights of 1 and of a million were added in between.

/// A sum in twice the digits of an `f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wide {
    high: f64,
    low: f64,
}

impl Wide {
    /// Adds one number, or takes it away again if it is negative.
    pub fn add(&mut self, number: f64) {
        // Knuth's exact sum: `error` is what `sum` had no digits for.
        let sum = self.high + number;
        let part = sum - self.high;
        let error = (self.high - (sum - part)) + (number - part);
        let low = self.low + error;
        self.high = sum + low;
        self.low = low - (self.high - sum);
    }

    /// One number.
    pub fn of(number: f64) -> Self {
        Self { high: number, low: 0.0 }
    }

    /// The sum, rounded.
    pub fn value(self) -> f64 {
        self.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_heavy_numbers_that_come_and_go_leave_the_light_ones_as_they_were() {
        let mut sum = Wide::default();
        sum.add(0.1);
        for n in 0..1_000_000u32 {
            sum.add(1e17 / f64::from(n + 1));
            sum.add(0.3);
        }
        for n in 0..1_000_000u32 {
            sum.add(-1e17 / f64::from(n + 1));
            sum.add(-0.3);
        }
        assert!((sum.value() - 0.1).abs() < 1e-8, "{}", sum.value());
    }
}
