//! Where the file is looked for: in the folder we are in and those above it, up to the root of the
//! repository or to the user's home. Where there is neither, other users may own what is above.

use std::path::{Path, PathBuf};

use super::NAME;

/// The first file from `folder` upwards.
pub fn find(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let is_last = |folder: &&Path| folder.join(".git").exists() || Some(*folder) == home;
    let above: Vec<&Path> = folder.ancestors().collect();
    let end = above.iter().position(is_last).unwrap_or(0);
    let files = above[..=end].iter().map(|folder| folder.join(NAME));
    // One that may not be read is met all the same, and refused with its reason.
    files.into_iter().find(|file| file.symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use heapattach_test_folder::Folder;

    #[test]
    fn the_nearest_file_counts_and_none_above_the_repository_or_the_home() {
        let folder = Folder::new("config-find");
        let at = |path: &str| folder.0.join(path);
        fs::create_dir_all(at("home/repository/src/deep")).unwrap();
        fs::create_dir(at("home/repository/.git")).unwrap();
        fs::create_dir(at("home/notes")).unwrap();
        for path in ["", "home", "home/repository"] {
            fs::write(at(path).join(NAME), "").unwrap();
        }
        let home = at("home");
        let found = |path: &str| find(&at(path), Some(&home));
        assert_eq!(found("home/repository/src/deep"), Some(at("home/repository").join(NAME)));
        assert_eq!(found("home/notes"), Some(home.join(NAME)));
        fs::remove_file(at("home/repository").join(NAME)).unwrap();
        assert_eq!(found("home/repository/src/deep"), None, "the home is above the repository");
        fs::write(at("home/repository/src").join(NAME), "").unwrap();
        assert_eq!(found("home/repository/src/deep"), Some(at("home/repository/src").join(NAME)));
        // In neither, only the folder itself is looked into.
        fs::create_dir_all(at("elsewhere/deep")).unwrap();
        assert_eq!(found("elsewhere/deep"), None);
        assert_eq!(find(&folder.0, None), Some(folder.0.join(NAME)));
    }
}
