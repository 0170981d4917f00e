//! The folder of the cache, held by a descriptor: what is checked is what is used.

use std::{
    collections::hash_map::RandomState,
    env,
    fs::File,
    hash::BuildHasher,
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, SystemTime},
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag, open, openat, renameat},
    sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat},
    unistd::{UnlinkatFlags, geteuid, unlinkat},
};

use super::Key;

/// Its name below the folder of all caches.
const NAME: &str = "heapattach";
/// Says where the cache is, or that there is none (`off`).
const VARIABLE: &str = "HEAPATTACH_CACHE";
/// All files together; beyond that the oldest go, until a quarter is free.
const MOST_BYTES: u64 = 256 << 20;
/// No honest folder has more files.
const MOST_FILES: usize = 1 << 13;
/// No file is larger: that of 500 MiB of code is not.
const FILE_LIMIT: u64 = 128 << 20;
/// A file that is used is young again, but is not written to each time.
const FRESH: Duration = Duration::from_secs(3600);

/// The cache.
#[derive(Debug)]
pub struct Cache {
    folder: OwnedFd,
    most: u64,
    /// Whether something was kept since it was last tidied up.
    has_grown: AtomicBool,
}

impl Cache {
    /// Where the environment says, if there may be one.
    pub fn of_environment() -> Option<Self> {
        match env::var_os(VARIABLE) {
            Some(value) if value == "off" => None,
            Some(value) => Self::within(&PathBuf::from(value), &[]),
            None => match env::var_os("XDG_CACHE_HOME").map(PathBuf::from) {
                Some(base) if base.is_absolute() => Self::within(&base, &[NAME]),
                _ => Self::within(&PathBuf::from(env::var_os("HOME")?), &[".cache", NAME]),
            },
        }
    }

    /// The folder that these names lead to from `base`, each made if it is not there. All of them
    /// must be ours: in a folder of another user it is him who says what is in it.
    pub fn within(base: &Path, names: &[&str]) -> Option<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let mut folder = open(base, flags, Mode::empty()).ok()?;
        is_ours(&fstat(&folder).ok()?, Mode::S_IWGRP | Mode::S_IWOTH)?;
        for name in names {
            let enter = || openat(&folder, *name, flags, Mode::empty());
            let found = enter().or_else(|errno| match errno {
                Errno::ENOENT => {
                    mkdirat(&folder, *name, Mode::S_IRWXU)?;
                    enter()
                }
                other => Err(other),
            });
            let found = found.ok()?;
            is_ours(&fstat(&found).ok()?, Mode::S_IWGRP | Mode::S_IWOTH)?;
            folder = found;
        }
        // The last one is closed to all other users.
        is_ours(&fstat(&folder).ok()?, Mode::S_IRWXG | Mode::S_IRWXO)?;
        Some(Self { folder, most: MOST_BYTES, has_grown: AtomicBool::new(false) })
    }

    /// What was kept under this key; any bytes at all.
    pub fn read(&self, key: &Key) -> Option<Vec<u8>> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let name = key.to_string();
        let file = openat(&self.folder, name.as_str(), flags, Mode::empty()).ok()?;
        let status = fstat(&file).ok()?;
        is_ours(&status, Mode::S_IWGRP | Mode::S_IWOTH)?;
        let size = u64::try_from(status.st_size).ok()?;
        if SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG
            || size > FILE_LIMIT
        {
            return None;
        }
        let mut file = File::from(file);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(size).ok()?).ok()?;
        Read::by_ref(&mut file).take(size).read_to_end(&mut bytes).ok()?;
        refresh(&file);
        Some(bytes)
    }

    /// Keeps these bytes under this key, if that can be.
    pub fn write(&self, key: &Key, bytes: &[u8]) {
        if bytes.len() as u64 > FILE_LIMIT.min(self.most / 2) {
            return;
        }
        let name = format!("new-{:016x}", RandomState::new().hash_one(key.bytes()));
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let Ok(file) = openat(&self.folder, name.as_str(), flags | OFlag::O_CLOEXEC, mode) else {
            return;
        };
        self.has_grown.store(true, Relaxed);
        let written = File::from(file).write_all(bytes).is_ok();
        let kept = written
            && renameat(&self.folder, name.as_str(), &self.folder, key.to_string().as_str())
                .is_ok();
        if !kept {
            let _ = unlinkat(&self.folder, name.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }

    /// Lets the oldest files go if there is more than there may be.
    pub fn tidy(&self) {
        if !self.has_grown.swap(false, Relaxed) {
            return;
        }
        let Some(mut files) = self.files() else { return };
        let mut sum = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.size));
        let mut count = files.len();
        if sum <= self.most && count < MOST_FILES {
            return;
        }
        files.sort_by_key(|file| file.written);
        for file in files {
            if sum <= self.most / 4 * 3 && count <= MOST_FILES / 4 * 3 {
                return;
            }
            let _ = unlinkat(&self.folder, file.name.as_c_str(), UnlinkatFlags::NoRemoveDir);
            sum = sum.saturating_sub(file.size);
            count -= 1;
        }
    }

    fn files(&self) -> Option<Vec<Kept>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut folder = Dir::openat(&self.folder, ".", flags, Mode::empty()).ok()?;
        let names = folder.iter().filter_map(Result::ok).map(|entry| entry.file_name().to_owned());
        let kept = |name: std::ffi::CString| {
            let status =
                fstatat(self.folder.as_fd(), name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
            let is_file = status.st_mode & SFlag::S_IFMT.bits() != SFlag::S_IFDIR.bits();
            let (size, written) = (u64::try_from(status.st_size).ok()?, status.st_mtime);
            is_file.then_some(Kept { name, size, written })
        };
        Some(names.take(MOST_FILES * 2).filter_map(kept).collect())
    }
}

