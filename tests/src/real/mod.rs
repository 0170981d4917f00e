//! Programs that others wrote, each with a load that notices a lost or wrong answer.
//!
//! A [`Server`] is a program started in a directory of its own, gone when the value is dropped. A
//! [`Load`] asks it questions from threads and checks every answer. Nothing here knows heapattach:
//! the same loads run without it.

pub mod conversation;
pub mod echo;
pub mod load;
pub mod memcached;
pub mod nginx;
pub mod other_release;
pub mod php_fpm;
pub mod probe;
pub mod programs;
pub mod redis;
pub mod rocks;
pub mod server;
pub mod sqlite;

pub use load::{Load, Tally};
pub use probe::Probe;
pub use server::{Server, StartError, children};

use std::{path::PathBuf, process::Command};

/// Where the program of that name is, going by `PATH` and the usual places of servers.
#[must_use]
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

/// The Python interpreter itself: what `python3` names may be a script that chooses one.
#[must_use]
pub fn python() -> Option<PathBuf> {
    let print = "import sys; print(sys.executable)";
    let output = Command::new("python3").args(["-c", print]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_file().then_some(path)
}
