//! Files that are left for others to read: every file that an option names is written here.
//!
//! One that is there is overwritten. But a link that another user put there, in a folder that all
//! may write to, leads to where that user wants us to write, a file of that user gives away what we
//! write, and a named pipe or a device may keep us for ever: these are refused. `-`, `/dev/stdout`,
//! `/dev/fd/N` and what a shell writes for `>(...)` are descriptors that we were given, and are
//! written to as they are.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, ErrorKind, Write},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::{FileStat, Mode},
    unistd::{Uid, UnlinkatFlags, unlinkat},
};

use crate::named_file::{
    Found, Own, Place, Use, find, is_harmless_device, is_shared, refusal as unfit,
};

/// Others may put files there and take them away meanwhile; for ever they do not.
const TRIES: usize = 16;

/// Who may read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner.
    Owner,
    /// As the user's mask has it.
    Usual,
}

/// What becomes of a file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Old {
    Emptied,
    AddedTo,
}

/// Writes a file anew.
///
/// # Errors
/// With its name, and why it could not be.
pub fn write(path: &Path, text: impl AsRef<[u8]>, readers: Readers) -> Result<(), String> {
    write_with(path, readers, |out| out.write_all(text.as_ref()))
}

/// The same, piece by piece.
///
/// # Errors
/// As [`write()`].
pub fn write_with(
    path: &Path,
    readers: Readers,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), String> {
    put(path, readers, Old::Emptied, fill)
}

/// Adds to a file.
///
/// # Errors
/// As [`write()`].
pub fn append(path: &Path, text: &str) -> Result<(), String> {
    put(path, Readers::Usual, Old::AddedTo, |out| out.write_all(text.as_bytes()))
}

