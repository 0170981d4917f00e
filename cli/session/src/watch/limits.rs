//! Guard rails: when to leave a target alone by ourselves.

use std::{
    fs,
    path::{Component, Path},
    time::{Duration, Instant},
};

use heapattach_injector::attach::Refusal;
use heapattach_process::proc::{Process, status::stat_field};

use crate::watch::pace::LIMITS;

/// What a counted call costs, as measured (`cli/guide/measured.md`); only an estimate is made of it.
const NANOSECONDS_A_CALL: f64 = 4.0;

/// Version 1 of control groups writes a number like this where there is no limit.
const NO_LIMIT: u64 = 1 << 60;

/// In a cgroup this full the kernel is about to kill a process.
const NEARLY_FULL: f64 = 0.98;

/// The limits of one session.
#[derive(Debug)]
pub struct Guard {
    max_overhead: Option<f64>,
    max_memory: Option<u64>,
    cpu_at_start: Option<Duration>,
    /// While the target rests, a cgroup without a limit is not looked at again before.
    no_limit_until: Option<Instant>,
}

impl Guard {
    /// Takes note of where the target stands.
    pub fn new(process: &Process, max_overhead: Option<f64>, max_memory: Option<u64>) -> Self {
        Self { max_overhead, max_memory, cpu_at_start: cpu_time(process), no_limit_until: None }
    }

    /// Why the session should end now, if it should. The target may rest now.
    pub fn objection(
        &mut self,
        process: &Process,
        calls: u64,
        memory: u64,
        rests: bool,
    ) -> Option<String> {
        if let Some(limit) = self.max_memory.filter(|&limit| memory > limit) {
            return Some(format!(
                "the session takes {memory} bytes of the target, more than {limit}"
            ));
        }
        let now = Instant::now();
        if !rests || self.no_limit_until.is_none_or(|until| now >= until) {
            let group = cgroup_memory(process);
            self.no_limit_until = group.is_none().then(|| now + LIMITS);
            if let Some((used, limit)) = group.filter(|&(used, limit)| is_nearly_full(used, limit))
            {
                return Some(format!("the target's cgroup uses {used} of {limit} bytes"));
            }
        }
        let limit = self.max_overhead?;
        let cpu = cpu_time(process)?.checked_sub(self.cpu_at_start?)?;
        #[allow(clippy::cast_precision_loss)]
        let percent = calls as f64 * NANOSECONDS_A_CALL / (cpu.as_nanos() as f64).max(1e6) * 100.0;
        (percent > limit).then(|| {
            format!(
                "counting takes about {percent:.1} % of the target's CPU time, more than {limit}"
            )
        })
    }
}

/// Refuses a target whose cgroup would be pushed over its limit.
///
/// # Errors
/// With the numbers.
pub fn check_headroom(process: &Process) -> Result<(), Refusal> {
    match cgroup_memory(process).filter(|&(used, limit)| is_nearly_full(used, limit)) {
        None => Ok(()),
        Some((used, limit)) => Err(Refusal {
            value: format!("the target's cgroup uses {used} of {limit} bytes"),
            need: format!("less than {:.0} % of the limit", NEARLY_FULL * 100.0),
            cure: "raise its memory.max, or wait until it uses less".to_owned(),
            unsupported: false,
        }),
    }
}

fn is_nearly_full(used: u64, limit: u64) -> bool {
    #[allow(clippy::cast_precision_loss)]
    let full = used as f64 > limit as f64 * NEARLY_FULL;
    full
}

/// User and system time of the process so far.
fn cpu_time(process: &Process) -> Option<Duration> {
    let stat = process.read("stat").ok()?;
    let ticks = |field| stat_field(&stat, field)?.parse::<u64>().ok();
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let millis = (ticks(14)? + ticks(15)?) * 1000 / u64::try_from(per_second).ok()?;
    Some(Duration::from_millis(millis))
}

/// Bytes used and allowed in the target's memory cgroup, or in the one above it that has the least
/// room left, of either version, if any has a limit. What the kernel would take back first, cached
/// files, is not counted as used.
pub fn cgroup_memory(process: &Process) -> Option<(u64, u64)> {
    let text = String::from_utf8(process.read("cgroup").ok()?).ok()?;
    let version_2 = text.lines().find_map(|line| line.strip_prefix("0::")).and_then(|path| {
        let names = ["memory.current", "memory.max"];
        tightest("/sys/fs/cgroup", path, names, ["inactive_file", "active_file"])
    });
    version_2.or_else(|| {
        let path = text.lines().find_map(|line| line.split_once(":memory:"))?.1;
        let files = ["total_inactive_file", "total_active_file"];
        let names = ["memory.usage_in_bytes", "memory.limit_in_bytes"];
        tightest("/sys/fs/cgroup/memory", path, names, files)
    })
}

/// Of a cgroup and those above it.
fn tightest(root: &str, path: &str, names: [&str; 2], cached: [&str; 2]) -> Option<(u64, u64)> {
    // Outside of what our own namespace shows a path means another group than it says.
    let is_below = !Path::new(path).components().any(|part| part == Component::ParentDir);
    let folders = Path::new(path).ancestors().filter(|_| is_below);
    let folders = folders.map(|folder| format!("{root}{}", folder.display()));
    let all = folders.filter_map(|folder| memory_in(&folder, names, cached));
    all.min_by_key(|(used, limit)| limit.saturating_sub(*used))
}

fn memory_in(folder: &str, names: [&str; 2], cached: [&str; 2]) -> Option<(u64, u64)> {
    let read = |name: &str| fs::read_to_string(format!("{folder}/{name}")).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let limit = number(names[1]).filter(|&limit| limit < NO_LIMIT)?;
    let used = number(names[0])?;
    // Last, since the kernel has to sum it up.
    let stat = read("memory.stat").unwrap_or_default();
    let lines = stat.lines().filter_map(|line| line.split_once(' '));
    let files = lines.filter(|(name, _)| cached.contains(name));
    let files: u64 = files.filter_map(|(_, bytes)| bytes.parse::<u64>().ok()).sum();
    Some((used.saturating_sub(files), limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_test_folder::Folder;

    const NAMES: [&str; 2] = ["memory.current", "memory.max"];
    const CACHED: [&str; 2] = ["inactive_file", "active_file"];

    fn group(folder: &Folder, path: &str, used: &str, limit: &str) {
        let folder = folder.0.join(path);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("memory.current"), used).unwrap();
        fs::write(folder.join("memory.max"), limit).unwrap();
        fs::write(folder.join("memory.stat"), "anon 5\ninactive_file 10\nactive_file 20\n")
            .unwrap();
    }

    #[test]
    fn the_group_with_the_least_room_counts_wherever_it_is_above() {
        let folder = Folder::new("cgroups");
        let root = folder.0.to_str().unwrap();
        group(&folder, "a/b/c", "130", "max");
        assert_eq!(tightest(root, "/a/b/c", NAMES, CACHED), None);
        group(&folder, "a/b/c", "130\n", "1000\n");
        assert_eq!(tightest(root, "/a/b/c", NAMES, CACHED), Some((100, 1000)));
        group(&folder, "a", "930\n", "1100\n");
        assert_eq!(tightest(root, "/a/b/c", NAMES, CACHED), Some((900, 1100)));
        group(&folder, "a/b", "130\n", "200\n");
        assert_eq!(tightest(root, "/a/b/c", NAMES, CACHED), Some((100, 200)));
        assert_eq!(tightest(root, "/a/b/../b/c", NAMES, CACHED), None);
    }
}
