//! Opening a regular file that another process has named.
//!
//! The process that names a file can exchange it at any time, and to open some files does things: a FIFO
//! waits, a watchdog reboots the machine, a tape rewinds. So a file is first taken hold of by O_PATH,
//! which opens nothing, then looked at, then opened through what is held: it is the very same.

use std::{
    fs::File,
    os::fd::{AsRawFd, OwnedFd},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::{
        stat::Mode,
        statfs::{DEBUGFS_MAGIC, PROC_SUPER_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, fstatfs},
    },
};

use super::errno_of;

/// Opens for reading what `held`, a descriptor made by O_PATH, stands for.
///
/// # Errors
/// `EINVAL` if it is no regular file, or one that is only a window into the kernel; `EWOULDBLOCK`
/// under a write lease, whose holder could keep us waiting for 45 s.
pub fn open_held(held: OwnedFd) -> Result<File, Errno> {
    let held = File::from(held);
    if !held.metadata().map_err(errno_of)?.is_file() || !is_stored(&held)? {
        return Err(Errno::EINVAL);
    }
    let exact = format!("/proc/self/fd/{}", held.as_raw_fd());
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    open(exact.as_str(), flags, Mode::empty()).map(File::from)
}

/// Whether a file is more than a window into the kernel: to read `/proc/kmsg` takes messages away
/// from others.
fn is_stored(file: &File) -> Result<bool, Errno> {
    let kind = fstatfs(file)?.filesystem_type();
    Ok(![PROC_SUPER_MAGIC, SYSFS_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC].contains(&kind))
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        os::unix::fs::{MetadataExt, symlink},
        path::PathBuf,
        process::{Command, Stdio},
    };

    use nix::unistd::mkfifo;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("heapattach-regular-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            std::fs::create_dir(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn held(path: &std::path::Path) -> OwnedFd {
        open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).unwrap()
    }

    #[test]
    fn what_is_no_stored_file_is_not_opened() {
        let folder = Folder::new("kinds");
        let fifo = folder.0.join("fifo");
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        for path in ["/dev/null", "/dev", "/proc/version", fifo.to_str().unwrap()] {
            let answer = open_held(held(path.as_ref()));
            assert_eq!(answer.unwrap_err(), Errno::EINVAL, "{path}");
        }
    }

    /// Another process has a lease on the file: to wait for it takes 45 s.
    #[test]
    fn a_file_under_a_write_lease_is_not_waited_for() {
        let folder = Folder::new("leased");
        let path = folder.0.join("file");
        std::fs::write(&path, "leased").unwrap();
        let script = "import fcntl, os, signal, sys\n\
            signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
            file = os.open(sys.argv[1], os.O_RDWR)\n\
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
            print('ready', flush=True)\n\
            sys.stdin.read()\n";
        let mut holder = Command::new("python3");
        let holder = holder.args(["-c", script]).arg(&path);
        let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        holder.stdout.take().unwrap().read_exact(&mut ready).unwrap();
        let answer = open_held(held(&path));
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
        assert_eq!(answer.unwrap_err(), Errno::EWOULDBLOCK);
    }

    #[test]
    fn a_file_is_the_one_held_whatever_its_name_leads_to_by_now() {
        let folder = Folder::new("exchanged");
        let path = folder.0.join("file");
        std::fs::write(&path, "right").unwrap();
        let taken = held(&path);
        let inode = std::fs::metadata(&path).unwrap().ino();
        std::fs::rename(&path, folder.0.join("other")).unwrap();
        symlink("/dev/null", &path).unwrap();
        let mut file = open_held(taken).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!((&*text, file.metadata().unwrap().ino()), ("right", inode));
    }
}
