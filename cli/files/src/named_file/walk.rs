//! From a path to a folder and a name in it, link by link.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat, readlinkat},
    libc::{S_IFDIR, S_IFLNK, S_IFMT},
    sys::stat::{FileStat, Mode, fstat},
    unistd::Uid,
};

use super::{Own, is_shared};

/// As many as the kernel follows.
const LINKS: usize = 40;
const PATH: OFlag = OFlag::O_PATH.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// What a file is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// No link of another user may lead there out of a folder that others may write to.
    Read,
    /// No link of another user may lead there, wherever it is.
    Write,
}

/// What a path leads to.
#[derive(Debug)]
pub enum Place {
    /// A descriptor that is open already.
    Own(Own),
    /// A name in a folder.
    Named(Box<Found>),
}

/// A name in a folder.
#[derive(Debug)]
pub struct Found {
    /// The folder, opened for its path.
    pub folder: OwnedFd,
    /// What the kernel says of it.
    pub folder_stat: FileStat,
    /// The name, which is not that of a link.
    pub name: OsString,
    /// What is there, if anything is: opened for its path, and what the kernel says of it.
    pub file: Option<(OwnedFd, FileStat)>,
}

/// Finds what a path leads to.
///
/// # Errors
/// A folder is missing or may not be entered, or a link is not to be trusted.
pub fn find(path: &Path, purpose: Use) -> io::Result<Place> {
    let (mut path, mut folder) = (path.to_owned(), None);
    for _ in 0..=LINKS {
        if let Some(own) = Own::named(&path) {
            return Ok(Place::Own(own));
        }
        let begin = match folder.take().filter(|_| !path.is_absolute()) {
            Some(folder) => folder,
            None => open(top(&path), PATH | OFlag::O_DIRECTORY, Mode::empty())?,
        };
        match step_through(begin, &path, purpose)? {
            Step::There(found) => return Ok(Place::Named(found)),
            Step::Link(next, holder) => (path, folder) = (next, Some(holder)),
        }
    }
    Err(Errno::ELOOP.into())
}

fn top(path: &Path) -> &Path {
    Path::new(if path.is_absolute() { "/" } else { "." })
}

enum Step {
    /// No link is left.
    There(Box<Found>),
    /// The way goes on by this path, from this folder.
    Link(PathBuf, OwnedFd),
}

/// As far as the end of the path, or its first link.
fn step_through(mut folder: OwnedFd, path: &Path, purpose: Use) -> io::Result<Step> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let mut parts = relative.components();
    while let Some(part) = parts.next() {
        let (name, rest) = (part.as_os_str(), parts.as_path());
        let is_last = rest.as_os_str().is_empty();
        let found = match openat(&folder, name, PATH, Mode::empty()) {
            Err(Errno::ENOENT) if is_last => None,
            found => Some(found?),
        };
        let file = found.map(|file| fstat(&file).map(|stat| (file, stat))).transpose()?;
        match file {
            Some((link, stat)) if kind(&stat) == S_IFLNK => {
                trust(&stat, &fstat(&folder)?, purpose)?;
                let target = PathBuf::from(readlinkat(&link, OsStr::new(""))?);
                // To join nothing would add a slash.
                let next = if is_last { target } else { target.join(rest) };
                return Ok(Step::Link(next, folder));
            }
            Some((next, stat)) if kind(&stat) == S_IFDIR && !is_last => folder = next,
            file if is_last => {
                let (folder_stat, name) = (fstat(&folder)?, name.to_owned());
                return Ok(Step::There(Box::new(Found { folder, folder_stat, name, file })));
            }
            _ => return Err(Errno::ENOTDIR.into()),
        }
    }
    // `/`, or nothing at all.
    Err(if path.is_absolute() { Errno::EISDIR } else { Errno::ENOENT }.into())
}

fn kind(stat: &FileStat) -> u32 {
    stat.st_mode & S_IFMT
}

/// A user who can write to the folder may have put the link there, and can exchange it at any time.
fn trust(link: &FileStat, folder: &FileStat, purpose: Use) -> io::Result<()> {
    let is_ours = link.st_uid == Uid::effective().as_raw() || link.st_uid == 0;
    if is_ours || (purpose == Use::Read && !is_shared(folder)) {
        return Ok(());
    }
    let what = format!("it is a link of user {}, not of yours; name another file", link.st_uid);
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, lchown, symlink},
    };

    use super::*;
    use heapattach_test_folder::{Folder, skip};

    fn name(path: &Path, purpose: Use) -> io::Result<Option<String>> {
        Ok(match find(path, purpose)? {
            Place::Own(own) => Some(format!("{own:?}")),
            Place::Named(found) => {
                found.file.is_some().then(|| found.name.to_string_lossy().into_owned())
            }
        })
    }

    #[test]
    fn folders_and_links_of_ours_are_followed_to_the_end() {
        let folder = Folder::new("walk");
        let at = |name: &str| folder.0.join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/file"), "").unwrap();
        symlink("a/b", at("short")).unwrap();
        symlink("../../short/file", at("a/b/round")).unwrap();
        symlink(at("a"), at("absolute")).unwrap();
        symlink("/dev/stdout", at("out")).unwrap();
        symlink("loop", at("loop")).unwrap();
        for path in ["a/b/file", "short/file", "a/b/round", "absolute/b/../b/./file"] {
            assert_eq!(name(&at(path), Use::Write).unwrap().as_deref(), Some("file"), "{path}");
        }
        assert_eq!(name(&at("a/none"), Use::Write).unwrap(), None);
        assert_eq!(name(&at("out"), Use::Write).unwrap().as_deref(), Some("Own(1)"));
        let error = |path: &Path| name(path, Use::Read).unwrap_err().raw_os_error();
        assert_eq!(error(&at("no/file")), Some(Errno::ENOENT as i32));
        assert_eq!(error(&at("a/b/file/x")), Some(Errno::ENOTDIR as i32));
        assert_eq!(error(&at("loop")), Some(Errno::ELOOP as i32));
        assert_eq!(error(Path::new("/")), Some(Errno::EISDIR as i32));
        assert_eq!(error(Path::new("")), Some(Errno::ENOENT as i32));
    }

    #[test]
    fn a_link_of_another_user_is_not_followed_even_on_the_way() {
        if !Uid::effective().is_root() {
            return skip("only root can give a link away", "run the tests as root");
        }
        let folder = Folder::new("walk-other");
        let at = |name: &str| folder.0.join(name);
        fs::create_dir_all(at("real")).unwrap();
        fs::write(at("real/file"), "").unwrap();
        symlink("real", at("link")).unwrap();
        lchown(at("link"), Some(65534), None).unwrap();
        let refused = name(&at("link/file"), Use::Write).unwrap_err().to_string();
        assert!(refused.contains("a link of user 65534"), "{refused}");
        // As a reader follows it where only the owner of the folder could have put it.
        assert_eq!(name(&at("link/file"), Use::Read).unwrap().as_deref(), Some("file"));
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(name(&at("link/file"), Use::Read).is_err());
    }
}
