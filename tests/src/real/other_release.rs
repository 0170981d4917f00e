//! Interpreters of other releases of Debian, beside the system's own.
//!
//! A release is a folder `target/scripts/<suite>` that holds what packages of that suite hold; `.ci/run` fetches them.
//! Their programs are run by a loader that is told to: nothing is installed.

use std::path::{Path, PathBuf};

use crate::skip::skip;

/// Packages of one release.
#[derive(Debug)]
pub struct OtherRelease(PathBuf);

impl OtherRelease {
    /// The one of this suite; `None` (reported as skipped) where it has not been fetched.
    #[must_use]
    pub fn of(suite: &str) -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/scripts").join(suite);
        let Ok(folder) = folder.canonicalize() else {
            let cure =
                format!("unpack packages of that suite in target/scripts/{suite} (see .ci/run)");
            skip(&format!("no interpreters of {suite} in target/scripts"), &cure);
            return None;
        };
        Some(Self(folder))
    }

    /// A place in it.
    #[must_use]
    pub fn place(&self, path: &str) -> String {
        self.0.join(path).display().to_string()
    }

    /// What runs this program of `usr/bin`.
    #[must_use]
    pub fn command(&self, program: &str) -> Vec<String> {
        self.running(&self.place(&format!("usr/bin/{program}")))
    }

    /// What runs a program with the libraries of it.
    #[must_use]
    pub fn running(&self, program: &str) -> Vec<String> {
        let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
        let libraries =
            ["usr/lib", "lib"].map(|folder| self.place(&format!("{folder}/{machine}"))).join(":");
        let name = format!("ld-linux-{}.so.2", std::env::consts::ARCH.replace('_', "-"));
        let own = self.0.join("usr/lib").join(&machine).join(&name);
        // A release that is older than the system has no C library of its own here.
        let loader = if own.is_file() { own } else { Path::new("/lib64").join(name) };
        let words = ["--library-path", &libraries, program].map(str::to_owned);
        std::iter::once(loader.display().to_string()).chain(words).collect()
    }
}
