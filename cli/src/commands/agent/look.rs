//! The machine, as `/proc` and `/sys/fs/cgroup` show it.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use heapattach_agent::{Config, Facts, Headroom, Key, Machine, Pod, pod_folder, pod_uid};
use heapattach_process::proc::status::{Status, stat_field};
use nix::unistd::{SysconfVar, Uid, User, sysconf};

use super::{events::now, usage::Process};
use crate::choose_process::all;

/// Where kubelet has a folder for each pod.
const PODS: &str = "/var/log/pods";
/// Groups deeper than this are not looked at.
const DEEPEST: usize = 32;

/// What was seen.
#[derive(Debug)]
pub struct Seen {
    /// The machine.
    pub machine: Machine,
    /// Processes that a rule may fit.
    pub processes: Vec<Facts>,
    /// What all processes cost until now.
    pub usage: Vec<Process>,
}

/// Looks at everything.
pub fn look(config: &Config) -> Seen {
    let uptime = number(&fs::read_to_string("/proc/uptime").unwrap_or_default());
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100).unsigned_abs().max(1);
    let own = fs::read_link("/proc/self/exe").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let machine = Machine {
        now: now(),
        processors: processors.try_into().unwrap_or(1),
        pressure: pressure(Path::new("/proc/pressure/cpu")),
    };
    let (mut users, mut pods) = (HashMap::new(), None);
    let (mut processes, mut usage) = (Vec::new(), Vec::new());
    for one in all() {
        let read = |name: &str| fs::read(format!("/proc/{}/{name}", one.pid)).unwrap_or_default();
        let (stat, status) = (read("stat"), Status::parse(&read("status")));
        let field = |field| stat_field(&stat, field).and_then(|text| text.parse::<u64>().ok());
        let Some(start) = field(22) else { continue };
        let key = Key { pid: one.pid, start };
        usage.push(Process {
            key,
            parent: one.parent,
            ticks: (14..=15).filter_map(field).sum(),
            ended: (16..=17).filter_map(field).sum(),
            resident: one.resident,
        });
        let executable = fs::read_link(format!("/proc/{}/exe", one.pid)).unwrap_or_default();
        let cgroups: Vec<String> = one
            .cgroups
            .lines()
            .filter_map(|line| Some(line.splitn(3, ':').nth(2)?.to_owned()))
            .collect();
        let user = users.entry(status.uid).or_insert_with(|| {
            User::from_uid(Uid::from_raw(status.uid)).ok().flatten().map(|user| user.name)
        });
        let uid = cgroups.iter().find_map(|path| pod_uid(path));
        let pod = uid.and_then(|uid| pods.get_or_insert_with(read_pods).get(&uid).cloned());
        #[allow(clippy::cast_precision_loss)]
        let age = (uptime - start as f64 / ticks as f64).max(0.0);
        let mut facts = Facts {
            key,
            age: Duration::from_secs_f64(age),
            name: one.short_name,
            names: one.names,
            is_ours: executable == own,
            executable: executable.to_string_lossy().into_owned(),
            uid: status.uid,
            user: user.clone(),
            cgroups,
            pod,
            tracer: status.tracer,
            headroom: None,
            pressure: None,
        };
        // Groups are looked at only where that is of use.
        if config.rules.iter().any(|rule| rule.fits(&facts)) {
            facts.headroom = headroom(&one.cgroups);
            facts.pressure = group_pressure(&one.cgroups);
        }
        processes.push(facts);
    }
    Seen { machine, processes, usage }
}

fn number(text: &str) -> f64 {
    text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// `some avg10=` of a pressure file.
fn pressure(path: &Path) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("some avg10="))?;
    line.split(' ').next()?.parse().ok()
}

fn group_pressure(cgroups: &str) -> Option<f64> {
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::"))?;
    pressure(&Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/')).join("cpu.pressure"))
}

/// Of all groups with a limit that a process is in, the one with the least left.
fn headroom(cgroups: &str) -> Option<Headroom> {
    let mut least: Option<Headroom> = None;
    for line in cgroups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, limit, used) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
            _ => continue,
        };
        let group = PathBuf::from(root).join(path.trim_start_matches('/'));
        let above = group.ancestors().take(DEEPEST).take_while(|one| one.starts_with(root));
        for one in above {
            let read = |name| fs::read_to_string(one.join(name)).ok()?.trim().parse::<u64>().ok();
            // Without a limit the older groups have one that no machine has.
            let Some(limit) = read(limit).filter(|limit| *limit < 1 << 60) else { continue };
            let left = limit.saturating_sub(read(used).unwrap_or(0));
            if least.is_none_or(|least| left < least.left) {
                least = Some(Headroom { left, limit });
            }
        }
    }
    least
}

/// Pods by number.
fn read_pods() -> HashMap<String, Pod> {
    let folders = fs::read_dir(PODS).into_iter().flatten().flatten();
    let pod = |folder: fs::DirEntry| {
        let name = folder.file_name();
        let (namespace, name, uid) = pod_folder(name.to_str()?)?;
        let mut inside = fs::read_dir(folder.path()).ok()?.flatten();
        let first = inside.next().and_then(|one| one.file_name().into_string().ok());
        let container = first.filter(|_| inside.next().is_none());
        let pod = Pod { namespace: namespace.to_owned(), name: name.to_owned(), container };
        Some((uid.to_owned(), pod))
    };
    folders.filter_map(pod).collect()
}
