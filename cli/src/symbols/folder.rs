//! Files of one test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use heapattach_injector::proc::{Process, maps};
use nix::sys::stat::{major, minor};

use super::{Frame, Symbols};

/// Says loudly that a test could not run here; a failure where `CI` is set.
pub fn skip(why: &str, cure: &str) {
    let ci = std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false");
    assert!(!ci, "skipped, which CI does not allow: {why}; {cure}");
    eprintln!("SKIPPED: {why}; {cure}");
}

/// Where files seem to be mapped.
pub const BASE: u64 = 0x1000_0000;

/// A line of a memory map that maps a file there from its first byte.
pub fn map_of(path: &Path) -> String {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path).unwrap();
    let (inode, device, path) = (found.ino(), found.dev(), path.display());
    let (major, minor) = (major(device), minor(device));
    format!("10000000-20000000 r-xp 00000000 {major:x}:{minor:x} {inode} {path}\n")
}

/// A folder for one test, gone with it.
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty one.
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let folder = format!("heapattach-symbols-{name}-{}-{number}", std::process::id());
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
    pub fn run(&self, command: &str) {
        assert!(self.can_run(command), "{command}");
    }

    /// Runs a command in it; whether it succeeded.
    pub fn can_run(&self, command: &str) -> bool {
        let mut words = command.split(' ');
        let mut process = Command::new(words.next().unwrap());
        process.args(words).current_dir(&self.0).status().unwrap().success()
    }

    /// The calls at an address of `file` as if it were mapped at `BASE` from its first byte.
    pub fn at(&self, file: &str, offset: u64) -> Vec<Frame> {
        self.mapped(file).symbolize(BASE + offset)
    }

    /// The symbols of `file` as if it were mapped at `BASE` from its first byte.
    pub fn mapped(&self, file: &str) -> Symbols {
        let map = map_of(&self.0.join(file));
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let mut symbols = Symbols::new();
        symbols.note(&process, &maps::parse(map.as_bytes()).unwrap());
        symbols
    }

    /// Where `symbol` lies in `file`; its text must be mapped as the file has it.
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
