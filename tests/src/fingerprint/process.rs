//! What the kernel keeps for each thread and for the process: signals, identity, filters.

use std::{collections::BTreeMap, fs, io, path::Path};

/// Lines of a `status` file, by name.
pub type Fields = BTreeMap<String, String>;

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Its signal mask, its pending signals, its tracer.
    pub fields: Fields,
}

const OF_THREAD: [&str; 5] = ["SigBlk", "SigPnd", "TracerPid", "Seccomp", "Seccomp_filters"];

const OF_PROCESS: [&str; 15] = [
    "TracerPid",
    "SigCgt",
    "SigIgn",
    "ShdPnd",
    "Seccomp",
    "Seccomp_filters",
    "NoNewPrivs",
    "Uid",
    "Gid",
    "Groups",
    "Umask",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
];

/// Reads every thread; one that ends meanwhile is left out.
pub(super) fn threads(pid: i32) -> io::Result<BTreeMap<i32, Thread>> {
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = entry?.path();
        let id = task.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        let (Some(id), Ok(name)) = (id, fs::read_to_string(task.join("comm"))) else { continue };
        let Ok(fields) = read(&task, &OF_THREAD) else { continue };
        threads.insert(id, Thread { name: name.trim_end().to_owned(), fields });
    }
    Ok(threads)
}

/// Reads what belongs to the process as a whole.
pub(super) fn fields(task: &Path) -> io::Result<Fields> {
    let mut fields = read(task, &OF_PROCESS)?;
    if let Ok(personality) = fs::read_to_string(task.join("personality")) {
        fields.insert("personality".to_owned(), personality.trim().to_owned());
    }
    Ok(fields)
}

fn read(task: &Path, wanted: &[&str]) -> io::Result<Fields> {
    let text = fs::read_to_string(task.join("status"))?;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let lines = lines.filter(|(name, _)| wanted.contains(name));
    Ok(lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
}
