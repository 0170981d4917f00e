//! Whether a file that was found can be another user's: then it is not read.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::Read,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use nix::{fcntl::OFlag, unistd::Uid};

use heapattach_text::quantity;

/// No honest file is larger.
const MOST_BYTES: u64 = 64 << 10;

/// What to do about a file that is refused.
const CURE: &str = "name it with --config to use it all the same, or use --no-config";

/// Reads it; `is_named`: whose it is does not matter, since the user named it.
///
/// # Errors
/// Why it is not read.
pub fn read(path: &Path, is_named: bool) -> Result<String, String> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path);
    let file = file.map_err(|error| format!("it cannot be read: {error}"))?;
    let found = file.metadata().map_err(|error| format!("it cannot be read: {error}"))?;
    if !found.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if !is_named {
        look(path, &found)?;
    }
    let mut text = String::new();
    File::take(file, MOST_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("it cannot be read: {error}"))?;
    if text.len() as u64 > MOST_BYTES {
        let most = quantity::bytes(MOST_BYTES);
        return Err(format!("it is larger than {most}, the limit for such a file"));
    }
    Ok(text)
}

/// Why another user may have written this open file, or put it there.
fn look(path: &Path, found: &Metadata) -> Result<(), String> {
    let link = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let folder = fs::metadata(folder).map_err(|error| error.to_string())?;
    let us = Uid::effective().as_raw();
    for (what, metadata) in [("it", found), ("a link to it", &link), ("its folder", &folder)] {
        let owner = metadata.uid();
        if owner != us && owner != 0 {
            return Err(format!("{what} belongs to user {owner}; {CURE}"));
        }
    }
    // In a folder with the sticky bit others can put files, but not in the place of ours.
    let is_sticky = folder.mode() & 0o1000 != 0;
    if is_open_to_others(found) || is_open_to_others(&folder) && !is_sticky {
        let mode = found.mode() & 0o7777;
        return Err(format!("other users can write to it (mode {mode:o}); {CURE}"));
    }
    Ok(())
}

/// Whether others can write to it; a group that has the number of its owner is only that user's.
fn is_open_to_others(metadata: &Metadata) -> bool {
    let is_private_group = metadata.gid() == metadata.uid();
    metadata.mode() & 0o002 != 0 || metadata.mode() & 0o020 != 0 && !is_private_group
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;
    use heapattach_test_folder::{Folder, skip};

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_that_others_can_write_to_is_refused_unless_it_is_named() {
        let folder = Folder::new("config-owner");
        let path = folder.0.join("a");
        fs::write(&path, "x").unwrap();
        set(&folder.0, 0o755);
        set(&path, 0o644);
        assert_eq!(read(&path, false).as_deref(), Ok("x"));
        set(&path, 0o646);
        let refused = read(&path, false).unwrap_err();
        assert!(refused.contains("other users can write to it (mode 646)"), "{refused}");
        assert_eq!(read(&path, true).as_deref(), Ok("x"));
        set(&path, 0o644);
        set(&folder.0, 0o777);
        assert!(read(&path, false).is_err(), "they can put another one there");
        set(&folder.0, 0o1777);
        assert!(read(&path, false).is_ok());
    }

    #[test]
    fn a_file_of_another_user_is_refused_and_so_is_a_link_of_another_user() {
        let folder = Folder::new("config-other");
        let (path, link) = (folder.0.join("a"), folder.0.join("link"));
        fs::write(&path, "x").unwrap();
        set(&folder.0, 0o1777);
        symlink(&path, &link).unwrap();
        assert!(read(&link, false).is_ok());
        if !Uid::effective().is_root() {
            return skip("only root can give a file away", "run the tests as root");
        }
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        assert!(read(&link, false).unwrap_err().contains("a link to it belongs to user 65534"));
        chown(&path, Some(65534), None).unwrap();
        assert!(read(&path, false).unwrap_err().contains("it belongs to user 65534"));
    }

    #[test]
    fn what_is_no_file_or_too_large_is_not_read() {
        let folder = Folder::new("config-large");
        let path = folder.0.join("a");
        fs::write(&path, vec![b'#'; 65 << 10]).unwrap();
        assert!(read(&path, true).unwrap_err().contains("larger than 64.0 KiB"));
        let pipe = folder.0.join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        assert!(read(&pipe, true).unwrap_err().contains("not a regular file"));
        assert!(read(&folder.0, true).is_err() && read(&folder.0.join("none"), true).is_err());
    }
}
