//! Files of one test, for the tests of every crate here; no part of the command.

pub mod browser;

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Says in the output that a test could not run here; a failure where `CI` is set.
///
/// # Panics
/// Where `CI` is set.
pub fn skip(why: &str, cure: &str) {
    let ci = std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false");
    assert!(!ci, "skipped, which CI does not allow: {why}; {cure}");
    eprintln!("SKIPPED: {why}; {cure}");
}

/// A folder for one test, gone with it.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty one.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let folder = format!("heapattach-test-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(folder);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Whether there is such a program.
    pub fn has(&self, program: &str) -> bool {
        let mut command = Command::new(program);
        command.arg("--version").current_dir(&self.0).output().is_ok()
    }

    /// Runs a command in it that must succeed.
    ///
    /// # Panics
    /// If it does not.
    pub fn run(&self, command: &str) {
        assert!(self.can_run(command), "{command}");
    }

    /// Runs a command in it; whether it succeeded.
    ///
    /// # Panics
    /// If there is no such program.
    pub fn can_run(&self, command: &str) -> bool {
        let mut words = command.split(' ');
        let mut process = Command::new(words.next().unwrap());
        process.args(words).current_dir(&self.0).status().unwrap().success()
    }

    /// Where `symbol` lies in `file`; its text must be mapped as the file has it.
    ///
    /// # Panics
    /// If there is none.
    pub fn offset_of(&self, file: &str, symbol: &str) -> u64 {
        let output = Command::new("nm").arg(self.0.join(file)).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.ends_with(&format!(" {symbol}"))).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
