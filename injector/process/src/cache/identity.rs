//! Which file it is that something was made from, where it need not be read again to know that it is
//! still the same.
//!
//! A file is named by its place (device, inode), its size and its times. The owner of a file can change
//! what is in it and set one of its times, but not the other (`ctime`), which only goes on. That holds
//! where the kernel itself keeps the times: on a file system that another program serves (FUSE, the
//! network), or that shows files of others (overlay), they are whatever that program says, so such files have no
//! identity here. Nor have those that others may write to, and those changed so lately that the next change could
//! bear the same time. Numbers of devices are given anew at each start of the machine, which is named, too.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use nix::{
    sys::statfs::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC, FsType, fstatfs},
    unistd::geteuid,
};

/// Those whose times are the kernel's own.
const TRUSTED: [FsType; 4] = [EXT4_SUPER_MAGIC, XFS, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC];
/// `XFS_SUPER_MAGIC`, which nix does not name where the C library is musl.
const XFS: FsType = FsType(0x5846_5342);
/// Clocks of files are coarser than that of the processor, but not so coarse.
const SETTLED: Duration = Duration::from_secs(2);

/// This start of the machine.
static BOOT: LazyLock<Option<Vec<u8>>> =
    LazyLock::new(|| fs::read("/proc/sys/kernel/random/boot_id").ok().filter(|id| id.len() >= 32));

/// What no other content has that a file had since the machine was started; `None` where that is not certain.
pub fn identity(file: &File) -> Option<Vec<u8>> {
    let found = file.metadata().ok()?;
    let (root, own) = (0, geteuid().as_raw());
    let may_others_write = found.mode() & 0o022 != 0 || ![root, own].contains(&found.uid());
    let is_trusted = || fstatfs(file).is_ok_and(|of| TRUSTED.contains(&of.filesystem_type()));
    if !found.is_file() || may_others_write || !is_trusted() {
        return None;
    }
    let changed =
        Duration::new(u64::try_from(found.ctime()).ok()?, u32::try_from(found.ctime_nsec()).ok()?);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    now.checked_sub(changed).filter(|&age| age > SETTLED)?;
    let times = [found.ctime(), found.ctime_nsec(), found.mtime(), found.mtime_nsec()];
    let numbers = [found.dev(), found.ino(), found.size()];
    let words = numbers.into_iter().chain(times.map(i64::cast_unsigned));
    Some(words.flat_map(u64::to_le_bytes).chain(BOOT.as_ref()?.iter().copied()).collect())
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt, path::PathBuf};

    use super::*;

    /// This very program, which was not changed just now.
    fn own() -> PathBuf {
        std::env::current_exe().unwrap()
    }

    fn of(path: &PathBuf) -> Option<Vec<u8>> {
        identity(&File::open(path).unwrap())
    }

    #[test]
    fn a_file_keeps_its_identity_and_shares_it_with_no_other() {
        let Some(first) = of(&own()) else {
            println!("SKIPPED: {} is on no file system that is trusted", own().display());
            return;
        };
        assert_eq!(of(&own()), Some(first.clone()));
        assert_ne!(of(&PathBuf::from("/bin/sh")), Some(first));
    }

    #[test]
    fn what_others_say_or_change_has_none() {
        let path = std::env::temp_dir().join(format!("heapattach-identity-{}", std::process::id()));
        fs::write(&path, "new").unwrap();
        assert_eq!(of(&path), None, "it may change once more within the same tick");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(of(&path), None, "every user may write to it");
        fs::remove_file(&path).unwrap();
        for path in ["/proc/self/status", "/dev/null", "/tmp"] {
            assert_eq!(of(&path.into()), None, "{path}");
        }
    }
}
