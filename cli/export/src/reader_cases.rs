//! Exports of a large ledger in a folder of a test, the commands that read them, and what these
//! should say.

use heapattach_test_folder::skip;
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{Format, large_ledger, write};
use heapattach_ledger::{Ledger, Metric};

/// A folder, gone with it.
pub struct Shelf {
    /// The folder's path.
    pub folder: PathBuf,
    /// What all files in it are made of.
    pub ledger: Ledger,
}

/// Bytes by name of the function.
pub type Bytes = HashMap<String, u64>;

impl Shelf {
    /// An empty one. `name` is the test's.
    pub fn new(name: &str) -> Self {
        let folder = format!("heapattach-export-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let source = folder.join("source.cc");
        fs::write(&source, "first\nsecond\nthird\n").unwrap();
        let ledger = large_ledger::ledger(source.to_str().unwrap());
        Self { folder, ledger }
    }

    /// Writes the ledger, and tells where.
    pub fn put(&self, format: Format, metric: Metric) -> PathBuf {
        put(&self.ledger, format, metric, &self.folder.join("crowd"))
    }

    /// What a command prints; it must succeed. `None`: it is not here, which was said.
    pub fn ask(&self, program: &str, arguments: &str, cure: &str) -> Option<String> {
        let output = self.command(program, arguments).output().unwrap();
        // So says `timeout` of what it does not find.
        if output.status.code() == Some(127) {
            skip(&format!("no {program} here to read exports"), cure);
            return None;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments}: {said}");
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A command in the folder, that ends before long.
    pub fn command(&self, program: &str, arguments: &str) -> Command {
        let mut command = Command::new("timeout");
        command.arg("120").arg(program).args(arguments.split(' ').filter(|word| !word.is_empty()));
        command.current_dir(&self.folder).stdin(Stdio::null());
        command.env("PPROF_TMPDIR", &self.folder);
        command.env("PROFILER_CLI_SESSION_DIR", self.folder.join("sessions"));
        command
    }

    /// Whole bytes and blocks of a metric.
    pub fn total(&self, metric: Metric) -> (u64, u64) {
        total(&self.ledger, metric)
    }

    /// In use at the end, by the function that `which` of the calls of a stack is in.
    pub fn live_by_function(&self, which: impl Fn(u32) -> usize) -> Bytes {
        let mut bytes = Bytes::new();
        for row in &self.ledger.rows {
            let call = self.ledger.calls(row.stack).nth(which(row.stack)).unwrap();
            *bytes.entry(call.function.name.clone()).or_default() +=
                row.sum(Metric::Live).parts().0.bytes;
        }
        bytes
    }

    /// The call that caused the allocation.
    pub fn cause(&self, stack: u32) -> usize {
        self.ledger.stacks.get(stack).unwrap().cause as usize
    }
}

/// Writes any ledger.
pub fn put(ledger: &Ledger, format: Format, metric: Metric, name: &Path) -> PathBuf {
    let path = name.with_extension(format.extension());
    let mut file = Vec::new();
    write(ledger, format, metric, &mut file).unwrap();
    fs::write(&path, file).unwrap();
    path
}

/// See [`Shelf::total`].
pub fn total(ledger: &Ledger, metric: Metric) -> (u64, u64) {
    // Every block of it is known.
    assert!(!ledger.total.heap.is_sampled());
    let (exact, _) = ledger.total.sum(metric).parts();
    (exact.bytes, exact.count)
}

impl Drop for Shelf {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
