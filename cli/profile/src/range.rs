//! Numbers with their intervals as they are told: in reports, and wherever a number is shown.

use serde::{Deserialize, Serialize};

use crate::{Estimate, Measure};

/// A number with its 95 % interval; where everything is recorded, all three are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The number.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Bytes and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Amount {
    /// Bytes requested.
    pub bytes: Range,
    /// Blocks.
    pub blocks: Range,
}

impl Range {
    /// A number that is known exactly.
    pub fn exact(number: u64) -> Self {
        #[allow(clippy::cast_precision_loss)]
        let value = number as f64;
        Self { value, low: value, high: value }
    }
}

impl From<Estimate> for Range {
    fn from(estimate: Estimate) -> Self {
        Self { value: estimate.value, low: estimate.low, high: estimate.high }
    }
}

impl From<Range> for Estimate {
    fn from(range: Range) -> Self {
        Self { value: range.value, low: range.low, high: range.high }
    }
}

impl From<Measure> for Amount {
    fn from(measure: Measure) -> Self {
        Self { bytes: measure.bytes.into(), blocks: measure.count.into() }
    }
}
