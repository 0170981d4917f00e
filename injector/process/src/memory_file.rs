//! A file in memory that the target was made to create, taken over without believing the target.
//!
//! All its threads are stopped, but a process that shares its table of descriptors (clone with
//! CLONE_FILES) is not: between the injected memfd_create and our pidfd_getfd the number can come to
//! mean any file that such a process could get hold of. So the rule is:
//!
//! - the open file itself is taken, never opened again by a path: what its opener may not do with
//!   it, we cannot do either, with whatever rights we run;
//! - it is written, sized and mapped only if it is what memfd_create makes: see `judge`.

use std::{fs::File, os::fd::AsFd, os::fd::OwnedFd, os::unix::fs::MetadataExt};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, SealFlag, fcntl},
    sys::statfs::{TMPFS_MAGIC, fstatfs},
    unistd::ftruncate,
};

use crate::{
    fault,
    proc::{Process, errno_of, pidfd},
};

/// Set by the kernel on a file that may not be executed, on ours as well (MFD_NOEXEC_SEAL).
const F_SEAL_EXEC: i32 = 0x20;

/// Why a file was not taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// The kernel, or a filter that heapattach itself runs under, has no pidfd_getfd for us.
    #[error("pidfd_getfd is not allowed or not there ({0})")]
    Unavailable(Errno),
    /// It is something else.
    #[error(
        "descriptor {number} of the target is not the file in memory that was just made there: {why}"
    )]
    Foreign {
        /// Its number in the target.
        number: i32,
        /// What it is instead.
        why: Foreign,
    },
    /// It cannot be given its size, or be sealed.
    #[error("{call} of the file in memory failed")]
    Refused {
        /// Which call.
        call: &'static str,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// It did not stay as it was made.
    #[error("the file in memory was changed while it was taken over: {0}")]
    Changed(&'static str),
}

/// What tells a file from a new one in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// The number means nothing any more.
    #[error("it is closed ({0})")]
    Closed(Errno),
    /// A descriptor that only names a file, or one for reading alone.
    #[error("it cannot be both read and written")]
    NotWritable,
    /// A directory, device, pipe, socket.
    #[error("it is not a regular file")]
    NotRegular,
    /// A file on a disk, or in huge pages, which can run out.
    #[error("it is not in ordinary memory")]
    NotInMemory,
    /// A file that others can open.
    #[error("it has a name")]
    Named,
    /// Made by something else than memfd_create, or sealed by another process.
    #[error("it is sealed, or cannot be")]
    Sealed,
    /// Not a new one.
    #[error("it has {0} bytes")]
    Filled(u64),
}

/// A file in memory that nothing but a memfd_create of a moment ago can have made.
#[derive(Debug)]
pub struct MemoryFile(File);

impl MemoryFile {
    /// Takes over the descriptor `number` of `process`.
    ///
    /// # Errors
    /// [`TakeError::Unavailable`] where descriptors cannot be taken at all, [`TakeError::Foreign`]
    /// where this one is none of ours.
    pub fn take(process: &Process, number: i32) -> Result<Self, TakeError> {
        fault::point("pidfd_getfd").map_err(TakeError::Unavailable)?;
        let pidfd = process.pidfd().ok_or(TakeError::Unavailable(Errno::ENOSYS))?;
        let foreign = |why| TakeError::Foreign { number, why };
        let descriptor = pidfd::take(pidfd.as_fd(), number).map_err(|errno| match errno {
            Errno::EBADF => foreign(Foreign::Closed(errno)),
            errno => TakeError::Unavailable(errno),
        })?;
        Self::judged(descriptor).map_err(foreign)
    }

    /// The same of a descriptor of our own.
    ///
    /// # Errors
    /// What it is instead.
    pub fn judged(descriptor: OwnedFd) -> Result<Self, Foreign> {
        judge(&descriptor)?;
        Ok(Self(File::from(descriptor)))
    }

    /// The file, for writing.
    pub fn into_file(self) -> File {
        self.0
    }

