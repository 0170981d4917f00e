//! The state of an agent in a file, which is written before anything is done, and as a whole or not at all.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use heapattach_agent::State;
use heapattach_files::input;
use nix::fcntl::{Flock, FlockArg};

/// No honest file is larger.
const LONGEST: u64 = 16 << 20;

/// The state, and that no other agent has it.
#[derive(Debug)]
pub struct Saved {
    /// What is in it.
    pub state: State,
    path: PathBuf,
    written: String,
    _lock: Flock<File>,
}

impl Saved {
    /// Reads it; the folder is made if it is not there.
    pub fn open(folder: &Path) -> Result<Self, String> {
        let name = folder.display();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| format!("{name} cannot be made: {error} (targets: untouched)"))?;
        let lock = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .open(folder.join("lock"));
        let lock = lock.map_err(|error| format!("{name}/lock: {error} (targets: untouched)"))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(|_| {
            format!("another agent works with {name}; need another `state` (targets: untouched)")
        })?;
        let (path, state) = (folder.join("state.json"), read(folder)?);
        Ok(Self { state, path, written: String::new(), _lock: lock })
    }

    /// Writes it, if it is not as it was written.
    pub fn write(&mut self) -> Result<(), String> {
        let text = self.state.text();
        if text == self.written {
            return Ok(());
        }
        let new = self.path.with_extension("new");
        let put = || -> std::io::Result<()> {
            let mut file = OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        };
        put().map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.written = text;
        Ok(())
    }
}

/// What was written, if anything was.
pub fn read(folder: &Path) -> Result<State, String> {
    let path = folder.join("state.json");
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(State::default()),
        _ => {}
    }
    let text = input::text(&path, LONGEST)?;
    State::parse(&text).map_err(|error| format!("{}: {error} (targets: untouched)", path.display()))
}
