//! By what a session's owner is known to be there: a lock that only it can hold.
//!
//! The home in the target says who owns it, and the target can write there what it likes: process 1,
//! say. So the owner must say it, too: for as long as a session lasts, its process holds a record
//! lock (fcntl(2)) on a file of its own, `/proc/self/limits`, at the byte with the session's number.
//! Such a lock belongs to the process that asked for it: it is not inherited by fork, cannot be
//! passed on with the descriptor, and goes when the process ends, however it ends.
//!
//! Every user can read the file, so that every user can ask. Others can lock it too, but only as
//! we do, shared, and then the list of all locks tells who holds what.

use std::{
    fs::File,
    io::Read,
    os::unix::fs::MetadataExt,
    sync::{Mutex, PoisonError},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    sys::stat::{major, minor},
};

use crate::home::Home;
use heapattach_process::proc::{Process, errno_of};

/// Which of the files of a process it is. Nothing else opens it: to close any descriptor of it is to
/// give up all locks.
const FILE: &str = "limits";

/// More is not read of the list of all locks.
const LIST_LIMIT: u64 = 64 << 20;

/// The file, open for as long as this process lives.
static OWN: Mutex<Option<File>> = Mutex::new(None);

/// Held while a session lasts.
#[derive(Debug)]
pub struct SessionLock {
    session: u64,
}

impl SessionLock {
    /// Begins a session with a number that no other has.
    ///
    /// # Errors
    /// When the kernel gives no locks.
    pub fn take() -> Result<Self, Errno> {
        let session = new_number();
        set(libc::F_RDLCK, session)?;
        Ok(Self { session })
    }

    /// The number of the session.
    pub fn session(&self) -> u64 {
        self.session
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // It would go with this process.
        let _ = set(libc::F_UNLCK, self.session);
    }
}

/// The process that has a session by this home, if one has.
pub fn owner(home: &Home) -> Option<i32> {
    let header = home.header();
    let pid = i32::try_from(header.owner).ok().filter(|&pid| pid > 0)?;
    let process = Process::open(pid).ok()?;
    let is_it = process.start_time() == Some(header.owner_started) && process.is_alive();
    (is_it && holds(&process, header.session).unwrap_or(true)).then_some(pid)
}

/// Whether `process` holds the lock of a session.
fn holds(process: &Process, session: u64) -> Result<bool, Errno> {
    let file = process.open_for_locks(FILE)?;
    let mut found = request(libc::F_WRLCK, session);
    fcntl(&file, FcntlArg::F_GETLK(&mut found))?;
    if libc::c_int::from(found.l_type) == libc::F_UNLCK {
        return Ok(false);
    }
    if found.l_pid == process.pid() {
        return Ok(true);
    }
    // It is locked by another one, perhaps to hide the owner's.
    let mut list = Vec::new();
    let all = File::open("/proc/locks").map_err(errno_of)?;
    all.take(LIST_LIMIT).read_to_end(&mut list).map_err(errno_of)?;
    let of_file = file.metadata().map_err(errno_of)?;
    Ok(is_listed(&list, process.pid(), (of_file.dev(), of_file.ino()), found_at(session)))
}

/// Whether the list of all locks has that of a process, on one byte of a file.
fn is_listed(list: &[u8], pid: i32, (device, inode): (u64, u64), at: i64) -> bool {
    let file = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let wanted = ["POSIX", &pid.to_string(), &file, &at.to_string(), &at.to_string()];
    String::from_utf8_lossy(list).lines().any(|line| {
        let mut fields = line.split_ascii_whitespace();
        // Number, kind, how it binds, for what, who, of which file, from, to.
        let found = [1, 2, 0, 0, 0].map(|skip| fields.nth(skip).unwrap_or_default());
        found == wanted
    })
}

/// Files have no negative places.
fn found_at(session: u64) -> i64 {
    (session & i64::MAX.cast_unsigned()).cast_signed()
}

fn request(kind: i32, session: u64) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: found_at(session),
        l_len: 1,
        l_pid: 0,
    }
}

fn set(kind: i32, session: u64) -> Result<(), Errno> {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let file = match own.take() {
        Some(file) => file,
        None => Process::open(std::process::id().cast_signed())?.open_for_locks(FILE)?,
    };
    let done = fcntl(&file, FcntlArg::F_SETLK(&request(kind, session))).map(drop);
    *own = Some(file);
    done
}

/// A number that no other session has.
fn new_number() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // Not the last byte there is: a lock of it would be one of everything behind, too.
    RandomState::new().hash_one(std::process::id()) & (i64::MAX.cast_unsigned() >> 1)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::home::Header;
    use heapattach_process::addr::RemoteAddr;

    fn own() -> Process {
        Process::open(std::process::id().cast_signed()).unwrap()
    }

    fn home(owner: &Process, session: u64) -> Home {
        let header = Header {
            session,
            owner: u64::from(owner.pid().unsigned_abs()),
            owner_started: owner.start_time().unwrap(),
            ..Header::default()
        };
        Home::new(RemoteAddr::new(0x1000), header)
    }

    /// Asks in another process, as locks of one's own are no obstacles: `python3` is everywhere the
    /// tests are.
    fn asked_elsewhere(session: u64) -> String {
        let script = format!(
            "import fcntl, struct\n\
             lock = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, {}, 1, 0)\n\
             file = open('/proc/{}/limits')\n\
             found = struct.unpack('hhqqi4x', fcntl.fcntl(file, fcntl.F_GETLK, lock))\n\
             print('free' if found[0] == fcntl.F_UNLCK else found[4])\n",
            found_at(session),
            std::process::id()
        );
        let output = Command::new("python3").arg("-c").arg(script).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn a_session_is_seen_by_others_until_it_is_over() {
        let (first, second) = (SessionLock::take().unwrap(), SessionLock::take().unwrap());
        assert_ne!(first.session(), second.session());
        let (gone, own) = (first.session(), std::process::id().to_string());
        assert_eq!(asked_elsewhere(gone), own);
        drop(first);
        assert_eq!(asked_elsewhere(gone), "free");
        assert_eq!(asked_elsewhere(second.session()), own, "it went with the other");
    }

    #[test]
    fn a_process_that_holds_no_lock_owns_nothing() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let process = Process::open(i32::try_from(child.id()).unwrap()).unwrap();
        assert_eq!(owner(&home(&process, 1)), None);
        child.kill().unwrap();
        child.wait().unwrap();
        let first = Process::open(1).unwrap();
        assert_eq!(owner(&home(&first, 1)), None);
    }

    #[test]
    fn a_session_of_another_start_is_none() {
        let lock = SessionLock::take().unwrap();
        let mut header = *home(&own(), lock.session()).header();
        header.owner_started += 1;
        assert_eq!(owner(&Home::new(RemoteAddr::new(0x1000), header)), None);
    }

    #[test]
    fn the_list_of_locks_tells_whose_one_is() {
        let list = b"1: POSIX  ADVISORY  READ 77 00:16:1234 500 500\n\
                     2: FLOCK  ADVISORY  WRITE 78 00:16:1234 0 EOF\n\
                     3: -> POSIX ADVISORY WRITE 79 00:16:1234 500 500\n";
        let device = nix::sys::stat::makedev(0, 0x16);
        assert!(is_listed(list, 77, (device, 1234), 500));
        for (pid, inode, at) in [(78, 1234, 0), (77, 1235, 500), (77, 1234, 501), (79, 1234, 500)] {
            assert!(!is_listed(list, pid, (device, inode), at), "{pid} {inode} {at}");
        }
        assert!(!is_listed(b"nonsense\n\n", 77, (device, 1234), 500));
    }
}
