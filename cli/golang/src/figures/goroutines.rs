//! Goroutines, by what they do.

use std::collections::HashMap;

use heapattach_census::{Moment, counters::Numbers};

use crate::graph::layout::{Field, GoroutineFields};

/// More are not counted.
const MOST: u64 = 1 << 22;
/// Set while the garbage collector looks at it.
const SCANNED: u64 = 0x1000;

/// How many do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    runnable: u64,
    running: u64,
    syscall: u64,
    waiting: u64,
    system: u64,
    stacks: u64,
}

impl Counts {
    /// Those in the list of all; `name` names the function that begins at an address.
    pub fn read(
        moment: &Moment<'_>,
        fields: &GoroutineFields,
        all: u64,
        name: &dyn Fn(u64) -> Option<String>,
    ) -> Option<Self> {
        let (first, count) = (moment.word(all)?, moment.word(all.wrapping_add(8))?);
        if count > MOST {
            return None;
        }
        let mut counts = Self::default();
        let mut is_system: HashMap<u64, bool> = HashMap::new();
        for index in 0..count {
            let Some(at) = first.checked_add(index * 8).and_then(|at| moment.word(at)) else {
                break;
            };
            let get = |field: Field| field.read(moment, at).unwrap_or(0);
            let count = match get(fields.status) & !SCANNED {
                1 => &mut counts.runnable,
                2 => &mut counts.running,
                3 => &mut counts.syscall,
                // It waits, or is stopped for a moment.
                4 | 8 | 9 | 10 => &mut counts.waiting,
                _ => continue,
            };
            counts.stacks += get(fields.high).saturating_sub(get(fields.low));
            let start = get(fields.start_pc);
            let own = is_system.entry(start).or_insert_with(|| is_runtimes(name(start)));
            match own {
                true => counts.system += 1,
                false => *count += 1,
            }
        }
        Some(counts)
    }

    /// As numbers; `NumGoroutine` is that of the runtime, without its own.
    pub fn numbers(self) -> Numbers {
        let Self { runnable, running, syscall, waiting, system, stacks } = self;
        Numbers::from([
            ("NumGoroutine", runnable + running + syscall + waiting),
            ("goroutines.runnable", runnable),
            ("goroutines.running", running),
            ("goroutines.syscall", syscall),
            ("goroutines.waiting", waiting),
            ("goroutines.system", system),
            ("goroutines.stacks", stacks),
        ])
    }
}

/// Whether a goroutine that began with this function is one of the runtime's own.
fn is_runtimes(name: Option<String>) -> bool {
    name.is_some_and(|name| {
        let is_programs =
            ["runtime.main", "runtime.corostart", "runtime.handleAsyncEvent"].contains(&&*name);
        name.starts_with("runtime.") && !is_programs
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_runtimes_own_are_not_counted_as_the_programs() {
        let of = |name: &str| is_runtimes(Some(name.to_owned()));
        assert!(of("runtime.bgsweep") && of("runtime.forcegchelper"));
        assert!(!of("runtime.main") && !of("main.work") && !is_runtimes(None));
    }
}