/// A file of the cache.
struct Kept {
    name: std::ffi::CString,
    size: u64,
    written: i64,
}

/// Whether it belongs to whom we work as, and none of these rights are given.
fn is_ours(status: &FileStat, denied: Mode) -> Option<()> {
    let is_open = Mode::from_bits_truncate(status.st_mode).intersects(denied);
    (status.st_uid == geteuid().as_raw() && !is_open).then_some(())
}

/// So that what is used stays.
fn refresh(file: &File) {
    let now = SystemTime::now();
    let age = file.metadata().and_then(|found| found.modified()).ok();
    let age = age.and_then(|then| now.duration_since(then).ok());
    if age.is_some_and(|age| age > FRESH) {
        let _ = file.set_modified(now);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
        sync::atomic::AtomicU32,
    };

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static SERIAL: AtomicU32 = AtomicU32::new(0);
            let serial = SERIAL.fetch_add(1, Relaxed);
            let path = env::temp_dir().join(format!("cache-{}-{serial}", std::process::id()));
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            Self(path)
        }

        fn cache(&self) -> Option<Cache> {
            Cache::within(&self.0, &[".cache", NAME])
        }

        fn path(&self) -> PathBuf {
            self.0.join(".cache").join(NAME)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn key(number: u64) -> Key {
        Key::of(&[&number.to_le_bytes()])
    }

    #[test]
    fn what_was_kept_is_found_by_its_key_alone() {
        let folder = Folder::new();
        let cache = folder.cache().unwrap();
        cache.write(&key(1), b"one");
        cache.write(&key(1), b"another");
        assert_eq!(folder.cache().unwrap().read(&key(1)).as_deref(), Some(&b"another"[..]));
        assert_eq!(cache.read(&key(2)), None);
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(folder.path()), 0o700);
        assert_eq!(mode(folder.path().join(key(1).to_string())), 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn folders_that_others_may_write_to_are_no_cache() {
        let folder = Folder::new();
        folder.cache().unwrap().write(&key(1), b"one");
        for (path, mode) in [
            (folder.path(), 0o750),
            (folder.path(), 0o705),
            (folder.0.join(".cache"), 0o770),
            (folder.0.clone(), 0o722),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(folder.cache().is_none(), "{} with {mode:o}", path.display());
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        }
        assert!(folder.cache().is_some());
    }

    #[test]
    fn a_folder_of_another_user_is_no_cache() {
        let folder = Folder::new();
        drop(folder.cache());
        let other = nix::unistd::Uid::from_raw(geteuid().as_raw().wrapping_add(12_345));
        if nix::unistd::chown(&folder.path(), Some(other), None).is_err() {
            println!("SKIPPED: only root can give a folder away");
            return;
        }
        assert!(folder.cache().is_none());
        fs::remove_dir(folder.path()).unwrap();
        nix::unistd::chown(&folder.0.join(".cache"), Some(other), None).unwrap();
        assert!(folder.cache().is_none());
        assert!(!folder.path().exists(), "nothing is made in it");
    }

    #[test]
    fn links_lead_nowhere() {
        let (folder, elsewhere) = (Folder::new(), Folder::new());
        symlink(&elsewhere.0, folder.0.join(".cache")).unwrap();
        assert!(folder.cache().is_none());
        fs::remove_file(folder.0.join(".cache")).unwrap();
        let cache = folder.cache().unwrap();
        fs::write(elsewhere.0.join("secret"), b"secret").unwrap();
        symlink(elsewhere.0.join("secret"), folder.path().join(key(1).to_string())).unwrap();
        assert_eq!(cache.read(&key(1)), None);
        cache.write(&key(1), b"mine");
        assert_eq!(cache.read(&key(1)).as_deref(), Some(&b"mine"[..]));
        assert_eq!(fs::read(elsewhere.0.join("secret")).unwrap(), b"secret");
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = Folder::new();
        let cache = folder.cache().unwrap();
        let path = folder.path().join(key(1).to_string());
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        assert_eq!(cache.read(&key(1)), None);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(cache.read(&key(1)), None);
        cache.write(&key(1), b"cannot be");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn the_oldest_go_when_there_is_too_much() {
        let folder = Folder::new();
        let cache = Cache { most: 4000, ..folder.cache().unwrap() };
        for number in 0..10 {
            cache.write(&key(number), &[7; 500]);
            let file = File::open(folder.path().join(key(number).to_string())).unwrap();
            let age = Duration::from_secs(100_000 - number * 100);
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        // What is used is young again.
        assert!(cache.read(&key(0)).is_some());
        cache.tidy();
        let left: Vec<u64> = (0..10).filter(|&n| cache.read(&key(n)).is_some()).collect();
        assert_eq!(left, [0, 5, 6, 7, 8, 9]);
        cache.write(&key(20), &[7; 2001]);
        assert_eq!(cache.read(&key(20)), None, "one that would be half of all is not kept");
    }
}
