//! Where the tools are.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    compile::{Source, folder, profile_folder},
    real::installed,
};

/// What each tool is made of; or why it is not there.
#[derive(Debug)]
pub(super) struct Kit {
    /// The least a wrapper can be.
    pub(super) jump_only: Found,
    pub(super) jemalloc: Found,
    pub(super) tcmalloc: Found,
    pub(super) heaptrack_preload: Found,
    pub(super) heaptrack_interpret: Found,
    pub(super) heaptrack: Found,
    pub(super) gdb: Found,
    pub(super) valgrind: Found,
    /// A Python that has memray.
    pub(super) memray: Found,
    pub(super) bpftrace: Found,
}

pub(super) type Found = Result<PathBuf, String>;

/// Where distributions put libraries.
const PLACES: [&str; 5] =
    ["/usr/lib/heaptrack", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"];

impl Kit {
    /// Without building what takes a minute, if it is to be quick.
    pub(super) fn find(is_quick: bool) -> Self {
        let jump_only = super::attempt::attempt(|| {
            Source::new("jump_only.c").build().ok_or_else(|| "no C compiler".to_owned())
        });
        Self {
            jump_only,
            jemalloc: jemalloc(is_quick),
            tcmalloc: library("libtcmalloc.so.4", "apt-get install libgoogle-perftools4"),
            heaptrack_preload: library("libheaptrack_preload.so", "apt-get install heaptrack"),
            heaptrack_interpret: library(
                "libexec/heaptrack_interpret",
                "apt-get install heaptrack",
            ),
            heaptrack: program("heaptrack"),
            gdb: program("gdb"),
            valgrind: program("valgrind"),
            memray: memray(),
            bpftrace: program("bpftrace"),
        }
    }
}

pub(super) fn program(name: &str) -> Found {
    installed(name).ok_or_else(|| format!("missing: apt-get install {name}"))
}

pub(super) fn library(name: &str, cure: &str) -> Found {
    let found = PLACES.map(|place| Path::new(place).join(name)).into_iter().find(|p| p.is_file());
    found.ok_or_else(|| format!("missing: {cure}"))
}

/// The folder of the Python environment that is made for memray.
pub(super) fn python_folder() -> PathBuf {
    profile_folder().with_file_name("peers-python")
}

fn memray() -> Found {
    let python = python_folder().join("bin/python");
    if python_folder().join("bin/memray").is_file() {
        Ok(python)
    } else {
        Err("missing: pip install memray".to_owned())
    }
}

/// jemalloc that can profile, as a library to preload. Distributions build theirs without; the crate
/// that comes with its source makes an archive, which becomes a library here.
fn jemalloc(is_quick: bool) -> Found {
    let target = profile_folder().with_file_name("rust_allocators-profiling");
    let library = target.join("libjemalloc-prof.so");
    if library.is_file() {
        return Ok(library);
    }
    if is_quick {
        return Err("missing: not built in a quick run".to_owned());
    }
    let manifest = folder().join("rust_allocators/Cargo.toml");
    let mut build = Command::new("cargo");
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        build.env_remove(variable);
    }
    build.args(["build", "--locked", "--quiet", "--release", "--features", "profiling"]);
    build.args(["--bin", "echo-jemalloc", "--manifest-path"]).arg(&manifest);
    run(build.arg("--target-dir").arg(&target))?;
    let archive = archive_below(&target.join("release/build"));
    let archive = archive.ok_or("jemalloc was built, but not as an archive")?;
    let mut link = Command::new("cc");
    link.args(["-shared", "-o"]).arg(&library);
    link.arg("-Wl,--whole-archive").arg(archive).arg("-Wl,--no-whole-archive");
    run(link.args(["-pthread", "-ldl", "-lm", "-lgcc_s"]))?;
    Ok(library)
}

fn archive_below(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let archive = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path().join("out/lib/libjemalloc_pic.a");
        path.is_file().then_some(path)
    };
    entries.into_iter().find_map(archive)
}

/// Runs it to its end.
pub(super) fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}
