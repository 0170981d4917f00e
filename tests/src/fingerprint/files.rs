//! Open files.

use std::{collections::BTreeMap, fs, io, path::Path};

/// One descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// What it leads to.
    pub target: String,
    /// The octal open flags, with close-on-exec.
    pub flags: String,
}

/// Reads all descriptors of a task.
pub(super) fn read(task: &Path) -> io::Result<BTreeMap<i32, Descriptor>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(task.join("fd"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Ok(number) = name.parse() else { continue };
        // A descriptor closed since it was listed is not there.
        let Ok(target) = fs::read_link(task.join("fd").join(&name)) else { continue };
        let about = fs::read_to_string(task.join("fdinfo").join(&name)).unwrap_or_default();
        let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.unwrap_or_default().trim().to_owned();
        files.insert(number, Descriptor { target: target.to_string_lossy().into_owned(), flags });
    }
    Ok(files)
}
