//! A number as JSON has it best.

use serde::{Serialize, Serializer};

/// The greatest below which a script tells all whole numbers apart.
const WHOLE: f64 = 9_007_199_254_740_992.0;

/// No sum of memory, nor the fourth power of one, comes near: a script that adds up such numbers or
/// multiplies them still has numbers.
const MOST: f64 = 1e100;

/// Six digits of what is estimated - more would be noise, and room - and all of what is whole. What
/// is not a number is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Number(f64);

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        if !number.is_finite() {
            return Self(0.0);
        }
        let number = number.clamp(-MOST, MOST);
        if number.fract() == 0.0 {
            return Self(number);
        }
        // Whole numbers and powers of ten up to this one are exact, so that one operation on two of
        // them gives the number that is written with six digits.
        #[allow(clippy::cast_possible_truncation, reason = "a logarithm is small")]
        let power = 5 - number.abs().log10().floor() as i32;
        let scale = 10_f64.powi(power.abs());
        match power {
            0..=22 => Self((number * scale).round() / scale),
            -22..0 => Self((number / scale).round() * scale),
            _ => Self(format!("{number:.5e}").parse().unwrap_or(0.0)),
        }
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self(number as f64)
    }
}

impl Number {
    /// As the script will read it.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 && self.0.abs() < WHOLE {
            // Without `.0`: most numbers of a page are of this kind.
            #[allow(clippy::cast_possible_truncation)]
            serializer.serialize_i64(self.0 as i64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_keep_six_digits_and_what_is_known_all() {
        let written = |number: f64| serde_json::to_string(&Number::from(number)).unwrap();
        assert_eq!(written(1_234_567.891), "1234570");
        assert_eq!(written(123_456_789.0), "123456789");
        assert_eq!((written(0.125), written(-2.0)), ("0.125".to_owned(), "-2".to_owned()));
        assert_eq!((written(f64::NAN), written(f64::INFINITY)), ("0".to_owned(), "0".to_owned()));
        assert_eq!((written(2e90), written(2e300)), ("2e+90".to_owned(), "1e+100".to_owned()));
    }
}
