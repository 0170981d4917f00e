//! Folders of our own: made where no link of another user leads, and used only while no other user decides
//! what is in them.

use std::{
    fs::DirBuilder,
    io::{self, ErrorKind},
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use nix::{
    errno::Errno,
    libc::{S_IFDIR, S_IFMT},
    unistd::Uid,
};

use crate::named_file::{Found, Place, Use, find};

/// What others may do in a folder that is ours alone: not write.
const OTHERS_WRITE: u32 = 0o022;

/// Makes a folder with this mode, and what is missing above it, unless it is there.
///
/// # Errors
/// A link of another user is on the way, or the folder above does not allow it.
pub fn make(folder: &Path, mode: u32) -> io::Result<()> {
    let mut all = folder.ancestors().filter(|path| !path.as_os_str().is_empty());
    // Where a link leads folders would be made, too.
    if let Some(there) = all.find(|path| path.symlink_metadata().is_ok())
        && there != Path::new("/")
    {
        let _ = find(there, Use::Write)?;
    }
    DirBuilder::new().recursive(true).mode(mode).create(folder)
}

/// Looks whether this user alone decides what is in a folder.
///
/// # Errors
/// `NotFound`, or why not, with what was found and what is needed.
pub fn is_ours(folder: &Path) -> io::Result<()> {
    let found = match find(folder, Use::Write)? {
        Place::Named(found) => *found,
        Place::Own(_) => return Err(Errno::ENOTDIR.into()),
    };
    let Found { file: Some((_, stat)), .. } = found else { return Err(ErrorKind::NotFound.into()) };
    let refuse = |why: String| Err(io::Error::new(ErrorKind::PermissionDenied, why));
    let (user, mode) = (Uid::effective().as_raw(), stat.st_mode & 0o7777);
    if stat.st_mode & S_IFMT != S_IFDIR {
        return Err(Errno::ENOTDIR.into());
    }
    if stat.st_uid != user {
        let owner = stat.st_uid;
        return refuse(format!("it is a folder of user {owner}; need one of user {user}"));
    }
    if mode & OTHERS_WRITE != 0 {
        let path = folder.display();
        return refuse(format!(
            "others can write to it (its mode is {mode:04o}); try chmod go-w {path}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, lchown, symlink},
    };

    use super::*;
    use heapattach_test_folder::{Folder, skip};

    #[test]
    fn a_folder_is_ours_if_no_other_user_can_write_to_it() {
        let folder = Folder::new("own-folder");
        let path = folder.0.join("deep/below");
        assert_eq!(is_ours(&folder.0.join("none")).unwrap_err().kind(), ErrorKind::NotFound);
        make(&path, 0o700).unwrap();
        make(&path, 0o700).unwrap();
        is_ours(&path).unwrap();
        for mode in [0o720, 0o702, 0o1777] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let refused = is_ours(&path).unwrap_err().to_string();
            assert!(refused.contains(&format!("its mode is {mode:04o}")), "{refused}");
            assert!(refused.contains("chmod go-w /"), "{refused}");
        }
        fs::write(folder.0.join("file"), "").unwrap();
        assert!(is_ours(&folder.0.join("file")).is_err());
    }

    #[test]
    fn a_folder_of_another_user_is_refused_and_so_is_one_at_the_end_of_a_link_of_theirs() {
        if !Uid::effective().is_root() {
            return skip("only root can give a folder away", "run the tests as root");
        }
        let folder = Folder::new("other-folder");
        let at = |name: &str| folder.0.join(name);
        fs::create_dir(at("theirs")).unwrap();
        lchown(at("theirs"), Some(65534), None).unwrap();
        let refused = is_ours(&at("theirs")).unwrap_err().to_string();
        assert!(refused.contains("a folder of user 65534; need one of user 0"), "{refused}");
        fs::create_dir(at("precious")).unwrap();
        symlink("precious", at("link")).unwrap();
        lchown(at("link"), Some(65534), None).unwrap();
        for below in ["link", "link/new", "link/new/deep"] {
            let refused = make(&at(below), 0o700).unwrap_err().to_string();
            assert!(refused.contains("a link of user 65534"), "{below}: {refused}");
        }
        assert!(is_ours(&at("link")).is_err());
        assert_eq!(fs::read_dir(at("precious")).unwrap().count(), 0, "something was made there");
    }
}
