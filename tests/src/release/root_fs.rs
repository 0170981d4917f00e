//! Root file systems made by hand, in which nothing is but what a test put there.
//!
//! Programs run in them in namespaces of their own, of mounts and of processes: what is mounted there, the
//! machine does not see, and when the first process ends, all others are killed.

use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use nix::{
    sys::stat::Mode,
    unistd::{Uid, mkfifo},
};

use crate::{Folder, compile::Source, release::files::workspace, skip::skip};

/// What is mounted before the first program runs; then its words are run.
const MOUNT: &str = "mount -t proc proc \"$1/proc\" && mount --bind /dev/null \"$1/dev/null\" && \
                     shift && exec \"$@\"";

/// One of them.
#[derive(Debug)]
pub struct RootFs {
    folder: Folder,
    /// The words that run a script in it.
    shell: &'static [&'static str],
}

impl RootFs {
    /// That of Debian 11, with its C library (2.31), shell and small programs, and the same source as a
    /// program of it; `None` (reported as skipped) where its packages have not been fetched.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn debian_11(source: Source) -> Option<(Self, PathBuf)> {
        let packages = workspace().join("target/debian-11");
        if !packages.join("bin/dash").is_file() {
            skip("no packages of Debian 11 in target/debian-11", "unpack them there (see .ci/run)");
            return None;
        }
        let this = Self::empty(&["/bin/sh"]);
        for part in ["bin", "lib", "lib64", "usr/bin", "usr/lib"] {
            let to = this.folder.0.join(part);
            fs::create_dir_all(to.parent().expect("a part of it")).expect("a folder of ours");
            copy(&packages.join(part), &to);
        }
        let program = old_libc(source, &packages).build()?;
        Some((this, program))
    }

    /// One in which there is musl and nothing else, no shell either.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn musl(source: Source) -> Option<(Self, PathBuf)> {
        let library = Path::new("/lib/x86_64-linux-musl/libc.so");
        if !library.is_file() {
            skip("no musl here", "apt-get install musl-tools");
            return None;
        }
        let this = Self::empty(&[]);
        let lib = this.folder.0.join("lib/x86_64-linux-musl");
        fs::create_dir_all(&lib).expect("a folder of ours");
        copy(library, &lib.join("libc.so"));
        let loader = this.folder.0.join("lib/ld-musl-x86_64.so.1");
        symlink(library, loader).expect("a folder of ours");
        let program = source.compiler("musl-gcc").build()?;
        Some((this, program))
    }

    /// One in which there is BusyBox and nothing else, no C library either.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn busybox(source: Source) -> Option<(Self, PathBuf)> {
        let busybox = Path::new("/bin/busybox");
        if !busybox.is_file() {
            skip("no BusyBox here", "apt-get install busybox-static");
            return None;
        }
        let this = Self::empty(&["/bin/busybox", "sh"]);
        fs::create_dir_all(this.folder.0.join("bin")).expect("a folder of ours");
        copy(busybox, &this.folder.0.join("bin/busybox"));
        let program = source.flag("-static").build()?;
        Some((this, program))
    }

    fn empty(shell: &'static [&'static str]) -> Self {
        let folder = Folder::new("root-fs");
        for name in ["proc", "dev", "tmp"] {
            fs::create_dir(folder.0.join(name)).expect("a folder of ours");
        }
        File::create(folder.0.join("dev/null")).expect("a folder of ours");
        Self { folder, shell }
    }

    /// Puts a program or a script into its topmost folder.
    ///
    /// # Panics
    /// If it cannot be copied.
    pub fn put(&self, file: &Path, name: &str) {
        let to = self.folder.0.join(name);
        fs::copy(file, &to).expect("room for a file");
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    }

    /// Makes a pipe with a name, by which one program can wait for another.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn pipe(&self, name: &str) {
        mkfifo(&self.folder.0.join(name), Mode::S_IRWXU).expect("a folder of ours");
    }

    /// What a program has written into a file there.
    ///
    /// # Panics
    /// If it has not, or not text.
    pub fn read(&self, name: &str) -> String {
        let path = self.folder.0.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Runs a script in it: `$root` is where its files lie, and each program is started by `$in`, which is
    /// empty for a shell that is in it itself. Where there is no shell, that of this machine is outside.
    ///
    /// # Panics
    /// If that cannot be done here at all.
    pub fn run(&self, script: &str) -> Output {
        let root = self.folder.0.to_str().expect("a path of ours");
        let mut command = Command::new("unshare");
        if !Uid::effective().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", MOUNT, "sh", root]);
        if self.shell.is_empty() {
            command
                .args(["sh", "-c", script])
                .env("root", root)
                .env("in", format!("chroot {root}"));
        } else {
            command.args(["chroot", root]).args(self.shell).args(["-c", script]);
            command.env("root", "").env("in", "");
        }
        // Nothing of this user's: what a program finds there, it must find by itself.
        command.env("HOME", "/").env_remove("XDG_CACHE_HOME").env_remove("XDG_RUNTIME_DIR");
        command.stdin(Stdio::null()).output().expect("unshare is part of util-linux")
    }
}

/// Compiles a source with the headers and the C library of another release.
fn old_libc(source: Source, packages: &Path) -> Source {
    let (root, machine) = (packages.display(), "x86_64-linux-gnu");
    // Not by -lc: the file of that name has absolute paths, and one of them leads out.
    source
        .flag(&format!("--sysroot={root}"))
        .flag(&format!("-B{root}/usr/lib/{machine}"))
        .flag("-nodefaultlibs")
        .flag(&format!("{root}/lib/{machine}/libc.so.6"))
        .flag(&format!("{root}/usr/lib/{machine}/libc_nonshared.a"))
        .flag(&format!("-Wl,--rpath-link={root}/lib/{machine}"))
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.is_ok_and(|status| status.success()), "{} is not copied", from.display());
}
