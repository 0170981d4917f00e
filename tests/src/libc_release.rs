//! C libraries of other releases, side by side with the system's own.
//!
//! A release is a folder `target/libc/<suite>` that holds what the package libc6 of that suite of Debian
//! holds. `.ci/run` fetches
//! them; a program is linked so that it starts with that release's loader and no other.

use std::path::{Path, PathBuf};

use crate::{compile::Source, skip::skip};

/// The suites whose C library tests ask for: glibc 2.41, and the newest.
pub const RELEASES: [&str; 2] = ["trixie", "sid"];

/// One C library.
#[derive(Clone, Debug)]
pub struct Libc {
    folder: PathBuf,
}

impl Libc {
    /// The one of this suite; `None` (reported as skipped) where it has not been fetched.
    pub fn release(suite: &str) -> Option<Self> {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/libc").join(suite);
        let folder = target.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
        if !folder.join("libc.so.6").is_file() {
            let cure = format!(
                "unpack the package libc6 of that suite into target/libc/{suite} (see .ci/run)"
            );
            skip(&format!("no C library of {suite} in target/libc"), &cure);
            return None;
        }
        Some(Self { folder: folder.canonicalize().expect("a folder seen a moment ago") })
    }

    /// That of Debian 11, glibc 2.31; `None` (reported as skipped) where its packages have not been fetched.
    pub fn oldest() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debian-11");
        let folder = root.join("lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
        if !folder.join("libc.so.6").is_file() {
            skip("no packages of Debian 11 in target/debian-11", "unpack them there (see .ci/run)");
            return None;
        }
        Some(Self { folder: folder.canonicalize().expect("a folder seen a moment ago") })
    }

    /// The same source as a program, or library, built with this C library's headers: it needs no later one.
    #[must_use]
    pub fn built_with(&self, source: Source) -> Source {
        let libc = self.folder.display();
        let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
        let root = self.folder.ancestors().nth(2).unwrap_or(&self.folder).display();
        let source = source
            .flag(&format!("--sysroot={root}"))
            .flag(&format!("-B{root}/usr/lib/{machine}"))
            .flag("-nodefaultlibs")
            .flag(&format!("{libc}/libpthread.so.0"))
            .flag(&format!("{libc}/libc.so.6"))
            .flag(&format!("{root}/usr/lib/{machine}/libc_nonshared.a"))
            .flag(&format!("-Wl,--rpath-link={libc}"));
        self.program(source)
    }

    /// The same source as a program of this C library.
    #[must_use]
    pub fn program(&self, source: Source) -> Source {
        let folder = self.folder.display();
        let loader = format!("ld-linux-{}.so.2", std::env::consts::ARCH.replace('_', "-"));
        source
            .flag(&format!("-Wl,--dynamic-linker={folder}/{loader}"))
            .flag(&format!("-Wl,-rpath,{folder}"))
    }
}
