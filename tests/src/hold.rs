//! A command held up at a place of its own, until the test has done what it wants to do just then.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::{
    command::{Heapattach, Running},
    deadline::{PATIENCE, poll},
};

/// A folder to run commands in, and a file for each place where one is held for as long as there is
/// that file.
#[derive(Debug)]
pub struct Hold {
    folder: PathBuf,
    places: Vec<&'static str>,
}

impl Hold {
    /// Holds a command at each of `places`.
    ///
    /// # Panics
    /// If there is no room for temporary files.
    pub fn at(places: &[&'static str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("heapattach-held-{}-{number}", std::process::id());
        let hold = Self { folder: std::env::temp_dir().join(name), places: places.to_vec() };
        fs::create_dir_all(hold.folder()).expect("a temporary folder");
        for place in places {
            File::create(hold.file(place)).expect("a temporary file");
        }
        hold
    }

    /// The folder in which commands run.
    pub fn folder(&self) -> PathBuf {
        self.folder.join("of commands")
    }

    fn file(&self, place: &str) -> PathBuf {
        self.folder.join(place)
    }

    /// Starts `command`, which is to be held.
    pub fn start(&self, command: Heapattach) -> Running {
        let plan = |place: &&str| format!("{place}={}", self.file(place).display());
        let plans: Vec<String> = self.places.iter().map(plan).collect();
        command.env("HEAPATTACH_HOLD", &plans.join(",")).folder(self.folder()).start()
    }

    /// Waits until it is held at `place`.
    ///
    /// # Panics
    /// If it ends before, or does not come there.
    pub fn wait(&self, command: &mut Running, place: &str) {
        let said = format!("held at {place}");
        let held = poll(PATIENCE, || {
            let is_held = command.talk().contains(&said);
            (is_held || !command.is_running()).then_some(is_held)
        });
        assert_eq!(held, Some(true), "not held at {place}: {}", command.talk());
    }

    /// Lets it go on from `place`.
    pub fn let_go(&self, place: &str) {
        let _ = fs::remove_file(self.file(place));
    }

    /// Whether it is held at `place`, should it come there.
    pub fn holds(&self, place: &str) -> bool {
        Path::exists(&self.file(place))
    }

    /// What commands have left in their folder.
    ///
    /// # Panics
    /// If it is not there any more.
    pub fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder()).expect("our folder").filter_map(Result::ok);
        entries.map(|entry| entry.path()).collect()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.places.iter().for_each(|place| self.let_go(place));
        let _ = fs::remove_dir_all(&self.folder);
    }
}