/// Why a file could never be written, before there is anything to write; what else may go wrong is
/// known at the end.
///
/// # Errors
/// As [`write()`].
pub fn look_at(path: &Path) -> Result<(), String> {
    match place(path) {
        Ok(Place::Named(found)) => acceptable(&found).map(drop),
        Ok(Place::Own(_)) => Ok(()),
        // A missing folder may come yet.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
    .map_err(|error| named(path, &error))
}

/// Begins a file that is not there yet.
///
/// # Errors
/// `AlreadyExists`, or why it cannot be made.
pub fn begin(path: &Path, readers: Readers) -> io::Result<File> {
    // What is at the end of a link of ours was not meant to be begun anew.
    if path.is_symlink() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    match place(path)? {
        Place::Named(found) => match acceptable(&found)? {
            None => create(&found, OFlag::O_RDWR, readers).map_err(io::Error::from),
            Some(_) => Err(ErrorKind::AlreadyExists.into()),
        },
        Place::Own(_) => Err(io::Error::other("it is a descriptor; need a file with a name")),
    }
}

/// Removes a regular file of ours that is there, for another to be begun; what else is there stays.
///
/// # Errors
/// It may be another user's trap, or the folder does not allow it.
pub fn make_room(path: &Path) -> io::Result<()> {
    if !path.symlink_metadata().is_ok_and(|there| there.is_file()) {
        return Ok(());
    }
    let Place::Named(found) = place(path)? else { return Ok(()) };
    match acceptable(&found)? {
        // By its folder, not by the whole path: another user may exchange a folder on the way.
        Some(_) => Ok(unlinkat(&found.folder, &*found.name, UnlinkatFlags::NoRemoveDir)?),
        None => Ok(()),
    }
}

/// Begins a file anew, also where a regular file of ours is.
///
/// # Errors
/// With its name, and why it could not be.
pub fn begin_anew(path: &Path, readers: Readers) -> io::Result<File> {
    let begun = make_room(path).and_then(|()| begin(path, readers));
    begun.map_err(|error| io::Error::new(error.kind(), named(path, &error)))
}

fn put(
    path: &Path,
    readers: Readers,
    old: Old,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), String> {
    let written = open(path, readers, old).and_then(|(file, is_own)| {
        let mut out = BufWriter::new(file);
        match fill(&mut out).and_then(|()| out.flush()) {
            // A reader that has seen enough is not an error.
            Err(error) if is_own && error.kind() == ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    });
    written.map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be written: {error}", path.display())
}

fn place(path: &Path) -> io::Result<Place> {
    if path.as_os_str() == "-" { Ok(Place::Own(Own::OUTPUT)) } else { find(path, Use::Write) }
}

/// Answers whether it is a descriptor that was open already, too.
fn open(path: &Path, readers: Readers, old: Old) -> io::Result<(File, bool)> {
    for _ in 0..TRIES {
        let found = match place(path)? {
            Place::Own(own) => return Ok((own.to_write()?, true)),
            Place::Named(found) => found,
        };
        if let Some(file) = acceptable(&found)? {
            return open_old(file.0.as_raw_fd(), old).map(|file| (file, false));
        }
        match create(&found, OFlag::O_WRONLY, readers) {
            Err(Errno::EEXIST) => {}
            file => return Ok((file?, false)),
        }
    }
    Err(io::Error::other("other users can create and remove files there"))
}

fn create(found: &Found, access: OFlag, readers: Readers) -> Result<File, Errno> {
    let flags = access | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mode = if readers == Readers::Owner { 0o600 } else { 0o666 };
    openat(&found.folder, &*found.name, flags, Mode::from_bits_truncate(mode)).map(File::from)
}

/// The very file that was looked at. Without waiting for one who holds a lease on it.
fn open_old(descriptor: i32, old: Old) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut options = OpenOptions::new();
    options.write(true).append(old == Old::AddedTo).truncate(old == Old::Emptied);
    options.custom_flags(flags.bits()).open(format!("/proc/self/fd/{descriptor}"))
}

/// What is there, if it may be written to.
fn acceptable(found: &Found) -> io::Result<Option<&(std::os::fd::OwnedFd, FileStat)>> {
    let Some(file) = &found.file else { return Ok(None) };
    if is_harmless_device(&file.1) {
        return Ok(Some(file));
    }
    let why = unfit(&file.1).map(str::to_owned);
    match why.or_else(|| distrust(&file.1, &found.folder_stat)) {
        Some(why) => Err(io::Error::other(why)),
        None => Ok(Some(file)),
    }
}

/// Why a regular file in this folder may be another user's trap.
fn distrust(file: &FileStat, folder: &FileStat) -> Option<String> {
    let own = [Uid::effective().as_raw(), 0];
    let is_shared = is_shared(folder);
    if is_shared && !own.contains(&file.st_uid) && file.st_uid != folder.st_uid {
        let user = file.st_uid;
        return Some(format!(
            "it is a file of user {user} in a folder that all may write to; name another file"
        ));
    }
    // Only who can write to a folder can have given a file of ours a second name there.
    let is_foreign = is_shared || !own.contains(&folder.st_uid);
    (is_foreign && file.st_nlink > 1)
        .then(|| "it has more than one name (hard links); name another file".to_owned())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, lchown, symlink},
        path::PathBuf,
    };

    use nix::unistd::mkfifo;

    use super::*;
    use heapattach_test_folder::{Folder, skip};

    /// A folder that all may write to, as `/tmp` is.
    fn shared(name: &str) -> (Folder, PathBuf) {
        let folder = Folder::new(name);
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o1777)).unwrap();
        let path = folder.0.join("a");
        (folder, path)
    }

    #[test]
    fn a_file_is_overwritten_and_added_to() {
        let (_folder, path) = shared("output_file");
        write(&path, "long text", Readers::Owner).unwrap();
        write(&path, "short", Readers::Usual).unwrap();
        append(&path, "er").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "shorter");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = begin(&path, Readers::Owner).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    }

    #[test]
    fn what_is_begun_anew_is_never_what_was_there() {
        let (folder, path) = shared("output_file-anew");
        let precious = folder.0.join("precious");
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, &path).unwrap();
        let refused = begin_anew(&path, Readers::Owner).unwrap_err().to_string();
        assert!(refused.contains(&path.display().to_string()), "{refused}");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "old").unwrap();
        let old = File::open(&path).unwrap();
        begin_anew(&path, Readers::Owner).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(old.metadata().unwrap().len(), 3, "the old file is another one");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    }

    #[test]
    fn a_link_is_followed_only_if_it_is_ours() {
        let folder = Folder::new("output_file");
        let (path, to) = (folder.0.join("link"), folder.0.join("to"));
        symlink(&to, &path).unwrap();
        write(&path, "x", Readers::Usual).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "x");
        if !Uid::effective().is_root() {
            return skip("only root can give a link away", "run the tests as root");
        }
        lchown(&path, Some(65534), None).unwrap();
        let refused = write(&path, "y", Readers::Usual).unwrap_err();
        assert!(refused.contains("a link of user 65534"), "{refused}");
        assert!(look_at(&path).is_err());
        assert_eq!(fs::read_to_string(&to).unwrap(), "x");
    }

    #[test]
    fn what_may_be_a_trap_of_another_user_is_left_alone() {
        if !Uid::effective().is_root() {
            return skip("only root can give a file away", "run the tests as root");
        }
        let (folder, path) = shared("output_file-trap");
        fs::write(&path, "theirs").unwrap();
        lchown(&path, Some(65534), None).unwrap();
        let refused = write(&path, "secret", Readers::Owner).unwrap_err();
        assert!(refused.contains("a file of user 65534"), "{refused}");
        let (precious, link) = (folder.0.join("precious"), folder.0.join("second"));
        fs::write(&precious, "precious").unwrap();
        fs::hard_link(&precious, &link).unwrap();
        let refused = write(&link, "x", Readers::Usual).unwrap_err();
        assert!(refused.contains("more than one name"), "{refused}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        // Where only its owner can have put it, it is as good as any other.
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
        write(&path, "report", Readers::Owner).unwrap();
    }

    #[test]
    fn a_named_pipe_and_a_device_are_refused_at_once_and_what_swallows_all_is_not() {
        let (folder, path) = shared("output_file-pipe");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        for tried in [write(&path, "x", Readers::Usual), append(&path, "x"), look_at(&path)] {
            let refused = tried.unwrap_err();
            assert!(refused.contains("it is a named pipe"), "{refused}");
        }
        let refused = write(Path::new("/dev/tty"), "x", Readers::Usual).unwrap_err();
        assert!(refused.contains("it is a device"), "{refused}");
        let refused = write(&folder.0, "x", Readers::Usual).unwrap_err();
        assert!(refused.contains("it is a folder"), "{refused}");
        write(Path::new("/dev/null"), "x", Readers::Usual).unwrap();
        let full = write(Path::new("/dev/full"), "x", Readers::Usual).unwrap_err();
        assert!(full.contains("No space left on device"), "{full}");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let refused = write(Path::new("/nowhere/a"), "x", Readers::Usual).unwrap_err();
        assert!(refused.starts_with("/nowhere/a cannot be written: "), "{refused}");
        assert!(look_at(Path::new("/nowhere/a")).is_ok());
    }
}
