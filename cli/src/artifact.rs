//! Files that are left for others to read. One that is there is overwritten; but a link that
//! somebody else put there, in a folder that all may write to, leads to where they want us to write.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use nix::unistd::Uid;

/// Who may read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner.
    Owner,
    /// As the user's mask has it.
    Usual,
}

/// Writes a file anew.
///
/// # Errors
/// With its name, and why it could not be.
pub fn write(path: &Path, text: impl AsRef<[u8]>, readers: Readers) -> Result<(), String> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    options.mode(if readers == Readers::Owner { 0o600 } else { 0o666 });
    put(path, text.as_ref(), &mut options)
}

/// Adds to a file.
///
/// # Errors
/// As [`write()`].
pub fn append(path: &Path, text: &str) -> Result<(), String> {
    put(path, text.as_bytes(), OpenOptions::new().append(true).create(true).mode(0o666))
}

fn put(path: &Path, text: &[u8], options: &mut OpenOptions) -> Result<(), String> {
    open(path, options)
        .and_then(|mut file| file.write_all(text).and_then(|()| file.flush()))
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let link = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_symlink);
    let Some(link) = link else {
        // None may come between the look and the opening either.
        return options.custom_flags(libc::O_NOFOLLOW).open(path);
    };
    let is_trusted = link.uid() == Uid::effective().as_raw() || link.uid() == 0;
    if is_trusted {
        return options.open(path);
    }
    let what = format!("it is a link of user {}, not of yours; name another file", link.uid());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::*;
    use crate::symbols::folder::Folder;

    #[test]
    fn a_file_is_overwritten_and_added_to() {
        let folder = Folder::new("artifact");
        let path = folder.0.join("a");
        write(&path, "long text", Readers::Owner).unwrap();
        write(&path, "short", Readers::Usual).unwrap();
        append(&path, "er").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "shorter");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_link_is_followed_only_if_it_is_ours() {
        let folder = Folder::new("artifact");
        let (path, to) = (folder.0.join("link"), folder.0.join("to"));
        symlink(&to, &path).unwrap();
        write(&path, "x", Readers::Usual).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "x");
        if !Uid::effective().is_root() {
            // Nobody else can give a link away.
            return;
        }
        lchown(&path, Some(65534), None).unwrap();
        let refused = write(&path, "y", Readers::Usual).unwrap_err();
        assert!(refused.contains("a link of user 65534"), "{refused}");
        assert_eq!(fs::read_to_string(&to).unwrap(), "x");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let refused = write(Path::new("/nowhere/a"), "x", Readers::Usual).unwrap_err();
        assert!(refused.starts_with("/nowhere/a cannot be written: "), "{refused}");
    }
}
