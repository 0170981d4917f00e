//! How often a file is opened, by whatever process: what was read once need not be read again.
//!
//! # Safety
//!
//! Two system calls that take no pointer but to a path that lives as long as the call, and a descriptor that
//! becomes a file's alone.
#![allow(unsafe_code)]

use std::{
    ffi::CString,
    fs::File,
    io::Read,
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    thread::JoinHandle,
};

use nix::libc;

/// Bytes of an event of a file that is watched itself: four words of 32 bits, the second one its kind.
const EVENT: usize = 16;

/// A watch on a file.
#[derive(Debug)]
pub struct Opens {
    events: File,
    watch: i32,
    counter: JoinHandle<usize>,
}

impl Opens {
    /// Begins to count.
    ///
    /// # Panics
    /// If the file cannot be watched.
    pub fn of(path: &Path) -> Self {
        let name = CString::new(path.as_os_str().as_bytes()).expect("a path of ours");
        // SAFETY: it takes no pointer.
        let descriptor = unsafe { libc::inotify_init1(libc::IN_CLOEXEC) };
        assert!(descriptor >= 0, "inotify: {}", std::io::Error::last_os_error());
        // SAFETY: the descriptor is new, and nothing else has it.
        let events = unsafe { File::from_raw_fd(descriptor) };
        // Of two events that are the same the kernel keeps one: between two opens is a close, which is told.
        let kinds = libc::IN_OPEN | libc::IN_CLOSE;
        // SAFETY: the name ends with a zero and lives longer than the call.
        let watch = unsafe { libc::inotify_add_watch(descriptor, name.as_ptr(), kinds) };
        assert!(watch >= 0, "{}: {}", path.display(), std::io::Error::last_os_error());
        let mut reader = events.try_clone().expect("a second descriptor");
        let counter = std::thread::spawn(move || count(&mut reader));
        Self { events, watch, counter }
    }

    /// Ends it; how often the file was opened.
    ///
    /// # Panics
    /// If the watch is not there.
    pub fn count(self) -> usize {
        // SAFETY: it takes no pointer; the watch is of this descriptor.
        let ended = unsafe { libc::inotify_rm_watch(self.events.as_raw_fd(), self.watch) };
        assert_eq!(ended, 0, "{}", std::io::Error::last_os_error());
        self.counter.join().expect("it panics at nothing")
    }
}

fn count(reader: &mut File) -> usize {
    let mut opens = 0;
    let mut buffer = [0; 64 * EVENT];
    loop {
        let read = reader.read(&mut buffer).unwrap_or(0);
        for event in buffer[..read].chunks_exact(EVENT) {
            let kind = u32::from_ne_bytes([event[4], event[5], event[6], event[7]]);
            opens += usize::from(kind & libc::IN_OPEN != 0);
            if kind & libc::IN_IGNORED != 0 {
                return opens;
            }
        }
        assert!(read > 0, "events end with the watch");
    }
}
