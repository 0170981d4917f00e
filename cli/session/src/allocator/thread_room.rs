//! Whether a process may start some more threads: where it may not, jemalloc is left with threads that it counts and does
//! not have.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use heapattach_process::proc::{Process, all_pids};

/// So many more are left to the program.
const SPARE: u64 = 16;

/// Refuses a process that is near a limit on its threads.
///
/// # Errors
/// Which limit.
pub fn check(process: &Process, wanted: u64) -> Result<(), String> {
    let wanted = wanted.saturating_add(SPARE);
    let told = |what: &str, used: u64, most: u64| {
        format!("{what} has {used} of {most} threads that it may have; need room for {wanted}")
    };
    let groups = process.read("cgroup").unwrap_or_default();
    for folder in folders(&String::from_utf8_lossy(&groups), Path::new("/sys/fs/cgroup")) {
        let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok();
        // A group without a limit says `max`.
        if let (Some(most), Some(used)) = (number("pids.max"), number("pids.current"))
            && wanted > u64::saturating_sub(most, used)
        {
            return Err(told(&format!("control group {}", folder.display()), used, most));
        }
    }
    let limits = process.read("limits").unwrap_or_default();
    let uid = process.status().map_or(0, |status| status.uid);
    // It does not bind root.
    if let Some(most) = of_user(&String::from_utf8_lossy(&limits)).filter(|_| uid != 0) {
        let used = threads_of(uid);
        if wanted > most.saturating_sub(used) {
            return Err(told(&format!("user {uid}"), used, most));
        }
    }
    Ok(())
}

/// The control groups that count its threads: its own, and all above it.
fn folders(groups: &str, top: &Path) -> Vec<PathBuf> {
    let one = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let top = match controllers {
            "" => top.to_owned(),
            _ if controllers.split(',').any(|one| one == "pids") => top.join("pids"),
            _ => return None,
        };
        // Outside of what our own namespace shows a path means another group than it says.
        let is_below = !Path::new(path).components().any(|part| part == Component::ParentDir);
        let own = is_below.then(|| top.join(path.trim_start_matches('/')))?;
        let all = own.ancestors().take_while(|folder| folder.starts_with(&top));
        Some(all.map(Path::to_owned).collect::<Vec<_>>())
    };
    groups.lines().filter_map(one).flatten().collect()
}

/// The soft limit on processes of its user, if there is one.
fn of_user(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max processes"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn threads_of(uid: u32) -> u64 {
    let count = |pid: i32| {
        let process = Process::open(pid).ok()?;
        let is_own = process.status().ok()?.uid == uid;
        is_own.then(|| process.threads().map_or(0, |threads| threads.len() as u64))
    };
    all_pids().into_iter().filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_kinds_are_followed_up() {
        let groups = "5:memory:/m\n3:cpu,pids:/a/b\n0::/c\n";
        let found = folders(groups, Path::new("/g"));
        let expected = ["/g/pids/a/b", "/g/pids/a", "/g/pids", "/g/c", "/g"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert!(folders("0::/a/../b\n", Path::new("/g")).is_empty());
        assert!(folders("nonsense\n\n1:\n", Path::new("/g")).is_empty());
    }

    #[test]
    fn a_limit_is_read_and_none_is_none() {
        let line =
            "Max processes             95555                95555                processes \n";
        assert_eq!(of_user(line), Some(95_555));
        assert_eq!(of_user(&line.replace("95555", "unlimited")), None);
    }

    #[test]
    fn a_process_counts_among_its_users() {
        let own = Process::open(std::process::id().cast_signed()).unwrap();
        let uid = own.status().unwrap().uid;
        assert!(threads_of(uid) >= 1);
        assert!(check(&own, 1 << 40).is_err() || uid == 0);
    }
}