    /// Gives it its size, and forbids every process to change that: a mapping of it would end us by
    /// SIGBUS if it shrank. Believed only after it was asked again.
    ///
    /// # Errors
    /// When the kernel refuses, or the target was faster.
    pub fn fix_size(self, bytes: u64) -> Result<File, TakeError> {
        let refused = |call| move |source| TakeError::Refused { call, source };
        fault::point("ftruncate").map_err(refused("ftruncate"))?;
        let length = i64::try_from(bytes).map_err(|_| refused("ftruncate")(Errno::EFBIG))?;
        ftruncate(&self.0, length).map_err(refused("ftruncate"))?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&self.0, FcntlArg::F_ADD_SEALS(seals)).map_err(refused("F_ADD_SEALS"))?;
        let now = fcntl(&self.0, FcntlArg::F_GET_SEALS).map_err(refused("F_GET_SEALS"))?;
        if now & !F_SEAL_EXEC != seals.bits() {
            return Err(TakeError::Changed("it has other seals than ours"));
        }
        let found = self.0.metadata().map_err(|e| refused("fstat")(errno_of(e)))?;
        // Sealed by now: it is this for ever.
        if found.len() != bytes {
            return Err(TakeError::Changed("it has another size than it was given"));
        }
        Ok(self.0)
    }
}

