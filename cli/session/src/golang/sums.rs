//! From readings to sums: what came and went in each bucket since the reading before.

use std::collections::HashMap;

use heapattach_golang::profile::{Bucket, Counts, Reading};
use heapattach_process::event::StackId;
use heapattach_profile::Profile;

use super::{found::Found, stacks::Stacks};

/// Functions of the runtime: who called the first of them is the cause, as pprof has it, too.
const OWN: [&str; 2] = ["runtime.", "internal/runtime/"];

/// What was taken in.
#[derive(Debug, Default)]
pub struct Sums {
    /// The stacks.
    pub stacks: Stacks,
    /// Objects that were sampled, and their bytes.
    pub seen: (u64, u64),
    /// Whether some of it was counted before, and is not told.
    pub passed_over: bool,
    /// By the address of a bucket: its stack, what was counted, and how many objects of it were told as in use.
    known: HashMap<u64, (StackId, Counts, u64)>,
    /// By address: whether it is in a function of the runtime.
    runtime: HashMap<u64, bool>,
}

impl Sums {
    /// What was counted before the profile was switched on is of no rate, and is not told.
    pub fn pass_over(&mut self, reading: &Reading, found: &Found) {
        self.learn(reading, found);
        for bucket in &reading.buckets {
            let stack = self.stacks.number(self.callers(bucket));
            self.passed_over |= bucket.now.came > 0;
            self.known.insert(bucket.at, (stack, bucket.now, 0));
        }
    }

    /// Takes in a reading.
    pub fn take(&mut self, reading: &Reading, found: &Found, profile: &mut Profile) {
        self.learn(reading, found);
        for bucket in &reading.buckets {
            let (stack, before, in_use) = match self.known.get(&bucket.at) {
                Some(known) => *known,
                None => {
                    let stack = self.stacks.number(self.callers(bucket));
                    (stack, Counts::default(), 0)
                }
            };
            let now = bucket.now;
            // A collection may move what is counted while it is read: the next reading has it.
            if now.came < before.came || now.went < before.went || now.went > now.came {
                continue;
            }
            let came = now.came - before.came;
            // What was passed over goes, too, and was never told as in use.
            let most = in_use.saturating_add(came);
            let went = (now.went - before.went).min(most);
            self.known.insert(bucket.at, (stack, now, most - went));
            if came == 0 && went == 0 {
                continue;
            }
            self.seen.0 = self.seen.0.saturating_add(came);
            self.seen.1 = self.seen.1.saturating_add(came.saturating_mul(bucket.size));
            profile.counted(stack, bucket.size, reading.chance(bucket), [came, went]);
        }
    }

    /// Looks up which addresses of new buckets are in the runtime.
    fn learn(&mut self, reading: &Reading, found: &Found) {
        let is_new = |bucket: &&Bucket| !self.known.contains_key(&bucket.at);
        let mut unknown: Vec<u64> = reading
            .buckets
            .iter()
            .filter(is_new)
            .flat_map(|one| one.stack.iter().copied())
            .filter(|at| !self.runtime.contains_key(at))
            .collect();
        unknown.sort_unstable();
        unknown.dedup();
        // A call is in the function that the byte before its return is in.
        let calls: Vec<u64> = unknown.iter().map(|at| at.saturating_sub(1)).collect();
        for (at, name) in unknown.into_iter().zip(found.names(&calls)) {
            let is_own = |name: String| OWN.iter().any(|own| name.starts_with(own));
            self.runtime.insert(at, name.is_some_and(is_own));
        }
    }

    /// From the first function on that is not the runtime's; all of it, if all are.
    fn callers<'b>(&self, bucket: &'b Bucket) -> &'b [u64] {
        let is_runtime = |at: &u64| self.runtime.get(at).copied().unwrap_or(false);
        let own = bucket.stack.iter().position(|at| !is_runtime(at)).unwrap_or(0);
        &bucket.stack[own..]
    }
}
