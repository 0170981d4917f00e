//! The state of an agent in a file, which is written before anything is done, and as a whole or not at all.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use heapattach_agent::State;
use heapattach_files::{
    folder, input,
    output_file::{Readers, begin_anew},
};
use nix::fcntl::{Flock, FlockArg, OFlag};

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
        folder::make(folder, 0o700)
            .map_err(|error| format!("{name} cannot be made: {error} (targets: untouched)"))?;
        trust(folder)?;
        let lock = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
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
            let mut file = begin_anew(&new, Readers::Owner)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        };
        put().map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.written = text;
        Ok(())
    }
}

/// A user who can write to the folder says which processes are left alone, and has files of ours written where
/// a link of theirs leads.
fn trust(folder: &Path) -> Result<(), String> {
    folder::is_ours(folder).map_err(|error| {
        let name = folder.display();
        format!("{name}: {error}; or name another `state` in the file (targets: untouched)")
    })
}

/// What was written, if anything was.
pub fn read(folder: &Path) -> Result<State, String> {
    if folder.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(State::default());
    }
    trust(folder)?;
    let path = folder.join("state.json");
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(State::default()),
        _ => {}
    }
    let text = input::text(&path, LONGEST)?;
    State::parse(&text).map_err(|error| format!("{}: {error} (targets: untouched)", path.display()))
}
