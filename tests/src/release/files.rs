//! The files of a release, as `.ci/release` makes them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{skip::skip, toolchain::has_rust_target};

/// What the command of a release is built for.
pub const TARGET: &str = "x86_64-unknown-linux-musl";

/// A folder with such files.
#[derive(Debug)]
pub struct Release {
    folder: PathBuf,
}

impl Release {
    /// The one in `target/release-files`; `None` (reported as skipped) where none was made.
    pub fn found() -> Option<Self> {
        if !has_rust_target(TARGET) {
            return None;
        }
        let folder = workspace().join("target/release-files");
        if !folder.join("SHA256SUMS").is_file() {
            skip("no files of a release in target", ".ci/release target/release-files");
            return None;
        }
        Some(Self { folder })
    }

    /// Where they lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The one file whose name ends so.
    ///
    /// # Panics
    /// If there is none, or more than one.
    pub fn file(&self, end: &str) -> PathBuf {
        let files = fs::read_dir(&self.folder).expect("the folder was there").flatten();
        let named = |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(end));
        let found: Vec<_> = files.map(|file| file.path()).filter(named).collect();
        let [file] = &found[..] else { panic!("files that end with {end}: {found:?}") };
        file.clone()
    }

    /// The static command.
    pub fn command(&self) -> PathBuf {
        self.file("-x86_64-linux")
    }
}

/// The folder of the whole project.
///
/// # Panics
/// Never: this crate lies in it.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the workspace")
}
