//! Whether a process has forked, as far as the kernel tells without being asked for every fork.

use std::time::Duration;

use crate::proc::{Process, status::stat_field};

/// Fields of `stat`: page faults, and processor time, of children that were waited for.
const FAULTS: usize = 11;
const TIMES: [usize; 2] = [16, 17];

/// What a process has to do with its children, until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offspring {
    /// Page faults of those that ended; none ends without.
    faults: u64,
    /// Their processor time.
    pub time: Duration,
    /// Those that live.
    pub living: usize,
}

impl Offspring {
    /// Of a process that has not been waited for.
    pub fn of(process: &Process) -> Option<Self> {
        let stat = process.read("stat").ok()?;
        let field = |number| stat_field(&stat, number)?.parse::<u64>().ok();
        let ticks: u64 = TIMES.into_iter().filter_map(field).sum();
        let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
        let millis = ticks * 1000 / u64::try_from(per_second).ok()?.max(1);
        let children = |tid| process.read_thread(tid, "children").unwrap_or_default();
        let threads = process.threads().unwrap_or_default().into_iter();
        let living = threads.map(|tid| children(tid).split(|&b| b == b' ').count() - 1).sum();
        Some(Self { faults: field(FAULTS)?, time: Duration::from_millis(millis), living })
    }

    /// What came since; `None` if nothing did.
    pub fn since(self, before: Self) -> Option<Self> {
        let came = Self {
            faults: self.faults.saturating_sub(before.faults),
            time: self.time.saturating_sub(before.time),
            living: self.living.saturating_sub(before.living),
        };
        (came.faults > 0 || came.living > 0).then_some(came)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_child_is_seen_while_it_lives_and_after() {
        let own = Process::open(std::process::id().cast_signed()).unwrap();
        let before = Offspring::of(&own).unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let came = Offspring::of(&own).unwrap().since(before).unwrap();
        assert!(came.living >= 1, "{came:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
        let came = Offspring::of(&own).unwrap().since(before).unwrap();
        assert!(came.faults > 0, "{came:?}");
        assert_eq!(before.since(before), None);
    }
}
