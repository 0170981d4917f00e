//! The sampled profile by the types that its stacks allocate.

use std::collections::BTreeMap;

use super::Sites;
use crate::profile::{Bucket, Counts, Reading};

/// What is allocated of one type: estimates, by the chance that an object is sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OfType {
    /// Stacks, by the sizes of their objects.
    pub buckets: u64,
    /// Objects and bytes that are in use.
    pub live: Estimated,
    /// All that were allocated since the program began to sample.
    pub allocated: Estimated,
}

/// Objects and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimated {
    /// Objects.
    pub objects: f64,
    /// Bytes.
    pub bytes: f64,
}

impl Estimated {
    fn add(&mut self, samples: u64, size: u64, chance: f64) {
        // Numbers of samples are far below what a float can tell.
        let objects = samples as f64 / chance;
        self.objects += objects;
        self.bytes += objects * size as f64;
    }
}

/// By the name of the type; none where it is not known.
pub fn by_type(reading: &Reading, sites: &Sites<'_, '_>) -> BTreeMap<Option<String>, OfType> {
    let name = |bucket: &Bucket| sites.name(sites.allocates(&bucket.stack, bucket.size)?);
    sums(reading, &name)
}

fn sums(
    reading: &Reading,
    name: &dyn Fn(&Bucket) -> Option<String>,
) -> BTreeMap<Option<String>, OfType> {
    let mut all: BTreeMap<Option<String>, OfType> = BTreeMap::new();
    for bucket in &reading.buckets {
        let Counts { came, went } = bucket.now;
        if came == 0 || went > came {
            continue;
        }
        let chance = reading.chance(bucket).unwrap_or(1.0);
        let sum = all.entry(name(bucket)).or_default();
        sum.buckets += 1;
        sum.live.add(came - went, bucket.size, chance);
        sum.allocated.add(came, bucket.size, chance);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_one_type_adds_up_and_the_unknown_is_told_too() {
        let bucket = |size, came, went| {
            let now = Counts { came, went };
            Bucket { at: 8, size, stack: vec![size], active: now, now }
        };
        let buckets = vec![bucket(16, 5, 2), bucket(32, 1, 1), bucket(48, 1, 0), bucket(64, 0, 0)];
        let reading = Reading { rate: 1, buckets, odd: 0 };
        let name = |bucket: &Bucket| (bucket.size < 48).then(|| "main.leaf".to_owned());
        let all = sums(&reading, &name);
        assert_eq!(all.len(), 2);
        let leaf = all[&Some("main.leaf".to_owned())];
        assert_eq!((leaf.buckets, leaf.live.objects, leaf.allocated.objects), (2, 3.0, 6.0));
        assert!((leaf.allocated.bytes - 112.0).abs() < 1e-9);
        assert_eq!(all[&None].live, Estimated { objects: 1.0, bytes: 48.0 });
    }
}
