//! A disk that hangs while it is read, as one does whose network is gone: a process that wants bytes of
//! it that are not in memory waits for ever.
//!
//! It is a file system in user space (FUSE), served by a thread of the test over `/dev/fuse`. It is
//! mounted in a mount namespace that belongs to the thread of the test and to what that starts: with
//! them the mount is gone, however the test ends. When the server ends, a process that waits for it gets an
//! error.

mod files;
mod wire;

use std::{
    fs::{self, OpenOptions},
    io::{Read, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::OpenOptionsExt,
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    poll::{PollFd, PollFlags, poll},
    sched::{CloneFlags, unshare},
};

use files::Files;
use wire::{Head, Request};

/// So long the server waits for a request before it looks whether it is to end, in milliseconds.
const LOOK: u16 = 20;
/// A request is not longer.
const REQUEST: usize = 1 << 18;

/// The disk.
#[derive(Debug)]
pub struct HangingDisk {
    folder: PathBuf,
    served: Arc<Served>,
    server: Option<JoinHandle<()>>,
}

/// What the server and the test both know.
#[derive(Debug)]
struct Served {
    device: fs::File,
    files: Mutex<Files>,
    /// Requests that get no answer as long as it hangs.
    held: Mutex<Vec<Vec<u8>>>,
    hangs: AtomicBool,
    is_over: AtomicBool,
}

impl HangingDisk {
    /// An empty one. From here on this thread has a mount namespace of its own.
    ///
    /// # Errors
    /// Why there can be none here.
    pub fn new() -> Result<Self, String> {
        let told = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK)
            .open("/dev/fuse")
            .map_err(|error| told("/dev/fuse", &error))?;
        unshare(CloneFlags::CLONE_NEWNS).map_err(|errno| told("unshare", &errno))?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
            .map_err(|errno| told("mount --make-rprivate /", &errno))?;
        // To remove a folder ends the mounts on it in other namespaces, too: each has its own.
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let (pid, serial) = (std::process::id(), SERIAL.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(format!("heapattach-hang-{pid}-{serial}"));
        fs::create_dir_all(&folder).map_err(|error| told("a folder", &error))?;
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        mount(
            Some("hanging"),
            &folder,
            Some("fuse"),
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
            Some(options.as_str()),
        )
        .map_err(|errno| {
            let _ = fs::remove_dir(&folder);
            told("mount -t fuse", &errno)
        })?;
        let served = Arc::new(Served {
            device,
            files: Mutex::default(),
            held: Mutex::default(),
            hangs: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let serving = Arc::clone(&served);
        let server = thread::Builder::new().name("disk".to_owned()).spawn(move || serving.serve());
        let server = server.map_err(|error| told("a thread", &error))?;
        Ok(Self { folder, served, server: Some(server) })
    }

    /// Where a file of this name is, or will be.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Puts a copy of a program there; where it is.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn put(&self, name: &str, program: &Path) -> PathBuf {
        let bytes = fs::read(program).expect("a program of ours");
        lock(&self.served.files).add(name, 0o755, bytes);
        self.path(name)
    }

    /// What is in a file, without any disk.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        lock(&self.served.files).bytes(name).map(<[u8]>::to_vec)
    }

    /// Drops what is in memory of a file: a process that needs it reads it again.
    ///
    /// # Panics
    /// If there is no such file, or the kernel does not take the notice.
    pub fn forget(&self, name: &str) {
        self.forget_start(name, 0);
    }

    /// The same, of its first so many bytes only, if that is not 0.
    ///
    /// # Panics
    /// As [`HangingDisk::forget`].
    pub fn forget_start(&self, name: &str, length: u64) {
        let node = lock(&self.served.files).number(name).expect("a file of ours");
        (&self.served.device).write_all(&wire::invalid(node, length)).expect("a notice");
    }

    /// From now on no read gets a byte.
    pub fn hang(&self) {
        self.served.hangs.store(true, Relaxed);
    }

    /// Reads that wait are answered, and so are all others.
    pub fn thaw(&self) {
        self.served.hangs.store(false, Relaxed);
        let held = std::mem::take(&mut *lock(&self.served.held));
        held.iter().for_each(|request| self.served.answer(request));
    }

    /// How many wait for bytes.
    pub fn waiting(&self) -> usize {
        lock(&self.served.held).len()
    }
}

impl Drop for HangingDisk {
    fn drop(&mut self) {
        self.thaw();
        let _ = umount2(&self.folder, MntFlags::MNT_DETACH);
        self.served.is_over.store(true, Relaxed);
        let _ = self.server.take().map(JoinHandle::join);
        let _ = fs::remove_dir(&self.folder);
    }
}

impl Served {
    fn serve(&self) {
        let mut buffer = vec![0; REQUEST];
        while !self.is_over.load(Relaxed) {
            let mut fds = [PollFd::new(self.device.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut fds, LOOK);
            // A request that was given up meanwhile is no longer there, and one may be interrupted.
            let Ok(length) = (&self.device).read(&mut buffer) else { continue };
            let request = &buffer[..length];
            let is_read = Head::of(request).is_some_and(|(head, _)| head.request == Request::Read);
            if is_read && self.hangs.load(Relaxed) {
                lock(&self.held).push(request.to_vec());
            } else {
                self.answer(request);
            }
        }
    }

    fn answer(&self, request: &[u8]) {
        let Some((head, body)) = Head::of(request) else { return };
        if head.request == Request::Unanswered {
            return;
        }
        let content = lock(&self.files).answer(head, body);
        // The process that asked may be gone.
        let _ = (&self.device).write(&wire::answer(head.unique, content));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
