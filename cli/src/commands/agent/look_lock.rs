//! Whether a look is at work: it has a lock for its standard input. The kernel opens that when the last process of the
//! look is gone, even if its agent was killed before: an agent that comes later waits for it.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use nix::fcntl::{Flock, FlockArg, OFlag};

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes it.
///
/// # Errors
/// If there is a look.
pub fn take(state: &Path) -> io::Result<Flock<File>> {
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(state.join("look.lock"))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno.into())
}

/// Waits until there is no look, for so long at most; whether there is none.
pub fn wait(state: &Path, most: Duration) -> bool {
    let began = Instant::now();
    loop {
        if take(state).is_ok() {
            return true;
        }
        if began.elapsed() > most {
            return false;
        }
        sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::fd::AsRawFd,
        process::{Command, Stdio},
    };

    use super::*;
    use heapattach_test_folder::Folder;

    #[test]
    fn it_is_taken_until_the_look_has_ended_whatever_becomes_of_who_began_it() {
        let folder = Folder::new("look-lock");
        let lock = take(&folder.0).unwrap();
        let stdin = Stdio::from(lock.try_clone().unwrap());
        let mut look = Command::new("sleep").arg("1000").stdin(stdin).spawn().unwrap();
        // As a process that is killed has it: closed, and not opened.
        nix::unistd::close(lock.as_raw_fd()).unwrap();
        std::mem::forget(lock);
        assert!(!wait(&folder.0, Duration::from_millis(10)));
        look.kill().unwrap();
        look.wait().unwrap();
        assert!(wait(&folder.0, Duration::from_secs(60)));
    }
}