/// Whether this can only be a file that memfd_create has just made.
///
/// # Errors
/// What it is instead.
fn judge(descriptor: &OwnedFd) -> Result<(), Foreign> {
    let flags = fcntl(descriptor, FcntlArg::F_GETFL).map_err(Foreign::Closed)?;
    let flags = OFlag::from_bits_retain(flags);
    if flags.contains(OFlag::O_PATH) || flags & OFlag::O_ACCMODE != OFlag::O_RDWR {
        return Err(Foreign::NotWritable);
    }
    let found = File::from(descriptor.try_clone().map_err(|e| Foreign::Closed(errno_of(e)))?);
    let found = found.metadata().map_err(|e| Foreign::Closed(errno_of(e)))?;
    if !found.is_file() {
        return Err(Foreign::NotRegular);
    }
    let kind = fstatfs(descriptor).map_err(Foreign::Closed)?.filesystem_type();
    if kind != TMPFS_MAGIC {
        return Err(Foreign::NotInMemory);
    }
    if found.nlink() != 0 {
        return Err(Foreign::Named);
    }
    // Every other file in memory, one of /dev/shm or a shared mapping, is born sealed against seals.
    match fcntl(descriptor, FcntlArg::F_GET_SEALS) {
        Ok(seals) if seals & !F_SEAL_EXEC == 0 => {}
        _ => return Err(Foreign::Sealed),
    }
    if found.len() != 0 { Err(Foreign::Filled(found.len())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{OpenOptions, remove_file},
        io::Write,
        os::unix::fs::OpenOptionsExt,
        path::Path,
        sync::atomic::{AtomicBool, Ordering::SeqCst},
    };

    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;

    fn made(flags: MFdFlags) -> OwnedFd {
        memfd_create("test", flags | MFdFlags::MFD_CLOEXEC).unwrap()
    }

    fn right() -> OwnedFd {
        made(MFdFlags::MFD_ALLOW_SEALING)
    }

    fn open(path: &str, flags: OFlag) -> OwnedFd {
        nix::fcntl::open(path, flags | OFlag::O_CLOEXEC, nix::sys::stat::Mode::empty()).unwrap()
    }

    /// A file without a name.
    fn unlinked(folder: &str) -> OwnedFd {
        let path = Path::new(folder).join(format!("heapattach-judge-{}", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path).unwrap();
        remove_file(&path).unwrap();
        file.into()
    }

    fn again(descriptor: &OwnedFd, flags: OFlag) -> OwnedFd {
        use std::os::fd::AsRawFd;
        open(&format!("/proc/self/fd/{}", descriptor.as_raw_fd()), flags)
    }

    #[test]
    fn a_new_file_in_memory_is_taken() {
        assert_eq!(judge(&right()), Ok(()));
        // With the seal that newer kernels are asked for, too.
        const MFD_NOEXEC_SEAL: u32 = 8;
        let flags = MFdFlags::MFD_ALLOW_SEALING | MFdFlags::from_bits_retain(MFD_NOEXEC_SEAL);
        if let Ok(descriptor) = memfd_create("test", flags) {
            assert_eq!(judge(&descriptor), Ok(()));
        }
    }

    #[test]
    fn nothing_else_is_taken() {
        use Foreign::{Filled, NotInMemory, NotRegular, NotWritable, Sealed};
        let own = std::env::current_exe().unwrap();
        let own = own.to_str().unwrap();
        let memory = right();
        for (what, descriptor, why) in [
            ("a name of a file", open(own, OFlag::O_PATH), NotWritable),
            ("a file for reading", open(own, OFlag::O_RDONLY), NotWritable),
            ("a name of the right file", again(&memory, OFlag::O_PATH), NotWritable),
            ("the right file for reading", again(&memory, OFlag::O_RDONLY), NotWritable),
            ("the right file for writing", again(&memory, OFlag::O_WRONLY), NotWritable),
            ("a device", open("/dev/null", OFlag::O_RDWR), NotRegular),
            ("a file of the kernel's", open("/proc/self/comm", OFlag::O_RDWR), NotInMemory),
            ("a file without a name", unlinked("/dev/shm"), Sealed),
            ("one that cannot be sealed", made(MFdFlags::empty()), Sealed),
        ] {
            assert_eq!(judge(&descriptor), Err(why), "{what}");
        }
        let sealed = right();
        fcntl(&sealed, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE)).unwrap();
        assert_eq!(judge(&sealed), Err(Sealed));
        let filled = File::from(right());
        (&filled).write_all(b"four").unwrap();
        assert_eq!(judge(&filled.into()), Err(Filled(4)));
    }

    #[test]
    fn one_with_a_name_is_not_taken() {
        let path = format!("/dev/shm/heapattach-named-{}", std::process::id());
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path).unwrap();
        let answer = judge(&file.into());
        remove_file(&path).unwrap();
        assert_eq!(answer, Err(Foreign::Named));
    }

    #[test]
    fn its_size_is_fixed_for_ever() {
        let file = MemoryFile::judged(right()).unwrap().fix_size(8192).unwrap();
        assert_eq!(ftruncate(&file, 0), Err(Errno::EPERM));
        assert_eq!(ftruncate(&file, 1 << 20), Err(Errno::EPERM));
        let more = FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE);
        assert_eq!(fcntl(&file, more), Err(Errno::EPERM));
    }

    #[test]
    fn one_that_was_sealed_meanwhile_is_given_up() {
        for seal in [SealFlag::F_SEAL_SEAL, SealFlag::F_SEAL_GROW, SealFlag::F_SEAL_FUTURE_WRITE] {
            let descriptor = right();
            let other = descriptor.try_clone().unwrap();
            let taken = MemoryFile::judged(descriptor).unwrap();
            fcntl(&other, FcntlArg::F_ADD_SEALS(seal)).unwrap();
            assert!(taken.fix_size(8192).is_err(), "{seal:?}");
        }
    }

    /// Another holder of the file makes it smaller all the time: either it is given up, or it has its
    /// size for ever.
    #[test]
    fn a_race_for_its_size_is_won_or_given_up() {
        for _ in 0..500 {
            let descriptor = right();
            let other = File::from(descriptor.try_clone().unwrap());
            let taken = MemoryFile::judged(descriptor).unwrap();
            let is_over = AtomicBool::new(false);
            let shrink = || {
                while !is_over.load(SeqCst) && ftruncate(&other, 0).is_ok() {
                    std::hint::spin_loop();
                }
            };
            let fixed = std::thread::scope(|scope| {
                scope.spawn(shrink);
                let fixed = taken.fix_size(8192);
                is_over.store(true, SeqCst);
                fixed
            });
            match fixed {
                Ok(file) => assert_eq!(file.metadata().unwrap().len(), 8192),
                Err(TakeError::Changed(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}
