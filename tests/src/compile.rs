//! Compiling fixtures when a test needs them.
//!
//! A fixture names its own flags in its first line (`// build: -O2 -pthread`), so that the source
//! is the whole story. Results are kept beside the tests' own build, named by a hash of all that
//! went in, and made under a lock: tests run in many processes at once.

use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

use nix::fcntl::{Flock, FlockArg};

use crate::skip::skip;

/// A program or library of `fixtures/`, and how to build it.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    flags: Vec<String>,
    compiler: Option<&'static str>,
}

/// The folder of all fixtures, with what several of them include, and a folder for each theme.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}

/// The folders of the themes. No name is in two of them.
const THEMES: [&str; 13] = [
    "census",
    "check",
    "first_answer",
    "go",
    "hazards",
    "heaps",
    "hostile",
    "peers",
    "release",
    "scripts",
    "serve",
    "stacks",
    "truth",
];

/// The fixture of this name, whatever its theme is.
///
/// # Panics
/// If there is none.
pub fn fixture(file: &str) -> PathBuf {
    let places = THEMES.map(|theme| folder().join(theme).join(file));
    let found = places.into_iter().find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("no folder of fixtures/ has {file}"))
}

impl Source {
    /// The fixture in `fixtures/<theme>/<file>`.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(file: &str) -> Self {
        Self { path: fixture(file), flags: Vec::new(), compiler: None }
    }

    /// Adds a flag to those the file itself names.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Builds it with this compiler instead of the usual one.
    #[must_use]
    pub fn compiler(mut self, compiler: &'static str) -> Self {
        self.compiler = Some(compiler);
        self
    }

    /// Builds it, or finds it built; `None` (reported as skipped) when the machine has no compiler for it.
    ///
    /// # Panics
    /// If it does not compile.
    pub fn build(&self) -> Option<PathBuf> {
        let text = fs::read_to_string(&self.path)
            .unwrap_or_else(|e| panic!("cannot read {}: {e}", self.path.display()));
        let compiler = self.compiler.unwrap_or_else(|| self.usual_compiler());
        if !is_there(compiler) {
            skip(&format!("no {compiler} here"), "apt-get install gcc g++, or rustup for rustc");
            return None;
        }
        let flags = own_flags(&text).map(str::to_owned).chain(self.flags.iter().cloned());
        let flags: Vec<String> = flags.collect();
        let stem = self.path.file_stem().and_then(|s| s.to_str()).expect("a plain file name");
        let target = cache().join(format!("{stem}-{:016x}", digest(&text, compiler, &flags)));
        let lock = File::create(target.with_extension("lock")).expect("a lock file in the cache");
        let _held = Flock::lock(lock, FlockArg::LockExclusive).expect("a lock on a local file");
        if !target.exists() {
            self.compile(compiler, &flags, &target);
        }
        Some(target)
    }

    fn usual_compiler(&self) -> &'static str {
        match self.path.extension().and_then(|e| e.to_str()) {
            Some("cpp" | "cc") => "c++",
            Some("rs") => "rustc",
            _ => "cc",
        }
    }

    fn compile(&self, compiler: &str, flags: &[String], target: &Path) {
        // Built under another name, so that a killed compiler leaves no half program behind.
        let fresh = target.with_extension("new");
        let mut command = Command::new(compiler);
        // Libraries among the flags must follow the file that needs them.
        let usual = usual_flags(compiler);
        if compiler != "rustc" {
            command.arg("-I").arg(folder());
        }
        command.args(usual).arg("-o").arg(&fresh).arg(&self.path).args(flags);
        let output = command.output().expect("the compiler, which ran a moment ago");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?} failed:\n{complaint}");
        fs::rename(&fresh, target).expect("a rename within one folder");
    }
}

/// Whether `program` can be run at all.
pub fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// The flags of all fixtures. Builtins are off, or `free(malloc(1))` would be no call at all.
fn usual_flags(compiler: &str) -> &'static [&'static str] {
    match compiler {
        "rustc" => &["--edition=2024", "-O"],
        _ => &["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fno-builtin"],
    }
}

fn own_flags(text: &str) -> impl Iterator<Item = &str> {
    let first = text.lines().next().unwrap_or_default();
    let list = first.trim_start_matches("/*").trim_end_matches("*/").trim_start_matches("//");
    list.trim().strip_prefix("build:").unwrap_or_default().split_whitespace()
}

fn digest(text: &str, compiler: &str, flags: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    // What is included is little: any change to it builds all anew.
    let headers = ["fixture.h", "forged.h", "leaks.h", "truth.h", "../cli/include/heapattach.h"];
    let included = headers.map(|name| folder().join(name));
    for path in included.into_iter().chain(["telling.c", "wrapper.c"].map(fixture)) {
        fs::read(path).unwrap_or_default().hash(&mut hasher);
    }
    (text, compiler, usual_flags(compiler), flags).hash(&mut hasher);
    hasher.finish()
}

/// `<target>/<profile>/fixtures`.
fn cache() -> PathBuf {
    let folder = profile_folder().join("fixtures");
    fs::create_dir_all(&folder).expect("the build folder is ours to write");
    folder
}

/// The folder cargo put the programs of this build into.
pub fn profile_folder() -> PathBuf {
    let program = std::env::current_exe().expect("a running program has a path");
    let folder = program.parent().expect("a program lies in a folder");
    let is_deps = folder.file_name().is_some_and(|name| name == "deps");
    if is_deps { folder.parent().expect("deps lies in a folder").into() } else { folder.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_fixture_is_in_two_themes() {
        let names =
            |theme| fs::read_dir(folder().join(theme)).unwrap().map(|e| e.unwrap().file_name());
        let mut all: Vec<_> = THEMES.into_iter().flat_map(names).collect();
        all.sort();
        let count = all.len();
        all.dedup();
        assert!(count > 100 && all.len() == count, "{count} files of {} names", all.len());
    }

    #[test]
    fn reads_flags_from_the_first_line_only() {
        let flags = |text| own_flags(text).collect::<Vec<_>>();
        assert_eq!(flags("/* build: -O2 -pthread */\nint main;"), ["-O2", "-pthread"]);
        assert_eq!(flags("// build: -shared\n"), ["-shared"]);
        assert!(flags("int main;\n// build: -O2\n").is_empty());
    }
}
