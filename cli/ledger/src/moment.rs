//! One moment of the session.

use serde::{Deserialize, Serialize};

use heapattach_profile::{Bound, Estimate};

/// The ends of the 95 % intervals of what is estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ends {
    /// Of the bytes that were live.
    pub live: [f64; 2],
    /// Of the bytes allocated.
    pub allocated: [f64; 2],
    /// Of the blocks allocated.
    pub blocks: [f64; 2],
}

/// What was known at one moment. What could not be read is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// Milliseconds since counting began.
    pub at_ms: u64,
    /// Bytes of recorded blocks that were live, estimated.
    pub live: f64,
    /// Bytes allocated since counting began, estimated.
    pub allocated: f64,
    /// Blocks allocated since counting began, estimated.
    pub blocks: f64,
    /// How sure these three are. `None` where every block is recorded, and in recordings that are
    /// older than this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<Ends>,
    /// By class of size (`heapattach_abi::flow`): its number, blocks allocated since counting began,
    /// and blocks freed, older ones too. Behind these, numbered from
    /// `heapattach_abi::flow::CLASSES` on, for each class of requests the least size it led to, with
    /// `heapattach_abi::flow::HAS_HEAD`, and the greatest. `None` where it was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<Vec<[u64; 3]>>,
    /// Bytes of pages mapped by hooked calls since counting began, and still.
    pub mapped: u64,
    /// Of these what the program mapped itself, by the module that did; none of an allocator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_mapped: Option<u64>,
    /// Memory of the process in pages.
    pub rss: Option<u64>,
    /// The same, shared pages divided by how many share them.
    pub pss: Option<u64>,
    /// Of `rss`, in pages of its own that no file is behind.
    pub anonymous: Option<u64>,
    /// What the control group of the process uses.
    pub cgroup: Option<u64>,
    /// How much the control group may use.
    pub cgroup_limit: Option<u64>,
}

impl Moment {
    /// Bytes that were live; `every` is the mean distance between samples.
    pub fn held(&self, every: u64) -> Estimate {
        self.estimate(self.live, self.ends.map(|ends| ends.live), every)
    }

    /// Bytes allocated since counting began.
    pub fn asked(&self, every: u64) -> Estimate {
        self.estimate(self.allocated, self.ends.map(|ends| ends.allocated), every)
    }

    fn estimate(&self, value: f64, ends: Option<[f64; 2]>, every: u64) -> Estimate {
        let is_exact = every <= 1 || value == 0.0 || !value.is_finite();
        match ends {
            Some([low, high]) => Estimate { value, low: low.min(value), high: high.max(value) },
            None if is_exact => Estimate { value, low: value, high: value },
            None => Bound::bytes(value, every).estimate(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_of_samples_has_an_interval_even_if_none_was_written_down() {
        let mut moment = Moment { live: 1e6, ..Moment::default() };
        assert_eq!(moment.held(1), Estimate { value: 1e6, low: 1e6, high: 1e6 });
        let bound = moment.held(10_000);
        assert!(bound.low < 0.85e6 && bound.high > 1.2e6, "a hundred samples: {bound:?}");
        moment.ends = Some(Ends { live: [0.9e6, 1.2e6], ..Ends::default() });
        assert_eq!(moment.held(10_000), Estimate { value: 1e6, low: 0.9e6, high: 1.2e6 });
        moment.ends = Some(Ends { live: [2e6, 0.0], ..Ends::default() });
        assert_eq!(moment.held(10_000), Estimate { value: 1e6, low: 1e6, high: 1e6 });
    }
}
